//! One attempt at a lock.
//!
//! Open a round with a fresh owner token, count votes, decide. Won: the lock is ours if its
//! validity is still running. Lost: what the attempt may have set on any node has to go, at once;
//! the caller is told as soon as the votes say whether others hold the lock or the nodes cannot be
//! asked.

use std::sync::Arc;
use std::time::Duration;

use super::release::{Ending, Leftovers};
use crate::command::{Answer, Command, Fault, Refusal, Reply, Vote};
use crate::config::{Term, Terms};
use crate::fence::ProposedFence;
use crate::line::{Beside, Place};
use crate::mode::Kind;
use crate::names::LockKey;
use crate::round::{
    Ballot, Deadlines, NodeIndex, NodeSet, Patience, Quorum, Round, RoundNumber, Validity, Verdict,
};
use crate::time::{NodeTime, Time};
use crate::token::Entropy;
use crate::trust::{Distrust, Proposal};

/// An attempt under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Acquire {
    pub(crate) entropy: Entropy,
    pub(crate) fence: Option<ProposedFence>,
    pub(crate) round: Round,
    deadlines: Deadlines,
    /// Set when the attempt's keys were handed to a release, which must happen exactly once.
    pub(crate) cleaned_up: bool,
    /// Nodes that have not been asked yet, because they have not woken us, and when they are asked
    /// all the same.
    pub(crate) unasked: Option<Unasked>,
    /// It was begun because a node had set the lock aside for us.
    pub(crate) from_line: bool,
    /// The latest that the clock of a node showed when it granted; if one did not say, later than
    /// anything.
    pub(crate) granted_by: NodeTime,
}

/// What is still to be sent in an attempt that was begun when the first node woke us.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Unasked {
    pub(crate) commands: Vec<(NodeIndex, Command)>,
    pub(crate) until: Time,
}

/// What the votes of an attempt come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Decision {
    /// Not decided.
    Open,
    /// A majority granted, in time.
    Won(Validity),
    /// Not won, and `cause` says why once the votes tell.
    Lost { cause: Option<Cause> },
}

/// Why an attempt did not give the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A majority of nodes answered, and too few of them were free.
    Contended {
        /// When a majority will be free unless the holder extends; `None` if unknown.
        retry_after: Option<Duration>,
    },
    /// No majority of nodes answered.
    Unavailable,
    /// So many clocks were set back that no majority grants a current fence. The lock is not taken,
    /// and no node is down.
    ClocksSetBack {
        /// When the clocks will have passed those fences.
        left: Duration,
    },
    /// A majority granted it, but only after the ttl had passed.
    TooLate,
    /// The name is used for another kind of lock, or for something else, on too many nodes.
    OtherKind {
        /// What it is.
        found: Kind,
    },
}

/// The end of an acquire without a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NotAcquired {
    /// Why the last attempt failed.
    pub cause: Cause,
    /// The votes of the last attempt, in the order of the node list.
    pub ballots: Vec<Option<Ballot>>,
    /// How many attempts were made.
    pub attempts: u32,
    /// The time from the first attempt to the end.
    pub elapsed: Duration,
    /// Where we stood in line, if we were.
    pub place: Option<Place>,
}

impl Acquire {
    /// Begins an attempt. Nodes that may not vote have voted already, and are not asked.
    pub(crate) fn begin(
        number: RoundNumber,
        quorum: Quorum,
        now: Time,
        terms: &Terms,
        entropy: Entropy,
        proposal: &Proposal,
        patience: &Patience,
    ) -> Self {
        let voters = quorum.indexes().zip(&*proposal.nodes);
        let trusted: NodeSet =
            voters.clone().filter(|(_, voter)| voter.is_ok()).map(|(node, _)| node).collect();
        let round = Round::open(number, quorum, trusted, now);
        let mut round = round.with_margin(terms.min_margin);
        let deadlines = Deadlines::new(now, terms.term, patience);
        for (node, voter) in voters {
            if let Err(fault) = voter {
                // Not asked, so nothing to undo there, whatever it was that went wrong earlier.
                round.take_vote(now, node, Err(fault.clone().not_sent()));
            }
        }
        Self {
            entropy,
            fence: proposal.fence,
            round,
            deadlines,
            cleaned_up: false,
            unasked: None,
            from_line: false,
            granted_by: NodeTime::from_micros(0),
        }
    }

    /// What to send to each node that may vote.
    pub(crate) fn commands(
        &self,
        key: &LockKey,
        term: Term,
        proposal: &Proposal,
        beside: Option<Arc<Beside>>,
    ) -> impl Iterator<Item = (NodeIndex, Command)> {
        let voters = self.round.quorum().indexes().zip(&*proposal.nodes);
        voters.filter_map(move |(node, voter)| {
            let (token, fence, node_ttl_ms) = (self.entropy.token, self.fence, term.node_ttl_ms());
            let nonce = *voter.as_ref().ok()?;
            let (key, beside) = (key.clone(), beside.clone());
            Some((node, Command::Acquire { key, token, node_ttl_ms, nonce, fence, beside }))
        })
    }

    pub(crate) fn decide(&self, now: Time, term: &Term) -> Decision {
        match self.round.verdict() {
            Verdict::Open => Decision::Open,
            // Its release is under way: whatever comes later, this attempt is over.
            _ if self.cleaned_up => Decision::Lost { cause: self.cause() },
            Verdict::Won => {
                let validity = Validity::of(self.round.started(), term);
                if validity.is_over(now) {
                    Decision::Lost { cause: Some(Cause::TooLate) }
                } else {
                    Decision::Won(validity)
                }
            }
            Verdict::Lost => Decision::Lost { cause: self.cause() },
        }
    }

    /// When the attempt has to be looked at again.
    pub(crate) fn timeout(&self) -> Option<Time> {
        let unasked = self.unasked.as_ref().map(|unasked| unasked.until);
        self.round.timeout(&self.deadlines).into_iter().chain(unasked).min()
    }

    /// Writes off the nodes whose time to answer is over.
    pub(crate) fn close_if_due(&mut self, now: Time) {
        self.round.close_if_due(now, &self.deadlines);
    }

    /// The command for a node that was not asked yet.
    pub(crate) fn take_unasked(&mut self, node: NodeIndex) -> Option<Command> {
        let commands = &mut self.unasked.as_mut()?.commands;
        let place = commands.iter().position(|(other, _)| *other == node)?;
        let (_, command) = commands.swap_remove(place);
        if commands.is_empty() {
            self.unasked = None;
        }
        Some(command)
    }

    /// What this attempt may have left on the nodes.
    pub(crate) fn leftovers(&self, term: Term, ending: Ending) -> Leftovers {
        let (token, round) = (self.entropy.token, self.round.number());
        let mut may_hold = self.round.may_have_run();
        for (node, _) in self.unasked.iter().flat_map(|unasked| &unasked.commands) {
            may_hold.remove(*node);
        }
        Leftovers { token, term, round, may_hold, ending }
    }

    /// Why it is lost, once the votes tell.
    pub(crate) fn cause(&self) -> Option<Cause> {
        if let Some(left) = self.set_back() {
            return Some(Cause::ClocksSetBack { left });
        }
        if let Some(found) = self.other_kind() {
            return Some(Cause::OtherKind { found });
        }
        match self.round.quorum().answered(self.round.tally())? {
            true => Some(Cause::Contended { retry_after: self.retry_after() }),
            false => Some(Cause::Unavailable),
        }
    }

    /// Takes note of when a node granted.
    pub(crate) fn note_granted(&mut self, answer: &Result<Reply, Fault>) {
        if let Ok(Reply { answer: Answer::Granted, time, .. }) = answer {
            self.granted_by = self.granted_by.max(time.unwrap_or(NodeTime::from_micros(u64::MAX)));
        }
    }

    /// What a node says that found the fence too small: if the larger one that it knows is from the
    /// future, no larger proposal helps.
    pub(crate) fn believe(&self, answer: Result<Reply, Fault>) -> Result<Reply, Fault> {
        if let (Some(ProposedFence { bounds, .. }), Ok(reply)) = (self.fence, &answer)
            && let (Answer::Refused(Refusal::Behind), Some(fence), Some(time)) =
                (&reply.answer, reply.fence, reply.time)
            && fence > bounds.highest(time)
        {
            let left = Duration::from_micros(fence.get().saturating_sub(time.as_micros()));
            return Err(Fault::Untrusted(Distrust::ClockSetBack { left }));
        }
        answer
    }

    /// What too many nodes for a majority have under this name, if it is of another kind.
    fn other_kind(&self) -> Option<Kind> {
        let other = self.round.ballots().iter().flatten().filter_map(|ballot| match ballot.vote {
            Vote::Refused(Refusal::OtherKind { found }) => Some(found),
            _ => None,
        });
        let quorum = self.round.quorum();
        (quorum.nodes() - other.clone().count() < quorum.majority()).then(|| other.min())?
    }

    /// How long too many nodes for a majority grant no present fence.
    fn set_back(&self) -> Option<Duration> {
        let mut left: Vec<Duration> =
            self.round.ballots().iter().flatten().filter_map(set_back_for).collect();
        let quorum = self.round.quorum();
        left.sort_unstable();
        left.get(quorum.majority().checked_sub(quorum.nodes() - left.len() + 1)?).copied()
    }

    /// A majority needs m - granted more nodes: it is free when that many of the refusing ones are.
    fn retry_after(&self) -> Option<Duration> {
        let mut left: Vec<Duration> = self.round.ballots().iter().flatten().filter_map(time_left).collect();
        left.sort_unstable();
        let missing = self.round.quorum().majority().checked_sub(self.round.tally().granted)?;
        left.get(missing.checked_sub(1)?).copied()
    }
}

const fn set_back_for(ballot: &Ballot) -> Option<Duration> {
    match ballot.vote {
        Vote::Unknown(Fault::Untrusted(Distrust::ClockSetBack { left })) => Some(left),
        _ => None,
    }
}

fn time_left(ballot: &Ballot) -> Option<Duration> {
    match ballot.vote {
        Vote::Refused(Refusal::Held { left } | Refusal::Reserved { left }) if left < Duration::MAX => {
            Some(left)
        }
        _ => None,
    }
}
