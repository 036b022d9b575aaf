//! A lock that is extended in time is kept: while every node is restarted empty, one after another,
//! and however far they are.

use super::{Holder, Violation};

/// Who got the lock that is meant to be kept, and whether it still has it.
pub(crate) fn kept(name: usize, first: Option<Holder>, present: Option<Holder>) -> Option<Violation> {
    let holder = first.filter(|first| present != Some(*first))?;
    Some(Violation::Gap { name, holder })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Holder = Holder { client: 0, generation: 0, lease: 0 };
    const B: Holder = Holder { client: 1, generation: 0, lease: 0 };

    #[test]
    fn a_lock_that_was_lost_or_changed_hands_is_seen() {
        assert_eq!(kept(7, None, None), None, "nobody had it");
        assert_eq!(kept(7, Some(A), Some(A)), None);
        for present in [None, Some(B)] {
            assert_eq!(kept(7, Some(A), present), Some(Violation::Gap { name: 7, holder: A }));
        }
    }
}
