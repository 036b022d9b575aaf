//! A key that was put back counts a quarantine later, for whoever has the token.

use std::collections::BTreeMap;

use tenure_core::OwnerToken;

use super::{Holder, Violation};

/// When keys were put back, in true time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Healing {
    put_back_ns: BTreeMap<(usize, OwnerToken), u64>,
}

impl Healing {
    pub(crate) fn put_back(&mut self, now_ns: u64, node: usize, token: OwnerToken) {
        self.put_back_ns.insert((node, token), now_ns);
    }

    /// `holder` counts on what this node has granted, and `quarantine_ns` is the least that a
    /// quarantine lasts by any clock.
    pub(crate) fn counted(
        &self,
        now_ns: u64,
        name: usize,
        holder: Holder,
        (node, token): (usize, OwnerToken),
        quarantine_ns: u64,
    ) -> Option<Violation> {
        let put_back_ns = *self.put_back_ns.get(&(node, token))?;
        let after_ns = now_ns - put_back_ns;
        (after_ns < quarantine_ns).then_some(Violation::CountedEarly { name, holder, node, after_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_put_back_counts_only_a_quarantine_later() {
        let (holder, token) =
            (Holder { client: 0, generation: 0, lease: 0 }, OwnerToken::from_bytes([1; 20]));
        let mut healing = Healing::default();
        healing.put_back(1_000, 2, token);
        let counted = |now_ns, node| healing.counted(now_ns, 7, holder, (node, token), 500);
        assert_eq!((counted(1_200, 1), counted(1_500, 2)), (None, None));
        let early = Violation::CountedEarly { name: 7, holder, node: 2, after_ns: 499 };
        assert_eq!(counted(1_499, 2), Some(early));
    }
}
