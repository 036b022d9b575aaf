//! At most one client counts on a lock at any true moment, or several that share it, or several of
//! one owner.

use std::collections::BTreeMap;

use tenure_core::Mode;

use super::{Holder, Violation};
use crate::workload::each;

/// Who counts on which lock, until when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exclusion {
    holds: BTreeMap<usize, Vec<(Holder, u64, Mode)>>,
}

impl Exclusion {
    /// From now on `holder` counts on the lock until `until_ns`: it was acquired or extended.
    pub(crate) fn hold(
        &mut self,
        now_ns: u64,
        name: usize,
        holder: Holder,
        until_ns: u64,
        mode: &Mode,
    ) -> Option<Violation> {
        let mut violation = None;
        for name in each(name) {
            let holds = self.holds.entry(name).or_default();
            holds.retain(|(other, until, _)| *until > now_ns && *other != holder);
            let apart = |other: &&(Holder, u64, Mode)| !mode.is_compatible(&other.2);
            let other = holds.iter().find(apart).map(|(other, until, _)| (*other, *until));
            if until_ns > now_ns {
                holds.push((holder, until_ns, mode.clone()));
            }
            violation =
                violation.or(other.map(|first| Violation::TwoHolders { name, first, second: holder }));
        }
        violation
    }

    /// From now on `holder` shares the lock, whatever becomes of it.
    pub(crate) fn share(&mut self, name: usize, holder: Holder) {
        let holds = self.holds.get_mut(&name).into_iter().flatten();
        holds.filter(|(other, ..)| *other == holder).for_each(|(.., mode)| *mode = Mode::Shared);
    }

    /// Who holds the lock now in this mode, besides `holder`.
    pub(crate) fn beside(&self, now_ns: u64, name: usize, holder: Holder, mode: &Mode) -> Vec<Holder> {
        let holds = self.holds.get(&name).into_iter().flatten();
        let beside = holds.filter(|(other, until, of)| *until > now_ns && *other != holder && of == mode);
        beside.map(|(other, ..)| *other).collect()
    }

    /// How many hold the lock now.
    pub(crate) fn holders(&self, now_ns: u64, name: usize) -> usize {
        self.holds.get(&name).map_or(0, |holds| holds.iter().filter(|(_, until, _)| *until > now_ns).count())
    }

    /// `holder` does not count on the lock any more.
    pub(crate) fn end(&mut self, name: usize, holder: Holder) {
        for name in each(name) {
            self.holds.entry(name).or_default().retain(|(other, ..)| *other != holder);
        }
    }

    /// `holder` does not count on any lock any more.
    pub(crate) fn end_holder(&mut self, holder: Holder) {
        for holds in self.holds.values_mut() {
            holds.retain(|(other, ..)| *other != holder);
        }
    }

    /// A process is gone, and whatever it held.
    pub(crate) fn end_client(&mut self, client: usize) {
        for holds in self.holds.values_mut() {
            holds.retain(|(holder, ..)| holder.client != client);
        }
    }

    /// Who holds the lock now.
    pub(crate) fn holder(&self, now_ns: u64, name: usize) -> Option<Holder> {
        self.holds.get(&name)?.iter().find(|(_, until, _)| *until > now_ns).map(|(holder, ..)| *holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::owners::owner;

    const A: Holder = Holder { client: 0, generation: 0, lease: 0 };
    const B: Holder = Holder { client: 1, generation: 0, lease: 0 };

    #[test]
    fn a_hold_that_is_over_or_given_up_is_in_nobodys_way() {
        let mut exclusion = Exclusion::default();
        assert_eq!(exclusion.hold(0, 7, A, 10, &Mode::Exclusive), None);
        assert_eq!(exclusion.hold(10, 7, B, 20, &Mode::Exclusive), None);
        exclusion.end(7, B);
        assert_eq!(exclusion.hold(11, 7, A, 20, &Mode::Exclusive), None);
        assert_eq!(exclusion.hold(12, 8, B, 20, &Mode::Exclusive), None, "another lock");
    }

    #[test]
    fn two_holders_at_one_moment_are_seen_also_after_an_extension() {
        let mut exclusion = Exclusion::default();
        assert_eq!(exclusion.hold(0, 7, A, 10, &Mode::Exclusive), None);
        assert_eq!(exclusion.hold(9, 7, A, 20, &Mode::Exclusive), None);
        let violation = exclusion.hold(19, 7, B, 30, &Mode::Exclusive).unwrap();
        assert_eq!(violation, Violation::TwoHolders { name: 7, first: (A, 20), second: B });
    }

    #[test]
    fn those_who_share_a_lock_are_in_nobodys_way_who_does_so_too() {
        let mut exclusion = Exclusion::default();
        assert_eq!(exclusion.hold(0, 7, A, 10, &Mode::Shared), None);
        assert_eq!(exclusion.hold(1, 7, B, 10, &Mode::Shared), None);
        assert_eq!(exclusion.holders(1, 7), 2);
        assert!(exclusion.hold(2, 7, B, 10, &Mode::Exclusive).is_some());
        assert!(exclusion.hold(3, 7, A, 10, &Mode::Shared).is_some());
        exclusion.share(7, B);
        assert_eq!(exclusion.hold(4, 7, A, 10, &Mode::Shared), None);
    }

    #[test]
    fn one_owner_holds_a_lock_several_times_and_keeps_out_all_others() {
        let (one, other) = (Mode::Owned(owner(1)), Mode::Owned(owner(2)));
        for rival in [other, Mode::Shared, Mode::Exclusive] {
            let mut exclusion = Exclusion::default();
            assert_eq!(exclusion.hold(0, 7, A, 10, &one), None);
            assert_eq!(exclusion.hold(1, 7, B, 10, &one), None);
            assert_eq!(exclusion.beside(1, 7, A, &one), [B]);
            let second = Holder { lease: 1, ..B };
            assert!(exclusion.hold(2, 7, second, 10, &rival).is_some());
            assert_eq!(exclusion.beside(10, 7, A, &one), [], "it is over");
        }
    }
}
