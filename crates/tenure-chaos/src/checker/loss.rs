//! A holder that runs hears of the loss of its lock while it is still valid.

use super::Violation;
use crate::history::{End, History, Hold, Ns};

/// Whoever stood still in this time before the end may hear of it late: the loss is told 50 ms
/// before the end, and the timer that does it is set well before.
const RUNS_BEFORE_NS: Ns = 250_000_000;

/// Only processes that are there at the end of a hold can hear of it, and the history must reach
/// that far.
pub(super) fn check(history: &History, holds: &[Hold]) -> Vec<Violation> {
    let late = |hold: &&Hold| {
        hold.how == End::Expired
            && hold.told.is_none_or(|told| told >= hold.until)
            && !history.stood_still(hold.process, hold.until - RUNS_BEFORE_NS, hold.until)
    };
    holds.iter().filter(late).map(|hold| Violation::LossToldLate { hold: *hold }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Entry, Process};

    const MS: Ns = 1_000_000;

    fn history(more: &[Entry]) -> History {
        let held =
            Entry::Held { lock: 0, fence: 1, invoked: 0, returned: MS, until: 1_000 * MS, lead: 50 * MS };
        let entries = [held].iter().chain(more).map(|entry| (0, *entry)).collect();
        History { processes: vec![Process::default()], entries }
    }

    fn late(history: &History) -> usize {
        check(history, &history.holds()).len()
    }

    #[test]
    fn a_holder_that_is_told_too_late_or_not_at_all_is_found() {
        assert_eq!(late(&history(&[])), 1);
        assert_eq!(late(&history(&[Entry::Lost { lock: 0, fence: 1, at: 1_001 * MS }])), 1);
        assert_eq!(late(&history(&[Entry::Lost { lock: 0, fence: 1, at: 950 * MS }])), 0);
    }

    #[test]
    fn one_that_stood_still_or_was_killed_is_not_to_blame() {
        let lost = Entry::Lost { lock: 0, fence: 1, at: 2_000 * MS };
        assert_eq!(late(&history(&[Entry::Stalled { from: 900 * MS, to: 980 * MS }, lost])), 0);
        assert_eq!(
            late(&history(&[Entry::Stalled { from: 100 * MS, to: 180 * MS }, lost])),
            1,
            "long before"
        );
        let mut halted = history(&[lost]);
        halted.processes[0].halts.push((500 * MS, 1_900 * MS));
        assert_eq!(late(&halted), 0);
        let mut killed = history(&[]);
        killed.processes[0].killed = Some(800 * MS);
        assert_eq!(late(&killed), 0);
    }
}
