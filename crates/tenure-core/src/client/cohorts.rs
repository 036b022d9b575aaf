//! Callers of this client that pass a lock on among themselves, instead of all asking the nodes.
//!
//! Of those that want one lock, one *leads*: it asks the nodes like anybody else, and the others
//! wait behind it in a *local line*, of which the nodes know nothing. Each round of the leader
//! reserves a fence for everybody who is in the local line when it begins. When the leader is done
//! with the lock, the first of them gets it, with the next fence, and leads from then on.
//!
//! ```text
//!   first call ─► leads ─► asks the nodes ─► holds ─► done: passes it on ─► holds ─► ...
//!   later ones ─► local line ───────────────────────────────┘
//! ```
//! - **Whom a range serves.** Only those that were in the local line when the round began: then
//!   whoever was given a smaller fence than another client's has also called before that client
//!   succeeded, whatever clocks do. Those that came later wait for the next round.
//! - **For how long.** [`COHORT_TIME`] after the nodes gave the lock, and [`COHORT_PASSES_MAX`]
//!   times. Then the next in the local line leads, and asks the nodes: it gets in line there while
//!   the holder still works. So nobody waits here for a holder that is slow, has lost the lock or
//!   has handed it over, and nobody elsewhere for more than that time and one hold.
//! - **What is passed on** is sure to be ours at that moment ([`Lease::may_pass_on`]), for the rest
//!   of its validity.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::time::Duration;

use super::output::{News, Output};
use super::tag::Id;
use super::timers::Machine;
use super::{Client, LeaseCell};
use crate::lease::release::ReleaseOutcome;
use crate::lease::{self, CohortClass, Standing};
use crate::line::{COHORT_PASSES_MAX, COHORT_TIME, OPENING};
use crate::names::LockKey;
use crate::round::Ballot;
use crate::time::Time;

/// A place in a local line. Smaller ones are served first.
pub(super) type LocalPlace = NonZeroU64;

/// All cohorts of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Cohorts {
    by_lock: BTreeMap<LockKey, Cohort>,
    /// Until when locks that are held may be passed on, in order. Some may not be there any more.
    ends: VecDeque<(Time, LockKey)>,
    /// Who holds a lock that was passed on, by whoever acquired it.
    present: BTreeMap<Id, Id>,
    waiting: usize,
}

/// Those that want one lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cohort {
    class: CohortClass,
    /// Who asks the nodes, or holds the lock and may pass it on.
    leader: Id,
    /// Until when it may be passed on, while it is held.
    until: Option<Time>,
    line: BTreeMap<LocalPlace, Id>,
    last: u64,
    /// The last place when the present round began: the range serves up to here.
    served: u64,
}

impl Cohorts {
    /// When to call [`Client::end_cohorts`] again.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.ends.front().map(|(until, _)| *until)
    }

    /// How many wait in local lines.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// A round of this lease begins. How many fences it reserves beside its own.
    pub(super) fn begin_round(&mut self, key: &LockKey, id: Id) -> u32 {
        let Some(cohort) = self.by_lock.get_mut(key).filter(|cohort| cohort.is_asked_for_by(id)) else {
            return 0;
        };
        cohort.served = cohort.last;
        u32::try_from(cohort.line.len()).unwrap_or(u32::MAX).min(COHORT_PASSES_MAX)
    }

    /// The nodes have given the lock to this lease.
    pub(super) fn held(&mut self, now: Time, key: &LockKey, id: Id) {
        if let Some(cohort) = self.by_lock.get_mut(key).filter(|cohort| cohort.is_asked_for_by(id)) {
            let until = now + COHORT_TIME;
            cohort.until = Some(until);
            self.ends.push_back((until, key.clone()));
        }
    }

    /// Whom this lease may pass its lock on to.
    fn next(&self, now: Time, key: &LockKey, holder: Id) -> Option<(LocalPlace, Id)> {
        let cohort = self.by_lock.get(key)?;
        let may = cohort.leader == holder && cohort.until.is_some_and(|until| now < until);
        let (place, next) = cohort.line.first_key_value().filter(|_| may)?;
        (place.get() <= cohort.served).then_some((*place, *next))
    }

    /// Takes one out of a local line.
    fn remove(&mut self, key: &LockKey, place: LocalPlace) {
        let removed = self.by_lock.get_mut(key).and_then(|cohort| cohort.line.remove(&place));
        assert!(removed.is_some(), "whoever has a place is in line");
        self.waiting -= 1;
    }

    /// Who leads when the present leader does so no longer. Nobody is left: there is no cohort.
    fn next_leader(&mut self, key: &LockKey) -> Option<Id> {
        let cohort = self.by_lock.get_mut(key)?;
        let Some((_, next)) = cohort.line.pop_first() else {
            self.by_lock.remove(key);
            return None;
        };
        (cohort.leader, cohort.until) = (next, None);
        self.waiting -= 1;
        Some(next)
    }

    fn leads(&self, key: &LockKey, id: Id) -> bool {
        self.by_lock.get(key).is_some_and(|cohort| cohort.leader == id)
    }
}

impl Cohort {
    const fn led_by(leader: Id, class: CohortClass) -> Self {
        Self { class, leader, until: None, line: BTreeMap::new(), last: 0, served: 0 }
    }

    const fn is_asked_for_by(&self, id: Id) -> bool {
        self.leader.0 == id.0 && self.until.is_none()
    }
}

impl<L: LeaseCell> Client<L> {
    /// The lease that an answer is meant for which was asked for by this one: another one, if the
    /// lock was passed on meanwhile.
    #[must_use]
    pub fn present(&self, id: Id) -> Id {
        self.cohorts.present.get(&id).copied().unwrap_or(id)
    }

    /// Whether a lease that begins waits for another one of this client. If it does not, it asks
    /// the nodes itself: it leads, or is not like those that wait for the same lock.
    pub(super) fn joins_cohort(&mut self, now: Time, id: Id) -> bool {
        let Some(entry) = self.leases.get_mut(id) else { return false };
        let mut lease = entry.lease.open();
        if !lease.is_cohort() {
            return false;
        }
        let Some(cohort) = self.cohorts.by_lock.get_mut(lease.key()) else {
            let cohort = Cohort::led_by(id, lease.cohort_class());
            self.cohorts.by_lock.insert(lease.key().clone(), cohort);
            return false;
        };
        if cohort.class != lease.cohort_class() {
            return false;
        }
        lease.wait_locally(now);
        self.timers.set(Machine::Lease(id), &mut entry.timer, lease.poll_timeout());
        drop(lease);
        cohort.last += 1;
        let place = LocalPlace::new(cohort.last).expect("counted from 1");
        cohort.line.insert(place, id);
        self.cohorts.waiting += 1;
        entry.local = Some(place);
        true
    }

    /// A waiter asks by itself, or is gone.
    pub(super) fn leave_local_line(&mut self, id: Id) {
        if let Some(entry) = self.leases.get_mut(id)
            && let Some(place) = entry.local.take()
        {
            self.cohorts.remove(entry.lease.look().key(), place);
        }
    }

    /// Passes a lock on that its holder is done with, and tells the next one. Returns the votes
    /// that it rests on; `None` if it has to be released.
    pub(super) fn pass_on(&mut self, now: Time, id: Id) -> Option<Vec<Option<Ballot>>> {
        if self.cohorts.waiting == 0 {
            return None;
        }
        let entry = self.leases.get_mut(id)?;
        let mut lease = entry.lease.open();
        let (place, next) = self.cohorts.next(now, lease.key(), id).filter(|_| lease.is_cohort())?;
        let ballots = lease.may_pass_on(now)?.to_vec();
        let fence = lease.standing().and_then(Standing::fence);
        let (passed, key) = (lease.pass_on(now)?, lease.key().clone());
        drop(lease);
        let outer = entry.outer;
        self.timers.clear(&mut entry.timer);
        self.outbox.say(Output::Tell { lease: id, news: News::GivenUp { fence } });
        self.outbox.say(Output::Ended { id });
        self.cohorts.remove(&key, place);
        self.cohorts.by_lock.get_mut(&key).expect("it has just been looked at").leader = next;
        self.cohorts.present.insert(outer, next);
        let entry = self.leases.get_mut(next).expect("whoever is in line is under way");
        (entry.outer, entry.local) = (outer, None);
        let mut lease = entry.lease.open();
        lease.receive(passed);
        self.timers.set(Machine::Lease(next), &mut entry.timer, lease.poll_timeout());
        drop(lease);
        self.outbox.say(Output::Tell { lease: next, news: News::PassedOn });
        Some(ballots)
    }

    /// Tells whoever released a lock that it was passed on.
    pub(super) fn tell_passed_on(&mut self, lease: Id, ballots: Vec<Option<Ballot>>) {
        let (outcome, frees_within) = (ReleaseOutcome::Released, Duration::ZERO);
        self.outbox.say(Output::Released { lease, outcome, ballots, frees_within });
    }

    /// A lease has ended. If it led, the next one does: at once, or when those outside the line had
    /// their turn. The nodes would not hold it up, because it is not in their line.
    pub(super) fn leave_cohort(&mut self, now: Time, (id, outer): (Id, Id), key: &LockKey, opens: bool) {
        if outer != id {
            self.cohorts.present.remove(&outer);
        }
        self.leave_local_line(id);
        if self.cohorts.leads(key, id) {
            self.lead_on(now, key, if opens { OPENING } else { Duration::ZERO });
        }
    }

    /// Locks that may not be passed on any more: the next in the local line asks the nodes.
    pub(super) fn end_cohorts(&mut self, now: Time) {
        while self.cohorts.ends.front().is_some_and(|(until, _)| *until <= now) {
            let Some((_, key)) = self.cohorts.ends.pop_front() else { return };
            let over = |cohort: &Cohort| cohort.until.is_some_and(|until| until <= now);
            if self.cohorts.by_lock.get(&key).is_some_and(over) {
                self.lead_on(now, &key, Duration::ZERO);
            }
        }
    }

    /// The client is shut down: whoever waits asks nobody any more.
    pub(super) fn disband_cohorts(&mut self) {
        for id in self.leases.keys() {
            self.leave_local_line(id);
        }
        self.cohorts.by_lock.clear();
        self.cohorts.ends.clear();
    }

    fn lead_on(&mut self, now: Time, key: &LockKey, pause: Duration) {
        let Some(next) = self.cohorts.next_leader(key) else { return };
        if let Some(entry) = self.leases.get_mut(next) {
            entry.local = None;
        }
        let ticket = self.waiters.is_wanted(key);
        self.advance_lease(now, next, lease::Input::Lead { ticket, pause });
    }
}
