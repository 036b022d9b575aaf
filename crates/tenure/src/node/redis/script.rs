//! What our commands are on a server, and what the replies mean.
//!
//! Acquire is the server's own `SET NX`, half the cost of a script; the others compare first and are scripts, unless
//! the server has a command of its own for it.

use std::time::Duration;

use tenure_core::{Answer, Command, Fault, Holding, LockKey, NodeTime, Refusal, Reply};

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
    extend: Script,
    release: Script,
    inspect: Script,
    list: Script,
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
            extend: Script { text: include_str!("extend.lua"), sha: None },
            release: Script { text: include_str!("release.lua"), sha: None },
            inspect: Script { text: include_str!("inspect.lua"), sha: None },
            list: Script { text: include_str!("list.lua"), sha: None },
            native_release: NativeRelease::None,
        }
    }

    /// The texts to load, in the order that [`Scripts::loaded`] expects their names.
    pub(super) const fn texts(&self) -> [&'static str; 4] {
        [self.extend.text, self.release.text, self.inspect.text, self.list.text]
    }

    /// Takes the names the server gave; a server that gave none is sent the whole text each time.
    pub(super) fn loaded(&mut self, names: [Option<String>; 4], native: NativeRelease) {
        let scripts = [&mut self.extend, &mut self.release, &mut self.inspect, &mut self.list];
        scripts.into_iter().zip(names).for_each(|(script, name)| script.sha = name);
        self.native_release = native;
    }

    /// Appends a command to `buffer`.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>, command: &Command, form: Form) {
        match command {
            Command::Acquire { key, token, node_ttl_ms } => {
                let (ttl, token) = (Decimal::of(*node_ttl_ms), token.to_hex());
                let (key, ttl) = (key.as_str().as_bytes(), ttl.as_bytes());
                encode(buffer, &[b"SET", key, &token, b"NX", b"GET", b"PX", ttl]);
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
            Command::Inspect { key } => self.inspect.encode(buffer, form, &[key.as_str().as_bytes()]),
            Command::List { prefix, cursor } => {
                let (cursor, pattern) = (Decimal::of(*cursor), glob(prefix.as_str()));
                self.list.encode_keyless(buffer, form, &[cursor.as_bytes(), pattern.as_bytes()]);
            }
            _ => unreachable!("every command has a script"),
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
            Command::Acquire { .. } => false,
            Command::Release { .. } if self.native_release != NativeRelease::None => {
                let denied = message.starts_with("NOPERM") || message.starts_with("ERR unknown command");
                if denied {
                    self.native_release = NativeRelease::None;
                }
                denied
            }
            _ => message.starts_with("NOSCRIPT"),
        }
    }

    /// What the reply to a command means. `None` for an acquire that another owner refuses: how long that one has
    /// it must be asked for.
    pub(super) fn reply(command: &Command, value: Value) -> Option<Result<Reply, Fault>> {
        let answer = |answer| Some(Ok(Reply { time: None, answer }));
        match (command, value) {
            (_, Value::Error(message)) => Some(Err(Fault::Error(message.into()))),
            // `GET` makes it tell who had it before: nobody, so it is ours now; or ourselves, and the first answer was
            // lost: it is granted, and lives no longer for it.
            (Command::Acquire { .. }, Value::Null) => answer(Answer::Granted),
            (Command::Acquire { token, .. }, Value::Text(owner)) => {
                if owner.as_bytes() == token.to_hex() {
                    answer(Answer::Granted)
                } else {
                    None
                }
            }
            (Command::Extend { .. }, Value::Number(micros)) => {
                Some(Ok(Reply { time: time(micros), answer: Answer::Granted }))
            }
            (Command::Extend { .. }, Value::List(list)) => Some(not_extended(&list)),
            (Command::Release { .. }, Value::Number(1)) => answer(Answer::Granted),
            (Command::Release { .. }, Value::Number(0)) => answer(Answer::Refused(Refusal::NotHeld)),
            (Command::Inspect { .. } | Command::List { .. }, Value::List(list)) => Some(told(&list)),
            (_, other) => Some(Err(unexpected(&other))),
        }
    }

    /// What the reply to the question how long a lock lives means.
    pub(super) fn time_left(value: Value) -> Result<Reply, Fault> {
        match value {
            Value::Number(millis) => Ok(Reply { time: None, answer: Answer::Refused(held(millis)) }),
            Value::Error(message) => Err(Fault::Error(message.into())),
            other => Err(unexpected(&other)),
        }
    }
}

impl Script {
    fn encode(&self, buffer: &mut Vec<u8>, form: Form, arguments: &[&[u8]]) {
        let [verb, script] = self.start(form);
        match *arguments {
            [key] => encode(buffer, &[verb, script, b"1", key]),
            [key, a] => encode(buffer, &[verb, script, b"1", key, a]),
            [key, a, b] => encode(buffer, &[verb, script, b"1", key, a, b]),
            _ => unreachable!("scripts take a key and at most two arguments"),
        }
    }

    fn encode_keyless(&self, buffer: &mut Vec<u8>, form: Form, [a, b]: &[&[u8]; 2]) {
        let [verb, script] = self.start(form);
        encode(buffer, &[verb, script, b"0", a, b]);
    }

    fn start(&self, form: Form) -> [&[u8]; 2] {
        match (&self.sha, form) {
            (Some(sha), Form::Short) => [b"EVALSHA", sha.as_bytes()],
            _ => [b"EVAL", self.text.as_bytes()],
        }
    }
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

fn told(list: &[Value]) -> Result<Reply, Fault> {
    let unexpected = || unexpected(&Value::List(list.to_vec()));
    let [Value::Number(micros), Value::Text(next), holdings @ ..] = list else { return Err(unexpected()) };
    let holding = |holding: &[Value]| match holding {
        [Value::Text(key), Value::Text(owner), Value::Number(left)] => Ok(Holding {
            key: key.as_str().into(),
            owner: owner.as_str().into(),
            left: u64::try_from(*left).ok().map(Duration::from_millis),
        }),
        _ => Err(unexpected()),
    };
    let holdings = holdings.chunks(3).map(holding).collect::<Result<_, _>>()?;
    let next = next.parse().map_err(|_| unexpected())?;
    Ok(Reply { time: time(*micros), answer: Answer::Told { holdings, next } })
}

fn not_extended(list: &[Value]) -> Result<Reply, Fault> {
    let (micros, refusal) = match *list {
        [Value::Number(micros)] => (micros, Refusal::NotHeld),
        [Value::Number(micros), Value::Number(millis)] => (micros, held(millis)),
        _ => return Err(unexpected(&Value::List(list.to_vec()))),
    };
    Ok(Reply { time: time(micros), answer: Answer::Refused(refusal) })
}

/// Held by another for so many milliseconds. A key without an end (-1) was not set by a lock client and is held all
/// the same; one that has gone meanwhile (-2) is held no longer.
fn held(millis: i64) -> Refusal {
    let left = match millis {
        -2 => Duration::ZERO,
        _ => u64::try_from(millis).map_or(Duration::MAX, Duration::from_millis),
    };
    Refusal::Held { left }
}

fn time(micros: i64) -> Option<NodeTime> {
    u64::try_from(micros).ok().map(NodeTime::from_micros)
}

fn unexpected(value: &Value) -> Fault {
    Fault::Error(format!("an unexpected reply: {value:?}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_may_not_use_the_servers_own_release_gets_the_script() {
        let key = LockKey::new(&tenure_core::Prefix::default(), "x").unwrap();
        let token = tenure_core::OwnerToken::from_bytes([1; 20]);
        let release = Command::Release { key: key.clone(), token };
        let mut scripts = Scripts::new();
        scripts.loaded(std::array::from_fn(|_| Some("0".repeat(40))), NativeRelease::DelIfEq);
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
        // An acquire is never sent again, whatever a server says.
        let acquire = Command::Acquire { key, token, node_ttl_ms: 1 };
        assert!(!scripts.was_not_executed(&acquire, &Value::Error("NOSCRIPT No matching script".to_owned())));
    }

    #[test]
    fn a_prefix_is_taken_letter_by_letter() {
        assert_eq!(glob("app:"), "app:*");
        assert_eq!(glob(r"a*b?[c]\d"), r"a\*b\?\[c\]\\d*");
        assert_eq!(glob(""), "*");
    }
}
