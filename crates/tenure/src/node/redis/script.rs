//! The commands as scripts, and what their replies mean.

use std::time::Duration;

use tenure_core::{Answer, Command, Fault, NodeTime, Refusal, Reply};

use super::resp::{Decimal, Value, encode};

/// A script: its text, and what the server calls it.
#[derive(Clone, Debug)]
struct Script {
    text: &'static str,
    sha: Option<String>,
}

/// How one server executes our commands.
#[derive(Clone, Debug)]
pub(super) struct Scripts {
    acquire: Script,
    extend: Script,
    release: Script,
    native_release: NativeRelease,
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
    /// The scripts, not loaded yet.
    pub(super) const fn new() -> Self {
        Self {
            acquire: Script { text: include_str!("acquire.lua"), sha: None },
            extend: Script { text: include_str!("extend.lua"), sha: None },
            release: Script { text: include_str!("release.lua"), sha: None },
            native_release: NativeRelease::None,
        }
    }

    /// The texts to load, in the order that [`Scripts::loaded`] expects their names.
    pub(super) const fn texts(&self) -> [&'static str; 3] {
        [self.acquire.text, self.extend.text, self.release.text]
    }

    /// Takes the names the server gave; a server that gave none is sent the whole text each time.
    pub(super) fn loaded(&mut self, [acquire, extend, release]: [Option<String>; 3], native: NativeRelease) {
        self.acquire.sha = acquire;
        self.extend.sha = extend;
        self.release.sha = release;
        self.native_release = native;
    }

    /// Appends a command to `buffer`.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>, command: &Command, form: Form) {
        match command {
            Command::Acquire { key, token, node_ttl_ms } => {
                let (ttl, token) = (Decimal::of(*node_ttl_ms), token.to_hex());
                self.acquire.encode(buffer, form, &[key.as_str().as_bytes(), &token, ttl.as_bytes()]);
            }
            Command::Extend { key, token, node_ttl_ms } => {
                let (ttl, token) = (Decimal::of(*node_ttl_ms), token.to_hex());
                self.extend.encode(buffer, form, &[key.as_str().as_bytes(), &token, ttl.as_bytes()]);
            }
            Command::Release { key, token } => {
                let (key, token) = (key.as_str().as_bytes(), token.to_hex());
                match self.native_release {
                    NativeRelease::DelIfEq => encode(buffer, &[b"DELIFEQ", key, &token]),
                    NativeRelease::DelEx => encode(buffer, &[b"DELEX", key, b"IFEQ", &token]),
                    NativeRelease::None => self.release.encode(buffer, form, &[key, &token]),
                }
            }
            _ => unreachable!("every command has a script"),
        }
    }

    /// What the reply to a command means.
    pub(super) fn reply(&self, command: &Command, value: Value) -> Result<Reply, Fault> {
        let native = self.native_release != NativeRelease::None && matches!(command, Command::Release { .. });
        match value {
            Value::Number(deleted) if native => Ok(Reply {
                time: None,
                answer: if deleted == 1 { Answer::Granted } else { Answer::Refused(Refusal::NotHeld) },
            }),
            Value::Number(micros) => Ok(Reply { time: time(micros), answer: Answer::Granted }),
            Value::List(list) => refusal(&list),
            Value::Error(message) => Err(Fault::Error(message.into())),
            other => Err(unexpected(&other)),
        }
    }
}

impl Script {
    fn encode(&self, buffer: &mut Vec<u8>, form: Form, arguments: &[&[u8]]) {
        let (verb, script): (&[u8], &[u8]) = match (&self.sha, form) {
            (Some(sha), Form::Short) => (b"EVALSHA", sha.as_bytes()),
            _ => (b"EVAL", self.text.as_bytes()),
        };
        match *arguments {
            [key, a] => encode(buffer, &[verb, script, b"1", key, a]),
            [key, a, b] => encode(buffer, &[verb, script, b"1", key, a, b]),
            _ => unreachable!("scripts take a key and one or two arguments"),
        }
    }
}

fn refusal(list: &[Value]) -> Result<Reply, Fault> {
    let (micros, refusal) = match *list {
        [Value::Number(micros)] => (micros, Refusal::NotHeld),
        // A key without an end (-1) was not set by a lock client; it is held all the same.
        [Value::Number(micros), Value::Number(left)] => {
            let left = u64::try_from(left).map_or(Duration::MAX, Duration::from_millis);
            (micros, Refusal::Held { left })
        }
        _ => return Err(unexpected(&Value::List(list.to_vec()))),
    };
    Ok(Reply { time: time(micros), answer: Answer::Refused(refusal) })
}

fn time(micros: i64) -> Option<NodeTime> {
    u64::try_from(micros).ok().map(NodeTime::from_micros)
}

fn unexpected(value: &Value) -> Fault {
    Fault::Error(format!("an unexpected reply: {value:?}").into())
}
