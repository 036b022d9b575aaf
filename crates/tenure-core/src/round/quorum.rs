//! Who must say yes: the majority of a fixed list of nodes.
//!
//! Two majorities of one list share a node; all of Redlock's safety rests on that. The verdict
//! comes as early as the votes allow: won at the m-th grant, lost as soon as m grants are
//! impossible.

use std::fmt;

/// The most nodes a quorum can have: more add latency and cost, not safety.
pub const NODES_MAX: usize = 15;

/// A node's place in the node list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(u8);

/// A set of nodes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct NodeSet(u16);

/// The size of the node list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorum {
    nodes: u8,
}

/// A node list of an impossible size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumError {
    /// The size asked for.
    pub nodes: usize,
}

/// How many nodes said what so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Nodes that did what was asked, and may be counted for it.
    pub granted: usize,
    /// Nodes that said no.
    pub refused: usize,
    /// Nodes whose answer is not known, is an error, or may not be counted.
    pub unknown: usize,
}

/// What the votes so far decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Votes that are still out can decide either way.
    Open,
    /// A majority granted.
    Won,
    /// A majority of grants is impossible.
    Lost,
}

impl Quorum {
    /// The quorum of a list of `nodes` nodes.
    ///
    /// # Errors
    /// [`QuorumError`] unless there are 1 to [`NODES_MAX`] nodes.
    pub fn of(nodes: usize) -> Result<Self, QuorumError> {
        match u8::try_from(nodes) {
            Ok(count @ 1..) if nodes <= NODES_MAX => Ok(Self { nodes: count }),
            _ => Err(QuorumError { nodes }),
        }
    }

    /// N: how many nodes there are.
    #[must_use]
    pub const fn nodes(self) -> usize {
        self.nodes as usize
    }

    /// m = N/2 + 1: how many must grant.
    #[must_use]
    pub const fn majority(self) -> usize {
        self.nodes() / 2 + 1
    }

    /// How many of the nodes that hold a lock may forget it before another client could win a
    /// majority.
    ///
    /// Others need m free nodes and N - held are free, so held + m - N - 1 may forget.
    #[must_use]
    pub const fn margin(self, held: usize) -> usize {
        (held + self.majority()).saturating_sub(self.nodes() + 1)
    }

    /// How many must grant for a margin of at least `margin`, and a majority at the least.
    #[must_use]
    pub const fn needed(self, margin: usize) -> usize {
        let needed = margin + self.nodes() + 1 - self.majority();
        if needed < self.majority() { self.majority() } else { needed }
    }

    /// What the votes so far decide, if `needed` grants are.
    #[must_use]
    pub const fn verdict(self, tally: Tally, needed: usize) -> Verdict {
        if tally.granted >= needed {
            Verdict::Won
        } else if self.nodes() - tally.refused - tally.unknown < needed {
            Verdict::Lost
        } else {
            Verdict::Open
        }
    }

    /// Whether a majority of nodes gave an answer that counts. `None` while that is still open.
    ///
    /// It is what separates *contended* (a majority answered, too few said yes) from *unavailable*
    /// (no majority could be asked), and it does not depend on the order in which votes arrive.
    #[must_use]
    pub const fn answered(self, tally: Tally) -> Option<bool> {
        if tally.granted + tally.refused >= self.majority() {
            Some(true)
        } else if self.nodes() - tally.unknown < self.majority() {
            Some(false)
        } else {
            None
        }
    }

    /// The places of all nodes, in order.
    pub fn indexes(self) -> impl Iterator<Item = NodeIndex> + Clone {
        (0..self.nodes).map(NodeIndex)
    }

    /// The set of all nodes.
    #[must_use]
    pub fn all(self) -> NodeSet {
        self.indexes().collect()
    }
}

impl NodeIndex {
    /// The place as an index into a list of nodes.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl NodeSet {
    /// Whether `node` is in the set.
    #[must_use]
    pub const fn contains(self, node: NodeIndex) -> bool {
        self.0 & (1 << node.0) != 0
    }

    /// Adds `node`.
    pub const fn insert(&mut self, node: NodeIndex) {
        self.0 |= 1 << node.0;
    }

    /// Takes `node` out.
    pub const fn remove(&mut self, node: NodeIndex) {
        self.0 &= !(1 << node.0);
    }

    /// How many nodes are in the set.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether no node is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The nodes of the set, in order.
    pub fn iter(self) -> impl Iterator<Item = NodeIndex> {
        (0..16).map(NodeIndex).filter(move |node| self.contains(*node))
    }
}

impl FromIterator<NodeIndex> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIndex>>(nodes: I) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(NodeIndex::get)).finish()
    }
}

impl fmt::Display for QuorumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected 1 to {NODES_MAX} nodes, got {}; use 3 or 5", self.nodes)
    }
}

impl std::error::Error for QuorumError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_is_more_than_half_also_of_an_even_number() {
        let majority = |nodes| Quorum::of(nodes).unwrap().majority();
        let table = [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4), (15, 8)];
        for (nodes, expected) in table {
            assert_eq!(majority(nodes), expected, "N = {nodes}");
        }
    }

    #[test]
    fn zero_and_sixteen_nodes_are_refused() {
        for nodes in [0, 16, 256, usize::MAX] {
            let message = Quorum::of(nodes).unwrap_err().to_string();
            assert!(message.contains("expected 1 to 15 nodes"), "{message}");
        }
    }

    /// For every N and every number of holding nodes, by brute force: let any `k` of them forget;
    /// another client wins iff the free nodes then are a majority. The margin is the largest
    /// harmless `k`.
    #[test]
    fn the_margin_is_how_many_may_forget() {
        for nodes in 1..=NODES_MAX {
            let quorum = Quorum::of(nodes).unwrap();
            for held in quorum.majority()..=nodes {
                let harmless =
                    (0..=held).take_while(|forget| nodes - held + forget < quorum.majority()).last().unwrap();
                assert_eq!(quorum.margin(held), harmless, "N = {nodes}, held = {held}");
                let needed = quorum.needed(harmless);
                assert!(needed <= held && quorum.margin(needed) >= harmless, "N = {nodes}, held = {held}");
            }
        }
    }

    #[test]
    fn a_set_keeps_its_nodes() {
        let mut set = Quorum::of(15).unwrap().all();
        set.remove(NodeIndex(3));
        assert_eq!((set.len(), set.contains(NodeIndex(3)), set.contains(NodeIndex(14))), (14, false, true));
        assert_eq!(format!("{:?}", [NodeIndex(1), NodeIndex(4)].into_iter().collect::<NodeSet>()), "{1, 4}");
    }
}
