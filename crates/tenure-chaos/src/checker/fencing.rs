//! Fences are unique, and grow with the order of acquisitions.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::Hold;

pub(super) fn check(holds: &[Hold]) -> Vec<Violation> {
    let mut of_locks: BTreeMap<usize, Vec<Hold>> = BTreeMap::new();
    for hold in holds {
        of_locks.entry(hold.lock).or_default().push(*hold);
    }
    of_locks.into_values().flat_map(|holds| [same(&holds), smaller(holds)].concat()).collect()
}

fn same(holds: &[Hold]) -> Vec<Violation> {
    let mut seen: BTreeMap<i64, Hold> = BTreeMap::new();
    let again = holds.iter().filter_map(|second| {
        let first = seen.insert(second.fence, *second)?;
        Some(Violation::SameFence { first, second: *second })
    });
    again.collect()
}

/// Compares each hold with the largest fence of all that had succeeded before it was asked for.
fn smaller(by_return: Vec<Hold>) -> Vec<Violation> {
    let mut by_invocation = by_return.clone();
    by_invocation.sort_by_key(|hold| hold.invoked);
    let mut returned = by_return.into_iter().peekable();
    let (mut largest, mut violations) = (None::<Hold>, vec![]);
    for later in by_invocation {
        while let Some(hold) = returned.next_if(|hold| hold.returned < later.invoked) {
            largest = largest.filter(|largest| largest.fence > hold.fence).or(Some(hold));
        }
        if let Some(earlier) = largest.filter(|earlier| earlier.fence > later.fence) {
            violations.push(Violation::SmallerFence { earlier, later });
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::End;

    fn hold(lock: usize, fence: i64, invoked: i64, returned: i64) -> Hold {
        let end = returned + 1;
        Hold {
            process: 0,
            client: 0,
            lock,
            fence,
            invoked,
            returned,
            until: end,
            lead: 0,
            told: None,
            end,
            how: End::Released,
        }
    }

    #[test]
    fn a_fence_that_is_given_twice_is_found() {
        let violations = check(&[hold(0, 5, 1, 2), hold(0, 5, 1, 4)]);
        assert!(matches!(violations[..], [Violation::SameFence { .. }]), "{violations:?}");
    }

    #[test]
    fn a_smaller_fence_after_a_success_is_found() {
        let holds = [hold(0, 7, 1, 2), hold(0, 3, 0, 4), hold(0, 6, 5, 6)];
        let violations = check(&holds);
        assert!(
            matches!(violations[..], [Violation::SmallerFence { earlier, later }]
                if (earlier.fence, later.fence) == (7, 6)),
            "the second was asked for before the first had succeeded: {violations:?}"
        );
    }

    #[test]
    fn fences_of_other_locks_do_not_matter() {
        assert_eq!(check(&[hold(0, 7, 1, 2), hold(1, 7, 3, 4), hold(1, 8, 5, 6), hold(0, 8, 7, 8)]), []);
    }
}
