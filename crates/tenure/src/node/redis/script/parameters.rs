//! What each script is given, by name: one definition for the text of the script (`text.rs`) and
//! for the command that calls it.
//!
//! Arguments that are not given are sent as an empty text, and not at all behind the last one that
//! is. Keys beside a lock follow from the lock's own, so only the last one that a call needs is
//! named.
//!
//! Functions that scripts share have a file each in `shared/`: the server makes anew for each call
//! what its script defines, so no script has one that it does not need.

use tenure_core::{OwnerToken, Ticket};

use super::super::resp::{Decimal, push_part};

/// A key that a script works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Lock,
    /// The last fence of the lock, the life that it was granted in, and a mark if somebody may be
    /// in line.
    Fence,
    /// The fences of all locks, by their end.
    Fences,
    /// The node's record.
    Record,
    /// Who waits for the lock.
    Line,
    /// What the holder wrote beside the lock.
    Label,
    /// There while those in line are not given the lock.
    Open,
}

/// What a script is given.
pub(super) trait Parameters {
    const SCRIPT: ScriptName;
    fn with_arguments<R>(&self, read: impl FnOnce(&[&dyn Argument]) -> R) -> R;
}

/// A script as it is written.
pub(super) struct ScriptSource {
    pub(super) text: &'static str,
    pub(super) keys: &'static [Key],
    pub(super) arguments: &'static [&'static str],
}

macro_rules! scripts {
    ($(
        $name:ident $(<$life:lifetime>)? ($($file:literal)*) [$($key:ident)*]
        { $($(#[$doc:meta])* $argument:ident: $kind:ty),* $(,)? }
    )*) => {
        /// Which script, as an index.
        #[derive(Clone, Copy, Debug)]
        pub(super) enum ScriptName { $($name),* }

        /// All scripts, in the order of their names.
        pub(super) const SOURCES: &[ScriptSource] = &[$(ScriptSource {
            text: concat!($(include_str!($file)),*),
            keys: &[$(Key::$key),*],
            arguments: &[$(stringify!($argument)),*],
        }),*];

        $(
            pub(super) struct $name $(<$life>)? { $($(#[$doc])* pub(super) $argument: $kind,)* }

            impl $(<$life>)? Parameters for $name $(<$life>)? {
                const SCRIPT: ScriptName = ScriptName::$name;
                fn with_arguments<R>(&self, read: impl FnOnce(&[&dyn Argument]) -> R) -> R {
                    read(&[$(&self.$argument),*])
                }
            }
        )*
    };
}

scripts! {
    Acquire<'a> ("acquire.lua" "refuse.lua") [Lock Fence Fences Record Line Label Open] {
        owner: OwnerToken,
        /// How long the node keeps the lock, in ms.
        ttl: u64,
        /// The largest, if it is a range.
        fence: Option<u64>,
        /// When the fence is forgotten, in ms.
        ends: Option<u64>,
        nonce: Option<[u8; 16]>,
        /// What is kept behind the fence: a colon and the beginning of the nonce.
        life: [u8; 9],
        /// The server does not tell by itself that the record has changed. If it does, the record
        /// is looked at only for names whose last fence was not granted in the life of this nonce.
        looks_at_record: bool,
        ticket: Option<Ticket>,
        /// Get in line only behind everybody who is there.
        fresh: bool,
        label: Option<&'a str>,
        /// How many fences below this one are granted with it.
        span: Option<u64>,
        /// The locks that the waiter keeps meanwhile, as its note has them behind the label.
        holding: Option<&'a str>,
    }
    AcquireShared<'a> ("acquire_shared.lua" "refuse.lua") [Lock Fence Fences Record Line Label Open] {
        owner: OwnerToken,
        ttl: u64,
        fence: Option<u64>,
        ends: Option<u64>,
        nonce: Option<[u8; 16]>,
        life: [u8; 9],
        looks_at_record: bool,
        ticket: Option<Ticket>,
        fresh: bool,
        label: Option<&'a str>,
        /// Be refused while somebody is in line who wants it alone.
        gives_way: bool,
        holding: Option<&'a str>,
    }
    AcquireOwned<'a> ("acquire_owned.lua" "refuse.lua") [Lock Fence Fences Record Line Label Open] {
        owner: OwnerToken,
        ttl: u64,
        fence: Option<u64>,
        ends: Option<u64>,
        nonce: Option<[u8; 16]>,
        life: [u8; 9],
        looks_at_record: bool,
        ticket: Option<Ticket>,
        fresh: bool,
        label: Option<&'a str>,
        id: &'a str,
        /// The fence is the one that the owner holds the lock with elsewhere.
        joins: bool,
        holding: Option<&'a str>,
    }
    // With a ticket: get in line again.
    Undo (
        "shared/owner_of.lua" "shared/group_of.lua" "shared/stop_holding.lua" "shared/line_up.lua" "undo.lua"
    ) [Lock Line Fence] { owner: OwnerToken, ticket: Option<Ticket> }
    // With a ticket: get in line first. Or it opens: those outside the line are next. Or it is kept
    // from everybody, for so many ms at most.
    Release (
        "release_plain.lua" "shared/owner_of.lua" "shared/name_of.lua" "shared/group_of.lua" "shared/stop_holding.lua"
        "shared/line_up.lua" "shared/pass_on.lua" "release.lua"
    ) [Lock Line Open Fence Label] { owner: OwnerToken, ticket: Option<Ticket>, opens: bool, keeps: Option<u64> }
    Enqueue ("shared/line_up.lua" "enqueue.lua") [Line Fence] { ticket: Ticket }
    Leave ("shared/owner_of.lua" "shared/pass_on.lua" "leave.lua") [Lock Line Open] { ticket: Ticket }
    Nudge ("shared/pass_on.lua" "nudge.lua") [Lock Line Open] {}
    // For how long the lock does not count, in ms.
    Heal<'a> ("shared/owner_of.lua" "shared/name_of.lua" "heal.lua") [Lock Fence] {
        owner: OwnerToken, ttl: u64, fence: Option<u64>, quarantine: u64, shared: bool, id: Option<&'a str>
    }
    // The record as it must be, as it shall be, and whether the node's time is added to it.
    Record<'a> ("record.lua") [Record Fences] { expected: Option<&'a str>, text: Option<&'a str>, stamp: bool }
    // For how long fences are kept, in ms, and how many to look at.
    Trim ("trim.lua") [Fences] { retention: u64, count: u64 }
    // Whether we are woken on our channel: then others are, too.
    Inspect ("shared/name_of.lua" "shared/group_of.lua" "inspect.lua") [Lock Fence Line Label] { listens: bool }
    Clear<'a> ("shared/name_of.lua" "shared/group_of.lua" "clear.lua") [Record] {
        nonce: [u8; 16], cursor: u64, pattern: &'a str
    }
    // How many keys to look at, and whether to tell what is kept beside the locks. Without a cursor
    // it is about the locks that are its keys.
    List<'a> ("shared/name_of.lua" "shared/group_of.lua" "shared/details_of.lua" "list.lua") [] {
        cursor: u64, pattern: &'a str, count: u64, detailed: bool
    }
}

/// Something that can be handed to a script.
pub(super) trait Argument {
    fn push(&self, buffer: &mut Vec<u8>);

    fn is_given(&self) -> bool {
        true
    }
}

macro_rules! arguments {
    ($($kind:ty: |$argument:ident| $bytes:expr;)*) => {$(
        impl Argument for $kind {
            fn push(&self, buffer: &mut Vec<u8>) {
                let $argument = self;
                push_part(buffer, $bytes);
            }
        }
    )*};
}

arguments! {
    u64: |number| Decimal::of(*number).as_bytes();
    OwnerToken: |token| &token.to_hex();
    Ticket: |ticket| ticket.to_string().as_bytes();
    &str: |text| text.as_bytes();
    [u8; 9]: |text| text;
    [u8; 16]: |text| text;
}

impl Argument for bool {
    fn push(&self, buffer: &mut Vec<u8>) {
        push_part(buffer, if *self { b"1" } else { b"" });
    }

    fn is_given(&self) -> bool {
        *self
    }
}

impl<A: Argument> Argument for Option<A> {
    fn push(&self, buffer: &mut Vec<u8>) {
        match self {
            Some(argument) => argument.push(buffer),
            None => push_part(buffer, b""),
        }
    }

    fn is_given(&self) -> bool {
        self.is_some()
    }
}
