//! Every kind of node does with a command what `LockTable` says, with expiry in play.
//!
//! Random commands go to the node and to a table of our own, which executes them when the node says
//! it did. So the answers must agree, but for what two milliseconds can change.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::iter;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use tenure_core::{
    Answer, Beside, ClientId, Command, Fence, FenceBounds, HeldLock, HoldId, Holding, Kind, LineReport,
    Listing, LockKey, LockTable, Mode, Next, NodeTime, Nonce, Note, OwnerId, OwnerToken, Part, PlaceRequest,
    Prefix, ProposedFence, Refusal, Reply, Seeks, Sighting, Swap, Ticket, Time,
};
use tenure_testkit::RedisServer;

use super::*;

mod steps;
use steps::{
    AGAIN, AT_THE_END, BOTH, CLAIMED, How, NAMES, OPENED, OWNED_TICKETS, PASSED_ON_LATER, SELDOM,
    SHARED_TICKETS, STAYS, Step, TOGETHER, TURNS, Then, steps,
};

/// A server judges expiry by the moment its script began, and reads the clock a little later: the
/// two may lie on different sides of a millisecond, and so may the end that was computed from the
/// first.
const SLACK_MICROS: [i64; 7] = [0, -1_000, 1_000, -2_000, 2_000, -5_000, 5_000];

fn fence_at(begun: NodeTime, fence_ms: i64) -> Fence {
    Fence::new(begun.as_micros().saturating_add_signed(fence_ms * 1_000))
}

fn record(number: u8) -> Arc<str> {
    format!("{} a record ", Nonce::new(number.into())).into()
}

/// How many answers to each kind of command were compared, over all kinds of nodes.
static COMPARED: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];

/// The kinds of commands, each of which has to be compared.
const KINDS: usize = 28;

/// Writing down what was learned of a node.
const RECORD: usize = 9;

/// How many claims of what was set aside were compared that told how long ago that was: of one
/// lock, of one that an owner may hold again, and of several at once.
static PASSED_ON: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

fn note_passed_on(command: &Command, reply: &Reply) {
    let Some(_) = reply.line.as_ref().and_then(|line| line.passed_on) else { return };
    let place = match command {
        Command::Acquire { key, .. } if key.is_set() => 2,
        Command::Acquire { beside: Some(beside), .. } if !beside.mode.is_exclusive() => 1,
        _ => 0,
    };
    PASSED_ON[place].fetch_add(1, Ordering::Relaxed);
}

fn kind(command: &Command) -> usize {
    match command {
        Command::Acquire { key, .. } if key.is_set() => 20,
        Command::Extend { key, .. } if key.is_set() => 21,
        Command::Heal { key, .. } if key.is_set() => 22,
        Command::Undo { key, .. } if key.is_set() => 23,
        Command::Release { key, .. } if key.is_set() => 24,
        Command::Inspect { key } if key.is_set() => 25,
        Command::Release { next: Next::Nobody { .. }, .. } => 26,
        Command::Acquire { beside: Some(beside), .. } if beside.mode.is_shared() => 15,
        Command::Extend { mode: Mode::Shared, .. } => 16,
        Command::Acquire { beside: Some(beside), .. } if !beside.mode.is_exclusive() => 17,
        Command::Extend { mode: Mode::Owned(_), .. } => 18,
        Command::Heal { mode: Mode::Owned(_), .. } => 19,
        Command::Acquire { fence: None, .. } => 0,
        Command::Acquire { fence: Some(ProposedFence { span: 1.., .. }), .. } => 14,
        Command::Acquire { .. } => 1,
        Command::Heal { .. } => 2,
        Command::Extend { .. } => 3,
        Command::Undo { .. } => 4,
        Command::Release { .. } => 5,
        Command::Enqueue { .. } => 6,
        Command::Leave { .. } => 7,
        Command::Nudge { .. } => 8,
        Command::Record { .. } => RECORD,
        Command::Trim { .. } => 10,
        Command::Clear { .. } => 11,
        Command::Inspect { .. } => 12,
        Command::List(listing) if matches!(listing.part, Part::These(_)) => 27,
        Command::List(_) => 13,
    }
}

/// Sends one command and waits for its answer; of a list, for all of its parts.
async fn ask(connection: &mut dyn Connection, command: Command) -> Reply {
    let mut reply = ask_once(connection, command.clone()).await;
    loop {
        match (&mut reply.answer, &command) {
            (Answer::Holdings(told), Command::Clear { prefix, nonce, .. }) if told.next > 0 => {
                let page = Command::Clear { prefix: prefix.clone(), cursor: told.next, nonce: *nonce };
                let Answer::Holdings(more) = ask_once(connection, page).await.answer else { return reply };
                told.found.extend(more.found);
                told.next = more.next;
            }
            (Answer::Listed(listed), Command::List(listing)) if listed.next > 0 => {
                let part = Part::Slice { cursor: listed.next, keys: 100 };
                let slice = Command::List(Listing { part, ..(**listing).clone() }.into());
                let Answer::Listed(more) = ask_once(connection, slice).await.answer else { return reply };
                listed.seen.extend(more.seen);
                listed.next = more.next;
            }
            _ => return reply,
        }
    }
}

async fn ask_once(connection: &mut dyn Connection, command: Command) -> Reply {
    ask_together(connection, &[command]).await.remove(0)
}

/// Sends commands without waiting in between, and waits for all answers, in the order of the
/// commands.
async fn ask_together(connection: &mut dyn Connection, commands: &[Command]) -> Vec<Reply> {
    let tag = |place: u64| Tag { to: Addressee::Nobody, sent: Time::from_nanos(place) };
    for (command, place) in commands.iter().zip(0..) {
        connection.send(tag(place), command.clone());
    }
    let mut replies = BTreeMap::new();
    while replies.len() < commands.len() {
        if let NodeEvent::Answer(tag, answer) = poll_fn(|cx| connection.poll_event(cx)).await {
            let before = replies.insert(tag.sent, answer.expect("the node answers"));
            assert_eq!(before, None, "answered twice");
        }
    }
    replies.into_values().collect()
}

/// Executes a command on a copy of the table, a little before or after `time`.
fn execute(table: &LockTable, time: NodeTime, slack_micros: i64, command: &Command) -> (Reply, LockTable) {
    let mut table = table.clone();
    let time = NodeTime::from_micros(time.as_micros().saturating_add_signed(slack_micros));
    (table.execute(time, command), table)
}

/// No command of `probes` tells the two apart at this moment.
fn alike(one: &LockTable, other: &LockTable, time: NodeTime, probes: &[Command]) -> bool {
    probes.iter().all(|probe| {
        let [one, other] = [one, other].map(|table| execute(table, time, 0, probe).0);
        agree(&one, &other, Duration::ZERO)
    })
}

/// Equal, but for the slack of two moments.
fn agree(node: &Reply, table: &Reply, took: Duration) -> bool {
    let same_fence = match (node.fence, table.fence) {
        (Some(a), Some(b)) => a.get().abs_diff(b.get()) <= 2_000,
        (a, b) => a == b,
    };
    lines_agree(node, table, took) && same_fence && answers_agree(&node.answer, &table.answer, took)
}

fn lines_agree(node: &Reply, table: &Reply, took: Duration) -> bool {
    let passed_on = |reply: &Reply| reply.line.as_ref().and_then(|line| line.passed_on);
    let line = |reply: &Reply| {
        reply.line.as_ref().map(|line| LineReport { passed_on: None, ..LineReport::clone(line) })
    };
    let close = match (passed_on(node), passed_on(table)) {
        (Some(a), Some(b)) => a.abs_diff(b) <= Duration::from_millis(2) + took,
        (a, b) => a == b,
    };
    close && line(node) == line(table)
}

/// This machine's clock, which is also that of a server on it.
fn wall_clock() -> NodeTime {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    NodeTime::from_micros(u64::try_from(now.as_micros()).unwrap_or(u64::MAX))
}

fn answers_agree(node: &Answer, table: &Answer, took: Duration) -> bool {
    let close = |a: Duration, b: Duration| a.abs_diff(b) <= Duration::from_millis(2) + took;
    match (node, table) {
        (Answer::Refused(Refusal::Held { left: a }), Answer::Refused(Refusal::Held { left: b })) => {
            close(*a, *b)
        }
        // The server's own `SET` does not tell whether it is only set aside.
        (
            Answer::Refused(Refusal::Reserved { left: a } | Refusal::Held { left: a }),
            Answer::Refused(Refusal::Reserved { left: b }),
        ) => close(*a, *b),
        (Answer::Holdings(told_a), Answer::Holdings(told_b)) => {
            let (a, b) = (&told_a.found, &told_b.found);
            // The pages of a list come one after the other: what ends meanwhile may be missing.
            let has_ended = |held: &&Holding| {
                !a.iter().any(|one| one.key == held.key)
                    && held.left.is_some_and(|left| close(left, Duration::ZERO))
            };
            let b: BTreeSet<_> = b.iter().filter(|held| !has_ended(held)).collect();
            let a: BTreeSet<_> = a.iter().collect();
            let same = |(a, b): (&&Holding, &&Holding)| {
                (&a.key, &a.owner, a.fence, &a.label, &a.sharers, a.kind, a.count)
                    == (&b.key, &b.owner, b.fence, &b.label, &b.sharers, b.kind, b.count)
                    && a.left.zip(b.left).is_some_and(|(a, b)| close(a, b))
            };
            (told_a.waiters, &told_a.line) == (told_b.waiters, &told_b.line)
                && a.len() == b.len()
                && a.iter().zip(&b).all(same)
        }
        (Answer::Listed(a), Answer::Listed(b)) => {
            let has_ended = |seen: &&Sighting| {
                !a.seen.iter().any(|one| one.holding.key == seen.holding.key)
                    && seen.holding.left.is_some_and(|left| close(left, Duration::ZERO))
            };
            let b: BTreeSet<_> = b.seen.iter().filter(|seen| !has_ended(seen)).collect();
            let a: BTreeSet<_> = a.seen.iter().collect();
            let same = |(a, b): (&&Sighting, &&Sighting)| {
                let held = |holding: &Holding| Holding { left: None, ..holding.clone() };
                held(&a.holding) == held(&b.holding)
                    && a.waiters == b.waiters
                    && a.holding.left.zip(b.holding.left).is_some_and(|(a, b)| close(a, b))
            };
            a.len() == b.len() && a.iter().zip(&b).all(same)
        }
        // Nor does it tell what is there that is no string.
        (
            Answer::Refused(Refusal::OtherKind { found: Kind::Foreign }),
            Answer::Refused(Refusal::OtherKind { found: Kind::Reentrant }),
        ) => true,
        (Answer::PutBack { left: a }, Answer::PutBack { left: b }) => close(*a, *b),
        (Answer::Trimmed { .. }, Answer::Trimmed { .. }) => true,
        _ => node == table,
    }
}

fn mode(how: How) -> Mode {
    match how {
        How::Alone => Mode::Exclusive,
        How::Shared => Mode::Shared,
        How::Owned(id) => Mode::Owned(OwnerId::new(&format!("id/{id}")).unwrap()),
    }
}

async fn compare(node: Node, steps: &[Step]) -> Result<(), TestCaseError> {
    // Names of this case alone: what earlier ones left behind does not matter.
    static CASES: AtomicU64 = AtomicU64::new(0);
    let case = CASES.fetch_add(1, Ordering::Relaxed);
    let prefix = Prefix::new(&format!("case*{case}:")).unwrap();
    let one = |name: u8| LockKey::new(&prefix, &name.to_string()).unwrap();
    let key = |name: u8| if name == BOTH { LockKey::all_of([one(1), one(0)]).unwrap() } else { one(name) };
    let token = |owner: u8| OwnerToken::from_bytes([owner; 20]);
    let listening = ClientId::new(case);
    let ticket = |ticket: u8| {
        let client = if ticket.is_multiple_of(2) { listening } else { ClientId::new(u64::MAX) };
        let seeks = match ticket {
            ticket if SHARED_TICKETS.contains(&ticket) => Seeks::Shared,
            ticket if OWNED_TICKETS.contains(&ticket) => Seeks::Owned,
            _ => Seeks::Alone,
        };
        Ticket { number: 1_000 + u64::from(ticket), client, seeks }
    };
    let mut table = LockTable::default();
    table.listen(listening);

    // So short that fences are forgotten while the case lasts.
    let bounds = FenceBounds::new(Duration::from_secs(10), Duration::from_millis(400));
    let connection = &mut *node.connect(&prefix, bounds, listening);
    // The first command waits for the connection; nothing is at stake with this one.
    let begun = ask(connection, Command::Inspect { key: key(0) }).await.time.unwrap();
    let begin = Swap { expected: None, text: record(0), stamp: false };
    let begin = Command::Record { prefix: prefix.clone(), swap: Some(begin) };
    ask(connection, begin.clone()).await;
    table.execute(begun, &begin);
    // An answer does not always tell what the node has done: a lock that ends in the very
    // millisecond in which it is put back was there still, or was set anew. So all that fit the
    // answers are followed.
    let mut tables = vec![table];
    let extend = |name, owner| Command::Extend {
        key: key(name),
        token: token(owner),
        node_ttl_ms: 1,
        mode: Mode::Exclusive,
    };
    let share = |name, owner| Command::Extend {
        key: key(name),
        token: token(owner),
        node_ttl_ms: 1,
        mode: Mode::Shared,
    };
    let own = |name, owner| Command::Extend {
        key: key(name),
        token: token(owner),
        node_ttl_ms: 1,
        mode: mode(How::Owned(0)),
    };
    let mut probes: Vec<Command> = (0..NAMES).map(|name| Command::Inspect { key: key(name) }).collect();
    probes.extend((0..3 * NAMES).map(|number| extend(number / 3, number % 3)));
    probes.extend((0..3 * NAMES).map(|number| share(number / 3, number % 3)));
    probes.extend((0..3 * NAMES).map(|number| own(number / 3, number % 3)));
    // What is remembered of fences shows to whoever asks with one that is too small, and to those
    // who share.
    probes.extend((0..NAMES).map(|name| {
        let (key, token, fence) = (key(name), token(9), Some(ProposedFence::new(Fence::NONE, bounds)));
        Command::Acquire { key, token, node_ttl_ms: 1, nonce: None, fence, beside: None }
    }));
    probes.extend((0..NAMES).flat_map(|name| (0..30).step_by(6).map(move |fence_ms| (name, fence_ms))).map(
        |(name, fence_ms)| {
            let (key, token, fence) = (key(name), token(9), Some(fence_at(begun, fence_ms)));
            Command::Heal { key, token, node_ttl_ms: 1, fence, quarantine_ms: 1, mode: Mode::Shared }
        },
    ));
    probes.extend(
        (0..2 * NAMES).flat_map(|number| (0..30).step_by(6).map(move |fence_ms| (number, fence_ms))).map(
            |(number, fence_ms)| {
                let (key, token, fence) = (key(number / 2), token(9), Some(fence_at(begun, fence_ms)));
                let mode = mode(How::Owned(number % 2));
                Command::Heal { key, token, node_ttl_ms: 1, fence, quarantine_ms: 1, mode }
            },
        ),
    );
    // A waiter says the same about itself whenever it asks.
    let said = |number: Option<u8>, label: Option<Arc<str>>| -> (Option<Arc<str>>, Option<Arc<str>>) {
        let Some(number) = number else { return (label, None) };
        let held = HeldLock { name: format!("{number} é:").into(), hold: HoldId::of(&token(number)) };
        let label = (number % 3 > 0).then(|| format!("waiter {number}").into());
        (label, (number % 4 > 1).then(|| Note::text_of_holds(&[held]).into()))
    };
    let command = |step: &Step| match *step {
        Step::Acquire { name, owner, ttl_ms } => Command::plain_acquire(key(name), token(owner), ttl_ms),
        Step::Fenced { name, owner, ttl_ms, fence_ms, record } => {
            let fence = Some(ProposedFence::new(fence_at(begun, fence_ms), bounds));
            let nonce = Some(Nonce::new(record.into()));
            let (key, token, beside) = (key(name), token(owner), None);
            Command::Acquire { key, token, node_ttl_ms: ttl_ms, nonce, fence, beside }
        }
        Step::Range { name, owner, ttl_ms, fence_ms, span, ticket: number } => {
            let fence = Some(ProposedFence::range(fence_at(begun, fence_ms), span, bounds));
            let place = number.map(|number| PlaceRequest { ticket: ticket(number), fresh: false });
            let beside = place.map(|place| Arc::new(Beside { place: Some(place), ..Beside::default() }));
            let (key, token, nonce) = (key(name), token(owner), Some(Nonce::new(0)));
            Command::Acquire { key, token, node_ttl_ms: ttl_ms, nonce, fence, beside }
        }
        Step::Heal { name, owner, ttl_ms, fence_ms, quarantine_ms, how } => {
            let (key, token, mode) = (key(name), token(owner), mode(how));
            let fence = fence_ms.map(|fence_ms| fence_at(begun, fence_ms));
            Command::Heal { key, token, node_ttl_ms: ttl_ms, fence, quarantine_ms, mode }
        }
        Step::Record { from, to, stamp } => {
            let text = to.map_or_else(|| "".into(), record);
            let swap = Swap { expected: from.map(record), text, stamp };
            Command::Record { prefix: prefix.clone(), swap: Some(swap) }
        }
        Step::Trim => Command::Trim { prefix: prefix.clone() },
        Step::Extend { name, owner, ttl_ms, how } => {
            let (key, token, mode) = (key(name), token(owner), mode(how));
            Command::Extend { key, token, node_ttl_ms: ttl_ms, mode }
        }
        Step::Undo { name, owner, requeue } => {
            Command::Undo { key: key(name), token: token(owner), requeue: requeue.map(ticket) }
        }
        Step::Release { name, owner, labelled, next } => {
            let next = match next {
                Then::InLine => Next::InLine,
                Then::InLineWith(number) => Next::InLineWith(ticket(number)),
                Then::OutsideLine => Next::OutsideLine,
                Then::Nobody(for_ms) => Next::Nobody { for_ms },
            };
            Command::Release { key: key(name), token: token(owner), labelled, next }
        }
        Step::Wait { name, owner, ttl_ms, fence_ms, ticket: number, fresh, label } => {
            let fence = fence_ms.map(|fence_ms| ProposedFence::new(fence_at(begun, fence_ms), bounds));
            let place = number.map(|number| PlaceRequest { ticket: ticket(number), fresh });
            let label = label.then(|| Arc::from(format!("owner {owner}")));
            let (key, token, nonce) = (key(name), token(owner), Some(Nonce::new(0)));
            let (label, holding) = said(number, label);
            let beside = Some(Arc::new(Beside { place, label, holding, ..Beside::default() }));
            Command::Acquire { key, token, node_ttl_ms: ttl_ms, nonce, fence, beside }
        }
        Step::Share { name, owner, ttl_ms, fence_ms, ticket: number, fresh, label, gives_way } => {
            let fence = fence_ms.map(|fence_ms| ProposedFence::new(fence_at(begun, fence_ms), bounds));
            let place = number.map(|number| PlaceRequest { ticket: ticket(number), fresh });
            let label = label.then(|| Arc::from(format!("owner {owner}")));
            let (key, token, nonce) = (key(name), token(owner), Some(Nonce::new(0)));
            let (mode, joins) = (Mode::Shared, false);
            let (label, holding) = said(number, label);
            let beside = Some(Arc::new(Beside { place, label, mode, gives_way, joins, holding }));
            Command::Acquire { key, token, node_ttl_ms: ttl_ms, nonce, fence, beside }
        }
        Step::Own { name, owner, ttl_ms, fence_ms, ticket: number, fresh, label, id, joins } => {
            let fence = fence_ms.map(|fence_ms| ProposedFence::new(fence_at(begun, fence_ms), bounds));
            let place = number.map(|number| PlaceRequest { ticket: ticket(number), fresh });
            let label = label.then(|| Arc::from(format!("owner {owner}")));
            let (key, token, nonce) = (key(name), token(owner), Some(Nonce::new(0)));
            let (mode, gives_way) = (mode(How::Owned(id)), false);
            let (label, holding) = said(number, label);
            let beside = Some(Arc::new(Beside { place, label, mode, gives_way, joins, holding }));
            Command::Acquire { key, token, node_ttl_ms: ttl_ms, nonce, fence, beside }
        }
        Step::Enqueue { name, ticket: number } => Command::Enqueue { key: key(name), ticket: ticket(number) },
        Step::Leave { name, ticket: number } => Command::Leave { key: key(name), ticket: ticket(number) },
        Step::Nudge { name } => Command::Nudge { key: key(name) },
        Step::Inspect { name } => Command::Inspect { key: key(name) },
        Step::List { detailed } => {
            let part = Part::Slice { cursor: 0, keys: 100 };
            Command::List(Listing { prefix: prefix.clone(), begins: "".into(), part, detailed }.into())
        }
        Step::ListThese => {
            let part = Part::These((0..NAMES).map(key).collect());
            Command::List(Listing { prefix: prefix.clone(), begins: "".into(), part, detailed: true }.into())
        }
        Step::Clear { record } => {
            Command::Clear { prefix: prefix.clone(), cursor: 0, nonce: Nonce::new(record.into()) }
        }
        Step::Sleep { .. } | Step::Together(_) => unreachable!("no command"),
    };
    for step in steps {
        let commands: Vec<Command> = match step {
            Step::Sleep { millis } => {
                tokio::time::sleep(Duration::from_millis(*millis)).await;
                continue;
            }
            Step::Together(steps) => steps.iter().map(command).collect(),
            step => vec![command(step)],
        };
        let before = wall_clock();
        let replies = match &commands[..] {
            [one] => vec![ask(connection, one.clone()).await],
            several => ask_together(connection, several).await,
        };
        let after = wall_clock();
        // When were they executed? If nobody can say to the millisecond, the rest of the case
        // proves nothing; nor if a server that was busy may have read its clock later than allowed.
        let took = Duration::from_micros(after.as_micros().saturating_sub(before.as_micros()));
        let timed = replies.iter().all(|reply| reply.time.is_some());
        let most = if timed { SLACK_MICROS.into_iter().max().unwrap() } else { 1_000 };
        if took.as_micros() > most.unsigned_abs().into() {
            return Ok(());
        }
        for (command, reply) in commands.iter().zip(replies) {
            // The server's own `SET` is asked about the holder's time a round trip later.
            let is_native = matches!(command, Command::Acquire { fence: None, beside: None, .. });
            let took = if is_native && commands.len() > 1 { Duration::MAX / 2 } else { took };
            COMPARED[kind(command)].fetch_add(1, Ordering::Relaxed);
            note_passed_on(command, &reply);
            let times = reply.time.map_or([before, after], |time| [time, time]);
            let mut agreed: Vec<LockTable> = Vec::new();
            for (table, time) in tables.iter().flat_map(|table| times.map(|time| (table, time))) {
                for slack in SLACK_MICROS {
                    let (expected, after) = execute(table, time, slack, command);
                    let fits = agree(&reply, &expected, took);
                    if fits && !agreed.iter().any(|one| alike(one, &after, time, &probes)) {
                        agreed.push(after);
                    }
                }
            }
            if agreed.is_empty() {
                let expected = execute(&tables[0], times[0], 0, command).0;
                let story = format!("{command:?} of {step:?}: {reply:?}, not {expected:?}");
                return Err(TestCaseError::fail(story));
            }
            tables = agreed;
        }
    }
    Ok(())
}

/// Where a server tells by itself that the record has changed, acquires do not look at it: then it
/// must stay as it is.
fn conforms(node: impl Fn() -> Node, looks_at_record: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() };
    let compared = || COMPARED.each_ref().map(|count| count.load(Ordering::Relaxed));
    let passed_on = || PASSED_ON.each_ref().map(|count| count.load(Ordering::Relaxed));
    let (before, passed_on_before) = (compared(), passed_on());
    proptest!(config, |(steps in steps())| {
        let steps: Vec<Step> = steps.into_iter().filter(|step| looks_at_record || !step.is_about_records()).collect();
        runtime.block_on(compare(node(), &steps))?;
    });
    let often = iter::repeat_n(TOGETHER, 10).chain(iter::repeat_n(AT_THE_END, 200));
    for steps in [CLAIMED, OPENED, TURNS, AGAIN, STAYS].into_iter().chain(SELDOM).chain(often) {
        runtime.block_on(compare(node(), steps)).unwrap();
    }
    // On a busy machine nobody can say when a release was executed, and the case ends there.
    let is_compared = |kind: usize| passed_on()[kind] > passed_on_before[kind];
    for (kind, steps) in PASSED_ON_LATER.into_iter().enumerate() {
        let tries = (0..200).take_while(|_| !is_compared(kind));
        tries.for_each(|_| runtime.block_on(compare(node(), steps)).unwrap());
        assert!(is_compared(kind), "kind {kind} was never passed on");
    }
    // Records may have to stay as they are. A busy machine ends long cases early.
    let too_few = || (0..KINDS).find(|&kind| kind != RECORD && compared()[kind] - before[kind] <= 2);
    let tries = SELDOM.into_iter().cycle().take(400).take_while(|_| too_few().is_some());
    tries.for_each(|steps| runtime.block_on(compare(node(), steps)).unwrap());
    if let Some(kind) = too_few() {
        panic!("kind {kind} was compared {} times", compared()[kind] - before[kind]);
    }
}

fn server_conforms(program: &Path) {
    let server = RedisServer::start_program(program, &[]);
    conforms(|| RedisNode::parse(&server.url()).unwrap().into(), false);
    server.execute(&[
        "ACL",
        "SETUSER",
        "untold",
        "on",
        ">pw",
        "allkeys",
        "allchannels",
        "+@all",
        "-client|tracking",
    ]);
    let untold = server.url().replace("//", "//untold:pw@");
    conforms(|| RedisNode::parse(&untold).unwrap().into(), true);
}

#[test]
fn the_memory_node_does_what_the_lock_table_says() {
    let node = MemoryNode::new("0");
    conforms(|| Node::from(&node), true);
}

#[test]
fn redis_does_what_the_lock_table_says() {
    server_conforms(Path::new("redis-server"));
}

#[test]
fn the_embedded_store_does_what_the_lock_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let node = SqliteNode::new(folder.path().join("locks.db"));
    conforms(|| Node::from(&node), true);
}

/// Where Valkey is present.
#[test]
fn valkey_does_what_the_lock_table_says() {
    match RedisServer::valkey() {
        Some(program) => server_conforms(&program),
        None => println!("no Valkey on this machine"),
    }
}
