//! What the replies to our commands mean.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Answer, Command, Fault, Fence, Holding, NodeTime, QueueReport, Refusal, Reply, Ticket};

use super::resp::Value;
use super::script::Scripts;

impl Scripts {
    /// What the reply to several extensions means for each of them.
    pub(super) fn extended(value: Value, count: usize) -> impl Iterator<Item = Result<Reply, Fault>> {
        let told: Result<(Option<NodeTime>, Vec<Value>), Fault> = match value {
            Value::Number(micros) => Ok((time(micros), vec![])),
            Value::Error(message) => Err(Fault::Error(message.into())),
            Value::List(list) if list.len() == count + 1 => match list[0] {
                Value::Number(micros) => Ok((time(micros), list)),
                _ => Err(unexpected(&Value::List(list))),
            },
            other => Err(unexpected(&other)),
        };
        (1..=count).map(move |place| {
            let (time, list) = told.as_ref().map_err(Clone::clone)?;
            // All were executed at the same moment, which is told once.
            let time = time.filter(|_| place == 1);
            let answer = match list.get(place) {
                None | Some(Value::Number(-1)) => Answer::Granted,
                Some(Value::Number(-2)) => Answer::Refused(Refusal::NotHeld),
                Some(Value::Number(code @ ..=-4)) => {
                    let left = Duration::from_millis(code.unsigned_abs().saturating_sub(3));
                    Answer::PutBack { left }
                }
                Some(Value::Number(left)) => Answer::Refused(held(*left)),
                Some(Value::Text(message)) => return Err(Fault::Error(message.as_str().into())),
                Some(other) => return Err(unexpected(other)),
            };
            Ok(Reply::new(time, answer))
        })
    }

    /// What the reply to a script, or to the server's own release, means.
    pub(super) fn reply(command: &Command, value: Value) -> Result<Reply, Fault> {
        let answer = |answer| Ok(Reply::new(None, answer));
        match (command, value) {
            // The server's own release meets a key of another kind, which is not ours.
            (Command::Release { .. }, Value::Error(message)) if message.starts_with("WRONGTYPE") => {
                answer(Answer::Refused(Refusal::NotHeld))
            }
            (_, Value::Error(message)) => Err(Fault::Error(message.into())),
            (Command::Acquire { .. } | Command::Heal { .. }, Value::Number(micros)) => {
                Ok(Reply::new(time(micros), Answer::Granted))
            }
            (Command::Acquire { .. }, Value::List(list)) => acquired(&list),
            (Command::Heal { .. }, Value::List(list)) => not_had(&list, Refusal::Behind),
            (
                Command::Release { .. }
                | Command::PassOn { .. }
                | Command::Open { .. }
                | Command::Requeue { .. },
                Value::Number(0),
            ) => answer(Answer::Refused(Refusal::NotHeld)),
            (
                Command::Release { .. }
                | Command::PassOn { .. }
                | Command::Open { .. }
                | Command::Requeue { .. }
                | Command::Enqueue { .. }
                | Command::Leave { .. }
                | Command::Nudge { .. },
                Value::Number(1),
            ) => answer(Answer::Granted),
            (Command::Open { .. }, Value::Number(2)) => {
                let queue = QueueReport { ahead: Some(Ticket::SOMEBODY), ..QueueReport::default() };
                Ok(Reply { queue: Some(Box::new(queue)), ..Reply::new(None, Answer::Granted) })
            }
            (Command::PassOn { .. }, Value::Text(ticket)) => {
                let ahead = Some(Ticket::parse(&ticket).unwrap_or(Ticket::SOMEBODY));
                let queue = Some(Box::new(QueueReport { ahead, ..QueueReport::default() }));
                Ok(Reply { queue, ..Reply::new(None, Answer::Granted) })
            }
            (Command::Record { .. }, Value::List(list)) => recorded(&list),
            (Command::Trim { .. }, Value::List(list)) => trimmed(&list),
            (Command::Inspect { .. }, Value::List(list)) => inspected(&list),
            (Command::Clear { .. }, Value::List(list)) if matches!(list[..], [_, Value::Number(4)]) => {
                acquired(&list)
            }
            (Command::List { .. } | Command::Clear { .. }, Value::List(list)) => listed(&list),
            (_, other) => Err(unexpected(&other)),
        }
    }

    /// What the reply to the server's own `SET` means: granted, and whether it was set just now. `None` if another owner
    /// has the lock: how long it does must be asked for.
    pub(super) fn native_reply(command: &Command, value: Value) -> Option<Result<bool, Fault>> {
        match (command, value) {
            (_, Value::Error(message)) => Some(Err(Fault::Error(message.into()))),
            // `GET` makes it tell who had it before: nobody, so it is ours now; or ourselves, and the first answer was
            // lost: it is granted, and lives no longer for it.
            (_, Value::Null) => Some(Ok(true)),
            (Command::Acquire { token, .. }, Value::Text(owner)) => {
                (owner.as_bytes() == token.to_hex()).then_some(Ok(false))
            }
            (_, other) => Some(Err(unexpected(&other))),
        }
    }

    /// What the reply to the question how long a lock lives means. It comes a round trip after the question for its end, and
    /// both together do not tell the time: the lock may be another by then.
    pub(super) fn time_left(value: Value) -> Result<Reply, Fault> {
        match value {
            Value::Number(millis) => Ok(Reply::new(None, Answer::Refused(held(millis)))),
            Value::Error(message) => Err(Fault::Error(message.into())),
            other => Err(unexpected(&other)),
        }
    }

    /// When a lock ends, from the reply to that question: nothing, if it has no end or is gone.
    pub(super) fn ends_ms(value: &Value) -> Option<i64> {
        match value {
            Value::Number(ends_ms @ 0..) => Some(*ends_ms),
            _ => None,
        }
    }

    /// The time at which a lock was set that ends then: cheaper than asking for it.
    pub(super) fn set_at(command: &Command, ends_ms: Option<i64>) -> Option<NodeTime> {
        match command {
            Command::Acquire { node_ttl_ms, .. } => before(ends_ms?, i64::try_from(*node_ttl_ms).ok()?),
            _ => None,
        }
    }
}

fn inspected(list: &[Value]) -> Result<Reply, Fault> {
    let unexpected = || unexpected(&Value::List(list.to_vec()));
    let [Value::Number(micros), Value::Text(_), Value::Number(waiters), holding @ ..] = list else {
        return Err(unexpected());
    };
    let holdings = match holding {
        [] => vec![],
        [_, _, _, Value::Text(fence), Value::Text(label)] => {
            let fence = fence.parse().ok().map(Fence::new);
            let label = (!label.is_empty()).then(|| label.as_str().into());
            let holding = holding_of(&holding[..3]).ok_or_else(unexpected)?;
            vec![Holding { fence, label, ..holding }]
        }
        _ => return Err(unexpected()),
    };
    let waiters = u64::try_from(*waiters).ok();
    Ok(Reply::new(time(*micros), Answer::Told { holdings, waiters, next: 0 }))
}

fn listed(list: &[Value]) -> Result<Reply, Fault> {
    let unexpected = || unexpected(&Value::List(list.to_vec()));
    let [Value::Number(micros), Value::Text(next), holdings @ ..] = list else { return Err(unexpected()) };
    let holdings = holdings.chunks(3).map(holding_of).collect::<Option<_>>().ok_or_else(unexpected)?;
    let next = next.parse().map_err(|_| unexpected())?;
    Ok(Reply::new(time(*micros), Answer::Told { holdings, waiters: None, next }))
}

fn holding_of(parts: &[Value]) -> Option<Holding> {
    let [Value::Text(key), Value::Text(owner), Value::Number(left)] = parts else { return None };
    Some(Holding {
        key: key.as_str().into(),
        owner: owner.as_str().into(),
        left: u64::try_from(*left).ok().map(Duration::from_millis),
        fence: None,
        label: None,
    })
}

/// What the reply to an acquire means that is not simply granted.
fn acquired(list: &[Value]) -> Result<Reply, Fault> {
    let mut queue = None;
    let (micros, refusal, fence) = match list {
        [Value::Number(micros), Value::Number(0), Value::Text(first)] => {
            let ahead = Some(Ticket::parse(first).unwrap_or(Ticket::SOMEBODY));
            let queue = Some(Box::new(QueueReport { ahead, ..QueueReport::default() }));
            return Ok(Reply { queue, ..Reply::new(time(*micros), Answer::Granted) });
        }
        [
            Value::Number(micros),
            Value::Number(why @ (1 | 5)),
            Value::Number(millis),
            Value::Text(fence),
            rest @ ..,
        ] => {
            if let [Value::Number(ahead), Value::Number(waiters), Value::Text(label)] = rest {
                let count = |number: i64| u64::try_from(number).unwrap_or(0);
                let place = Some((count(*ahead), count(*waiters)));
                let holder = (!label.is_empty()).then(|| label.as_str().into());
                queue = Some(Box::new(QueueReport { ahead: None, place, holder }));
            }
            (micros, if *why == 1 { held(*millis) } else { reserved(*millis) }, Some(fence))
        }
        [Value::Number(micros), Value::Number(6), Value::Text(tail)] => {
            (micros, Refusal::Overtaken, Some(tail))
        }
        [Value::Number(micros), Value::Number(2), Value::Text(fence)] => {
            (micros, Refusal::Behind, Some(fence))
        }
        [Value::Number(micros), Value::Number(3)] => (micros, Refusal::Ahead, None),
        [Value::Number(micros), Value::Number(4)] => (micros, Refusal::Stranger, None),
        _ => return Err(unexpected(&Value::List(list.to_vec()))),
    };
    // Scores come in the server's own notation, which has an exponent when it is shorter.
    let number =
        fence.and_then(|fence| fence.parse::<f64>().ok()).filter(|number| (1.0..1e17).contains(number));
    let fence = number.and_then(|number| format!("{number:.0}").parse().ok()).map(Fence::new);
    Ok(Reply { time: time(*micros), fence, queue, answer: Answer::Refused(refusal) })
}

fn not_had(list: &[Value], refusal: Refusal) -> Result<Reply, Fault> {
    let (micros, refusal) = match *list {
        [Value::Number(micros)] => (micros, refusal),
        [Value::Number(micros), Value::Number(millis)] => (micros, held(millis)),
        _ => return Err(unexpected(&Value::List(list.to_vec()))),
    };
    Ok(Reply::new(time(micros), Answer::Refused(refusal)))
}

fn recorded(list: &[Value]) -> Result<Reply, Fault> {
    let [Value::Number(micros), Value::Text(record)] = list else {
        return Err(unexpected(&Value::List(list.to_vec())));
    };
    let record = (!record.is_empty()).then(|| Arc::from(record.as_str()));
    Ok(Reply::new(time(*micros), Answer::Record(record)))
}

fn trimmed(list: &[Value]) -> Result<Reply, Fault> {
    let [Value::Number(micros), Value::Number(seen), Value::Number(left), Value::Text(latest)] = list else {
        return Err(unexpected(&Value::List(list.to_vec())));
    };
    let count = |number: &i64| u64::try_from(*number).unwrap_or(0);
    let latest = latest.parse().ok().map(Fence::new);
    let answer = Answer::Trimmed { seen: count(seen), left: count(left), latest };
    Ok(Reply::new(time(*micros), answer))
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

/// Set aside for a waiter for so many milliseconds.
fn reserved(millis: i64) -> Refusal {
    Refusal::Reserved { left: u64::try_from(millis).map_or(Duration::ZERO, Duration::from_millis) }
}

fn before(ends_ms: i64, millis: i64) -> Option<NodeTime> {
    time(ends_ms.checked_sub(millis)?.checked_mul(1_000)?)
}

fn time(micros: i64) -> Option<NodeTime> {
    u64::try_from(micros).ok().map(NodeTime::from_micros)
}

fn unexpected(value: &Value) -> Fault {
    Fault::Error(format!("an unexpected reply: {value:?}").into())
}
