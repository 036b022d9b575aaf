//! What is told of locks. Owner tokens are not: whoever knows one can release the lock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde::Serialize;
use tenure::{Circle, Fence, Kind, LockList, LockState, NodeAnswer, WaiterReport};
use utoipa::ToSchema;

use crate::form::{InCircle, deadlock, kind_word, milliseconds};
use crate::lease_key::LeaseKeys;

/// What the nodes say about a lock.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LockReport {
    name: String,
    state: State,
    /// `plain` or `reentrant`, if held.
    #[schema(required)]
    kind: Option<&'static str>,
    /// An id for the holder: the same at all instances, and different for the next holder. If
    /// several hold the lock, one id for all of them.
    #[schema(required)]
    holder: Option<String>,
    /// An id for each holder: each reader, or each hold of one owner. Not in a list.
    #[schema(required)]
    holders: Option<Vec<String>>,
    /// Its owner, if it is reentrant.
    #[schema(required)]
    owner: Option<String>,
    /// How many times its owner holds it. Not in a list.
    #[schema(required)]
    holds: Option<u64>,
    /// The holder's label. Not in a list.
    #[schema(required)]
    label: Option<String>,
    /// Time until it is free unless extended.
    #[schema(required)]
    left_ms: Option<u64>,
    /// Not in a list.
    #[schema(required)]
    fence: Option<u64>,
    /// The number of waiters in line. Not in a list.
    #[schema(required)]
    waiters: Option<u64>,
    /// The waiters in order: at most a hundred. Empty in a list.
    line: Vec<Waiter>,
    /// The deadlocks it is part of: each member waits for the lock that the next one holds, and the
    /// last for that of the first. Deadlocks with locks that the caller may not see are left out.
    /// Empty in a list.
    deadlocks: Vec<Vec<InCircle>>,
    /// The number of readers, if it is shared. Not in a list.
    #[schema(required)]
    readers: Option<u64>,
    /// How long the holder has held it, if the fence tells. Not in a list.
    #[schema(required)]
    age_ms: Option<u64>,
    /// The number of nodes that may forget it before someone else can get it, if held.
    #[schema(required)]
    margin: Option<usize>,
    /// The nodes that agree with the majority.
    agree: Vec<String>,
    /// The nodes that disagree; all that answered, if there is no majority.
    disagree: Vec<String>,
    nodes: Vec<Answer>,
}

/// What one node says about the lock.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NodeAnswer)]
struct Answer {
    node: String,
    /// Whether it is counted.
    votes: bool,
    state: State,
    #[schema(required)]
    holder: Option<String>,
    #[schema(required)]
    label: Option<String>,
    #[schema(required)]
    left_ms: Option<u64>,
    #[schema(required)]
    waiters: Option<u64>,
    /// Why it did not answer.
    #[schema(required)]
    error: Option<String>,
}

/// A waiter in line.
#[derive(Debug, Serialize, ToSchema)]
struct Waiter {
    /// The client's id: all waiters of one client have the same.
    client: String,
    /// Its label.
    #[schema(required)]
    label: Option<String>,
    /// When it started to wait, by the nodes' clocks (Unix time).
    since_ms: u64,
    /// Whether it wants to share the lock.
    shared: bool,
    /// The locks it holds while it waits, of those that the caller may see.
    keeps: Vec<String>,
}

/// `kept`: its holder is done, but others are kept out until its period ends; `reserved`: set aside
/// for the next in line; `disputed`: no majority agrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = LockState)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Free,
    Held,
    Kept,
    Reserved,
    Disputed,
    Unknown,
}

/// The locks on the nodes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Locks {
    locks: Vec<LockReport>,
    nodes: Vec<NodeList>,
}

/// The result of asking one node for its locks.
#[derive(Debug, Serialize, ToSchema)]
struct NodeList {
    node: String,
    /// Whether it is counted.
    votes: bool,
    /// The number of locks it listed; absent for callers that may not see all locks.
    #[schema(required)]
    locks: Option<usize>,
    /// Whether it has more.
    cut_short: bool,
    /// Why it did not answer.
    #[schema(required)]
    error: Option<String>,
}

impl LockReport {
    /// `sees`: which locks whoever asked may see.
    pub(crate) fn of(report: &tenure::LockReport, keys: &LeaseKeys, sees: impl Fn(&str) -> bool) -> Self {
        let found = &report.state;
        let (state, owner, label) = (State::of(found), found.owner(), found.label());
        let (left, fence) = (found.left(), found.fence());
        let (kind, readers, holds) = shares(&report.state);
        let names = |nodes: &[Arc<str>]| nodes.iter().map(ToString::to_string).collect();
        Self {
            name: report.name.clone(),
            state,
            kind: kind.map(kind_word),
            holder: owner.map(|owner| keys.holder(owner)),
            holders: owner.and_then(|owner| holders(report, owner, keys)),
            owner: owner.filter(|_| kind == Some(Kind::Reentrant)).map(ToString::to_string),
            holds,
            label: label.map(ToString::to_string),
            left_ms: left.map(milliseconds),
            fence: fence.map(Fence::get),
            waiters: report.waiters,
            line: report.line.iter().map(|waiter| Waiter::of(waiter, &sees)).collect(),
            deadlocks: vec![],
            readers,
            age_ms: report.held_for.map(milliseconds),
            margin: report.margin(),
            agree: names(&report.agree),
            disagree: names(&report.disagree),
            nodes: report.nodes.iter().map(|said| Answer::of(said, keys)).collect(),
        }
    }
}

/// The kind of a lock, how many share it, and how often one owner has it.
pub(crate) const fn shares(state: &LockState) -> (Option<Kind>, Option<u64>, Option<u64>) {
    match state {
        LockState::Held { kind: Kind::Reentrant, sharers, .. } => (Some(Kind::Reentrant), None, *sharers),
        LockState::Held { kind, sharers, .. } => (Some(*kind), *sharers, None),
        _ => (None, None, None),
    }
}

impl State {
    pub(crate) const fn of(state: &LockState) -> Self {
        match state {
            LockState::Free => Self::Free,
            LockState::Held { .. } => Self::Held,
            LockState::Kept { .. } => Self::Kept,
            LockState::Reserved { .. } => Self::Reserved,
            LockState::Disputed => Self::Disputed,
            _ => Self::Unknown,
        }
    }
}

impl LockReport {
    /// With the deadlocks that it is part of.
    pub(crate) fn with_deadlocks(mut self, circles: &[Circle], sees: impl Fn(&str) -> bool) -> Self {
        let seen = circles.iter().filter(|circle| circle.names().all(&sees));
        self.deadlocks = seen.map(deadlock).collect();
        self
    }
}

/// What each of those is called who have a lock together, on any node that agrees on it.
fn holders(report: &tenure::LockReport, owner: &str, keys: &LeaseKeys) -> Option<Vec<String>> {
    let held = report.nodes.iter().filter_map(|answer| answer.holding.as_ref().ok()?.as_ref());
    let held = held.filter(|holding| &*holding.owner == owner);
    let mut holds = held.filter_map(|holding| holding.sharers.as_ref()).peekable();
    holds.peek()?;
    let holds: BTreeSet<&Arc<str>> = holds.flatten().collect();
    Some(holds.into_iter().map(|hold| keys.holder(hold)).collect())
}

impl Waiter {
    fn of(waiter: &WaiterReport, sees: impl Fn(&str) -> bool) -> Self {
        let since = waiter.since.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            client: waiter.ticket.client.to_string(),
            label: waiter.label.as_deref().map(str::to_owned),
            since_ms: milliseconds(since),
            shared: waiter.shares,
            keeps: waiter.keeps.iter().filter(|name| sees(name)).map(ToString::to_string).collect(),
        }
    }
}

impl Answer {
    fn of(answer: &NodeAnswer, keys: &LeaseKeys) -> Self {
        let (state, holding, error) = match &answer.holding {
            Ok(None) => (State::Free, None, None),
            Ok(Some(holding)) if holding.is_reserved() => (State::Reserved, Some(holding), None),
            Ok(Some(holding)) if holding.is_kept() => (State::Kept, Some(holding), None),
            Ok(Some(holding)) => (State::Held, Some(holding), None),
            Err(fault) => (State::Unknown, None, Some(fault.to_string())),
        };
        let holder = holding.filter(|holding| !holding.is_reserved());
        Self {
            node: answer.node.to_string(),
            votes: answer.votes,
            state,
            holder: holder.map(|holding| keys.holder(&holding.owner)),
            label: holder.and_then(|holding| holding.label.as_deref()).map(str::to_owned),
            left_ms: holding.and_then(|holding| holding.left).map(milliseconds),
            waiters: answer.waiters,
            error,
        }
    }
}

impl Locks {
    /// `all`: whoever asked may see all of them.
    pub(crate) fn of(list: &LockList, keys: &LeaseKeys, all: bool) -> Self {
        let told = |list: &tenure::NodeList| {
            let (locks, error) = match &list.told {
                Ok(count) => (all.then_some(*count), None),
                Err(fault) => (None, Some(fault.to_string())),
            };
            NodeList {
                node: list.node.to_string(),
                votes: list.votes,
                locks,
                cut_short: list.cut_short,
                error,
            }
        };
        Self {
            locks: list.locks.iter().map(|lock| LockReport::of(lock, keys, |_| true)).collect(),
            nodes: list.nodes.iter().map(told).collect(),
        }
    }
}
