//! What our commands are on a server. What the replies mean is in `replies.rs`.
//!
//! An acquire with a fence is a script; without one it is the server's own `SET NX`, half the cost,
//! if the server tells us by itself when the node's record changes. The others compare first and
//! are scripts.
//!
//! ```text
//!   Command ─► script.rs ─► parameters.rs ─► *.lua (spelled out by text.rs) ─► answers.rs ─► replies.rs ─► Reply
//! ```

pub(super) mod answers;
pub(super) mod batch;
mod parameters;
mod set;
mod text;

use std::sync::OnceLock;

use tenure_core::{
    Batch, ClientId, Command, FenceBounds, KEY_LEAD_RESERVED, Listing, LockKey, Mode, Next, Part, Prefix,
    TRIM_FENCES,
};

use self::parameters::{Key, Parameters, SOURCES};
use self::set::SetScripts;
use self::text::Limits;
use super::resp::{Decimal, Value, encode, push_count, push_joined, push_part};

/// What the channel begins with on which a client is woken. The client's id follows.
pub(super) const WAKE_CHANNEL: &str = "tenure~wake:";

/// A script: its text, and what the server calls it.
#[derive(Clone, Debug)]
struct Script {
    text: String,
    sha: Option<String>,
}

/// How one server executes our commands.
#[derive(Clone, Debug)]
pub(super) struct Scripts {
    /// In the order of [`SOURCES`].
    scripts: Vec<Script>,
    /// In the order of [`Batch`]. They take as many locks as there are, so they have no names for
    /// them.
    batches: [Script; Batch::COUNT],
    /// For several locks at once. Made when they are needed.
    sets: OnceLock<SetScripts>,
    bounds: FenceBounds,
    /// The server says by itself when the record changes, so an acquire need not look.
    pub(super) tracks_record: bool,
    /// The server wakes us on our channel.
    pub(super) listens: bool,
    /// Our channel.
    pub(super) channel: String,
    record_key: String,
    fences_key: String,
    retention_ms: u64,
}

/// How a command is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By the name the server knows it under, or as its own command.
    Short,
    /// With its whole text, which a server that forgot it learns on the way.
    Whole,
}

impl Scripts {
    /// The scripts for the locks under `prefix`, not loaded yet.
    pub(super) fn new(prefix: &Prefix, bounds: FenceBounds, client: ClientId) -> Self {
        let limits = Limits::new(bounds);
        let script = |text| Script { text, sha: None };
        Self {
            scripts: SOURCES.iter().map(|source| script(source.spelled_out(&limits))).collect(),
            batches: batch::texts(&limits).map(script),
            sets: OnceLock::new(),
            bounds,
            tracks_record: false,
            listens: false,
            channel: format!("{WAKE_CHANNEL}{client}"),
            record_key: format!("{KEY_LEAD_RESERVED}node:{{{}}}", prefix.as_str()),
            fences_key: format!("{KEY_LEAD_RESERVED}fences:{{{}}}", prefix.as_str()),
            retention_ms: bounds.retention_us / 1_000,
        }
    }

    /// The texts to load, in the order that [`Scripts::loaded`] expects their names.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.scripts.iter().chain(&self.batches).map(|script| &*script.text)
    }

    /// Takes the names the server gave; a server that gave none is sent the whole text each time.
    pub(super) fn loaded(&mut self, names: Vec<Option<String>>, tracks_record: bool) {
        let scripts = self.scripts.iter_mut().chain(&mut self.batches);
        scripts.zip(names).for_each(|(script, name)| script.sha = name);
        self.tracks_record = tracks_record;
    }

    fn sets(&self) -> &SetScripts {
        self.sets.get_or_init(|| SetScripts::new(&Limits::new(self.bounds)))
    }

    /// Where the node's record is.
    pub(super) fn record_key(&self) -> &[u8] {
        self.record_key.as_bytes()
    }

    /// Whether this is an acquire that is sent as the server's own `SET`.
    pub(super) fn is_native_acquire(&self, command: &Command) -> bool {
        match command {
            Command::Acquire { key, nonce, fence: None, beside: None, .. } => {
                !key.is_set() && (nonce.is_none() || self.tracks_record)
            }
            _ => false,
        }
    }

    /// Appends a command to `buffer`.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>, command: &Command, form: Form) {
        let native = self.is_native_acquire(command);
        let mut call = ScriptCall { scripts: self, buffer, form, key: command.key() };
        match *command {
            Command::Acquire { ref key, token, node_ttl_ms, .. } if native => {
                let (key, ttl) = (key.as_str().as_bytes(), Decimal::of(node_ttl_ms));
                encode(call.buffer, &[b"SET", key, &token.to_hex(), b"NX", b"GET", b"PX", ttl.as_bytes()]);
            }
            Command::Acquire {
                token: owner,
                node_ttl_ms: ttl,
                nonce,
                fence,
                beside: Some(ref beside),
                ..
            } if let Mode::Owned(id) = &beside.mode => {
                let nonce = nonce.map(tenure_core::Nonce::to_hex);
                call.with(&parameters::AcquireOwned {
                    owner,
                    ttl,
                    fence: fence.map(|proposed| proposed.top().get()),
                    ends: fence.map(|proposed| proposed.ends_ms),
                    nonce,
                    life: nonce.map_or(*NO_LIFE, life_of),
                    looks_at_record: nonce.is_some() && !self.tracks_record,
                    ticket: beside.place.map(|place| place.ticket),
                    fresh: beside.place.is_some_and(|place| place.fresh),
                    label: beside.label.as_deref(),
                    id: id.as_str(),
                    joins: beside.joins,
                    holding: beside.holding.as_deref(),
                });
            }
            Command::Acquire {
                token: owner,
                node_ttl_ms: ttl,
                nonce,
                fence,
                beside: Some(ref beside),
                ..
            } if beside.mode.is_shared() => {
                let nonce = nonce.map(tenure_core::Nonce::to_hex);
                call.with(&parameters::AcquireShared {
                    owner,
                    ttl,
                    fence: fence.map(|proposed| proposed.top().get()),
                    ends: fence.map(|proposed| proposed.ends_ms),
                    nonce,
                    life: nonce.map_or(*NO_LIFE, life_of),
                    looks_at_record: nonce.is_some() && !self.tracks_record,
                    ticket: beside.place.map(|place| place.ticket),
                    fresh: beside.place.is_some_and(|place| place.fresh),
                    label: beside.label.as_deref(),
                    gives_way: beside.gives_way,
                    holding: beside.holding.as_deref(),
                });
            }
            Command::Acquire { token: owner, node_ttl_ms: ttl, nonce, fence, ref beside, .. } => {
                let nonce = nonce.map(tenure_core::Nonce::to_hex);
                let beside = beside.as_deref();
                let place = beside.and_then(|beside| beside.place);
                let acquire = parameters::Acquire {
                    owner,
                    ttl,
                    fence: fence.map(|proposed| proposed.top().get()),
                    ends: fence.map(|proposed| proposed.ends_ms),
                    nonce,
                    life: nonce.map_or(*NO_LIFE, life_of),
                    // Without a nonce there is nothing to compare the record with.
                    looks_at_record: nonce.is_some() && !self.tracks_record,
                    ticket: place.map(|place| place.ticket),
                    fresh: place.is_some_and(|place| place.fresh),
                    label: beside.and_then(|beside| beside.label.as_deref()),
                    span: fence.map(|proposed| proposed.span.into()).filter(|span| *span > 0),
                    holding: beside.and_then(|beside| beside.holding.as_deref()),
                };
                match set::several(command) {
                    Some(locks) => self.encode_acquire_all(call.buffer, locks, &acquire),
                    None => call.up_to(if beside.is_some() { Key::Open } else { Key::Record }, &acquire),
                }
            }
            Command::Heal {
                token: owner,
                node_ttl_ms: ttl,
                fence,
                quarantine_ms: quarantine,
                ref mode,
                ..
            } => {
                let (fence, shared) = (fence.map(tenure_core::Fence::get), mode.is_shared());
                let id = mode.owner().map(tenure_core::OwnerId::as_str);
                call.with(&parameters::Heal { owner, ttl, fence, quarantine, shared, id });
            }
            Command::Extend { ref key, token, node_ttl_ms, .. } if key.is_set() => {
                self.encode_extend_all(call.buffer, key.each(), token, node_ttl_ms);
            }
            Command::Extend { ref key, ref token, node_ttl_ms, ref mode } => {
                self.encode_extends(call.buffer, [(key, token, node_ttl_ms, mode)].into_iter(), form);
            }
            Command::Undo { token: owner, requeue: ticket, .. } => {
                let last = if ticket.is_some() { Key::Fence } else { Key::Lock };
                call.up_to(last, &parameters::Undo { owner, ticket });
            }
            Command::Release { token: owner, labelled, next, .. } => {
                let (ticket, opens, keeps, last) = match next {
                    Next::InLine => (None, false, None, Key::Open),
                    Next::InLineWith(ticket) => (Some(ticket), false, None, Key::Fence),
                    Next::OutsideLine => (None, true, None, Key::Open),
                    Next::Nobody { for_ms } => (None, false, Some(for_ms), Key::Open),
                };
                let last = if labelled { Key::Label } else { last };
                call.up_to(last, &parameters::Release { owner, ticket, opens, keeps });
            }
            Command::Enqueue { ticket, .. } => call.with(&parameters::Enqueue { ticket }),
            Command::Leave { ticket, .. } => call.with(&parameters::Leave { ticket }),
            Command::Nudge { .. } => call.with(&parameters::Nudge {}),
            Command::Record { ref swap, .. } => {
                let swap = swap.as_ref();
                call.with(&parameters::Record {
                    expected: swap.and_then(|swap| swap.expected.as_deref()),
                    text: swap.map(|swap| &*swap.text),
                    stamp: swap.is_some_and(|swap| swap.stamp),
                });
            }
            Command::Trim { .. } => {
                call.with(&parameters::Trim { retention: self.retention_ms, count: TRIM_FENCES });
            }
            Command::Inspect { ref key } if key.is_set() => {
                self.encode_look_at_all(call.buffer, key.each());
            }
            Command::Inspect { .. } => call.with(&parameters::Inspect { listens: self.listens }),
            Command::Clear { ref prefix, cursor, nonce } => {
                let (nonce, pattern) = (nonce.to_hex(), glob(prefix.as_str()));
                call.with(&parameters::Clear { nonce, cursor, pattern: &pattern });
            }
            Command::List(ref listing) => call.list(listing),
        }
    }

    /// Appends a key that is kept for all locks, for a lock, or is the lock itself.
    fn push_key(&self, buffer: &mut Vec<u8>, key: Key, lock: &str) {
        let kind: &[u8] = match key {
            Key::Lock => return push_part(buffer, lock.as_bytes()),
            Key::Record => return push_part(buffer, self.record_key.as_bytes()),
            Key::Fences => return push_part(buffer, self.fences_key.as_bytes()),
            Key::Fence => b"fence:{",
            Key::Line => b"queue:{",
            Key::Label => b"label:{",
            Key::Open => b"open:{",
        };
        // In the same slot as the lock.
        push_joined(buffer, &[KEY_LEAD_RESERVED.as_bytes(), kind, lock.as_bytes(), b"}"]);
    }

    /// Appends the question how long a lock lives, for an acquire that was refused.
    pub(super) fn encode_time_left(buffer: &mut Vec<u8>, key: &LockKey) {
        encode(buffer, &[b"PTTL", key.as_str().as_bytes()]);
    }
}

/// A call of a script.
struct ScriptCall<'a> {
    scripts: &'a Scripts,
    buffer: &'a mut Vec<u8>,
    form: Form,
    /// What it is about, if it is about a lock.
    key: Option<&'a LockKey>,
}

impl ScriptCall<'_> {
    /// Appends it, with all keys of the script.
    fn with<P: Parameters>(&mut self, parameters: &P) {
        self.push(SOURCES[P::SCRIPT as usize].keys, parameters);
    }

    /// Appends a list: of a slice of the server's keys, or of those that are named.
    fn list(&mut self, listing: &Listing) {
        let pattern = glob(&listing.lead());
        let (cursor, count, locks) = match &listing.part {
            Part::Slice { cursor, keys } => (*cursor, (*keys).into(), &[][..]),
            Part::These(locks) => (0, 0, &locks[..]),
        };
        let script = &self.scripts.scripts[parameters::List::SCRIPT as usize];
        let list = parameters::List { cursor, pattern: &pattern, count, detailed: listing.detailed };
        list.with_arguments(|arguments| {
            script.encode_head(self.buffer, self.form, locks.len(), arguments.len());
            locks.iter().for_each(|lock| push_part(self.buffer, lock.as_str().as_bytes()));
            arguments.iter().for_each(|argument| argument.push(self.buffer));
        });
    }

    /// Appends it, with the script's keys up to this one.
    fn up_to<P: Parameters>(&mut self, last: Key, parameters: &P) {
        let keys = SOURCES[P::SCRIPT as usize].keys;
        let count = keys.iter().position(|key| *key == last).map_or(keys.len(), |place| place + 1);
        self.push(&keys[..count], parameters);
    }

    fn push<P: Parameters>(&mut self, keys: &[Key], parameters: &P) {
        let locks = self.key.map_or(&[][..], LockKey::each);
        let (scripts, is_set) = (self.scripts, locks.len() > 1);
        let (script, keys) = match is_set {
            true => (scripts.sets().each(P::SCRIPT), SOURCES[P::SCRIPT as usize].keys),
            false => (&scripts.scripts[P::SCRIPT as usize], keys),
        };
        parameters.with_arguments(|arguments| {
            let count = arguments.iter().rposition(|argument| argument.is_given()).map_or(0, |last| last + 1);
            script.encode_head(self.buffer, self.form, keys.len() * locks.len().max(1), count);
            if locks.is_empty() {
                keys.iter().for_each(|key| scripts.push_key(self.buffer, *key, ""));
            }
            for lock in locks {
                keys.iter().for_each(|key| scripts.push_key(self.buffer, *key, lock.as_str()));
            }
            arguments[..count].iter().for_each(|argument| argument.push(self.buffer));
        });
    }
}

impl Script {
    /// Appends everything up to the keys.
    fn encode_head(&self, buffer: &mut Vec<u8>, form: Form, keys: usize, arguments: usize) {
        let [verb, script]: [&[u8]; 2] = match (&self.sha, form) {
            (Some(sha), Form::Short) => [b"EVALSHA", sha.as_bytes()],
            _ => [b"EVAL", self.text.as_bytes()],
        };
        let count = Decimal::of(keys as u64);
        let head = [verb, script, count.as_bytes()];
        push_count(buffer, head.len() + keys + arguments);
        head.iter().for_each(|part| push_part(buffer, part));
    }
}

/// Whether the server says that it forgot a script.
pub(super) fn is_no_script(value: &Value) -> bool {
    matches!(value, Value::Error(message) if message.starts_with("NOSCRIPT"))
}

/// What is kept behind a fence that was granted in no life that anybody knows.
const NO_LIFE: &[u8; 9] = b":--------";

/// What is kept behind a fence: by the beginning of the nonce the life it was granted in can be
/// told from others.
fn life_of(nonce: [u8; 16]) -> [u8; 9] {
    let mut life = *NO_LIFE;
    life[1..].copy_from_slice(&nonce[..8]);
    life
}

/// A pattern that matches every key under `prefix`, whatever characters it has.
fn glob(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 1);
    for character in prefix.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('*');
    pattern
}

#[cfg(test)]
mod tests {
    use tenure_core::{Fence, Nonce, OwnerToken, ProposedFence};

    use super::*;

    /// The parts of an acquire with these fences.
    fn acquire_of(fence: ProposedFence) -> Vec<String> {
        let prefix = Prefix::default();
        let scripts = Scripts::new(&prefix, fence.bounds, ClientId::new(7));
        let key = LockKey::new(&prefix, "x").unwrap();
        let (token, nonce) = (OwnerToken::from_bytes([7; 20]), Some(Nonce::new(1)));
        let (node_ttl_ms, fence, beside) = (1_000, Some(fence), None);
        let command = Command::Acquire { key, token, node_ttl_ms, nonce, fence, beside };
        let mut buffer = vec![];
        scripts.encode(&mut buffer, &command, Form::Whole);
        // The first line counts them, and every part is a line behind one with its length.
        let text = String::from_utf8(buffer).unwrap();
        text.split("\r\n").skip(2).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn a_range_of_fences_is_its_largest_and_one_argument_more() {
        let bounds = FenceBounds { slack_us: 10, retention_us: 20_000 };
        let alone = acquire_of(ProposedFence::new(Fence::new(1_700_000_000_000_128), bounds));
        let range = acquire_of(ProposedFence::range(Fence::new(1_700_000_000_000_000), 128, bounds));
        assert!(!alone.contains(&"128".to_owned()), "{alone:?}");
        // No ticket, nor is it fresh, and no label; and that the record is looked at is not said.
        let (same, more) = range.split_at(alone.len());
        assert_eq!((same, more.last().map(String::as_str)), (&alone[..], Some("128")));
        assert!(more[..more.len() - 1].iter().all(String::is_empty), "{more:?}");
    }

    #[test]
    fn a_prefix_is_taken_letter_by_letter() {
        assert_eq!(glob("app:"), "app:*");
        assert_eq!(glob(r"a*b?[c]\d"), r"a\*b\?\[c\]\\d*");
        assert_eq!(glob(""), "*");
    }
}
