//! At most one holder at a time.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::Hold;

/// Sweeps over the holds, which are in the order of their beginnings.
pub(super) fn check(holds: &[Hold]) -> Vec<Violation> {
    let mut violations = vec![];
    // Of the holds of each lock that have begun, the one that ends last.
    let mut longest: BTreeMap<usize, Hold> = BTreeMap::new();
    for second in holds.iter().filter(|hold| hold.end > hold.returned) {
        let Some(first) = longest.insert(second.lock, *second) else { continue };
        if second.returned < first.end {
            violations.push(Violation::Overlap { first, second: *second });
        }
        if first.end > second.end {
            longest.insert(first.lock, first);
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::check as check_all;
    use crate::history::{Entry, History, Process};

    fn history(entries: Vec<(usize, Entry)>) -> History {
        History {
            processes: (0..3).map(|client| Process { client, ..Process::default() }).collect(),
            entries,
        }
    }

    fn held(lock: usize, fence: i64, returned: i64, until: i64) -> Entry {
        Entry::Held { lock, fence, invoked: returned - 1, returned, until, lead: 5 }
    }

    /// The timer tells of a loss while the lock still counts: what the holder does then must not
    /// meet anybody.
    #[test]
    fn a_lock_that_is_given_between_the_word_of_a_loss_and_the_end_is_found() {
        const MS: i64 = 1_000_000;
        let held = |fence, returned, until| Entry::Held {
            lock: 0,
            fence,
            invoked: returned - MS,
            returned,
            until,
            lead: 50 * MS,
        };
        let entries = |told| {
            vec![
                (0, held(1, 10 * MS, 1_000 * MS)),
                (0, Entry::Lost { lock: 0, fence: 1, at: told }),
                (0, Entry::Wrote { lock: 0, fence: 1, at: 955 * MS, value: 1 }),
                (1, held(2, 960 * MS, 1_900 * MS)),
                (1, Entry::Released { lock: 0, fence: 2, at: 970 * MS }),
            ]
        };
        let violations = check_all(&history(entries(950 * MS)));
        assert!(matches!(violations[..], [Violation::Overlap { .. }]), "{violations:?}");
        assert_eq!(check_all(&history(entries(900 * MS))), [], "a majority had said that it is lost");
    }

    #[test]
    fn a_lock_that_is_given_while_another_counts_on_it_is_found() {
        let history = history(vec![
            (0, held(0, 1, 10, 100)),
            (1, held(0, 2, 60, 150)),
            (0, Entry::Released { lock: 0, fence: 1, at: 61 }),
            (1, Entry::Released { lock: 0, fence: 2, at: 62 }),
        ]);
        let violations = check_all(&history);
        assert!(matches!(violations[..], [Violation::Overlap { first, second }]
            if first.fence == 1 && second.fence == 2));
    }

    #[test]
    fn a_long_hold_is_not_forgotten_over_a_short_one() {
        let history = history(vec![
            (0, held(0, 1, 10, 1_000)),
            (1, held(0, 2, 20, 30)),
            (2, held(0, 3, 40, 50)),
            (0, Entry::Released { lock: 0, fence: 1, at: 900 }),
            (1, Entry::Released { lock: 0, fence: 2, at: 29 }),
            (2, Entry::Released { lock: 0, fence: 3, at: 49 }),
        ]);
        assert_eq!(check(&history.holds()).len(), 2);
    }

    #[test]
    fn holds_that_follow_each_other_or_are_of_other_locks_are_in_order() {
        let mut history = history(vec![
            (0, held(0, 1, 10, 100)),
            (0, Entry::Released { lock: 0, fence: 1, at: 50 }),
            (1, held(0, 2, 51, 150)),
            (2, held(1, 1, 20, 120)),
            (2, held(0, 3, 130, 200)),
            (1, Entry::Lost { lock: 0, fence: 2, at: 129 }),
            (0, held(0, 4, 190, 300)),
            (2, Entry::Lost { lock: 1, fence: 1, at: 119 }),
            (0, Entry::Released { lock: 0, fence: 4, at: 200 }),
        ]);
        history.processes[2].killed = Some(180);
        assert_eq!(check(&history.holds()), []);
    }
}
