//! Which node said what: part of every error and of every guard.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Ballot, Fault, Refusal, Vote};

/// The votes of one round, in the order of the node list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Votes(Vec<NodeVote>);

/// One node's vote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeVote {
    /// The node's address.
    pub node: Arc<str>,
    /// What it said; `None` if the round was decided before its answer came.
    pub vote: Option<Vote>,
    /// How long the answer took; zero if there is none.
    pub elapsed: Duration,
}

impl Votes {
    pub(crate) fn new(nodes: &[Arc<str>], ballots: &[Option<Ballot>]) -> Self {
        let votes = nodes.iter().zip(ballots).map(|(node, ballot)| NodeVote {
            node: Arc::clone(node),
            vote: ballot.as_ref().map(|ballot| ballot.vote.clone()),
            elapsed: ballot.as_ref().map_or(Duration::ZERO, Ballot::elapsed),
        });
        Self(votes.collect())
    }

    /// One vote per node, in the order of the node list.
    pub fn iter(&self) -> std::slice::Iter<'_, NodeVote> {
        self.0.iter()
    }

    /// How many nodes granted.
    #[must_use]
    pub fn granted(&self) -> usize {
        self.count(|vote| matches!(vote, Vote::Granted))
    }

    /// How many nodes refused.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.count(|vote| matches!(vote, Vote::Refused(_)))
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.0.len()
    }

    /// How many nodes must grant.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.nodes() / 2 + 1
    }

    /// How many nodes answered, with yes or no.
    pub(crate) fn answered(&self) -> usize {
        self.granted() + self.refused()
    }

    /// The addresses of the nodes that gave no answer that counts, for messages that say what to check.
    pub(crate) fn failed(&self) -> String {
        let failed = self.0.iter().filter(|vote| matches!(vote.vote, Some(Vote::Unknown(_))));
        failed.map(|vote| &*vote.node).collect::<Vec<_>>().join(", ")
    }

    fn count(&self, matches: impl Fn(&Vote) -> bool) -> usize {
        self.0.iter().filter_map(|vote| vote.vote.as_ref()).filter(|vote| matches(vote)).count()
    }
}

impl<'a> IntoIterator for &'a Votes {
    type Item = &'a NodeVote;
    type IntoIter = std::slice::Iter<'a, NodeVote>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, vote) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{vote}")?;
        }
        Ok(())
    }
}

impl fmt::Display for NodeVote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.node)?;
        match &self.vote {
            None => write!(f, "no answer yet"),
            Some(Vote::Granted) => write!(f, "granted"),
            Some(Vote::Refused(Refusal::Held { left: Duration::MAX })) => {
                write!(f, "held by another without an end")
            }
            Some(Vote::Refused(Refusal::Held { left })) => write!(f, "held by another for {left:?} more"),
            Some(Vote::Refused(Refusal::NotHeld)) => write!(f, "not held"),
            Some(Vote::Refused(Refusal::Behind)) => write!(f, "granted to another meanwhile"),
            Some(Vote::Refused(_)) => write!(f, "refused"),
            Some(Vote::Unknown(Fault::Timeout)) => write!(f, "no answer in time"),
            Some(Vote::Unknown(Fault::Disconnected)) => write!(f, "connection lost"),
            Some(Vote::Unknown(Fault::Unreachable(reason))) => write!(f, "not reachable ({reason})"),
            Some(Vote::Unknown(Fault::Busy)) => write!(f, "too many commands in flight"),
            Some(Vote::Unknown(Fault::Error(message))) => write!(f, "error {message:?}"),
            Some(Vote::Unknown(Fault::Store { reason, .. })) => f.write_str(reason),
            Some(Vote::Unknown(Fault::Untrusted(distrust))) => write!(f, "not counted, {distrust}"),
            Some(Vote::Unknown(_)) => write!(f, "unknown"),
        }
    }
}
