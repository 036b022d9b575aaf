//! The fuzz target for what a server answers: the protocol, and what its replies mean.
//!
//! Whatever listens on the port of a node may answer anything. It must not stop a client.

use std::sync::Arc;

use tenure_core::{
    Batch, Command, Listing, LockKey, Mode, Next, Nonce, OwnerToken, Part, Prefix, Reply, Ticket,
};

use super::info;
use super::resp::{self, Push, Value};
use super::script::Scripts;

/// A reply can be this long and no longer: a larger one would only be slow.
const REPLIES_MAX: usize = 64;

/// Reads the bytes as replies, one after the other, and asks of each what it means to every
/// command.
///
/// # Panics
/// If a reply is misread.
pub fn replies(bytes: &[u8]) {
    command_reads_back(bytes);
    let mut rest = bytes;
    for _ in 0..REPLIES_MAX {
        let Ok(Some((value, length))) = resp::decode(rest) else { return };
        assert!(length > 0, "a reply without end");
        if length > rest.len() {
            return;
        }
        let (reply, behind) = rest.split_at(length);
        let alone = resp::decode(reply).map(|read| read.map(|(value, length)| (unordered(value), length)));
        assert_eq!(alone, Ok(Some((unordered(value.clone()), length))), "it needs what follows");
        for cut in [length / 2, length - 1] {
            let part = resp::decode(&reply[..cut]);
            assert!(!matches!(part, Ok(Some(_))), "a part of a reply is none: {part:?}");
        }
        means_something(&value);
        rest = behind;
    }
}

/// The entries of maps and sets come in any order, and we look them up by name: so here all lists
/// have one.
fn unordered(value: Value) -> Value {
    match value {
        Value::List(list) => {
            let mut list: Vec<Value> = list.into_iter().map(unordered).collect();
            list.sort_by_key(|value| format!("{value:?}"));
            Value::List(list)
        }
        Value::Push(Push::Changed(Some(mut keys))) => {
            keys.sort_unstable();
            Value::Push(Push::Changed(Some(keys)))
        }
        value => value,
    }
}

/// What we send is what a server reads.
fn command_reads_back(bytes: &[u8]) {
    let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let mut sent = vec![];
    resp::encode(&mut sent, &parts);
    let text = |part: &&[u8]| Value::Text(String::from_utf8_lossy(part).into_owned());
    let read = Value::List(parts.iter().map(text).collect());
    assert_eq!(resp::decode(&sent), Ok(Some((read, sent.len()))));
}

fn means_something(value: &Value) {
    let commands = commands();
    for command in &commands {
        let reply = Scripts::reply(command, value);
        if let Ok(Reply { fence: Some(fence), .. }) = reply {
            assert!(fence.get() < 10_u64.pow(17), "no fence is as large: {fence}");
        }
    }
    for batch in [Batch::Acquires, Batch::Extends, Batch::Releases] {
        let replies = Scripts::batch_replies(batch, commands[..3].iter(), value.clone());
        assert_eq!(replies.len(), 3, "one reply a command");
    }
    let _ = Scripts::native_reply(&OwnerToken::from_bytes([7; 20]), value.clone());
    let _ = Scripts::time_left(value.clone());
    let _ = Scripts::time(value);
    if let Value::Text(text) = value {
        let _ = info::server(text, value, true, true).facts();
    }
    let _ = info::server("aof_enabled:1\r\n", value, false, false).facts();
}

/// One of each kind.
fn commands() -> Vec<Command> {
    let prefix = Prefix::default();
    let lock = |name: &str| LockKey::new(&prefix, name).expect("a name");
    let (key, token, node_ttl_ms) = (lock("a"), OwnerToken::from_bytes([7; 20]), 30_000);
    let several = LockKey::all_of(vec![lock("a"), lock("b")]).expect("two names");
    let mode = Mode::Exclusive;
    let listing = |part| {
        let (prefix, begins) = (prefix.clone(), "".into());
        Command::List(Arc::new(Listing { prefix, begins, part, detailed: true }))
    };
    vec![
        Command::plain_acquire(key.clone(), token, node_ttl_ms),
        Command::Extend { key: key.clone(), token, node_ttl_ms, mode: mode.clone() },
        Command::Release { key: key.clone(), token, labelled: true, next: Next::InLine },
        Command::Heal { key: key.clone(), token, node_ttl_ms, fence: None, quarantine_ms: 1, mode },
        Command::Undo { key: key.clone(), token, requeue: None },
        Command::Enqueue { key: key.clone(), ticket: Ticket::SOMEBODY },
        Command::Record { prefix: prefix.clone(), swap: None },
        Command::Trim { prefix: prefix.clone() },
        Command::Clear { prefix: prefix.clone(), cursor: 0, nonce: Nonce::new(1) },
        Command::Inspect { key },
        Command::Inspect { key: several },
        listing(Part::Slice { cursor: 0, keys: 100 }),
        listing(Part::These(vec![lock("a")])),
    ]
}
