//! One extension of a held lock.
//!
//! It counts only nodes that this lease already counted, it must be decided while the old validity
//! still runs, and when it fails the old validity stands: nothing is released and nothing
//! shortened.

use crate::config::Term;
use crate::round::{Ballot, Deadlines, NodeSet, Patience, Quorum, Round, RoundNumber, Validity, Verdict};
use crate::time::Time;

/// An extension under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extend {
    pub(crate) round: Round,
    pub(crate) deadlines: Deadlines,
    pub(crate) term: Term,
}

/// What the votes of an extension come to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ExtendDecision {
    Open,
    Extended(Validity),
    NotExtended(NotExtended),
}

/// Why an extension did not happen. The old validity stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotExtended {
    /// A majority of nodes said that the key is gone or another's: the lock is lost.
    Lost {
        /// The votes, in the order of the node list.
        ballots: Vec<Option<Ballot>>,
    },
    /// A majority of nodes answered, but too few of them still have the key; the rest is not known.
    Refused {
        /// The votes, in the order of the node list.
        ballots: Vec<Option<Ballot>>,
    },
    /// No majority of nodes gave an answer.
    Unavailable {
        /// The votes, in the order of the node list.
        ballots: Vec<Option<Ballot>>,
    },
    /// Too few of the nodes that counted for a lock that was handed over are still in the life of
    /// their memory in which they did: nothing was asked of them.
    Outdated {
        /// How many still are, or may be.
        left: usize,
    },
    /// The validity was over, or so nearly that the lock counts as lost, before the extension was
    /// decided.
    Expired,
    /// The extension would hold the lock for longer than `max_hold`.
    MaxHold,
    /// The lock was renewed as often as `renewals_max` allows.
    RenewalsMax,
}

impl Extend {
    /// Begins an extension of a lock held on `members`. Answers after the `old` validity counts as
    /// lost are worth nothing, so nobody waits for them.
    pub(crate) fn begin(
        number: RoundNumber,
        quorum: Quorum,
        members: NodeSet,
        now: Time,
        term: Term,
        old: Validity,
        patience: &Patience,
    ) -> Self {
        let deadlines = Deadlines::new(now, term, patience).until(old.loss());
        Self { round: Round::open(number, quorum, members, now), deadlines, term }
    }

    /// Writes off the nodes whose time to answer is over.
    pub(crate) fn close_if_due(&mut self, now: Time) {
        self.round.close_if_due(now, &self.deadlines);
    }

    /// When it has to be looked at again, if it still waits for votes.
    pub(crate) fn timeout(&self) -> Option<Time> {
        self.round.timeout(&self.deadlines)
    }

    /// Decides, given the validity the lock had so far.
    pub(crate) fn decide(&self, now: Time, old: Validity) -> ExtendDecision {
        let tally = self.round.tally();
        let ballots = || self.round.ballots().to_vec();
        let quorum = self.round.quorum();
        if tally.refused >= quorum.majority() {
            return ExtendDecision::NotExtended(NotExtended::Lost { ballots: ballots() });
        }
        match self.round.verdict() {
            Verdict::Open => ExtendDecision::Open,
            // Decided too late: the holder has been told that the lock is lost.
            Verdict::Won if old.is_lost(now) => ExtendDecision::NotExtended(NotExtended::Expired),
            Verdict::Won => ExtendDecision::Extended(old.max(Validity::of(self.round.started(), &self.term))),
            // Only a complete round tells whether a majority said no.
            Verdict::Lost if !self.round.is_complete() => ExtendDecision::Open,
            Verdict::Lost if old.is_lost(now) => ExtendDecision::NotExtended(NotExtended::Expired),
            Verdict::Lost => ExtendDecision::NotExtended(match quorum.answered(tally) {
                Some(true) => NotExtended::Refused { ballots: ballots() },
                _ => NotExtended::Unavailable { ballots: ballots() },
            }),
        }
    }
}
