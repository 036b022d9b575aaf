//! At most one client counts on a lock at any true moment.

use std::collections::BTreeMap;

use super::{Holder, Violation};

/// Who counts on which lock, until when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exclusion {
    holds: BTreeMap<usize, Vec<(Holder, u64)>>,
}

impl Exclusion {
    /// From now on `holder` counts on the lock until `until_ns`: it was acquired or extended.
    pub(crate) fn hold(
        &mut self,
        now_ns: u64,
        name: usize,
        holder: Holder,
        until_ns: u64,
    ) -> Option<Violation> {
        let holds = self.holds.entry(name).or_default();
        holds.retain(|(other, until)| *until > now_ns && *other != holder);
        let other = holds.first().copied();
        if until_ns > now_ns {
            holds.push((holder, until_ns));
        }
        other.map(|first| Violation::TwoHolders { name, first, second: holder })
    }

    /// `holder` does not count on the lock any more.
    pub(crate) fn end(&mut self, name: usize, holder: Holder) {
        if let Some(holds) = self.holds.get_mut(&name) {
            holds.retain(|(other, _)| *other != holder);
        }
    }

    /// `holder` does not count on any lock any more.
    pub(crate) fn end_holder(&mut self, holder: Holder) {
        for holds in self.holds.values_mut() {
            holds.retain(|(other, _)| *other != holder);
        }
    }

    /// A process is gone, and whatever it held.
    pub(crate) fn end_client(&mut self, client: usize) {
        for holds in self.holds.values_mut() {
            holds.retain(|(holder, _)| holder.client != client);
        }
    }

    /// Who holds the lock now.
    pub(crate) fn holder(&self, now_ns: u64, name: usize) -> Option<Holder> {
        self.holds.get(&name)?.iter().find(|(_, until)| *until > now_ns).map(|(holder, _)| *holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Holder = Holder { client: 0, generation: 0, lease: 0 };
    const B: Holder = Holder { client: 1, generation: 0, lease: 0 };

    #[test]
    fn a_hold_that_is_over_or_given_up_is_in_nobodys_way() {
        let mut exclusion = Exclusion::default();
        assert_eq!(exclusion.hold(0, 7, A, 10), None);
        assert_eq!(exclusion.hold(10, 7, B, 20), None);
        exclusion.end(7, B);
        assert_eq!(exclusion.hold(11, 7, A, 20), None);
        assert_eq!(exclusion.hold(12, 8, B, 20), None, "another lock");
    }

    #[test]
    fn two_holders_at_one_moment_are_seen_also_after_an_extension() {
        let mut exclusion = Exclusion::default();
        assert_eq!(exclusion.hold(0, 7, A, 10), None);
        assert_eq!(exclusion.hold(9, 7, A, 20), None);
        let violation = exclusion.hold(19, 7, B, 30).unwrap();
        assert_eq!(violation, Violation::TwoHolders { name: 7, first: (A, 20), second: B });
    }
}
