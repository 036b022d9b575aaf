//! What the fences protect: a number that holders claim, read, and write with one added.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Entry, History, Hold};

/// An update that was taken may be missing here, when its client was killed before it could say so.
/// So values may be left out, but none may come twice, and fences must not fall as values rise.
pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut of_locks: BTreeMap<usize, BTreeMap<i64, (i64, i64)>> = BTreeMap::new();
    let mut violations = vec![];
    for (_, entry) in &history.entries {
        if let Entry::Wrote { lock, fence, at, value } = *entry
            && of_locks.entry(lock).or_default().insert(value, (fence, at)).is_some()
        {
            violations.push(Violation::LostUpdate { lock, value, at });
        }
    }
    for (lock, by_value) in of_locks {
        let mut largest = i64::MIN;
        for (fence, at) in by_value.into_values() {
            if fence < largest {
                violations.push(Violation::StaleUpdate { lock, fence, at });
            }
            largest = largest.max(fence);
        }
    }
    violations
}

/// Who holds the lock is not refused: nobody with a larger fence was there before. If somebody is
/// there at the same time, that is an overlap, and the resource is right.
pub(super) fn check_refusals(history: &History, holds: &[Hold]) -> Vec<Violation> {
    let refusals = history.entries.iter().filter_map(|(process, entry)| match *entry {
        Entry::Refused { lock, fence, at } => Some((*process, lock, fence, at)),
        _ => None,
    });
    let refused = refusals.filter_map(|(process, lock, fence, at)| {
        let of_lock = || holds.iter().filter(move |hold| hold.lock == lock);
        let mine = |hold: &&Hold| hold.process == process && hold.fence == fence;
        let hold = *of_lock().find(mine).filter(|hold| (hold.returned..hold.end).contains(&at))?;
        let shares = |other: &Hold| {
            other.fence > fence && other.returned < at && other.end > hold.returned.max(other.returned)
        };
        (!of_lock().any(shares)).then_some(Violation::HolderRefused { hold, at })
    });
    refused.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::check as check_all;
    use crate::history::Process;

    /// One holds with fence 7 and releases at `released`; another asked before that and is given
    /// the lock at 500 with fence 5. The resource refuses it at `refused`.
    fn refusal(released: i64, refused: i64) -> Vec<Violation> {
        let (lock, lead) = (0, 5);
        let entries = vec![
            (0, Entry::Held { lock, fence: 7, invoked: 40, returned: 50, until: 1_000, lead }),
            (0, Entry::Released { lock, fence: 7, at: released }),
            (1, Entry::Held { lock, fence: 5, invoked: 30, returned: 500, until: 1_500, lead }),
            (1, Entry::Refused { lock, fence: 5, at: refused }),
            (1, Entry::Released { lock, fence: 5, at: refused + 10 }),
        ];
        check_all(&History { processes: vec![Process::default(), Process::default()], entries })
    }

    #[test]
    fn a_holder_that_is_refused_is_found() {
        let violations = refusal(60, 510);
        assert!(matches!(violations[..], [Violation::HolderRefused { at: 510, .. }]), "{violations:?}");
        assert!(violations[0].is_of_fencing());
    }

    #[test]
    fn one_that_is_refused_after_its_end_or_because_it_shares_the_lock_is_as_it_must_be() {
        let late = refusal(60, 1_600);
        assert!(!late.iter().any(Violation::is_of_fencing), "{late:?}");
        let shared = refusal(520, 510);
        assert!(matches!(shared[..], [Violation::Overlap { .. }]), "{shared:?}");
    }

    fn wrote(entries: &[(usize, i64, i64)]) -> History {
        let entry = |(at, (lock, fence, value)): (usize, &(usize, i64, i64))| {
            (0, Entry::Wrote { lock: *lock, fence: *fence, at: at.try_into().unwrap(), value: *value })
        };
        History { processes: vec![], entries: entries.iter().enumerate().map(entry).collect() }
    }

    #[test]
    fn an_update_that_overwrites_another_is_found() {
        let violations = check(&wrote(&[(0, 1, 1), (0, 2, 2), (0, 3, 2), (1, 1, 1)]));
        assert!(
            matches!(violations[..], [Violation::LostUpdate { lock: 0, value: 2, .. }]),
            "{violations:?}"
        );
    }

    #[test]
    fn an_update_with_a_smaller_fence_is_found() {
        let violations = check(&wrote(&[(0, 1, 1), (0, 5, 2), (0, 4, 3), (0, 5, 4)]));
        assert!(matches!(violations[..], [Violation::StaleUpdate { fence: 4, .. }]), "{violations:?}");
    }

    #[test]
    fn values_that_nobody_lived_to_tell_of_are_no_harm() {
        assert_eq!(check(&wrote(&[(0, 1, 1), (0, 5, 3), (0, 5, 4), (0, 9, 8)])), []);
    }
}
