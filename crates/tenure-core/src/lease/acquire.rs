//! The part of a lease that attempts to get the lock, and the pauses between attempts.
//!
//! An attempt is counted in `attempt.rs`; here is what follows from its outcome: won, the lock is
//! held; lost, what the attempt may have set is cleaned up at once, and the next one is made right
//! away with a larger fence, after a pause, in line, or not at all.

use std::time::Duration;

use super::attempt::{Acquire, Cause, Decision, NotAcquired, Unasked};
use super::release::Ending;
use super::standing::{Period, Standing};
use super::{Lease, Output, Phase, wait};
use crate::command::{Fault, Next};
use crate::config::Wait;
use crate::fence::Fence;
use crate::line::{PARTIAL_WAKE_PATIENCE, POLL_MAX};
use crate::time::Time;
use crate::token::Entropy;
use crate::trust::Proposal;

/// How often one attempt may be made again at once with a larger fence. Once is the rule; more
/// often means that others are winning meanwhile.
pub(super) const PROPOSALS_MAX: u32 = 4;

/// An attempt keeps nodes from others while it lasts. One whose margin cannot be had is made again
/// after so many times as long, or when waiters ask by themselves, whichever is sooner.
const ASIDE: u32 = 20;

impl Lease {
    pub(super) fn handle_attempt(&mut self, now: Time, entropy: Entropy, proposal: &Proposal) {
        let Phase::Waiting { .. } = self.phase else { return };
        self.begun.get_or_insert(now);
        if self.proposals == 0 {
            self.attempts = self.attempts.saturating_add(1);
        }
        let number = self.rounds.take_next();
        let (terms, patience) = (&self.terms, &self.patience);
        let mut acquire = Acquire::begin(number, self.quorum, now, terms, entropy, proposal, patience);
        if let Some(ticket) = proposal.ticket {
            let ticket = ticket.seeking(&self.terms.mode);
            let waiter = self.waiter.get_or_insert_default();
            (waiter.ticket, waiter.draws) = (Some(ticket), waiter.draws.max(1));
        }
        let woken = self.waiter.as_mut().and_then(|waiter| waiter.claims.take());
        let joins = std::mem::replace(&mut self.joins, Fence::NONE) != Fence::NONE;
        let beside = self.beside(woken.is_some(), joins);
        acquire.from_line = woken.is_some();
        let mut unasked = vec![];
        for (node, command) in acquire.commands(&self.key, self.terms.first_term(), proposal, beside) {
            if woken.is_none_or(|woken| woken.contains(node)) {
                self.outputs.push_back(Output::Send { round: number, node, command });
            } else {
                unasked.push((node, command));
            }
        }
        if !unasked.is_empty() {
            let patience = PARTIAL_WAKE_PATIENCE.min(self.terms.term.node_timeout() / 2);
            acquire.unasked = Some(Unasked { commands: unasked, until: now + patience });
        }
        self.phase = Phase::Acquiring(Box::new(acquire));
        // If too few nodes may vote, that is decided.
        self.advance_acquire(now);
    }

    pub(super) fn advance_acquire(&mut self, now: Time) {
        let yields = self.yields_to().is_some();
        let Phase::Acquiring(acquire) = &mut self.phase else { return };
        match acquire.decide(now, &self.terms.term) {
            Decision::Open => {}
            Decision::Won(_) if yields => self.yield_lock(now),
            Decision::Won(validity) => {
                let granted = acquire.round.tally().granted;
                assert!(
                    granted >= self.quorum.majority(),
                    "a majority of nodes that may vote has granted it"
                );
                assert!(!acquire.cleaned_up, "what is undone is not held");
                assert!(validity.end() > now, "a lock is given while it is valid");
                // A larger margin, and others kept out.
                self.ask_the_rest();
                let Phase::Acquiring(acquire) = &mut self.phase else { return };
                let ending = Ending::Release { labelled: self.label.is_some(), next: Next::InLine };
                let term = self.terms.first_term();
                let (leftovers, round) = (acquire.leftovers(term, ending), acquire.round.clone());
                let fence = acquire.fence.map(|proposed| proposed.fence);
                let span = acquire.fence.map_or(0, |proposed| proposed.span);
                let shared = self.terms.mode.is_shared();
                let from_line = (acquire.from_line || self.led) && !self.closed && !shared;
                let mut standing = Standing::new(leftovers, fence, validity, round);
                (standing.span, standing.from_line) = (span, from_line);
                if !self.terms.at_least.is_zero() {
                    let granted_by = acquire.granted_by;
                    standing.period = Some(Box::new(Period { granted_by, from: now }));
                }
                standing.plan_renewal(&self.terms, standing.acquired);
                self.leave_refused(&standing);
                self.phase = Phase::Held(Box::new(standing));
                self.outputs.push_back(Output::Acquired);
            }
            Decision::Lost { cause } => {
                if wait::has_time(self.waiter.as_deref(), &acquire.round) {
                    return;
                }
                let (is_behind, lacks_margin, rejoins) =
                    (acquire.round.is_behind(), acquire.round.lacks_only_margin(), acquire.round.rejoins());
                if !std::mem::replace(&mut acquire.cleaned_up, true) {
                    // Whom we have not asked by now is asked no more: that would come behind the
                    // clean-up.
                    for (node, _) in acquire.unasked.take().into_iter().flat_map(|unasked| unasked.commands) {
                        acquire.round.take_vote(now, node, Err(Fault::Unreachable("not asked".into())));
                    }
                    let ending = if lacks_margin {
                        Ending::Release { labelled: self.label.is_some(), next: Next::InLine }
                    } else {
                        wait::undo(self.waiter.as_deref())
                    };
                    let leftovers = acquire.leftovers(self.terms.first_term(), ending);
                    self.clean_up(now, leftovers);
                }
                if let Some(fence) = rejoins.filter(|_| self.proposals < PROPOSALS_MAX) {
                    // It is our owner's already, with another fence than we asked for.
                    self.joins = fence;
                    self.propose_again(self.proposals + 1, false);
                } else if is_behind && self.proposals < PROPOSALS_MAX {
                    // The nodes are free, only our number was too small. Another attempt with
                    // another owner, behind the release of this one on the same connections: still
                    // one round trip.
                    self.propose_again(self.proposals + 1, false);
                } else if lacks_margin && self.step_aside(now, cause) {
                    // Others go first.
                } else if self.may_keep_ticket() {
                    // Nothing of ours is in anybody's way, and what the rest say matters.
                } else if let Phase::Acquiring(acquire) = &self.phase
                    && let Some(cause) = cause.or_else(|| acquire.cause())
                {
                    self.retry_or_end(now, cause);
                }
            }
        }
    }

    /// The margin that was asked for cannot be had at present. Whoever waits for it in line, or
    /// asks again and again, only holds up those who need less: it leaves the line, and asks again
    /// after many times what the attempt took. `false` if there is no time for another attempt.
    fn step_aside(&mut self, now: Time, cause: Option<Cause>) -> bool {
        let Phase::Acquiring(acquire) = &self.phase else { return false };
        let (took, ballots) = (now.since(acquire.round.started()), acquire.round.ballots().to_vec());
        let pause = self.terms.retry.pause((took * ASIDE).min(POLL_MAX), acquire.entropy.dice);
        let Some(at) = self.next_attempt(now, pause) else { return false };
        self.leave_line();
        self.waiter = None;
        let cause = cause.unwrap_or(Cause::Unavailable);
        self.outputs.push_back(Output::Retrying { cause, at, ballots });
        self.phase = Phase::Waiting { until: Some(at) };
        true
    }

    pub(super) fn propose_again(&mut self, proposals: u32, ticket: bool) {
        self.proposals = proposals;
        self.phase = Phase::Waiting { until: None };
        if let Some(waiter) = &mut self.waiter {
            waiter.begin();
        }
        let fenced = self.terms.fenced;
        let joins = Some(self.joins).filter(|fence| *fence != Fence::NONE);
        self.outputs.push_back(Output::Propose { fenced, ticket, joins });
    }

    pub(super) fn retry_or_end(&mut self, now: Time, cause: Cause) {
        let Phase::Acquiring(acquire) = &self.phase else { return };
        if let Cause::Contended { retry_after } = cause
            && self.terms.queued
            && self.next_attempt(now, Duration::ZERO).is_some()
        {
            return self.wait_in_line(now, retry_after);
        }
        let pause = self.terms.retry.pause(now.since(acquire.round.started()), acquire.entropy.dice);
        // A key of another kind does not become one of this kind.
        let hopeful = !matches!(cause, Cause::OtherKind { .. });
        match self.next_attempt(now, pause).filter(|_| hopeful) {
            Some(at) => {
                let ballots = acquire.round.ballots().to_vec();
                self.outputs.push_back(Output::Retrying { cause, at, ballots });
                self.phase = Phase::Waiting { until: Some(at) };
            }
            None => {
                self.outputs.push_back(Output::NotAcquired(NotAcquired {
                    cause,
                    ballots: acquire.round.ballots().to_vec(),
                    attempts: self.attempts,
                    elapsed: self.elapsed(now),
                    place: self.place(),
                }));
                self.leave_line();
                self.phase = Phase::Ended;
            }
        }
    }

    /// When the next attempt begins, if there is one: after the pause, but not later than the end
    /// of the wait, which gets a last attempt of its own.
    pub(super) fn next_attempt(&self, now: Time, pause: Duration) -> Option<Time> {
        if self.terms.retry.tries_max.is_some_and(|tries_max| self.attempts >= tries_max) {
            return None;
        }
        match self.terms.wait {
            Wait::No => None,
            Wait::Forever => Some(now + pause),
            Wait::AtMost(wait) => {
                let limit = self.begun.expect("an attempt was made") + wait;
                (now < limit).then(|| (now + pause).min(limit))
            }
        }
    }
}
