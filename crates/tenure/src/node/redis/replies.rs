//! What the replies to our commands mean.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    Answer, Batch, Command, Fault, Fence, Holding, Holdings, Kind, LineReport, NodeTime, Note, OwnerToken,
    RESERVATION, RESERVED_LEAD, Refusal, Reply, SHARED, Sighting, Ticket, Waiter,
};

use super::resp::Value;
use super::script::Scripts;
use super::script::answers::{
    self, Acquired, InLine, Inspected, Listed, NotHealed, Outcome, PlaceInLine, Recorded, Sliced, Trimmed,
};

/// No fence, and no number of a ticket, is as large.
const FENCES_END: u64 = 10_u64.pow(17);

impl Scripts {
    /// What the reply to several extensions means for each of them.
    pub(super) fn extended(value: Value, count: usize) -> impl Iterator<Item = Result<Reply, Fault>> {
        let values: Result<(Option<NodeTime>, Vec<Value>), Fault> = match value {
            Value::Number(micros) => Ok((time(micros), vec![])),
            Value::Error(message) => Err(Fault::Error(message.into())),
            Value::List(list) if list.len() == count + 1 => match list[0] {
                Value::Number(micros) => Ok((time(micros), list)),
                _ => Err(unexpected(&Value::List(list))),
            },
            other => Err(unexpected(&other)),
        };
        (1..=count).map(move |place| {
            let (time, list) = values.as_ref().map_err(Clone::clone)?;
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

    /// What the reply to several commands of one kind means for each of them.
    pub(super) fn batch_replies<'a>(
        batch: Batch,
        commands: impl ExactSizeIterator<Item = &'a Command>,
        value: Value,
    ) -> Vec<Result<Reply, Fault>> {
        let count = commands.len();
        if batch == Batch::Extends {
            return Self::extended(value, count).collect();
        }
        let values = match value {
            Value::List(list) if list.len() == count => list,
            Value::List(list) => return vec![Err(unexpected(&Value::List(list))); count],
            all => vec![all; count],
        };
        commands.zip(values).map(|(command, value)| Self::reply(command, &value)).collect()
    }

    /// What the reply to a script means.
    pub(super) fn reply(command: &Command, value: &Value) -> Result<Reply, Fault> {
        let values = match value {
            Value::Error(message) => return Err(Fault::Error(message.as_str().into())),
            Value::List(list) => &list[..],
            scalar => std::slice::from_ref(scalar),
        };
        if let Command::Extend { .. } = command {
            // Of several locks at once: told as for one.
            return Self::extended(value.clone(), 1).next().unwrap_or_else(|| Err(unexpected(value)));
        }
        let reply = match (command, value) {
            (Command::Acquire { .. } | Command::Heal { .. }, Value::Number(now)) => Some(granted(*now)),
            (Command::Acquire { .. }, _) => answers::read(values).and_then(acquired),
            (Command::Heal { .. }, _) => answers::read(values).map(not_healed),
            (Command::Release { .. }, Value::Text(ticket)) => Some(queued(None, ticket)),
            (Command::Record { .. }, _) => answers::read(values).map(recorded),
            (Command::Trim { .. }, _) => answers::read(values).map(trimmed),
            (Command::Inspect { key }, _) if key.is_set() => answers::read(values).and_then(listed),
            (Command::Inspect { .. }, _) => answers::read(values).map(inspected),
            (Command::Clear { .. }, _) if values.len() == 2 && matches!(values[1], Value::Number(_)) => {
                answers::read(values).and_then(acquired)
            }
            (Command::Clear { .. }, _) => answers::read(values).and_then(listed),
            (Command::List(_), _) => answers::read(values).and_then(sliced),
            (
                Command::Extend { .. }
                | Command::Undo { .. }
                | Command::Release { .. }
                | Command::Enqueue { .. }
                | Command::Leave { .. }
                | Command::Nudge { .. },
                _,
            ) => answers::read(values).as_ref().and_then(done),
        };
        reply.ok_or_else(|| unexpected(value))
    }

    /// What the reply to the server's own `SET` means. `None` if another owner has the lock: how
    /// long it does must be asked for.
    pub(super) fn native_reply(token: &OwnerToken, value: Value) -> Option<Result<Answer, Fault>> {
        match value {
            // What is there is no string, and what it is costs another question.
            Value::Error(message) if message.starts_with("WRONGTYPE") => {
                Some(Ok(Answer::Refused(Refusal::OtherKind { found: Kind::Foreign })))
            }
            Value::Error(message) => Some(Err(Fault::Error(message.into()))),
            // `GET` makes it tell who had it before: nobody, so it is ours now; or ourselves, and
            // the first answer was lost: it is granted, and lives no longer for it.
            Value::Null => Some(Ok(Answer::Granted)),
            Value::Text(owner) => (owner.as_bytes() == token.to_hex()).then_some(Ok(Answer::Granted)),
            other => Some(Err(unexpected(&other))),
        }
    }

    /// What the reply to the question how long a lock lives means. It comes a round trip after the
    /// acquire: the lock may be another by then.
    pub(super) fn time_left(value: Value) -> Result<Reply, Fault> {
        match value {
            Value::Number(millis) => Ok(Reply::new(None, Answer::Refused(held(millis)))),
            Value::Error(message) => Err(Fault::Error(message.into())),
            other => Err(unexpected(&other)),
        }
    }

    /// The server's time: seconds, and microseconds.
    pub(super) fn time(value: &Value) -> Option<NodeTime> {
        let Value::List(parts) = value else { return None };
        let [Value::Text(seconds), Value::Text(micros)] = &parts[..] else { return None };
        let seconds: u64 = seconds.parse().ok()?;
        Some(NodeTime::from_micros(seconds.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)?))
    }
}

fn acquired(Acquired { now, outcome }: Acquired<'_>) -> Option<Reply> {
    let (refusal, fence, place) = match outcome {
        Outcome::Granted { next_ticket } => return Some(queued(time(now), next_ticket)),
        Outcome::Claimed { passed_on } => return Some(claimed(time(now), passed_on)),
        Outcome::Held { left, lowest, place } => (held(left), lowest, place),
        Outcome::Reserved { left, lowest, place } => (reserved(left), lowest, place),
        Outcome::Overtaken { last_number } => (Refusal::Overtaken, last_number, None),
        Outcome::Behind { lowest } => (Refusal::Behind, lowest, None),
        Outcome::Ahead {} => (Refusal::Ahead, "", None),
        Outcome::Stranger {} => (Refusal::Stranger, "", None),
        Outcome::OtherKind { kind } => (Refusal::OtherKind { found: kind_of(kind) }, "", None),
        Outcome::Rejoin { fence } => (Refusal::Rejoin { fence: Fence::new(fence.parse().ok()?) }, "", None),
        Outcome::NotHeld {} | Outcome::Done {} | Outcome::Opened {} => return None,
    };
    let line = place.map(|PlaceInLine { ahead, waiters, label, foreign }| {
        let place = Some((count(ahead), count(waiters)));
        Box::new(LineReport { place, holder: text(label), foreign: foreign > 0, ..LineReport::default() })
    });
    let fence = fence.parse().ok().filter(|number| (1..FENCES_END).contains(number)).map(Fence::new);
    Some(Reply { time: time(now), fence, line, answer: Answer::Refused(refusal) })
}

/// What comes of an undo, a release, and a change of the line.
fn done(outcome: &Outcome<'_>) -> Option<Reply> {
    match outcome {
        Outcome::NotHeld {} => Some(Reply::new(None, Answer::Refused(Refusal::NotHeld))),
        Outcome::Done {} => Some(Reply::new(None, Answer::Granted)),
        Outcome::Opened {} => Some(queued(None, "")),
        _ => None,
    }
}

fn not_healed(NotHealed { now, left }: NotHealed) -> Reply {
    Reply::new(time(now), Answer::Refused(left.map_or(Refusal::Behind, held)))
}

fn recorded(Recorded { now, record }: Recorded<'_>) -> Reply {
    Reply::new(time(now), Answer::Record(text(record)))
}

fn trimmed(Trimmed { now, seen, left, latest }: Trimmed<'_>) -> Reply {
    let latest = latest.parse().ok().map(Fence::new);
    Reply::new(time(now), Answer::Trimmed { seen: count(seen), left: count(left), latest })
}

fn inspected(Inspected { now, waiters, line, holder }: Inspected<'_>) -> Reply {
    let sharers = |owner: &str, count: i64, sharers: Vec<&str>| {
        let mut sharers: Vec<Arc<str>> = sharers.into_iter().map(Into::into).collect();
        sharers.sort_unstable();
        let is_group = if count < 0 { owner == SHARED } else { !sharers.is_empty() };
        is_group.then_some(sharers)
    };
    let holding = |answers::Holder { held, fence, label, sharers: owners }| Holding {
        sharers: sharers(held.owner, held.count, owners),
        count: u64::try_from(held.count).ok().filter(|_| !held.owner.starts_with(RESERVED_LEAD)),
        fence: fence.parse().ok().map(Fence::new),
        label: text(label),
        ..holding_of(held)
    };
    let found = holder.into_iter().map(holding).collect();
    let waiters = u64::try_from(waiters).ok();
    let line = line.0.into_iter().filter_map(|InLine { ticket, note }| {
        Some(Waiter { ticket: Ticket::parse(ticket)?, note: Note::parse(note) })
    });
    Reply::new(time(now), Holdings { found, waiters, line: line.collect(), next: 0 }.into())
}

fn listed(Listed { now, next, locks }: Listed<'_>) -> Option<Reply> {
    let found = locks.into_iter().map(holding_of).collect();
    let told = Holdings { found, next: next.parse().ok()?, ..Holdings::default() };
    Some(Reply::new(time(now), told.into()))
}

fn sliced(Sliced { now, next, took, keys, locks }: Sliced<'_>) -> Option<Reply> {
    let sighting = |answers::Sighted { held, fence, label, waiters, holds }| {
        let holding = Holding {
            fence: fence.parse().ok().map(Fence::new),
            label: text(label),
            count: u64::try_from(holds).ok(),
            ..holding_of(held)
        };
        Sighting { holding, waiters: u64::try_from(waiters).ok() }
    };
    let next = next.parse().ok()?;
    let listed = tenure_core::Listed {
        seen: locks.into_iter().map(sighting).collect(),
        next,
        walked_ppm: walked(next),
        keys: u64::try_from(keys).ok(),
        took: u64::try_from(took).ok().map(Duration::from_micros),
    };
    Some(Reply::new(time(now), Answer::Listed(Box::new(listed))))
}

/// How far a walk is that goes on at this cursor, in millionths. Servers count the highest bit of
/// the cursor first, so that a table can grow and shrink meanwhile; read backwards, it is the part
/// of the table that is done, whatever its size.
fn walked(cursor: u64) -> u32 {
    let done = if cursor == 0 { u64::MAX } else { cursor.reverse_bits() };
    u32::try_from((u128::from(done) * 1_000_000) >> 64).unwrap_or(0) + u32::from(cursor == 0)
}

fn holding_of(answers::Held { key, owner, left, count }: answers::Held<'_>) -> Holding {
    let left = u64::try_from(left).ok().map(Duration::from_millis);
    let kind = match count {
        ..-1 => Kind::Foreign,
        -1 => Kind::Plain,
        _ => Kind::Reentrant,
    };
    let (fence, label, sharers, count) = (None, None, None, None);
    Holding { key: key.into(), owner: owner.into(), left, fence, label, sharers, kind, count }
}

fn granted(now: i64) -> Reply {
    Reply::new(time(now), Answer::Granted)
}

/// Done, and this one is first in line: somebody, if the script did not look who.
fn queued(time: Option<NodeTime>, ticket: &str) -> Reply {
    let ahead = Some(Ticket::parse(ticket).unwrap_or(Ticket::SOMEBODY));
    let line = Some(Box::new(LineReport { ahead, ..LineReport::default() }));
    Reply { line, ..Reply::new(time, Answer::Granted) }
}

/// Granted what was set aside for this waiter, so many milliseconds ago. A reservation whose end
/// somebody has changed tells nothing.
fn claimed(time: Option<NodeTime>, passed_on: i64) -> Reply {
    let passed_on = u64::try_from(passed_on).ok().map(Duration::from_millis);
    let passed_on = passed_on.filter(|passed_on| *passed_on <= RESERVATION);
    let line = passed_on.map(|_| Box::new(LineReport { passed_on, ..LineReport::default() }));
    Reply { line, ..Reply::new(time, Answer::Granted) }
}

/// What a key is that the server calls so.
fn kind_of(name: &str) -> Kind {
    match name {
        "string" => Kind::Plain,
        "hash" => Kind::Reentrant,
        _ => Kind::Foreign,
    }
}

fn text(text: &str) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Held by another for so many milliseconds. A key without an end (-1) was not set by a lock client
/// and is held all the same; one that has gone meanwhile (-2) is held no longer.
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

fn time(micros: i64) -> Option<NodeTime> {
    u64::try_from(micros).ok().map(NodeTime::from_micros)
}

fn unexpected(value: &Value) -> Fault {
    Fault::Error(format!("an unexpected reply: {value:?}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cursors of a server with a table of eight buckets, in the order in which it walks.
    #[test]
    fn a_cursor_tells_how_far_a_walk_is() {
        let walk = [4_u64, 2, 6, 1, 5, 3, 7].map(walked);
        assert_eq!(walk, [125_000, 250_000, 375_000, 500_000, 625_000, 750_000, 875_000]);
        assert_eq!(walked(0), 1_000_000);
    }
}
