//! One view of all locks, from walks through all nodes.
//!
//! Nodes are looked at one after the other, each at its own pace. So when one of them says
//! something new about a lock, the others are asked about that lock, too, before anything is told:
//! a lock that was acquired between two looks would seem disputed otherwise. What is told after
//! that is what the nodes say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::agreement::{Agreement, LockState, Word};
use super::walk::{Look, Walk, same_end};
use crate::command::{Fault, Holding, Listed, Sighting};
use crate::names::LockKey;
use crate::round::{NodeIndex, NodeSet, Quorum};
use crate::time::{NodeTime, Time};

/// What all nodes are known to have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    quorum: Quorum,
    voters: NodeSet,
    nodes: Vec<Walk>,
    rows: BTreeMap<Arc<str>, Row>,
    /// Keys about which nodes may disagree because they were looked at one after the other, and
    /// since when.
    doubts: BTreeMap<Arc<str>, Time>,
    /// For each node the keys that it should be asked about next.
    wanted: Vec<BTreeSet<Arc<str>>>,
    changes: BTreeMap<Arc<str>, Change>,
}

/// A lock that somebody has, by what the nodes say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// What a majority says. What is left is as of `seen`.
    pub state: LockState,
    /// How many are in line.
    pub waiters: Option<u64>,
    /// The nodes that say so.
    pub agree: NodeSet,
    /// The nodes that say otherwise.
    pub disagree: NodeSet,
    /// The nodes among them that name another holder.
    pub others: NodeSet,
    /// How many nodes may forget it before somebody else can get it, if it is held.
    pub margin: Option<usize>,
    /// When its term ends unless it is extended.
    pub ends: Option<Time>,
    /// Since when its holder has it.
    pub since: Time,
    /// Whether that is known, from its fence; else it may be longer.
    pub since_known: bool,
    /// When it was last looked at.
    pub seen: Time,
}

/// What became of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// As it was before, and when it was last seen so.
    pub before: Option<Row>,
    /// As it is now.
    pub now: Option<Row>,
}

impl View {
    /// A view of these nodes that has seen nothing yet.
    #[must_use]
    pub fn new(quorum: Quorum) -> Self {
        let (nodes, wanted) = (vec![Walk::default(); quorum.nodes()], vec![BTreeSet::new(); quorum.nodes()]);
        let (rows, doubts, changes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { quorum, voters: NodeSet::default(), nodes, rows, doubts, wanted, changes }
    }

    /// The walk through one node.
    #[must_use]
    pub fn walk(&self, node: NodeIndex) -> &Walk {
        &self.nodes[node.get()]
    }

    /// Whether every node that answers has been walked through.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let mut answering = self.nodes.iter().filter(|walk| walk.answers()).peekable();
        answering.peek().is_some() && answering.all(|walk| walk.progress().complete)
    }

    /// The locks, by their keys.
    #[must_use]
    pub const fn rows(&self) -> &BTreeMap<Arc<str>, Row> {
        &self.rows
    }

    /// What has changed since this was last asked.
    pub fn take_changes(&mut self) -> BTreeMap<Arc<str>, Change> {
        std::mem::take(&mut self.changes)
    }

    /// Which keys a node should be asked about next, out of turn: those in doubt, then those that
    /// were looked at before `stale`.
    pub fn take_wanted(&mut self, node: NodeIndex, most: usize, stale: Time) -> Vec<Arc<str>> {
        let wanted = &mut self.wanted[node.get()];
        let mut keys = vec![];
        while keys.len() < most
            && let Some(key) = wanted.pop_first()
        {
            keys.push(key);
        }
        if keys.is_empty() {
            let stale = self.nodes[node.get()].keys().filter(|(_, at)| *at < stale);
            keys.extend(stale.take(most).map(|(key, _)| Arc::clone(key)));
        }
        keys
    }

    /// Whether a node should be asked about keys that are in doubt.
    #[must_use]
    pub fn is_wanted(&self, node: NodeIndex) -> bool {
        !self.wanted[node.get()].is_empty()
    }

    /// Has all nodes asked about a lock, because something happened to it.
    pub fn want(&mut self, now: Time, key: &Arc<str>) {
        self.doubts.insert(Arc::clone(key), now);
        self.wanted.iter_mut().for_each(|wanted| {
            wanted.insert(Arc::clone(key));
        });
    }

    /// Begins all walks again: more keys are to be found than before.
    pub fn restart(&mut self) {
        self.nodes.iter_mut().for_each(Walk::restart);
    }

    /// A node has lost its memory, and is walked through from its beginning.
    pub fn restart_node(&mut self, node: NodeIndex) {
        self.nodes[node.get()].restart();
    }

    /// A node told of a slice of its keys, or of `these`.
    pub fn take(
        &mut self,
        now: Time,
        node: NodeIndex,
        clock: Option<NodeTime>,
        these: Option<&[LockKey]>,
        listed: Listed,
    ) {
        let answered = self.nodes[node.get()].answers();
        let seen: Vec<Arc<str>> = listed.seen.iter().map(|seen| Arc::clone(&seen.holding.key)).collect();
        let walk = &mut self.nodes[node.get()];
        let new = match these {
            Some(asked) => walk.take_these(now, clock, asked, listed),
            None => walk.take_slice(now, clock, listed),
        };
        let new: BTreeSet<Arc<str>> = new.into_iter().collect();
        // Those about which there is nothing new are still as they were.
        for key in seen.iter().filter(|key| !new.contains(*key)) {
            if let Some(row) = self.rows.get_mut(key) {
                row.seen = now;
            }
        }
        let asked = these.into_iter().flatten().map(|key| key.as_str().into());
        let keys: BTreeSet<Arc<str>> = asked.chain(new).collect();
        if !answered {
            self.judge_all(now);
        }
        keys.iter().for_each(|key| self.judge(now, key));
    }

    /// A node did not answer.
    pub fn take_fault(&mut self, now: Time, node: NodeIndex, fault: Fault) {
        let answered = self.nodes[node.get()].answers();
        self.nodes[node.get()].take_fault(fault);
        self.wanted[node.get()].clear();
        if answered {
            self.judge_all(now);
        }
    }

    /// These nodes may vote from now on. Returns whether that is new.
    pub fn vote(&mut self, now: Time, voters: NodeSet) -> bool {
        let new = std::mem::replace(&mut self.voters, voters) != voters;
        if new {
            self.judge_all(now);
        }
        new
    }

    fn judge_all(&mut self, now: Time) {
        let keys: BTreeSet<Arc<str>> = self.rows.keys().chain(self.doubts.keys()).cloned().collect();
        keys.iter().for_each(|key| self.judge(now, key));
    }

    /// Decides what is told of a lock.
    fn judge(&mut self, now: Time, key: &Arc<str>) {
        let row = self.row(now, key);
        if !row.disagree.is_empty() && !self.is_asked_everywhere(key) {
            if !self.doubts.contains_key(key) {
                self.want(now, key);
            }
            return;
        }
        self.doubts.remove(key);
        self.put(key, row);
    }

    /// Whether all nodes that answer were asked about it since it came into doubt.
    fn is_asked_everywhere(&self, key: &str) -> bool {
        let Some(since) = self.doubts.get(key) else { return false };
        let mut answering = self.nodes.iter().filter(|walk| walk.answers());
        answering.all(|walk| walk.look(key).flatten().is_some_and(|look| look.at >= *since))
    }

    /// A lock as the nodes have it.
    fn row(&self, now: Time, key: &str) -> Row {
        let looks: Vec<Option<Option<&Look>>> = self.nodes.iter().map(|walk| walk.look(key)).collect();
        // Nodes were looked at at different times: what is left is counted from now.
        let held = |look: Option<&Look>| {
            let found = look.and_then(|look| Some((look.at, look.found.as_ref()?)));
            let holding = found.map(|(at, Sighting { holding, .. })| {
                let left = holding.left.map(|left| left.saturating_sub(now.since(at)));
                Holding { left, ..holding.clone() }
            });
            (holding, found.and_then(|(_, sighting)| sighting.waiters))
        };
        let said: Vec<_> = looks.iter().map(|look| look.map(held)).collect();
        let words: Vec<Option<Word<'_>>> = said
            .iter()
            .map(|said| {
                said.as_ref().map(|(holding, waiters)| Word {
                    holding: holding.as_ref(),
                    waiters: *waiters,
                    line: &[],
                })
            })
            .collect();
        let Agreement { state, waiters, agree, disagree, .. } =
            Agreement::of(self.quorum, self.voters, &words);
        let owner = state.owner();
        let names_another = |node: &NodeIndex| {
            let holding = said[node.get()].as_ref().and_then(|(holding, _)| holding.as_ref());
            let of_another = |holding: &Holding| owner.is_some_and(|owner| **owner != *holding.owner);
            holding.is_some_and(|holding| !holding.is_reserved() && of_another(holding))
        };
        let counted = agree.iter().filter(|node| self.voters.contains(*node)).count();
        let is_held = matches!(state, LockState::Held { .. });
        let seen = looks.iter().flatten().flatten().map(|look| look.at).max().unwrap_or(now);
        let (since, since_known) = self.since(now, key, &state, agree, &looks);
        Row {
            others: disagree.iter().filter(names_another).collect(),
            margin: is_held.then(|| counted.saturating_sub(self.quorum.majority())),
            ends: state.left().map(|left| now + left),
            since,
            since_known,
            seen,
            state,
            waiters,
            agree,
            disagree,
        }
    }

    /// Since when its holder has it: by the fence it got, unless somebody else was seen with the
    /// lock after that; then it is one without a fence.
    fn since(
        &self,
        now: Time,
        key: &str,
        state: &LockState,
        agree: NodeSet,
        looks: &[Option<Option<&Look>>],
    ) -> (Time, bool) {
        let before = self.rows.get(key);
        if let Some(before) = before.filter(|before| before.since_known && before.is_same_hold(state)) {
            return (before.since, true);
        }
        let looks = agree.iter().filter_map(|node| looks[node.get()].flatten());
        let by_fence = looks.filter_map(|look| Some(ago(look.at, look.age?))).min();
        let first_seen =
            before.filter(|before| before.is_same_hold(state)).map_or(now, |before| before.since);
        let not_before = before.filter(|before| !before.is_same_hold(state)).map(|before| before.seen);
        match by_fence {
            Some(since) if not_before.is_none_or(|not_before| since + SAME_MOMENT >= not_before) => {
                (since, true)
            }
            _ => (first_seen, false),
        }
    }

    fn put(&mut self, key: &Arc<str>, row: Row) {
        let before = self.rows.get(key);
        // Nothing is known of a lock that nobody was seen with.
        let is_told = match row.state {
            LockState::Free => false,
            LockState::Unknown => before.is_some(),
            _ => true,
        };
        if is_told && before.is_some_and(|before| before.says_the_same(&row)) {
            self.rows.insert(Arc::clone(key), row);
            return;
        }
        let row = is_told.then_some(row);
        let before = match &row {
            Some(row) => self.rows.insert(Arc::clone(key), row.clone()),
            None => self.rows.remove(key),
        };
        if before.is_none() && row.is_none() {
            return;
        }
        // Of several changes that nobody has asked for yet, the first says how it was.
        match self.changes.get_mut(key) {
            Some(change) => change.now = row,
            None => {
                self.changes.insert(Arc::clone(key), Change { before, now: row });
            }
        }
    }
}

/// A fence is chosen when an attempt begins, by a client that reckons the node's clock.
const SAME_MOMENT: Duration = Duration::from_millis(500);

impl Row {
    /// Whether this is the same hold of the lock.
    #[must_use]
    pub fn is_same_hold(&self, state: &LockState) -> bool {
        self.state.owner().is_some()
            && self.state.owner() == state.owner()
            && self.state.fence() == state.fence()
    }

    /// Whether it differs in nothing but a running clock.
    fn says_the_same(&self, other: &Self) -> bool {
        same_end(self.ends, other.ends) && self.differs_in_its_end_only(other)
    }

    /// Whether nothing but the end of the term may be another.
    #[must_use]
    pub fn differs_in_its_end_only(&self, other: &Self) -> bool {
        let of = |row: &Self| {
            let state = row.state.without_time();
            (state, row.waiters, row.agree, row.disagree, row.others, row.margin, row.since_known)
        };
        of(self) == of(other)
    }
}

/// The time so long before.
fn ago(time: Time, duration: Duration) -> Time {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Time::from_nanos(time.as_nanos().saturating_sub(nanos))
}

#[cfg(test)]
mod tests;
