//! What our commands are on a server. What the replies mean is in `replies.rs`.
//!
//! An acquire with a fence is a script; without one it is the server's own `SET NX`, half the cost, if the server
//! tells us by itself when the node's record changes. The others compare first and are scripts, unless the server
//! has a command of its own for it.

use std::borrow::Cow;
use std::time::Duration;

use tenure_core::{
    ClientId, Command, DEAD_MAX, FenceBounds, KEY_LEAD_RESERVED, LABEL_LIFE, LockKey, OPENING, OwnerToken,
    Prefix, QUEUE_LIFE, RESERVATION, RESERVED_LEAD, TRIM_FENCES, WAITERS_MAX,
};

use super::resp::{Decimal, Value, encode, push_count, push_part};

/// What the channel begins with on which a client is woken. The client's id follows.
pub(super) const WAKE_CHANNEL: &str = "tenure~wake:";

/// A script: its text, and what the server calls it.
#[derive(Clone, Debug)]
struct Script {
    text: Cow<'static, str>,
    sha: Option<String>,
}

/// How one server executes our commands.
#[derive(Clone, Debug)]
pub(super) struct Scripts {
    scripts: Vec<Script>,
    native_release: NativeRelease,
    /// The server says by itself when the record changes, so an acquire need not look.
    pub(super) tracks_record: bool,
    /// The server wakes us on our channel.
    pub(super) listens: bool,
    /// Our channel.
    pub(super) channel: String,
    record_key: String,
    queue_key: String,
    retention_ms: u64,
}

/// Which script, as an index.
#[derive(Clone, Copy)]
enum Name {
    Acquire,
    Extend,
    Release,
    PassOn,
    Open,
    Requeue,
    Enqueue,
    Leave,
    Nudge,
    Heal,
    Record,
    Trim,
    Inspect,
    List,
    Clear,
}

/// A compare-and-delete of the server's own; a third of the cost of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NativeRelease {
    None,
    /// `DELIFEQ key value`: Valkey 9.
    DelIfEq,
    /// `DELEX key IFEQ value`: Redis 8.4.
    DelEx,
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
        // The same for every acquire, so they are part of the text.
        let FenceBounds { slack_us, retention_us } = bounds;
        let numbers = format!("local SLACK, AGE = {slack_us}, {}\n", retention_us / 2);
        // As texts, because a number that is passed to a command is printed anew each time.
        let millis = |duration: Duration| duration.as_millis();
        let limits = format!(
            "local RESERVED, RESERVATION, QUEUE_LIFE, WAITERS_MAX, LABEL_LIFE = '{RESERVED_LEAD}', '{}', '{}', {WAITERS_MAX}, '{}'\n",
            millis(RESERVATION),
            millis(QUEUE_LIFE),
            millis(LABEL_LIFE)
        );
        let passing = format!(
            "local DEAD_MAX, CHANNEL, OPENING = {DEAD_MAX}, '{WAKE_CHANNEL}', '{}'\n",
            millis(OPENING)
        );
        let owner = |text: &str| Cow::Owned([include_str!("owner.lua"), text].concat());
        let queue =
            |text: &str| Cow::Owned([&*limits, &passing, include_str!("queue.lua"), &owner(text)].concat());
        let texts = [
            Cow::Owned([&*numbers, &limits, include_str!("acquire.lua")].concat()),
            Cow::Borrowed(include_str!("extend.lua")),
            owner(include_str!("release.lua")),
            queue(include_str!("pass_on.lua")),
            queue(include_str!("open.lua")),
            queue(include_str!("requeue.lua")),
            queue(include_str!("enqueue.lua")),
            queue(include_str!("leave.lua")),
            queue(include_str!("nudge.lua")),
            owner(include_str!("heal.lua")),
            Cow::Borrowed(include_str!("record.lua")),
            Cow::Borrowed(include_str!("trim.lua")),
            Cow::Owned([&*passing, &owner(include_str!("inspect.lua"))].concat()),
            owner(include_str!("list.lua")),
            owner(include_str!("clear.lua")),
        ];
        Self {
            scripts: texts.into_iter().map(|text| Script { text, sha: None }).collect(),
            native_release: NativeRelease::None,
            tracks_record: false,
            listens: false,
            channel: format!("{WAKE_CHANNEL}{client}"),
            record_key: format!("{KEY_LEAD_RESERVED}node:{{{}}}", prefix.as_str()),
            queue_key: format!("{KEY_LEAD_RESERVED}fences:{{{}}}", prefix.as_str()),
            retention_ms: retention_us / 1_000,
        }
    }

    /// The texts to load, in the order that [`Scripts::loaded`] expects their names.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.scripts.iter().map(|script| &*script.text)
    }

    /// Takes the names the server gave; a server that gave none is sent the whole text each time.
    pub(super) fn loaded(&mut self, names: Vec<Option<String>>, native: NativeRelease, tracks_record: bool) {
        self.scripts.iter_mut().zip(names).for_each(|(script, name)| script.sha = name);
        (self.native_release, self.tracks_record) = (native, tracks_record);
    }

    /// Where the node's record is.
    pub(super) fn record_key(&self) -> &[u8] {
        self.record_key.as_bytes()
    }

    /// Whether this is an acquire that is sent as the server's own `SET`.
    pub(super) fn is_native_acquire(&self, command: &Command) -> bool {
        match command {
            Command::Acquire { nonce, fence: None, beside: None, .. } => {
                nonce.is_none() || self.tracks_record
            }
            _ => false,
        }
    }

    /// Appends a command to `buffer`.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>, command: &Command, form: Form) {
        let native = self.is_native_acquire(command);
        let script = |name: Name| &self.scripts[name as usize];
        let record_key = self.record_key.as_bytes();
        match command {
            Command::Acquire { key, token, node_ttl_ms, .. } if native => {
                let (ttl, token) = (Decimal::of(*node_ttl_ms), token.to_hex());
                let (key, ttl) = (key.as_str().as_bytes(), ttl.as_bytes());
                encode(buffer, &[b"SET", key, &token, b"NX", b"GET", b"PX", ttl]);
            }
            Command::Acquire { key, token, node_ttl_ms, nonce, fence, beside } => {
                let (ttl, token) = (Decimal::of(*node_ttl_ms), token.to_hex());
                let (nonce, fence_key) = (nonce.map(tenure_core::Nonce::to_hex), key_beside(FENCE, key));
                let claim = fence.map(|claim| [claim.fence.get(), claim.ends_ms].map(Decimal::of));
                let [fence, ends_ms] =
                    claim.as_ref().map_or([&b""[..]; 2], |[a, b]| [a.as_bytes(), b.as_bytes()]);
                let queue_key = self.queue_key.as_bytes();
                let keys = [key.as_str().as_bytes(), fence_key.as_bytes(), queue_key, record_key];
                // Without a nonce there is nothing to compare the record with.
                let always = if nonce.is_some() && !self.tracks_record { &b"1"[..] } else { b"" };
                let life = nonce.as_ref().map_or(*NO_LIFE, life_of);
                let nonce = nonce.as_ref().map_or(&b""[..], |nonce| nonce);
                let arguments = [&token[..], ttl.as_bytes(), fence, ends_ms, nonce, &life, always];
                let Some(beside) = beside else {
                    let count = arguments.len() - usize::from(always.is_empty());
                    return script(Name::Acquire).encode(buffer, form, &keys, &arguments[..count]);
                };
                let [line, label_key, open] = [WAITERS, LABEL, OPEN].map(|kind| key_beside(kind, key));
                let beside_keys = [line.as_bytes(), label_key.as_bytes(), open.as_bytes()];
                let keys = [&keys[..], &beside_keys].concat();
                let ticket = beside.turn.map_or_else(String::new, |turn| turn.ticket.to_string());
                let fresh: &[u8] = if beside.turn.is_some_and(|turn| turn.fresh) { b"1" } else { b"" };
                let label = beside.label.as_deref().unwrap_or_default().as_bytes();
                let arguments = [&arguments[..], &[ticket.as_bytes(), fresh, label]].concat();
                script(Name::Acquire).encode(buffer, form, &keys, &arguments);
            }
            Command::Heal { key, token, node_ttl_ms, fence, quarantine_ms } => {
                let (ttl, token) = (Decimal::of(*node_ttl_ms), token.to_hex());
                let quarantine = Decimal::of(*quarantine_ms);
                let fence = fence.map(|fence| Decimal::of(fence.get()));
                let fence = fence.as_ref().map_or(&b""[..], Decimal::as_bytes);
                let fence_key = key_beside(FENCE, key);
                let keys = [key.as_str().as_bytes(), fence_key.as_bytes()];
                script(Name::Heal).encode(
                    buffer,
                    form,
                    &keys,
                    &[&token, ttl.as_bytes(), fence, quarantine.as_bytes()],
                );
            }
            Command::Extend { key, token, node_ttl_ms } => {
                self.encode_extends(buffer, [(key, token, *node_ttl_ms)].into_iter(), form);
            }
            Command::Release { key, token } => {
                let (key, token) = (key.as_str().as_bytes(), token.to_hex());
                match self.native_release {
                    NativeRelease::DelIfEq => encode(buffer, &[b"DELIFEQ", key, &token]),
                    NativeRelease::DelEx => encode(buffer, &[b"DELEX", key, b"IFEQ", &token]),
                    NativeRelease::None => script(Name::Release).encode(buffer, form, &[key], &[&token]),
                }
            }
            Command::PassOn { key, token, labelled, requeue } => {
                let beside = [WAITERS, OPEN, FENCE, LABEL].map(|kind| key_beside(kind, key));
                let [line, open, fence, label] = beside.each_ref().map(String::as_bytes);
                let keys = [key.as_str().as_bytes(), line, open, fence, label];
                let (token, ticket) = (token.to_hex(), requeue.map(|ticket| ticket.to_string()));
                let arguments = [&token[..], ticket.as_deref().unwrap_or_default().as_bytes()];
                let count = match (labelled, &ticket) {
                    (true, _) => 5,
                    (false, Some(_)) => 4,
                    (false, None) => 3,
                };
                let arguments = &arguments[..1 + usize::from(ticket.is_some())];
                script(Name::PassOn).encode(buffer, form, &keys[..count], arguments);
            }
            Command::Open { key, token, labelled } => {
                let beside = [WAITERS, OPEN, LABEL].map(|kind| key_beside(kind, key));
                let [line, open, label] = beside.each_ref().map(String::as_bytes);
                let keys = [key.as_str().as_bytes(), line, open, label];
                let count = if *labelled { 4 } else { 3 };
                script(Name::Open).encode(buffer, form, &keys[..count], &[&token.to_hex()]);
            }
            Command::Requeue { key, token, ticket } => {
                let [line, fence] = [WAITERS, FENCE].map(|kind| key_beside(kind, key));
                let keys = [key.as_str().as_bytes(), line.as_bytes(), fence.as_bytes()];
                let (token, ticket) = (token.to_hex(), ticket.to_string());
                script(Name::Requeue).encode(buffer, form, &keys, &[&token, ticket.as_bytes()]);
            }
            Command::Enqueue { key, ticket } => {
                let [line, fence] = [WAITERS, FENCE].map(|kind| key_beside(kind, key));
                let keys = [line.as_bytes(), fence.as_bytes()];
                script(Name::Enqueue).encode(buffer, form, &keys, &[ticket.to_string().as_bytes()]);
            }
            Command::Leave { key, ticket } => {
                let [line, open] = [WAITERS, OPEN].map(|kind| key_beside(kind, key));
                let keys = [key.as_str().as_bytes(), line.as_bytes(), open.as_bytes()];
                script(Name::Leave).encode(buffer, form, &keys, &[ticket.to_string().as_bytes()]);
            }
            Command::Nudge { key } => {
                let [line, open] = [WAITERS, OPEN].map(|kind| key_beside(kind, key));
                let keys = [key.as_str().as_bytes(), line.as_bytes(), open.as_bytes()];
                script(Name::Nudge).encode(buffer, form, &keys, &[]);
            }
            Command::Record { swap: None, .. } => {
                script(Name::Record).encode(buffer, form, &[record_key], &[]);
            }
            Command::Record { swap: Some(swap), .. } => {
                let expected = swap.expected.as_deref().unwrap_or_default().as_bytes();
                let stamp: &[u8] = if swap.stamp { b"1" } else { b"" };
                let arguments = [expected, swap.text.as_bytes(), stamp];
                script(Name::Record).encode(buffer, form, &[record_key], &arguments);
            }
            Command::Trim { .. } => {
                let (retention, count) = (Decimal::of(self.retention_ms), Decimal::of(TRIM_FENCES));
                let arguments = [retention.as_bytes(), count.as_bytes()];
                script(Name::Trim).encode(buffer, form, &[self.queue_key.as_bytes()], &arguments);
            }
            Command::Inspect { key } => {
                let [fence, line, label] = [FENCE, WAITERS, LABEL].map(|kind| key_beside(kind, key));
                let keys = [key.as_str().as_bytes(), fence.as_bytes(), line.as_bytes(), label.as_bytes()];
                let listens: &[u8] = if self.listens { b"1" } else { b"" };
                script(Name::Inspect).encode(buffer, form, &keys, &[listens]);
            }
            Command::List { prefix, cursor } => {
                let (cursor, pattern) = (Decimal::of(*cursor), glob(prefix.as_str()));
                script(Name::List).encode(buffer, form, &[], &[cursor.as_bytes(), pattern.as_bytes()]);
            }
            Command::Clear { prefix, cursor, nonce } => {
                let (cursor, pattern, nonce) = (Decimal::of(*cursor), glob(prefix.as_str()), nonce.to_hex());
                let arguments = [&nonce[..], cursor.as_bytes(), pattern.as_bytes()];
                script(Name::Clear).encode(buffer, form, &[record_key], &arguments);
            }
            _ => unreachable!("every command has a script"),
        }
    }

    /// Whether the server knows the script that extends, by the name that all servers give it: a digest of its text.
    pub(super) fn has_extend(&self) -> bool {
        self.scripts[Name::Extend as usize].sha.is_some()
    }

    /// Appends several extensions as one script.
    pub(super) fn encode_extends<'a>(
        &self,
        buffer: &mut Vec<u8>,
        extends: impl ExactSizeIterator<Item = (&'a LockKey, &'a OwnerToken, u64)> + Clone,
        form: Form,
    ) {
        let count = extends.len();
        self.scripts[Name::Extend as usize].encode_head(buffer, form, count, 2 * count);
        for (key, ..) in extends.clone() {
            push_part(buffer, key.as_str().as_bytes());
        }
        for (_, token, node_ttl_ms) in extends {
            push_part(buffer, &token.to_hex());
            push_part(buffer, Decimal::of(node_ttl_ms).as_bytes());
        }
    }

    /// Appends the question how long a lock lives, for an acquire that was refused.
    pub(super) fn encode_time_left(buffer: &mut Vec<u8>, key: &LockKey) {
        encode(buffer, &[b"PTTL", key.as_str().as_bytes()]);
    }

    /// Whether the reply proves that the command was not executed in its short form: the server forgot the script, or
    /// this user may not use the server's own compare-and-delete, which is not tried again then.
    pub(super) fn was_not_executed(&mut self, command: &Command, value: &Value) -> bool {
        let Value::Error(message) = value else { return false };
        match command {
            Command::Release { .. } if self.native_release != NativeRelease::None => {
                let denied = message.starts_with("NOPERM") || message.starts_with("ERR unknown command");
                if denied {
                    self.native_release = NativeRelease::None;
                }
                denied
            }
            _ => is_no_script(value),
        }
    }
}

impl Script {
    fn encode(&self, buffer: &mut Vec<u8>, form: Form, keys: &[&[u8]], arguments: &[&[u8]]) {
        self.encode_head(buffer, form, keys.len(), arguments.len());
        keys.iter().chain(arguments).for_each(|part| push_part(buffer, part));
    }

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

/// What is kept beside a lock: its last fence, who waits for it, and what its holder wrote.
const FENCE: &str = "fence:{";
const WAITERS: &str = "queue:{";
const LABEL: &str = "label:{";
/// There while those in line are not given the lock.
const OPEN: &str = "open:{";

/// What is kept behind a fence that was granted in no life that anybody knows.
const NO_LIFE: &[u8; 9] = b":--------";

/// What is kept behind a fence: by the beginning of the nonce the life it was granted in can be told from others.
fn life_of(nonce: &[u8; 16]) -> [u8; 9] {
    let mut life = *NO_LIFE;
    life[1..].copy_from_slice(&nonce[..8]);
    life
}

/// Where something is that is kept beside a lock, in the same slot.
fn key_beside(kind: &str, key: &LockKey) -> String {
    let mut beside = String::with_capacity(key.as_str().len() + 16);
    for part in [KEY_LEAD_RESERVED, kind, key.as_str(), "}"] {
        beside.push_str(part);
    }
    beside
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
    use super::*;

    #[test]
    fn a_user_who_may_not_use_the_servers_own_release_gets_the_script() {
        let key = LockKey::new(&Prefix::default(), "x").unwrap();
        let token = tenure_core::OwnerToken::from_bytes([1; 20]);
        let release = Command::Release { key, token };
        let bounds = FenceBounds { slack_us: 1, retention_us: 2 };
        let mut scripts = Scripts::new(&Prefix::default(), bounds, ClientId::default());
        scripts.loaded(vec![Some("0".repeat(40)); scripts.scripts.len()], NativeRelease::DelIfEq, true);
        let encoded = |scripts: &Scripts| {
            let mut buffer = vec![];
            scripts.encode(&mut buffer, &release, Form::Short);
            String::from_utf8(buffer).unwrap()
        };
        assert!(encoded(&scripts).contains("DELIFEQ"));
        let denied =
            Value::Error("NOPERM this user has no permissions to run the 'delifeq' command".to_owned());
        assert!(scripts.was_not_executed(&release, &denied));
        assert!(encoded(&scripts).contains("EVALSHA"), "and not tried again");
    }

    #[test]
    fn a_prefix_is_taken_letter_by_letter() {
        assert_eq!(glob("app:"), "app:*");
        assert_eq!(glob(r"a*b?[c]\d"), r"a\*b\?\[c\]\\d*");
        assert_eq!(glob(""), "*");
    }
}
