//! Shutdowns under way: no new locks, and an answer when the clean-up is done or the caller's limit is reached.

use std::time::Duration;

use tenure_core::{Release, Time, lease};
use tokio::sync::oneshot;

use super::{AcquireFailure, Driver, LEAVING, MachineId, Unfinished};

/// How long a shutdown waits for nodes to take waiters out of line: a node that hangs finds out by itself that they are
/// gone, and passes over them.
const LEAVING_MAX: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(super) struct Shutdown {
    begun: bool,
    /// Who waits, each with a limit of its own.
    callers: Vec<(Time, oneshot::Sender<Option<Unfinished>>)>,
    /// How many nodes have yet to say that a waiter has left the line, and until when that is waited for.
    leaving: usize,
    leaving_until: Option<Time>,
}

impl Shutdown {
    pub(super) fn begin(&mut self, now: Time, limit: Duration, reply: oneshot::Sender<Option<Unfinished>>) {
        self.begun = true;
        self.leaving_until = Some(now + LEAVING_MAX);
        self.callers.push((now + limit, reply));
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

    pub(super) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// When the next caller has to be answered at the latest.
    pub(super) fn next_limit(&self) -> Option<Time> {
        let leaving_until = self.leaving_until.filter(|_| !self.callers.is_empty());
        self.callers.iter().map(|(limit, _)| *limit).chain(leaving_until).min()
    }

    /// Answers everybody if no release owes anything any more and nobody is in line, or else whose limit has come.
    pub(super) fn answer<'a>(&mut self, now: Time, releases: impl Iterator<Item = &'a Release>) {
        if self.callers.is_empty() {
            return;
        }
        self.leaving_until = self.leaving_until.filter(|until| now < *until && self.leaving > 0);
        let unfinished = Unfinished::of(now, releases);
        let done = unfinished.is_none() && self.leaving_until.is_none();
        let due = |(limit, _): &mut (Time, _)| done || now >= *limit;
        for (_, reply) in self.callers.extract_if(.., due) {
            let _ = reply.send(unfinished);
        }
    }
}

impl Driver {
    pub(super) fn begin_shutdown(&mut self, limit: Duration, reply: oneshot::Sender<Option<Unfinished>>) {
        self.shutdown.begin(self.now, limit, reply);
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
