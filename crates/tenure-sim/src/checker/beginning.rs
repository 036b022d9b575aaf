//! The first lock of a client is not asked for before enough nodes may vote, or all have been
//! tried.

use tenure_core::{NodeSet, Quorum};

use super::Violation;

/// A client begins when it has tried these nodes, and this many may vote.
pub(crate) fn begun(client: usize, quorum: Quorum, tried: NodeSet, trusted: usize) -> Option<Violation> {
    let ready = tried == quorum.all() || trusted >= quorum.majority();
    (!ready).then_some(Violation::Hasty { client })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_does_not_wait_for_its_nodes_is_seen() {
        let quorum = Quorum::of(3).unwrap();
        let two: NodeSet = quorum.indexes().take(2).collect();
        assert_eq!(begun(7, quorum, two, 1), Some(Violation::Hasty { client: 7 }));
        assert_eq!(begun(7, quorum, two, 2), None);
        assert_eq!(begun(7, quorum, quorum.all(), 0), None);
    }
}
