//! One command to all nodes under one deadline, and the votes that come back.

mod patience;
mod quorum;
mod validity;

use std::collections::BTreeMap;
use std::time::Duration;

pub use self::patience::Patience;
pub(crate) use self::patience::{Deadlines, Pause, RoundTrips};
pub use self::quorum::{NODES_MAX, NodeIndex, NodeSet, Quorum, QuorumError, Tally, Verdict};
pub use self::validity::Validity;
use crate::command::{Answer, Fault, Refusal, Reply, Vote};
use crate::fence::Fence;
use crate::time::Time;

/// Tells the rounds of one lease apart, so that a late answer is never counted in another round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoundNumber(u32);

/// A round: when it began, and one ballot per node. Whoever opens it keeps the deadlines, while it
/// needs them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Round {
    number: RoundNumber,
    quorum: Quorum,
    /// Nodes whose grant counts. A grant of any other node is kept as a vote but decides nothing.
    counted: NodeSet,
    /// How many of them must grant.
    needed: usize,
    /// Nodes that were found not to be trustworthy while the round was open.
    distrusted: NodeSet,
    started: Time,
    ballots: Vec<Option<Ballot>>,
}

/// A vote and how long it took.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ballot {
    /// What the node said.
    pub vote: Vote,
    elapsed_ns: u64,
}

impl Ballot {
    fn new(vote: Vote, elapsed: Duration) -> Self {
        Self { vote, elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// The time from the start of the round to the answer.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns)
    }
}

impl Round {
    /// Opens a round at `now`, which must be read before the first command is sent.
    pub(crate) fn open(number: RoundNumber, quorum: Quorum, counted: NodeSet, now: Time) -> Self {
        let (needed, ballots) = (quorum.majority(), vec![None; quorum.nodes()]);
        let distrusted = NodeSet::default();
        Self { number, quorum, counted, needed, distrusted, started: now, ballots }
    }

    /// Asks for more than a majority, so that the margin is at least this.
    pub(crate) fn with_margin(mut self, min_margin: usize) -> Self {
        self.needed = self.quorum.needed(min_margin);
        assert!(self.needed >= self.quorum.majority(), "two that hold a lock share a node");
        self
    }

    /// Takes a node's answer. It replaces only a vote that is missing or was written off by the
    /// deadline, so what was counted stays counted, and what was lost stays lost.
    pub(crate) fn take_vote(&mut self, now: Time, node: NodeIndex, answer: Result<Reply, Fault>) {
        assert!(now >= self.started, "the time is taken before the first command leaves");
        let ballot = &mut self.ballots[node.get()];
        if matches!(ballot, None | Some(Ballot { vote: Vote::Unknown(Fault::Timeout), .. })) {
            *ballot = Some(Ballot::new(answer.into(), now.since(self.started)));
        }
    }

    /// Takes a node's grant, as [`Round::take_vote`] does.
    pub(crate) fn grant(&mut self, now: Time, node: NodeIndex) {
        self.take_vote(now, node, Ok(Reply::new(None, Answer::Granted)));
    }

    /// Drops the grant of a node whose connection broke: what it granted may be gone with it.
    pub(crate) fn revoke(&mut self, node: NodeIndex) {
        if let Some(Ballot { vote: vote @ Vote::Granted, .. }) = &mut self.ballots[node.get()] {
            *vote = Vote::Unknown(Fault::Disconnected);
        }
    }

    /// The node's grant counts from now on.
    pub(crate) fn count(&mut self, node: NodeIndex) {
        self.counted.insert(node);
    }

    /// The node's grant must not be counted any more, also if it has not come yet.
    pub(crate) fn distrust(&mut self, node: NodeIndex) {
        self.counted.remove(node);
        self.distrusted.insert(node);
    }

    /// Counts every node that has not answered by its deadline as unknown. Answers that are there
    /// when the deadline is noticed late are worth having, so only a timeout closes a round, never
    /// an answer.
    pub(crate) fn close_if_due(&mut self, now: Time, deadlines: &Deadlines) {
        let elapsed = now.since(self.started);
        for (node, ballot) in self.quorum.indexes().zip(&mut self.ballots) {
            if ballot.is_none() && now >= deadlines.of(node) {
                *ballot = Some(Ballot::new(Vote::Unknown(Fault::Timeout), elapsed));
            }
        }
    }

    /// What the votes so far decide.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.quorum.verdict(self.tally(), self.needed)
    }

    /// Whether the round would still be won if the nodes that found its fence too small had
    /// granted. Then a larger fence is worth another try at once.
    pub(crate) fn is_behind(&self) -> bool {
        let behind = self.where_ballot(|ballot| {
            matches!(ballot, Some(Ballot { vote: Vote::Refused(Refusal::Behind), .. }))
        });
        let Tally { refused, unknown, .. } = self.tally();
        !behind.is_empty() && self.quorum.nodes() + behind.len() - refused - unknown >= self.needed
    }

    /// The fence that the owner holds the lock with already, if the round would still be won had
    /// those nodes granted that name it: the one that most do, of several the largest.
    pub(crate) fn rejoins(&self) -> Option<Fence> {
        let mut named = BTreeMap::<Fence, usize>::new();
        for ballot in self.ballots.iter().flatten() {
            if let Vote::Refused(Refusal::Rejoin { fence }) = ballot.vote {
                *named.entry(fence).or_default() += 1;
            }
        }
        let (fence, nodes) = named.into_iter().max_by_key(|(fence, nodes)| (*nodes, *fence))?;
        let Tally { refused, unknown, .. } = self.tally();
        (self.quorum.nodes() + nodes - refused - unknown >= self.needed).then_some(fence)
    }

    /// Whether a majority is still possible, though not the margin that was asked for.
    pub(crate) fn lacks_only_margin(&self) -> bool {
        let majority = self.quorum.majority();
        let verdict = |needed| self.quorum.verdict(self.tally(), needed);
        verdict(self.needed) == Verdict::Lost && verdict(majority) != Verdict::Lost
    }

    /// How many nodes said what so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for (node, ballot) in self.quorum.indexes().zip(&self.ballots) {
            match ballot.as_ref().map(|ballot| &ballot.vote) {
                None => {}
                Some(Vote::Granted) if self.counted.contains(node) => tally.granted += 1,
                Some(Vote::Refused(_)) => tally.refused += 1,
                Some(Vote::Granted | Vote::Unknown(_)) => tally.unknown += 1,
            }
        }
        tally
    }

    /// The nodes whose grant keeps others out: all that granted, but those that turned out not to
    /// be trustworthy.
    #[must_use]
    pub fn kept(&self) -> NodeSet {
        self.granted().iter().filter(|node| !self.distrusted.contains(*node)).collect()
    }

    /// The nodes that turned out not to be trustworthy while the round was open.
    pub(crate) const fn distrusted(&self) -> NodeSet {
        self.distrusted
    }

    /// The nodes that granted, counted or not.
    #[must_use]
    pub fn granted(&self) -> NodeSet {
        self.where_ballot(|ballot| matches!(ballot, Some(Ballot { vote: Vote::Granted, .. })))
    }

    /// The nodes that refused.
    #[must_use]
    pub fn refused(&self) -> NodeSet {
        self.where_ballot(|ballot| matches!(ballot, Some(Ballot { vote: Vote::Refused(_), .. })))
    }

    /// The nodes that may have executed the command: all but those that refused or never got it.
    #[must_use]
    pub fn may_have_run(&self) -> NodeSet {
        self.where_ballot(|ballot| ballot.is_none_or(|ballot| ballot.vote.may_have_run()))
    }

    /// Whether every node has a vote.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing() == 0
    }

    /// How many nodes have no vote yet.
    pub(crate) fn missing(&self) -> usize {
        self.ballots.iter().filter(|ballot| ballot.is_none()).count()
    }

    /// The ballots in the order of the node list; `None` where no answer has come yet.
    #[must_use]
    pub fn ballots(&self) -> &[Option<Ballot>] {
        &self.ballots
    }

    /// T1: the moment before the first command was sent.
    #[must_use]
    pub const fn started(&self) -> Time {
        self.started
    }

    /// The number answers must carry to be counted here.
    #[must_use]
    pub const fn number(&self) -> RoundNumber {
        self.number
    }

    pub(crate) const fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// When the round has to be looked at again, if it still waits for votes.
    pub(crate) fn timeout(&self, deadlines: &Deadlines) -> Option<Time> {
        let open = self.quorum.indexes().zip(&self.ballots).filter(|(_, ballot)| ballot.is_none());
        open.map(|(node, _)| deadlines.of(node)).min()
    }

    fn where_ballot(&self, matches: impl Fn(Option<&Ballot>) -> bool) -> NodeSet {
        let nodes = self.quorum.indexes().zip(&self.ballots);
        nodes.filter(|(_, ballot)| matches(ballot.as_ref())).map(|(node, _)| node).collect()
    }
}

impl RoundNumber {
    pub(crate) fn take_next(&mut self) -> Self {
        self.0 = self.0.wrapping_add(1);
        *self
    }
}
