//! Releases under way: what ends is told to the nodes until they confirm, even if nobody waits for
//! it.

use std::time::Duration;

use super::output::Output;
use super::tag::{Addressee, Id};
use super::timers::{Machine, Timer};
use super::{Client, LeaseCell};
use crate::lease;
use crate::lease::release::{self, Release, ReleaseOutcome};
use crate::round::{NodeSet, RoundNumber};
use crate::time::Time;

/// Callers who want to know of all nodes wait for the others as long again as it took a majority to
/// decide, but at least and at most so long: a node that hangs must not hold up every release.
const ALL_VOTES_LEAST: Duration = Duration::from_millis(2);
const ALL_VOTES_MOST: Duration = Duration::from_millis(150);

/// What a release is known by: the lease that acquired, and the round that it ends. Each ends once.
pub(super) type ReleaseId = (Id, RoundNumber);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReleaseEntry {
    pub(super) release: Release,
    /// The nodes at which this release counts as a debt.
    debt: NodeSet,
    pub(super) timer: Option<Timer>,
    caller: Option<ReleaseCaller>,
}

/// Who waits for the outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ReleaseCaller {
    /// The lease of whoever asked, which need not be the one that acquired.
    id: Id,
    /// The votes of all nodes are waited for when the outcome is known.
    hears_all: bool,
    /// The outcome, and until when the other votes are waited for.
    decided: Option<(ReleaseOutcome, Time)>,
}

impl<L: LeaseCell> Client<L> {
    /// Releases what the lease holds, and tells the outcome: at once, or when all nodes had a
    /// moment to answer.
    pub(super) fn release(&mut self, now: Time, lease: Id, hears_all: bool) {
        let release = self.advance_lease(now, lease, lease::Input::Release);
        match release.and_then(|release| self.releases.get_mut(release)) {
            Some(entry) => {
                entry.caller = Some(ReleaseCaller { id: lease, hears_all, decided: None });
            }
            None => self.outbox.say(Output::NotReleased { lease }),
        }
    }

    pub(super) fn begin_release(&mut self, now: Time, lease: Id, release: Release) -> ReleaseId {
        let id = (lease, release.acquire_round());
        let entry = ReleaseEntry { release, debt: NodeSet::default(), timer: None, caller: None };
        self.releases.insert(id, entry);
        self.drain_release(now, id);
        id
    }

    pub(super) fn advance_release(&mut self, now: Time, id: ReleaseId, input: release::Input) {
        if let Some(entry) = self.releases.get_mut(id) {
            entry.release.handle(now, input);
            self.drain_release(now, id);
        }
    }

    fn drain_release(&mut self, now: Time, id: ReleaseId) {
        let Some(entry) = self.releases.get_mut(id) else { return };
        let (lease, round) = id;
        let mut done = None;
        while let Some(output) = entry.release.poll_output() {
            match output {
                release::Output::Send { node, command } => {
                    self.outbox.send(now, Addressee::Release { lease, round }, node, command);
                }
                release::Output::Outcome { outcome } => {
                    if entry.release.passed_on() {
                        let nudge_after = entry.release.nudge_after();
                        self.waiters.passed_on(now, entry.release.key(), nudge_after);
                    }
                    let took = now.since(entry.release.started());
                    if let Some(caller) = &mut entry.caller {
                        caller.decided = Some((outcome, now + caller.patience(took)));
                    }
                }
                release::Output::Done { unconfirmed } => done = Some(unconfirmed),
            }
        }
        if let Some((id, outcome)) = entry.take_outcome(now, done.is_some()) {
            let ballots = entry.release.ballots().to_vec();
            let frees_within = entry.release.give_up_at().since(now);
            self.outbox.say(Output::Released { lease: id, outcome, ballots, frees_within });
        }
        let timeout = entry.timeout();
        self.timers.set(Machine::Release(lease, round), &mut entry.timer, timeout);
        let overdue = done.is_none() && entry.release.is_overdue();
        let debt = if overdue { entry.release.owed() } else { NodeSet::default() };
        self.debts.change(&mut entry.debt, debt);
        if let Some(unconfirmed) = done {
            let key = entry.release.key().clone();
            self.outbox.say(Output::CleanedUp { key, unconfirmed });
            self.releases.remove(id);
        }
    }
}

impl ReleaseCaller {
    /// How long others are waited for when a majority took so long.
    fn patience(&self, took: Duration) -> Duration {
        if self.hears_all { took.clamp(ALL_VOTES_LEAST, ALL_VOTES_MOST) } else { Duration::ZERO }
    }
}

impl ReleaseEntry {
    /// The outcome, when it is time to tell it, and whom. `last`: no more votes will come.
    fn take_outcome(&mut self, now: Time, last: bool) -> Option<(Id, ReleaseOutcome)> {
        let all = self.release.ballots().iter().all(Option::is_some);
        let is_time = |caller: &mut ReleaseCaller| matches!(caller.decided, Some((_, until)) if all || last || now >= until);
        let ReleaseCaller { id, decided, .. } = self.caller.take_if(is_time)?;
        decided.map(|(outcome, _)| (id, outcome))
    }

    fn timeout(&self) -> Option<Time> {
        let decided = self.caller.as_ref().and_then(|caller| caller.decided);
        self.release.poll_timeout().into_iter().chain(decided.map(|(_, until)| until)).min()
    }
}
