//! How much clean-up each node owes: a node that confirms nothing is asked for no more locks.
//!
//! Every lock that a silent node may have granted leaves a release that is sent again and again.
//! Without a bound, a busy program would pile them up at the rate of its locks.

use std::hash::{Hash, Hasher};

use crate::round::{NODES_MAX, NodeIndex, NodeSet};

/// A node that lets more releases than this pass their deadline is skipped until it catches up: far
/// more than a healthy node ever has, and little memory.
const OVERDUE_MAX: u32 = 1_024;

/// The releases that each node has let pass their deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Debts {
    overdue: [u32; NODES_MAX],
}

impl Debts {
    pub(super) fn is_full(&self, node: NodeIndex) -> bool {
        self.overdue[node.get()] >= OVERDUE_MAX
    }

    /// Counts a release that was a debt at `before` and is one at `after` now.
    pub(super) fn change(&mut self, before: &mut NodeSet, after: NodeSet) {
        before.iter().for_each(|node| self.overdue[node.get()] -= 1);
        after.iter().for_each(|node| self.overdue[node.get()] += 1);
        *before = after;
    }
}

/// Each release has its debt, which is all that there is to hash.
impl Hash for Debts {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
