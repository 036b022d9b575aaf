//! Shutdowns under way: no new locks, and an answer when the clean-up is done or the caller's limit is reached.
//!
//! Most callers do not want to wait for a node that does not answer: what it is owed frees itself at the end of its
//! term. But a node that can be reached is told, also if a connection broke just now; so silence has to last for a
//! moment before it counts.

use std::time::Duration;

use tenure_core::{NODES_MAX, NodeIndex, NodeSet, Release, Time, lease};
use tokio::sync::oneshot;

use super::{AcquireFailure, Driver, LEAVING, MachineId, Unfinished};

/// How long a node may be silent before nobody waits for it any more. A packet that is lost is sent again after 200 ms, a
/// release after 250 ms at the latest, and a connection that broke is made again in less; so a node that can be reached
/// answers within this.
const SILENCE_MAX: Duration = Duration::from_millis(500);

pub(super) struct Shutdown {
    /// When the manager came to be, and when its end was asked for.
    since: Time,
    begun: Option<Time>,
    callers: Vec<Caller>,
    /// How many nodes have yet to say that a waiter has left the line, and until when that is waited for: a node that
    /// hangs finds out by itself that they are gone, and passes over them.
    leaving: usize,
    leaving_until: Option<Time>,
    /// Nodes that were connected at some time.
    reached: NodeSet,
    /// When each node last answered.
    heard: [Option<Time>; NODES_MAX],
}

/// Who waits for the end.
struct Caller {
    limit: Time,
    /// Nodes that do not answer are waited for until then, too.
    silent_too: bool,
    reply: oneshot::Sender<Option<Unfinished>>,
}

impl Shutdown {
    pub(super) fn new(since: Time) -> Self {
        let (leaving, reached, heard) = (0, NodeSet::default(), [None; NODES_MAX]);
        Self { since, begun: None, callers: vec![], leaving, leaving_until: None, reached, heard }
    }

    fn begin(&mut self, now: Time, caller: Caller) {
        self.begun.get_or_insert(now);
        self.leaving_until = Some(now + SILENCE_MAX);
        self.callers.push(caller);
    }

    /// A waiter tells a node that it leaves the line. Returns whom the answer belongs to.
    pub(super) const fn note_leaving(&mut self) -> MachineId {
        self.leaving += 1;
        LEAVING
    }

    /// It has left, or nobody knows.
    pub(super) const fn handle_left(&mut self) {
        self.leaving = self.leaving.saturating_sub(1);
    }

    pub(super) const fn note_reached(&mut self, node: NodeIndex) {
        self.reached.insert(node);
    }

    pub(super) const fn note_heard(&mut self, now: Time, node: NodeIndex) {
        self.heard[node.get()] = Some(now);
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// When there is something to be told at the latest.
    pub(super) fn next_limit(&self, now: Time) -> Option<Time> {
        if self.callers.is_empty() {
            return None;
        }
        let limits = self.callers.iter().map(|caller| caller.limit);
        let silences = self.heard.iter().map(|heard| self.silent_from(*heard));
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
            now < self.silent_from(self.heard[node.get()])
        } else {
            !tried && now < self.since + SILENCE_MAX
        }
    }
}

impl Driver {
    pub(super) fn begin_shutdown(
        &mut self,
        limit: Duration,
        silent_too: bool,
        reply: oneshot::Sender<Option<Unfinished>>,
    ) {
        self.shutdown.begin(self.now, Caller { limit: self.now + limit, silent_too, reply });
        let early = self.early.take().unwrap_or_default();
        early.into_iter().for_each(|request| self.handle_request(request));
        let polite = std::mem::take(&mut self.polite);
        polite.into_iter().for_each(|(_, request)| self.handle_request(request));
        // Whoever still waits for a lock is told; whoever holds one keeps it and can release it.
        let waiting: Vec<MachineId> =
            self.leases.iter().filter(|(_, entry)| entry.acquire.is_some()).map(|(id, _)| *id).collect();
        for id in waiting {
            if let Some(entry) = self.leases.get_mut(&id) {
                entry.tell_acquired(Err(AcquireFailure::ShutDown));
            }
            self.advance_lease(id, lease::Input::Abandon);
        }
    }

    /// Answers everybody if no release owes anything any more and nobody is in line; whoever does not wait for silent
    /// nodes, if nothing is owed by others; and whose limit has come.
    pub(super) fn answer_shutdown(&mut self) {
        if self.shutdown.callers.is_empty() {
            return;
        }
        let (now, shutdown) = (self.now, &mut self.shutdown);
        shutdown.leaving_until = shutdown.leaving_until.filter(|until| now < *until && shutdown.leaving > 0);
        let releases = || self.releases.values().map(|entry| &entry.release);
        let unfinished = Unfinished::of(now, releases());
        let hopeful = |release: &Release| {
            let mut owed = release.owed().iter();
            owed.any(|node| {
                let tried = self.nodes[node.get()].is_settled();
                // Silence within the first deadline means nothing: a disk may be slow.
                shutdown.may_answer(now, node, tried)
                    || shutdown.reached.contains(node) && !release.is_overdue()
            })
        };
        let left = shutdown.leaving_until.is_none();
        let (done, nearly) = (left && unfinished.is_none(), left && !releases().any(hopeful));
        let due = |caller: &mut Caller| done || nearly && !caller.silent_too || now >= caller.limit;
        for Caller { reply, .. } in self.shutdown.callers.extract_if(.., due) {
            let _ = reply.send(unfinished);
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
