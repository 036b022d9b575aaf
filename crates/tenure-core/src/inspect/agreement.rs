//! What the nodes together say about a lock: what a majority of them says, and which of them say
//! otherwise.
//!
//! A lock is held if a majority of nodes has it for the same owner, and free if a majority does not
//! have it, whatever the others say: a key that is left on a few nodes keeps nobody out. Only nodes
//! that may vote are counted, as in an acquire, because one that forgot its locks calls all of them
//! free.

use std::sync::Arc;
use std::time::Duration;

use super::presence;
use crate::command::Holding;
use crate::fence::Fence;
use crate::mode;
use crate::note::{HoldId, Waiter};
use crate::round::{NodeIndex, NodeSet, Quorum};

/// What a majority of nodes says about a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockState {
    /// Nobody holds it.
    Free,
    /// One owner holds it on a majority of nodes.
    #[non_exhaustive]
    Held {
        /// The owner: an owner token, or the beginning of what a client of another library wrote.
        owner: Arc<str>,
        /// The holder's label, if any.
        label: Option<Arc<str>>,
        /// When it frees unless extended; `None` if never.
        left: Option<Duration>,
        /// The largest fence that these nodes have granted for the lock: the holder's, unless it
        /// has none or is a client of another library; for a cohort, the last one reserved.
        fence: Option<Fence>,
        /// How many readers share it (the median of what the nodes say; the owner is `shared`
        /// then), or how often its owner holds it, if it is reentrant.
        sharers: Option<u64>,
        /// What kind of lock it is.
        kind: mode::Kind,
    },
    /// Its holder has released it, but a majority of nodes keeps it from everybody for the rest of
    /// its period.
    #[non_exhaustive]
    Kept {
        /// The last owner, as the nodes know it.
        owner: Arc<str>,
        /// The last holder's label, if any.
        label: Option<Arc<str>>,
        /// When it frees.
        left: Option<Duration>,
        /// The largest fence that these nodes have granted for it.
        fence: Option<Fence>,
    },
    /// Nobody holds it, but a majority of nodes has reserved it for the next in line.
    #[non_exhaustive]
    Reserved {
        /// When it frees.
        left: Option<Duration>,
    },
    /// A majority answered, but no majority agrees: clients are acquiring it right now, or keys
    /// were left on some nodes.
    Disputed,
    /// No majority of nodes that may vote answered.
    Unknown,
}

/// What one node says about one lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Word<'a> {
    /// The key as the node has it, if it does.
    pub holding: Option<&'a Holding>,
    /// How many it has in line, if it told.
    pub waiters: Option<u64>,
    /// The first of them, if it told.
    pub line: &'a [Waiter],
}

/// What the nodes together say about one lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Agreement {
    /// What a majority says.
    pub state: LockState,
    /// How many are in line, by the middle of what the nodes say; without the one that it is set
    /// aside for.
    pub waiters: Option<u64>,
    /// Those whom a majority has in line, in order, with what they say about themselves.
    pub line: Vec<Waiter>,
    /// The holds that a majority has. Several, if the lock is shared or reentrant.
    pub holds: Vec<HoldId>,
    /// The nodes that say the same as the majority, counted or not.
    pub agree: NodeSet,
    /// The nodes that say otherwise, counted or not. All that answered, if there is no majority.
    pub disagree: NodeSet,
}

/// What a node says, as far as it has to be the same: reservations are made by each node for
/// itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind<'a> {
    Free,
    Held(&'a str),
    Reserved,
}

impl Agreement {
    /// What `words`, one for every node that answered, come to if `voters` are counted.
    #[must_use]
    pub fn of(quorum: Quorum, voters: NodeSet, words: &[Option<Word<'_>>]) -> Self {
        let said = || {
            let words = quorum.indexes().zip(words);
            words.filter_map(|(node, word)| word.map(|word| (node, word)))
        };
        let counted = || said().filter(|(node, _)| voters.contains(*node));
        let waiters = middle(counted().filter_map(|(_, word)| word.waiters).collect());
        let counted_words = || counted().map(|(_, word)| word);
        let line = presence::line(quorum, counted_words());
        let holds = presence::holds(quorum, counted_words());
        let agreeing = |kind| counted().filter(move |(_, word)| word.kind() == kind);
        let decided =
            counted().map(|(_, word)| word.kind()).find(|kind| agreeing(*kind).count() >= quorum.majority());
        let Some(kind) = decided else {
            let answered = counted().count() >= quorum.majority();
            let state = if answered { LockState::Disputed } else { LockState::Unknown };
            let disagree = if answered { said().map(|(node, _)| node).collect() } else { NodeSet::default() };
            return Self { state, waiters, line, holds, agree: NodeSet::default(), disagree };
        };
        let holdings: Vec<&Holding> = agreeing(kind).filter_map(|(_, word)| word.holding).collect();
        let left = || majority_left(quorum, &holdings);
        let label = || holdings.iter().find_map(|holding| holding.label.clone());
        let fence = || holdings.iter().filter_map(|holding| holding.fence).max();
        let state = match kind {
            Kind::Free => LockState::Free,
            Kind::Reserved => LockState::Reserved { left: left() },
            Kind::Held(owner) if holdings.iter().any(|holding| holding.is_kept()) => {
                LockState::Kept { owner: owner.into(), label: label(), left: left(), fence: fence() }
            }
            Kind::Held(owner) => LockState::Held {
                owner: owner.into(),
                label: label(),
                left: left(),
                fence: fence(),
                kind: holdings.first().map(|holding| holding.kind).unwrap_or_default(),
                sharers: middle(
                    holdings
                        .iter()
                        .filter_map(|holding| {
                            holding.count.or_else(|| Some(holding.sharers.as_ref()?.len() as u64))
                        })
                        .collect(),
                ),
            },
        };
        let those = |same: bool| {
            let nodes = said().filter(move |(_, word)| (word.kind() == kind) == same);
            nodes.map(|(node, _): (NodeIndex, _)| node).collect()
        };
        Self { state, waiters, line, holds, agree: those(true), disagree: those(false) }
    }
}

impl LockState {
    /// Who holds it, or held it last.
    #[must_use]
    pub const fn owner(&self) -> Option<&Arc<str>> {
        match self {
            Self::Held { owner, .. } | Self::Kept { owner, .. } => Some(owner),
            _ => None,
        }
    }

    /// The holder's label.
    #[must_use]
    pub const fn label(&self) -> Option<&Arc<str>> {
        match self {
            Self::Held { label, .. } | Self::Kept { label, .. } => label.as_ref(),
            _ => None,
        }
    }

    /// When it frees unless extended.
    #[must_use]
    pub const fn left(&self) -> Option<Duration> {
        match self {
            Self::Held { left, .. } | Self::Kept { left, .. } | Self::Reserved { left } => *left,
            _ => None,
        }
    }

    /// The fence it was granted with.
    #[must_use]
    pub const fn fence(&self) -> Option<Fence> {
        match self {
            Self::Held { fence, .. } | Self::Kept { fence, .. } => *fence,
            _ => None,
        }
    }

    /// The same whenever it is looked at.
    pub(super) fn without_time(&self) -> Self {
        let mut state = self.clone();
        if let Self::Held { left, .. } | Self::Kept { left, .. } | Self::Reserved { left } = &mut state {
            *left = None;
        }
        state
    }
}

impl<'a> Word<'a> {
    fn kind(self) -> Kind<'a> {
        match self.holding {
            None => Kind::Free,
            Some(holding) if holding.is_reserved() => Kind::Reserved,
            Some(holding) => Kind::Held(&holding.owner),
        }
    }
}

/// How long a majority still has it: until the node ends that is the last one needed.
fn majority_left(quorum: Quorum, holdings: &[&Holding]) -> Option<Duration> {
    let mut left: Vec<Duration> =
        holdings.iter().map(|holding| holding.left.unwrap_or(Duration::MAX)).collect();
    left.sort_unstable_by(|a, b| b.cmp(a));
    left.get(quorum.majority() - 1).copied().filter(|left| *left != Duration::MAX)
}

fn middle(mut numbers: Vec<u64>) -> Option<u64> {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(owner: &str, left_ms: u64) -> Option<Holding> {
        let left = Some(Duration::from_millis(left_ms));
        Some(Holding {
            key: "x".into(),
            owner: owner.into(),
            left,
            fence: None,
            label: None,
            sharers: None,
            kind: mode::Kind::Plain,
            count: None,
        })
    }

    /// What they come to, for nodes that answer with these keys; the first `voters` of them are
    /// counted.
    fn agreement(voters: usize, nodes: &[Option<Option<Holding>>]) -> (LockState, [Vec<usize>; 2]) {
        let quorum = Quorum::of(nodes.len()).unwrap();
        let word = |node| Word { holding: Option::as_ref(node), ..Word::default() };
        let words: Vec<_> = nodes.iter().map(|node| node.as_ref().map(word)).collect();
        let voters = quorum.indexes().take(voters).collect();
        let Agreement { state, agree, disagree, .. } = Agreement::of(quorum, voters, &words);
        (state, [agree, disagree].map(|set| set.iter().map(NodeIndex::get).collect()))
    }

    #[test]
    fn a_lock_is_held_by_whom_a_majority_says_and_for_as_long_as_a_majority_has_it() {
        let nodes = [held("a", 50), held("a", 70), held("b", 99), held("a", 10), None].map(Some);
        let (state, sets) = agreement(5, &nodes);
        let left = Some(Duration::from_millis(10));
        assert_eq!(
            state,
            LockState::Held {
                owner: "a".into(),
                label: None,
                left,
                fence: None,
                sharers: None,
                kind: mode::Kind::Plain
            }
        );
        assert_eq!(sets, [vec![0, 1, 3], vec![2, 4]]);
    }

    #[test]
    fn a_key_that_a_minority_has_is_no_lock() {
        let nodes = [held("a", 50), None, None].map(Some);
        assert_eq!(agreement(3, &nodes), (LockState::Free, [vec![1, 2], vec![0]]));
    }

    #[test]
    fn without_a_majority_that_says_the_same_it_is_disputed() {
        let nodes = [held("a", 50), held("b", 50), None].map(Some);
        assert_eq!(agreement(3, &nodes), (LockState::Disputed, [vec![], vec![0, 1, 2]]));
        let even = [held("a", 50), held("a", 50), None, None].map(Some);
        assert_eq!(agreement(4, &even).0, LockState::Disputed, "half is no majority");
    }

    #[test]
    fn without_a_majority_that_answers_it_is_unknown() {
        let nodes = [Some(held("a", 50)), None, None];
        assert_eq!(agreement(3, &nodes), (LockState::Unknown, [vec![], vec![]]));
    }

    #[test]
    fn a_node_that_may_not_vote_is_shown_and_not_counted() {
        let nodes = [held("a", 50), held("a", 50), None].map(Some);
        assert!(matches!(agreement(2, &nodes), (LockState::Held { .. }, [_, other]) if other == [2]));
        assert_eq!(agreement(1, &nodes).0, LockState::Unknown);
    }

    #[test]
    fn nodes_that_set_it_aside_for_different_waiters_agree_that_nobody_has_it() {
        let nodes = [held("rsv:1:a", 90), held("rsv:2:b", 80), held("a", 70)].map(Some);
        let left = Some(Duration::from_millis(80));
        assert_eq!(agreement(3, &nodes), (LockState::Reserved { left }, [vec![0, 1], vec![2]]));
    }

    #[test]
    fn as_many_wait_as_the_middle_of_the_nodes_says() {
        let word = |waiters| Some(Word { waiters, ..Word::default() });
        let quorum = Quorum::of(3).unwrap();
        let waiters =
            |numbers: [Option<u64>; 3]| Agreement::of(quorum, quorum.all(), &numbers.map(word)).waiters;
        assert_eq!(waiters([Some(7), Some(0), Some(5)]), Some(5));
        assert_eq!(waiters([None, None, None]), None, "a list does not look");
    }
}
