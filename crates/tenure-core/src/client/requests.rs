//! What callers ask: begun at once, or put off until the nodes are known.

use std::time::Duration;

use super::leases::LeaseEntry;
use super::output::{NotBegun, Output};
use super::request::{Request, Resuming};
use super::tag::Id;
use super::{Client, LeaseCell};
use crate::lease;
use crate::lease::{HandedOver, Standing};
use crate::time::{NodeTime, Time};

/// The first acquires wait until every node has been tried; when a majority is there, no longer
/// than this.
const START_MAX: Duration = Duration::from_millis(50);

/// An acquire of a crowded lock that was just passed on gets in line so much later, when the next
/// holder has it.
const POLITE: Duration = Duration::from_millis(1);

/// An acquire that lets its lock be passed on first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Polite<L> {
    pub(super) until: Time,
    pub(super) id: Id,
    pub(super) lease: L,
}

impl<L: LeaseCell> Client<L> {
    pub(super) fn handle_request(&mut self, now: Time, request: Request<L>) {
        match request {
            Request::Acquire { id, lease } if self.shutdown.has_begun() => {
                self.outbox.say(Output::Refused { id, lease, reason: NotBegun::ShutDown });
            }
            // A node that is not connected yet would not answer in time, and who may vote is not
            // known.
            Request::Acquire { .. }
            | Request::Resume { .. }
            | Request::ReleaseResumed { .. }
            | Request::Query { .. }
            | Request::Start { .. }
                if self.early.is_some() =>
            {
                self.early.get_or_insert_default().push(request);
            }
            Request::Acquire { id, lease } => self.begin_acquire(now, id, lease, false),
            Request::Extend { id, term } => {
                self.advance_lease(now, id, lease::Input::Extend(term));
            }
            Request::Share { id } => {
                self.advance_lease(now, id, lease::Input::Share);
            }
            Request::Resume { id, lease, resuming } => self.begin_resume(now, id, lease, &resuming),
            Request::HandOver { id } => {
                self.forget(id);
                self.advance_lease(now, id, lease::Input::HandOver);
            }
            Request::Release { id } => match self.pass_on(now, id) {
                Some(ballots) => self.tell_passed_on(id, ballots),
                None => self.release(now, id, false),
            },
            Request::ReleaseResumed { id, mut lease, hears_all } => {
                let granted_by = lease.look().standing().and_then(Standing::granted_by);
                if let Some(held) = granted_by.and_then(|time| self.fleet.least_time_since(now, time)) {
                    lease.open().note_held(held);
                }
                self.leases.insert(id, LeaseEntry::of(id, lease));
                self.release(now, id, hears_all);
            }
            Request::Abandon { id } => {
                self.forget(id);
                if self.pass_on(now, id).is_none() {
                    self.advance_lease(now, id, lease::Input::Abandon);
                }
            }
            Request::Query { id, query } => self.begin_query(now, id, query),
            Request::Start { id } => self.outbox.say(Output::Started { id }),
            Request::Settle { id } => self.settling.push(id),
            Request::Shutdown { id, limit, silent_too } => self.begin_shutdown(now, id, limit, silent_too),
        }
    }

    /// Begins an acquire; `late`, if it has let others go first.
    fn begin_acquire(&mut self, now: Time, id: Id, cell: L, late: bool) {
        let (fenced, wanted, crowded) = {
            let lease = cell.look();
            let (waits, key) = (lease.waits(), lease.key());
            // Of those who pass it on among themselves, only one ever asks.
            let crowded = waits && !late && !lease.is_cohort() && self.waiters.is_crowded(key);
            (lease.is_fenced(), waits && self.waiters.is_wanted(key), crowded)
        };
        if crowded {
            return self.polite.push_back(Polite { until: now + POLITE, id, lease: cell });
        }
        self.leases.insert(id, LeaseEntry::of(id, cell));
        if self.joins_cohort(now, id) {
            return;
        }
        let mut proposal = self.fleet.propose(now, fenced);
        proposal.ticket = wanted.then(|| self.fleet.draw_ticket(now));
        self.set_fleet_timer();
        self.outbox.say(Output::Draw { lease: id, proposal });
    }

    pub(super) fn begin_polite(&mut self, now: Time) {
        while self.polite.front().is_some_and(|polite| polite.until <= now) {
            if let Some(Polite { id, lease, .. }) = self.polite.pop_front() {
                self.begin_acquire(now, id, lease, true);
            }
        }
    }

    /// Goes on with a lock of another process. It counts the nodes that are still in a life in
    /// which they counted there.
    fn begin_resume(&mut self, now: Time, id: Id, mut cell: L, resuming: &Resuming) {
        let left = self.fleet.may_be_in(&resuming.lives);
        if left < self.quorum().majority() {
            let reason = NotBegun::Outdated { left };
            return self.outbox.say(Output::Refused { id, lease: cell, reason });
        }
        let members = self.fleet.nodes_in(&resuming.lives);
        // By the clock of the nodes: that goes on while nobody has the lock in hand, and no process
        // can set it. What the other process says counts if there is no fence, or if it is more.
        let HandedOver { fence, held, granted_by, .. } = &resuming.handover;
        let (fence, held) = (*fence, *held);
        let proposed = fence.map(|fence| NodeTime::from_micros(fence.get())).or(*granted_by);
        let since = proposed.and_then(|time| self.fleet.time_since(now, time)).unwrap_or_default();
        let most = since.max(held);
        // A fence may be older than the lock, if its client knew the clocks of the nodes badly, and
        // what the other process says counts from before it asked. That makes a hold too short, but
        // it must not cut a period.
        let least = match granted_by {
            Some(granted_by) => self.fleet.least_time_since(now, *granted_by).unwrap_or(held),
            None if resuming.terms.at_least.is_zero() => most,
            None => held,
        };
        *cell.open() = resuming.begin(self.quorum(), members, least, now);
        cell.open().shorten_max_hold(most.saturating_sub(least));
        self.leases.insert(id, LeaseEntry::of(id, cell));
        self.advance_lease(now, id, lease::Input::Extend(resuming.terms.term));
    }

    /// An acquire that has not begun is not wanted any more.
    fn forget(&mut self, id: Id) {
        if let Some(early) = &mut self.early {
            early.retain(|request| !request.begins(id));
        }
        self.polite.retain(|polite| polite.id != id);
    }

    /// Begins what was asked before the nodes were known, once they are: each has been tried, or
    /// enough may vote and the rest takes too long. Nodes that have answered already are only far
    /// away: they get as long again as the majority took, so that the first lock is on all of them.
    pub(super) fn start_early(&mut self, now: Time) {
        if self.early.is_none() {
            return;
        }
        let enough = self.fleet.trusted(now) >= self.quorum().majority();
        if enough {
            self.enough_since.get_or_insert(now);
        }
        let due = now >= self.begun + START_MAX;
        let answered = self.fleet.is_settled() || self.rest_until().is_some_and(|until| now >= until);
        if self.is_settled() || enough && due && answered {
            self.begin_early(now);
        }
    }

    pub(super) fn begin_early(&mut self, now: Time) {
        let early = self.early.take().unwrap_or_default();
        early.into_iter().for_each(|request| self.handle_request(now, request));
    }

    /// Until when nodes that have answered are waited for, once a majority may vote.
    fn rest_until(&self) -> Option<Time> {
        self.enough_since.map(|since| since + since.since(self.begun))
    }

    /// When to look again whether to begin what was asked early.
    pub(super) fn next_start(&self, now: Time) -> Option<Time> {
        self.early.as_ref().filter(|early| !early.is_empty())?;
        let limits = [Some(self.begun + START_MAX), self.rest_until()];
        limits.into_iter().flatten().filter(|limit| *limit > now).min()
    }

    /// Whether every node has been tried, and every one that is connected has told its record.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.tried == self.quorum().all() && self.fleet.is_settled()
    }

    pub(super) fn answer_settled(&mut self) {
        if !self.settling.is_empty() && self.is_settled() {
            for id in std::mem::take(&mut self.settling) {
                self.outbox.say(Output::Settled { id });
            }
        }
    }
}
