//! Which node said what: part of every error and of every guard.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Ballot, Fault, Refusal, Rounded, Vote};

/// The votes of one round, in the order of the node list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Votes(Vec<NodeVote>);

/// One node's vote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeVote {
    /// The node's address.
    pub node: Arc<str>,
    /// What it said; `None` if the round was decided before its answer arrived.
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

    /// Why no majority of nodes can vote, in words: each node that cannot, with its reason.
    #[must_use]
    pub fn outage(&self) -> String {
        self.lacking("cannot vote", "votes")
    }

    /// Whether retrying is pointless, because too many nodes cannot be used as configured: a wrong
    /// password, settings or a node list that differ from other clients', a server that must not be
    /// a node.
    #[must_use]
    pub fn is_misconfigured(&self) -> bool {
        self.0.iter().filter(|vote| !vote.fault().is_some_and(Fault::is_misconfigured)).count()
            < self.majority()
    }

    /// When a majority of nodes may vote, if that comes by itself at a known time.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let able = self.0.iter().filter(|vote| vote.fault().is_none()).count();
        let mut left: Vec<Duration> = self.0.iter().filter_map(NodeVote::left).collect();
        left.sort_unstable();
        left.get(self.majority().checked_sub(able + 1)?).copied()
    }

    /// What to do about an outage, in words.
    #[must_use]
    pub fn remedy(&self) -> String {
        if self.is_misconfigured() {
            "Fix the configuration: retrying does not help".to_owned()
        } else if let Some(left) = self.retry_after() {
            format!("Retry in {}", Rounded(left))
        } else if self.0.iter().all(|vote| vote.node.starts_with("sqlite:")) {
            "Find out what keeps the disk busy, then retry".to_owned()
        } else if self.nodes() == 1 {
            "Check that it is up and reachable, then retry".to_owned()
        } else {
            "Check that these nodes are up and reachable, then retry".to_owned()
        }
    }

    /// What the nodes lack for a majority of what is needed.
    pub(crate) fn lacking(&self, lack: &str, needed: &str) -> String {
        let faults = self.0.iter().filter_map(|vote| Some((&*vote.node, vote.fault()?.to_string())));
        let (count, named) = (faults.clone().count(), reasons(faults, self.nodes()));
        match self.nodes() {
            1 => named,
            nodes => format!("{count} of {nodes} nodes {lack}, {} {needed} needed. {named}", self.majority()),
        }
    }

    fn count(&self, matches: impl Fn(&Vote) -> bool) -> usize {
        self.0.iter().filter_map(|vote| vote.vote.as_ref()).filter(|vote| matches(vote)).count()
    }
}

/// Nodes with their reasons: each reason once, however many of `all` nodes have it.
pub(crate) fn reasons<'a>(nodes: impl Iterator<Item = (&'a str, String)>, all: usize) -> String {
    let mut reasons: Vec<(String, Vec<&str>)> = vec![];
    for (node, reason) in nodes {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, nodes)) => nodes.push(node),
            None => reasons.push((reason, vec![node])),
        }
    }
    let named = reasons.iter().map(|(reason, nodes)| match nodes.len() {
        count if count == all && all > 1 => format!("All nodes: {reason}"),
        _ => format!("{}: {reason}", nodes.join(", ")),
    });
    named.collect::<Vec<_>>().join("; ")
}

impl NodeVote {
    /// Why it gave no answer that counts.
    fn fault(&self) -> Option<&Fault> {
        match &self.vote {
            Some(Vote::Unknown(fault)) => Some(fault),
            _ => None,
        }
    }

    /// How long it is kept from voting, if that ends by itself.
    fn left(&self) -> Option<Duration> {
        match self.fault() {
            Some(Fault::Untrusted(distrust)) => distrust.left(),
            _ => None,
        }
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
            None => f.write_str("not waited for"),
            Some(Vote::Granted) => f.write_str("granted"),
            Some(Vote::Refused(Refusal::Held { left: Duration::MAX })) => {
                f.write_str("held by another owner and never expires")
            }
            Some(Vote::Refused(Refusal::Held { left })) => {
                write!(f, "held by another client for {} more", Rounded(*left))
            }
            Some(Vote::Refused(Refusal::NotHeld)) => f.write_str("not held"),
            Some(Vote::Refused(Refusal::Behind)) => f.write_str("granted to another client meanwhile"),
            Some(Vote::Refused(Refusal::OtherKind { found })) => write!(f, "has {found}"),
            Some(Vote::Refused(_)) => f.write_str("refused"),
            Some(Vote::Unknown(fault)) => fault.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::Distrust;

    use super::*;

    /// What nodes at these addresses said.
    fn votes(said: &[(&str, Option<Vote>)]) -> Votes {
        let vote = |(node, vote): &(&str, Option<Vote>)| NodeVote {
            node: (*node).into(),
            vote: vote.clone(),
            elapsed: Duration::ZERO,
        };
        Votes(said.iter().map(vote).collect())
    }

    fn quarantined(seconds: u64) -> Option<Vote> {
        Some(Vote::Unknown(Fault::Untrusted(Distrust::Quarantined { left: Duration::from_secs(seconds) })))
    }

    #[test]
    fn a_retry_is_worth_it_when_the_last_vote_of_a_majority_is_there() {
        let down = Some(Vote::Unknown(Fault::Timeout));
        let five = |others: [Option<Vote>; 4]| {
            let said: Vec<_> = [None].into_iter().chain(others).map(|vote| ("redis://a", vote)).collect();
            votes(&said).retry_after()
        };
        let secs = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(five([quarantined(9), quarantined(5), quarantined(7), down.clone()]), secs(7));
        assert_eq!(five([quarantined(9), Some(Vote::Granted), quarantined(7), down.clone()]), secs(7));
        assert_eq!(five([quarantined(9), down.clone(), down.clone(), down]), None, "nobody knows");
    }

    #[test]
    fn each_reason_is_told_once_and_what_to_do_fits_the_node() {
        let silent = || Some(Vote::Unknown(Fault::Timeout));
        let store = votes(&[("sqlite:/a", silent())]);
        assert_eq!(store.outage(), "sqlite:/a: no answer in time");
        assert_eq!(store.remedy(), "Find out what keeps the disk busy, then retry");
        let fleet = votes(&[("redis://a", silent()), ("redis://b", silent()), ("redis://c", None)]);
        assert_eq!(
            fleet.outage(),
            "2 of 3 nodes cannot vote, 2 votes needed. redis://a, redis://b: no answer in time"
        );
        assert_eq!(fleet.remedy(), "Check that these nodes are up and reachable, then retry");
    }
}
