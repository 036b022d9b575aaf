//! The part of a lease that is passed on inside one client: a hold goes from the caller that is
//! done with it to one that waits, without a word to the nodes. Who waits, and for how long this
//! may go on, is the matter of `client/cohorts.rs`.
//!
//! Everything about the hold goes with it: its token, its validity, an extension under way, what
//! has to be cleaned up. Only the fence is the next of the range that the acquisition reserved.

use std::sync::Arc;
use std::time::Duration;

use super::standing::{HoldState, Standing};
use super::waiter::Waiter;
use super::{Lease, Phase};
use crate::config::{Terms, Wait};
use crate::lease::Retry;
use crate::round::{Ballot, RoundNumber};
use crate::time::Time;

/// A hold on its way from one lease to another.
#[derive(Debug)]
pub(crate) struct Passed {
    standing: Box<Standing>,
    /// Rounds go on being counted, so that answers under way find theirs.
    rounds: RoundNumber,
    /// Its place in line, which late refusals still have to be told to leave.
    waiter: Option<Box<Waiter>>,
}

/// What leases must have in common to pass a lock on: all that a hold goes by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CohortClass {
    terms: Terms,
    label: Option<Arc<str>>,
    closed: bool,
}

impl Lease {
    /// Whether it may be passed the lock by other callers of its client, and pass it on to them.
    pub(crate) fn is_cohort(&self) -> bool {
        self.terms.cohort && !self.key.is_set()
    }

    /// With whom. How long a caller waits, and how it retries, is its own matter.
    pub(crate) fn cohort_class(&self) -> CohortClass {
        let terms = Terms { wait: Wait::Forever, retry: Retry::default(), ..(*self.terms).clone() };
        CohortClass { terms, label: self.label.clone(), closed: self.closed }
    }

    /// Waits for others of this client, until the wait is over: then it asks the nodes once, as any
    /// other waiter does.
    pub(crate) fn wait_locally(&mut self, now: Time) {
        self.begun = Some(now);
        let until = match self.terms.wait {
            Wait::AtMost(wait) => Some(now + wait),
            Wait::Forever | Wait::No => None,
        };
        self.phase = Phase::Waiting { until };
    }

    pub(super) fn handle_lead(&mut self, now: Time, ticket: bool, pause: Duration) {
        let Phase::Waiting { until } = &mut self.phase else { return };
        self.led = true;
        if pause.is_zero() {
            return self.propose_again(0, ticket);
        }
        let begins = now + pause;
        *until = Some(until.map_or(begins, |limit| limit.min(begins)));
    }

    /// The votes that the hold rests on, if it can be passed on at this moment: it is surely ours,
    /// nobody else knows its token, and a fence is left.
    pub(crate) fn may_pass_on(&self, now: Time) -> Option<&[Option<Ballot>]> {
        let standing = self.standing()?;
        let may = standing.state(now) == HoldState::Held && !standing.disclosed && standing.span > 0;
        may.then(|| standing.round().ballots())
    }

    /// Takes the hold out of this lease, with its next fence. The lease has ended.
    pub(crate) fn pass_on(&mut self, now: Time) -> Option<Passed> {
        self.may_pass_on(now)?;
        let Phase::Held(mut standing) = std::mem::replace(&mut self.phase, Phase::Ended) else { return None };
        standing.fence = standing.fence.map(|fence| fence.plus(1));
        standing.span -= 1;
        Some(Passed { standing, rounds: self.rounds, waiter: self.waiter.take() })
    }

    /// Goes on with a hold that another caller is done with.
    pub(crate) fn receive(&mut self, passed: Passed) {
        let waits = matches!(self.phase, Phase::Waiting { .. });
        assert!(waits, "a lock is passed on to one that waits");
        assert_eq!(self.rounds, RoundNumber::default(), "it has asked no node");
        (self.rounds, self.waiter) = (passed.rounds, passed.waiter);
        if let Some(waiter) = &mut self.waiter {
            // No node has passed it on to this caller.
            waiter.passed_on.0 = None;
        }
        self.phase = Phase::Held(passed.standing);
    }
}
