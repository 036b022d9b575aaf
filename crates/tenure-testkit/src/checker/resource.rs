//! What the fences protect: a number that holders claim, read, and write with one added.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{History, Line};

/// An update that was taken may be missing here, when its client was killed before it could say so. So values may be
/// left out, but none may come twice, and fences must not fall as values rise.
pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut of_locks: BTreeMap<usize, BTreeMap<i64, (i64, i64)>> = BTreeMap::new();
    let mut violations = vec![];
    for (_, line) in &history.lines {
        if let Line::Wrote { lock, fence, at, value } = *line
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

#[cfg(test)]
mod tests {
    use super::*;

    fn wrote(lines: &[(usize, i64, i64)]) -> History {
        let line = |(at, (lock, fence, value)): (usize, &(usize, i64, i64))| {
            (0, Line::Wrote { lock: *lock, fence: *fence, at: at.try_into().unwrap(), value: *value })
        };
        History { processes: vec![], lines: lines.iter().enumerate().map(line).collect() }
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
