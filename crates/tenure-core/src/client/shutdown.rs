//! Shutdowns under way: no new locks, and an answer when the clean-up is done or the caller's limit
//! is reached.
//!
//! Most callers do not want to wait for a node that does not answer: what it owes frees itself at
//! the end of its term. But a node that can be reached is told, also if a connection broke just
//! now; so silence has to last for a moment before it counts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::output::{News, Output, Unfinished};
use super::tag::{Addressee, Id};
use super::{Client, LeaseCell};
use crate::lease;
use crate::lease::release::Release;
use crate::round::{NodeIndex, NodeSet};
use crate::time::Time;

/// How long a node may be silent before nobody waits for it any more. A packet that is lost is sent
/// again after 200 ms, a release after 250 ms at the latest, and a connection that broke is made
/// again in less; so a node that can be reached answers within this.
const SILENCE_MAX: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shutdown {
    /// When the client came to be, and when its end was asked for.
    since: Time,
    begun: Option<Time>,
    callers: Vec<ShutdownCaller>,
    /// How many nodes have yet to say that a waiter has left the line, and until when that is
    /// waited for: a node that hangs finds out by itself that they are gone, and passes over them.
    leaving: usize,
    leaving_until: Option<Time>,
    /// Nodes that were connected at some time.
    reached: NodeSet,
    /// When each node last answered since the end was asked for.
    heard: BTreeMap<NodeIndex, Time>,
}

/// Who waits for the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ShutdownCaller {
    id: Id,
    limit: Time,
    /// Nodes that do not answer are waited for until then, too.
    silent_too: bool,
}

impl Shutdown {
    pub(super) fn new(since: Time) -> Self {
        let (leaving, reached, heard) = (0, NodeSet::default(), BTreeMap::new());
        Self { since, begun: None, callers: vec![], leaving, leaving_until: None, reached, heard }
    }

    fn begin(&mut self, now: Time, caller: ShutdownCaller) {
        self.begun.get_or_insert(now);
        self.leaving_until = Some(now + SILENCE_MAX);
        self.callers.push(caller);
    }

    /// A waiter tells a node that it leaves the line. Returns whom the answer belongs to.
    pub(super) const fn note_leaving(&mut self) -> Addressee {
        self.leaving += 1;
        Addressee::Leaving
    }

    /// It has left, or nobody knows.
    pub(super) const fn handle_left(&mut self) {
        self.leaving = self.leaving.saturating_sub(1);
    }

    pub(super) const fn note_reached(&mut self, node: NodeIndex) {
        self.reached.insert(node);
    }

    pub(super) fn note_heard(&mut self, now: Time, node: NodeIndex) {
        if self.begun.is_some() {
            self.heard.insert(node, now);
        }
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    pub(super) const fn is_awaited(&self) -> bool {
        !self.callers.is_empty()
    }

    /// When there is something to be told at the latest.
    pub(super) fn next_limit(&self, now: Time) -> Option<Time> {
        if self.callers.is_empty() {
            return None;
        }
        let limits = self.callers.iter().map(|caller| caller.limit);
        let heard = self.heard.values().copied().map(Some).chain([None]);
        let silences = heard.map(|heard| self.silent_from(heard));
        let silences = silences.chain([self.since + SILENCE_MAX]).filter(|from| *from > now);
        limits.chain(self.leaving_until).chain(silences).min()
    }

    /// From when on a node that was last heard then counts as silent.
    fn silent_from(&self, heard: Option<Time>) -> Time {
        self.begun.max(heard).unwrap_or(self.since) + SILENCE_MAX
    }

    /// Whether the node is worth waiting for. `tried`: the first try to connect has ended.
    fn may_answer(&self, now: Time, node: NodeIndex, tried: bool) -> bool {
        if self.reached.contains(node) {
            now < self.silent_from(self.heard.get(&node).copied())
        } else {
            !tried && now < self.since + SILENCE_MAX
        }
    }
}

impl<L: LeaseCell> Client<L> {
    pub(super) fn begin_shutdown(&mut self, now: Time, id: Id, limit: Duration, silent_too: bool) {
        self.shutdown.begin(now, ShutdownCaller { id, limit: now + limit, silent_too });
        self.begin_early(now);
        for polite in std::mem::take(&mut self.polite) {
            let request = super::Request::Acquire { id: polite.id, lease: polite.lease };
            self.handle_request(now, request);
        }
        self.disband_cohorts();
        // Whoever still waits for a lock is told; whoever holds one keeps it and can release it.
        for id in self.leases.keys() {
            let held = |lease: &lease::Lease| lease.standing().is_some() || lease.is_ended();
            if self.leases.get(id).is_some_and(|entry| !held(&entry.lease.look())) {
                self.outbox.say(Output::Tell { lease: id, news: News::ShutDown });
                self.advance_lease(now, id, lease::Input::Abandon);
            }
        }
    }

    /// Answers everybody if no node owes a release any more and nobody is in line; whoever does not
    /// wait for silent nodes, if nothing is owed by others; and whose limit has come.
    pub(super) fn answer_shutdown(&mut self, now: Time) {
        if self.shutdown.callers.is_empty() {
            return;
        }
        let shutdown = &mut self.shutdown;
        shutdown.leaving_until = shutdown.leaving_until.filter(|until| now < *until && shutdown.leaving > 0);
        let releases = || self.releases.values().map(|entry| &entry.release);
        let unfinished = Unfinished::of(now, releases());
        let hopeful = |release: &Release| {
            let mut owed = release.owed().iter();
            owed.any(|node| {
                // Silence within the first deadline means nothing: a disk may be slow.
                shutdown.may_answer(now, node, self.tried.contains(node))
                    || shutdown.reached.contains(node) && !release.is_overdue()
            })
        };
        let left = shutdown.leaving_until.is_none();
        let (done, nearly) = (left && unfinished.is_none(), left && !releases().any(hopeful));
        let due = |caller: &mut ShutdownCaller| done || nearly && !caller.silent_too || now >= caller.limit;
        for ShutdownCaller { id, .. } in self.shutdown.callers.extract_if(.., due) {
            self.outbox.say(Output::ShutDown { id, unfinished });
        }
    }
}

impl Unfinished {
    fn of<'a>(now: Time, releases: impl Iterator<Item = &'a Release>) -> Option<Self> {
        let mut sum = Self::default();
        for release in releases.filter(|release| !release.owed().is_empty()) {
            release.owed().iter().for_each(|node| sum.nodes.insert(node));
            sum.keys += release.owed().len();
            sum.frees_within = sum.frees_within.max(release.give_up_at().since(now));
        }
        (sum.keys > 0).then_some(sum)
    }
}
