//! Fences of one lock grow from each success to every attempt that begins after it, and are unique;
//! but those who may hold it together have no order among themselves, and the holds of one owner
//! have one fence while they overlap.
//!
//! Two groups of one owner, one after the other, may have fences in either order: it happens (about
//! 50 times in a million acquisitions). A node that kept a hold of an earlier group names its
//! fence, and whoever asks joins with it if no other node names one; or whoever was told a fence
//! comes when that group is over, and a later one as well. No rival was in between, or it would be
//! refused. A resource that has seen the larger fence refuses the smaller one.

use std::collections::BTreeMap;

use tenure_core::Mode;

use super::{Holder, Violation};
use crate::workload::each;

/// The acquisitions of each lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fencing {
    locks: BTreeMap<usize, Acquisitions>,
    /// Whoever may hold a lock with others of its owner, and its fence.
    owned: BTreeMap<Holder, u64>,
}

#[derive(Clone, Debug, Default)]
struct Acquisitions {
    by_fence: BTreeMap<u64, (Holder, Mode)>,
    by_mode: BTreeMap<Mode, Largest>,
}

/// When one succeeded, in this order, and the one with the largest fence up to then.
#[derive(Clone, Debug, Default)]
struct Largest(Vec<(u64, Holder, u64)>);

impl Largest {
    /// The one with the largest fence of those that had succeeded before.
    fn before(&self, begun_ns: u64) -> Option<(Holder, u64)> {
        let before = self.0.partition_point(|(succeeded_ns, ..)| *succeeded_ns < begun_ns);
        before.checked_sub(1).map(|last| (self.0[last].1, self.0[last].2))
    }

    fn add(&mut self, now_ns: u64, holder: Holder, fence: u64) {
        let last = self.0.last().filter(|(.., largest)| *largest > fence);
        let (_, most, most_fence) = last.copied().unwrap_or((now_ns, holder, fence));
        self.0.push((now_ns, most, most_fence));
    }
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
        mode: &Mode,
    ) -> Option<Violation> {
        let each = each(name).map(|name| self.acquired_one(now_ns, begun_ns, name, holder, fence, mode));
        each.fold(None, Option::or)
    }

    fn acquired_one(
        &mut self,
        now_ns: u64,
        begun_ns: u64,
        name: usize,
        holder: Holder,
        fence: u64,
        mode: &Mode,
    ) -> Option<Violation> {
        let Acquisitions { by_fence, by_mode } = self.locks.entry(name).or_default();
        let rivals = by_mode.iter().filter(|(other, _)| !mode.is_compatible(other));
        let before = rivals.filter_map(|(_, largest)| largest.before(begun_ns));
        let earlier = before.max_by_key(|(_, fence)| *fence);
        let broken = match (earlier, by_fence.get(&fence)) {
            (Some(earlier), _) if earlier.1 >= fence => {
                Some(Violation::FenceNotLarger { name, earlier, later: (holder, fence) })
            }
            (_, Some((other, of_other))) if !mode.is_compatible(of_other) => {
                Some(Violation::FenceNotUnique { name, fence, holders: (*other, holder) })
            }
            _ => None,
        };
        by_mode.entry(mode.clone()).or_default().add(now_ns, holder, fence);
        by_fence.insert(fence, (holder, mode.clone()));
        broken
    }

    /// An owner holds a lock with this fence, beside these others of the same owner.
    pub(crate) fn joined(
        &mut self,
        name: usize,
        holder: Holder,
        fence: u64,
        beside: impl IntoIterator<Item = Holder>,
    ) -> Option<Violation> {
        self.owned.insert(holder, fence);
        let fences = beside.into_iter().filter_map(|other| Some((other, *self.owned.get(&other)?)));
        let one = fences.into_iter().find(|(_, other)| *other != fence)?;
        Some(Violation::FencesApart { name, one, other: (holder, fence) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::owners::owner;

    const A: Holder = Holder { client: 0, generation: 0, lease: 0 };
    const B: Holder = Holder { client: 1, generation: 0, lease: 0 };

    #[test]
    fn attempts_that_overlap_may_win_in_either_order() {
        let mut fencing = Fencing::default();
        assert_eq!(fencing.acquired(10, 0, 7, A, 50, &Mode::Exclusive), None);
        assert_eq!(fencing.acquired(20, 5, 7, B, 40, &Mode::Exclusive), None);
        assert!(matches!(
            fencing.acquired(30, 6, 7, B, 40, &Mode::Exclusive),
            Some(Violation::FenceNotUnique { .. })
        ));
    }

    #[test]
    fn whoever_begins_later_needs_the_larger_fence() {
        let mut fencing = Fencing::default();
        assert_eq!(fencing.acquired(10, 0, 7, A, 50, &Mode::Exclusive), None);
        assert!(matches!(
            fencing.acquired(20, 11, 7, B, 49, &Mode::Exclusive),
            Some(Violation::FenceNotLarger { .. })
        ));
        assert_eq!(fencing.acquired(30, 21, 7, A, 51, &Mode::Exclusive), None);
    }

    #[test]
    fn those_who_share_a_lock_have_no_order_but_come_after_whoever_had_it_alone() {
        let mut fencing = Fencing::default();
        assert_eq!(fencing.acquired(10, 0, 7, A, 50, &Mode::Exclusive), None);
        assert_eq!(fencing.acquired(20, 11, 7, A, 60, &Mode::Shared), None);
        assert_eq!(fencing.acquired(30, 21, 7, B, 55, &Mode::Shared), None);
        assert_eq!(fencing.acquired(31, 21, 7, A, 55, &Mode::Shared), None);
        assert!(fencing.acquired(40, 32, 7, B, 50, &Mode::Shared).is_some());
        assert!(fencing.acquired(50, 41, 7, B, 58, &Mode::Exclusive).is_some());
    }

    #[test]
    fn owners_come_after_each_other_and_an_owner_has_one_fence_at_a_time() {
        let mut fencing = Fencing::default();
        let (one, other) = (Mode::Owned(owner(1)), Mode::Owned(owner(2)));
        assert_eq!(fencing.acquired(10, 0, 7, A, 50, &one), None);
        assert_eq!(fencing.acquired(20, 11, 7, B, 50, &one), None, "the same owner");
        assert!(fencing.acquired(30, 21, 7, B, 50, &other).is_some());
        assert_eq!(fencing.acquired(40, 31, 7, B, 60, &other), None);
        assert!(fencing.acquired(50, 41, 7, A, 55, &one).is_some());
        assert_eq!(fencing.joined(7, A, 50, []), None);
        assert_eq!(fencing.joined(7, B, 50, [A]), None);
        let apart = Violation::FencesApart { name: 7, one: (A, 50), other: (B, 51) };
        assert_eq!(fencing.joined(7, B, 51, [A]), Some(apart));
    }
}
