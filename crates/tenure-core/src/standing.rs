//! A lock that is held: what the lease knows about it, and what late votes and extensions change.

use std::time::Duration;

use crate::command::{Answer, Fault, Refusal, Reply, Vote};
use crate::config::{MaxHold, Term};
use crate::extend::{Extend, NotExtended};
use crate::fence::Fence;
use crate::quorum::{NodeIndex, NodeSet};
use crate::release::Claim;
use crate::round::{Ballot, Round, RoundNumber};
use crate::time::Time;
use crate::token::OwnerToken;
use crate::validity::Validity;

/// A lock that is held: since when, until when, and by whose votes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// What has to be undone in the end. Its nodes are more than the members, because answers get lost.
    pub(crate) claim: Claim,
    pub(crate) fence: Option<Fence>,
    pub(crate) acquired: Time,
    pub(crate) validity: Validity,
    /// The last round that won. It still takes late votes, which raise the margin.
    pub(crate) round: Round,
    /// Nodes this lease has counted and that have not said otherwise since.
    pub(crate) members: NodeSet,
    pub(crate) extending: Option<Extend>,
    /// Nodes that said in a round that was won that they do not have the key.
    pub(crate) missing: NodeSet,
    /// Nodes on which the key was put back, each with the moment from which it counts there: a quarantine after it was
    /// first seen to be there.
    pub(crate) healed: Vec<(NodeIndex, Option<Time>)>,
    /// A majority of nodes said that the lock is no longer ours.
    pub(crate) lost: bool,
}

impl Standing {
    pub(crate) fn new(claim: Claim, fence: Option<Fence>, validity: Validity, round: Round) -> Self {
        let (acquired, members, missing) = (round.started(), round.kept(), NodeSet::default());
        let (extending, healed, lost) = (None, vec![], false);
        Self { claim, fence, acquired, validity, round, members, extending, missing, healed, lost }
    }

    /// The fence, if the lock has one.
    #[must_use]
    pub const fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// The owner token.
    #[must_use]
    pub const fn token(&self) -> OwnerToken {
        self.claim.token
    }

    /// Until when the lock is ours.
    #[must_use]
    pub const fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether a majority of nodes said that the lock is no longer ours.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// How many of the nodes confirmed for the current validity may forget the lock before another client
    /// could win it.
    #[must_use]
    pub fn margin(&self) -> usize {
        let held = self.round.granted().iter().filter(|node| self.members.contains(*node)).count();
        self.round.quorum().margin(held)
    }

    /// The votes of the last round that won.
    #[must_use]
    pub const fn round(&self) -> &Round {
        &self.round
    }

    /// Takes a vote that came after the round was won.
    pub(crate) fn take_late_vote(&mut self, now: Time, node: NodeIndex, answer: Result<Reply, Fault>) {
        // What arrives after the end proves nothing: the key may have been set when others had the lock.
        if !self.validity.is_over(now) {
            let refused = is_refusal(&answer);
            self.note_missing(&answer, node);
            self.round.record(now, node, answer);
            for node in self.countable(&self.round).iter() {
                self.members.insert(node);
                // It is a member whichever answer is read first.
                if let Some(extend) = &mut self.extending {
                    extend.round.count(node);
                }
            }
            if refused {
                self.forget(node);
            }
        }
    }

    /// The nodes whose grants in this round count from now on: not those that were healed too short a time before.
    fn countable(&self, round: &Round) -> NodeSet {
        let counts = |from: &Option<Time>| from.is_some_and(|from| round.started() >= from);
        let fresh = |node| self.healed.iter().any(|(healed, from)| *healed == node && !counts(from));
        round.kept().iter().filter(|node| !fresh(*node)).collect()
    }

    fn note_missing(&mut self, answer: &Result<Reply, Fault>, node: NodeIndex) {
        if matches!(answer, Ok(Reply { answer: Answer::Refused(Refusal::NotHeld), .. })) {
            self.missing.insert(node);
        }
    }

    pub(crate) fn is_extending(&self, number: RoundNumber) -> bool {
        self.extending.as_ref().is_some_and(|extend| extend.round.number() == number)
    }

    pub(crate) fn take_extend_vote(&mut self, now: Time, node: NodeIndex, answer: Result<Reply, Fault>) {
        let Some(extend) = &mut self.extending else { return };
        let refused = is_refusal(&answer);
        extend.round.record(now, node, answer);
        if refused {
            self.forget(node);
        }
    }

    /// This node has just said that it does not have our key. Said earlier it proves nothing: the key may have been
    /// put back since.
    fn forget(&mut self, node: NodeIndex) {
        self.members.remove(node);
        // What puts it back may be under way.
        if !self.healed.iter().any(|(healed, _)| *healed == node) {
            self.claim.may_hold.remove(node);
        }
    }

    /// This node has our key. If it was put back there, it counts a quarantine from now.
    pub(crate) fn note_healed(
        &mut self,
        now: Time,
        quarantine: Duration,
        answer: &Result<Reply, Fault>,
        node: NodeIndex,
    ) {
        if matches!(answer, Ok(Reply { answer: Answer::Granted, .. })) {
            let healed = self.healed.iter_mut().find(|(healed, _)| *healed == node);
            if let Some((_, from @ None)) = healed {
                *from = Some(now + quarantine);
            }
        }
    }

    pub(crate) fn may_extend(&self, now: Time, term: &Term, max_hold: MaxHold) -> Result<(), NotExtended> {
        if self.lost {
            return Err(NotExtended::Lost { ballots: self.round.ballots().to_vec() });
        }
        if self.validity.is_over(now) {
            return Err(NotExtended::Expired);
        }
        match max_hold {
            MaxHold::AtMost(limit) if now + term.ttl() > self.acquired + limit => Err(NotExtended::MaxHold),
            _ => Ok(()),
        }
    }

    /// A majority of members confirmed the extension. Grants of other nodes count from here on, if they were not
    /// healed just now: the round proves that nobody else had the lock, so a key of ours that is there is ours
    /// without a gap.
    pub(crate) fn confirm(&mut self, validity: Validity) {
        let extend = self.extending.take().expect("only an extension under way is confirmed");
        assert!(validity >= self.validity, "an extension never shortens");
        self.countable(&extend.round).iter().for_each(|node| self.members.insert(node));
        for (node, ballot) in extend.round.quorum().indexes().zip(extend.round.ballots()) {
            if matches!(ballot, Some(Ballot { vote: Vote::Refused(Refusal::NotHeld), .. })) {
                self.missing.insert(node);
            }
        }
        // A shorter extension proves less than the round that the end counts from, so that one stays.
        if validity > self.validity {
            self.validity = validity;
            self.round = extend.round;
        }
    }
}

const fn is_refusal(answer: &Result<Reply, Fault>) -> bool {
    matches!(answer, Ok(Reply { answer: Answer::Refused(_), .. }))
}
