//! Fences of one lock are unique, and grow from each success to every attempt that begins after it.

use std::collections::BTreeMap;

use super::{Holder, Violation};

/// The acquisitions of each lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fencing {
    locks: BTreeMap<usize, Acquisitions>,
}

#[derive(Clone, Debug, Default)]
struct Acquisitions {
    by_fence: BTreeMap<u64, Holder>,
    /// When one succeeded, in this order, and the one with the largest fence up to then.
    largest: Vec<(u64, Holder, u64)>,
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
        let Acquisitions { by_fence, largest } = self.locks.entry(name).or_default();
        let before = largest.partition_point(|(succeeded_ns, ..)| *succeeded_ns < begun_ns);
        let earlier = before.checked_sub(1).map(|last| largest[last]);
        let broken = match (earlier, by_fence.get(&fence)) {
            (Some((_, earlier, smaller)), _) if smaller >= fence => {
                Some(Violation::FenceNotLarger { name, earlier: (earlier, smaller), later: (holder, fence) })
            }
            (_, Some(other)) => Some(Violation::FenceNotUnique { name, fence, holders: (*other, holder) }),
            _ => None,
        };
        by_fence.insert(fence, holder);
        let last = largest.last().filter(|(.., largest)| *largest > fence);
        let (_, most, most_fence) = last.copied().unwrap_or((now_ns, holder, fence));
        largest.push((now_ns, most, most_fence));
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Holder = Holder { client: 0, generation: 0, lease: 0 };
    const B: Holder = Holder { client: 1, generation: 0, lease: 0 };

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
