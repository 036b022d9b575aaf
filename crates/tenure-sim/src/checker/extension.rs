//! Whoever extends a lock has held it without a gap: nobody else acquired it since, unless both
//! share it or are one owner.

use std::collections::BTreeMap;

use tenure_core::Mode;

use super::{Holder, Violation};
use crate::workload::each;

/// Who acquired each lock, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extension {
    acquisitions: BTreeMap<usize, Vec<(Holder, Mode)>>,
}

impl Extension {
    pub(crate) fn acquired(&mut self, name: usize, holder: Holder, mode: &Mode) {
        for name in each(name) {
            self.acquisitions.entry(name).or_default().push((holder, mode.clone()));
        }
    }

    /// `holder` has extended its lock, which it holds in this mode.
    pub(crate) fn extended(&self, name: usize, holder: Holder, mode: &Mode) -> Option<Violation> {
        each(name).find_map(|name| {
            let acquisitions = self.acquisitions.get(&name)?;
            let own = acquisitions.iter().position(|(other, _)| *other == holder)?;
            let mut since = acquisitions[own + 1..].iter();
            let (by, _) = since.find(|(_, other)| !mode.is_compatible(other))?;
            Some(Violation::Interrupted { name, holder, by: *by })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::owners::owner;

    const A: Holder = Holder { client: 0, generation: 0, lease: 0 };
    const B: Holder = Holder { client: 1, generation: 0, lease: 0 };

    #[test]
    fn only_the_last_to_acquire_a_lock_extends_it() {
        let mut extension = Extension::default();
        extension.acquired(7, A, &Mode::Exclusive);
        extension.acquired(8, B, &Mode::Exclusive);
        assert_eq!(extension.extended(7, A, &Mode::Exclusive), None);
        extension.acquired(7, B, &Mode::Exclusive);
        assert_eq!(extension.extended(7, B, &Mode::Exclusive), None);
        assert_eq!(
            extension.extended(7, A, &Mode::Exclusive),
            Some(Violation::Interrupted { name: 7, holder: A, by: B })
        );
    }

    #[test]
    fn those_who_share_a_lock_extend_it_beside_each_other_and_not_across_one_who_had_it_alone() {
        let mut extension = Extension::default();
        extension.acquired(7, A, &Mode::Shared);
        extension.acquired(7, B, &Mode::Shared);
        assert_eq!(extension.extended(7, A, &Mode::Shared), None);
        extension.acquired(7, Holder { lease: 1, ..B }, &Mode::Exclusive);
        assert!(extension.extended(7, A, &Mode::Shared).is_some());
    }

    #[test]
    fn an_owner_extends_beside_itself_and_not_across_another_one() {
        let (one, other) = (Mode::Owned(owner(1)), Mode::Owned(owner(2)));
        let mut extension = Extension::default();
        extension.acquired(7, A, &one);
        extension.acquired(7, B, &one);
        assert_eq!(extension.extended(7, A, &one), None);
        extension.acquired(7, Holder { lease: 1, ..B }, &other);
        assert!(extension.extended(7, A, &one).is_some());
    }
}
