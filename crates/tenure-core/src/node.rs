//! What ONE node does with a command: the executable definition.
//!
//! The rules (`rules.rs`, `line.rs`; `set.rs` for several names at once) work on what a node keeps
//! for one name ([`Name`], `name.rs`), and reach the rest through [`Shelf`]: the smallest interface
//! to where a node keeps its names. [`LockTable`] (`table.rs`) keeps them in maps: it is the memory
//! node, the simulated node, and the reference that every other store is tested against. The
//! embedded store keeps them in rows. Redis runs scripts that say the same in Lua, and the
//! conformance test compares them.
//!
//! Time is the node's own, in the way Redis counts it: a key set with `PX p` at millisecond *t* is
//! there up to and including millisecond *t + p*.

mod holds;
mod line;
mod name;
mod rules;
mod set;
mod table;

use std::sync::Arc;

pub use self::name::{
    Entry, Group, Hold, KEPT_LEAD, Label, LastFence, Name, OWNED, Owner, RESERVED_LEAD, SHARED,
};
pub use self::rules::execute;
pub use self::table::LockTable;
use crate::command::Answer;
use crate::line::Ticket;
use crate::names::{LockKey, Prefix};
use crate::note::{Note, Waiter};

/// How many fences a node looks at when it is told to trim: well below a millisecond of its time.
pub const TRIM_FENCES: u64 = 500;

/// Of so many holds of one lock a node tells which they are.
pub const SHARERS_MAX: usize = 1_000;

/// How many keys a node looks at before it goes on with a walk of its own.
const PAGE_KEYS: u32 = 100;

/// What a node finds among some of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The keys that are locks.
    pub locks: Vec<Arc<str>>,
    /// Where the next slice begins; 0 if this was the last.
    pub next: u64,
    /// How far that is, in millionths.
    pub walked_ppm: u32,
    /// How many keys there are.
    pub keys: u64,
}

impl Slice {
    /// How far a walk of `all` is that goes on at `next`; 0 is its end.
    #[must_use]
    pub fn millionths(next: u64, all: u64) -> u32 {
        const WHOLE: u32 = 1_000_000;
        match next {
            0 => WHOLE,
            _ => u32::try_from(u128::from(next) * u128::from(WHOLE) / u128::from(all.max(1)))
                .map_or(WHOLE, |part| part.min(WHOLE)),
        }
    }
}

/// Where a node keeps its names, those in line for each, and its records. It decides nothing.
///
/// A line is never read as a whole: it may have thousands of waiters. Tickets in it are in order.
#[expect(clippy::missing_errors_doc, reason = "every method fails when the store cannot be read or written")]
pub trait Shelf {
    /// Why something could not be read or written. The command is then not executed.
    type Trouble;

    /// What is kept for a name, perhaps with parts that are over; the default if there is nothing.
    fn load(&mut self, key: &LockKey) -> Result<Name, Self::Trouble>;
    /// Keeps this for a name from now on. What is over may be forgotten.
    fn store(&mut self, now_ms: u64, key: &LockKey, name: Name) -> Result<(), Self::Trouble>;

    /// How many are in line.
    fn in_line(&self, key: &LockKey) -> Result<u64, Self::Trouble>;
    /// How many of those in line listen.
    fn in_line_listening(&self, key: &LockKey) -> Result<u64, Self::Trouble>;
    /// The first in line.
    fn first(&self, key: &LockKey) -> Result<Option<Ticket>, Self::Trouble>;
    /// The first in line of those who share the lock, or of those who do not.
    fn first_of(&self, key: &LockKey, sharing: bool) -> Result<Option<Ticket>, Self::Trouble>;
    /// The last in line.
    fn last(&self, key: &LockKey) -> Result<Option<Ticket>, Self::Trouble>;
    /// Whether this one is in line.
    fn contains(&self, key: &LockKey, ticket: Ticket) -> Result<bool, Self::Trouble>;
    /// How many in line come before this one, which need not be there.
    fn ahead_of(&self, key: &LockKey, ticket: Ticket) -> Result<u64, Self::Trouble>;
    /// Puts one in line. Whether it was not there before.
    fn insert(&mut self, key: &LockKey, ticket: Ticket) -> Result<bool, Self::Trouble>;
    /// Keeps what a waiter says about itself, while it is in line.
    fn note(&mut self, key: &LockKey, ticket: Ticket, note: &Note) -> Result<(), Self::Trouble>;
    /// The first in line that listen, in order, with their notes: at most
    /// [`WAITERS_TOLD_MAX`](crate::WAITERS_TOLD_MAX).
    fn tell_line(&self, key: &LockKey) -> Result<Vec<Waiter>, Self::Trouble>;
    /// Takes one out of the line, if it is there.
    fn remove(&mut self, key: &LockKey, ticket: Ticket) -> Result<(), Self::Trouble>;
    /// Takes everybody out of the line.
    fn clear(&mut self, key: &LockKey) -> Result<(), Self::Trouble>;

    /// Whether this waiter's client can be woken.
    fn listens(&self, ticket: Ticket) -> bool;
    /// Wakes a waiter once what was done is kept: the lock is set aside for it.
    fn wake(&mut self, key: &LockKey, ticket: Ticket);

    /// The record of a prefix.
    fn record(&self, prefix: &str) -> Result<Option<Arc<str>>, Self::Trouble>;
    /// Keeps this record from now on.
    fn put_record(&mut self, prefix: &Prefix, text: &Arc<str>) -> Result<(), Self::Trouble>;
    /// Forgets the record of a prefix and the fences that were granted under it, each with the mark
    /// beside it and its opening.
    fn give_up(&mut self, now_ms: u64, prefix: &Prefix) -> Result<(), Self::Trouble>;

    /// Frees the memory of what is over ([`Answer::Trimmed`]).
    fn trim(&mut self, now_ms: u64, prefix: &Prefix) -> Result<Answer, Self::Trouble>;
    /// The next so many of its keys, as far as they are locks whose keys begin with `lead`.
    fn slice(&self, now_ms: u64, lead: &str, cursor: u64, keys: u32) -> Result<Slice, Self::Trouble>;
}
