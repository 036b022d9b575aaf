//! Fences of one lock are unique, and grow from each success to every attempt that begins after it.

use std::collections::BTreeMap;

use super::{Holder, Violation};

/// The acquisitions of each lock, in the order of their success.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fencing {
    acquisitions: BTreeMap<usize, Vec<Acquisition>>,
}

#[derive(Clone, Copy, Debug)]
struct Acquisition {
    holder: Holder,
    succeeded_ns: u64,
    fence: u64,
}

impl Fencing {
    /// An attempt that began at `begun_ns` has succeeded at `now_ns` with this fence.
    pub(crate) fn acquired(
        &mut self,
        now_ns: u64,
        begun_ns: u64,
        name: usize,
        holder: Holder,
        fence: u64,
    ) -> Option<Violation> {
        let acquisitions = self.acquisitions.entry(name).or_default();
        let later = Acquisition { holder, succeeded_ns: now_ns, fence };
        let broken = acquisitions.iter().find_map(|earlier| {
            if earlier.succeeded_ns < begun_ns && earlier.fence >= fence {
                let (earlier, later) = ((earlier.holder, earlier.fence), (holder, fence));
                Some(Violation::FenceNotLarger { name, earlier, later })
            } else if earlier.fence == fence {
                Some(Violation::FenceNotUnique { name, fence, holders: (earlier.holder, holder) })
            } else {
                None
            }
        });
        acquisitions.push(later);
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Holder = Holder { client: 0, life: 0, lease: 0 };
    const B: Holder = Holder { client: 1, life: 0, lease: 0 };

    #[test]
    fn attempts_that_overlap_may_win_in_either_order() {
        let mut fencing = Fencing::default();
        assert_eq!(fencing.acquired(10, 0, 7, A, 50), None);
        assert_eq!(fencing.acquired(20, 5, 7, B, 40), None);
        assert!(matches!(fencing.acquired(30, 6, 7, B, 40), Some(Violation::FenceNotUnique { .. })));
    }

    #[test]
    fn whoever_begins_later_needs_the_larger_fence() {
        let mut fencing = Fencing::default();
        assert_eq!(fencing.acquired(10, 0, 7, A, 50), None);
        assert!(matches!(fencing.acquired(20, 11, 7, B, 49), Some(Violation::FenceNotLarger { .. })));
        assert_eq!(fencing.acquired(30, 21, 7, A, 51), None);
    }
}
