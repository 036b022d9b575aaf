//! What this instance's acquires came to since it started, and for which locks most time was spent
//! waiting.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure::{Cause, Event};

/// Of so many locks the time that was waited for them is kept; the least of them leaves for a new
/// one.
const NAMES_MAX: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Tally {
    began: Instant,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    outcomes: Outcomes,
    waits: BTreeMap<Box<str>, Waits>,
}

/// How acquires ended, and how many locks were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) acquired: u64,
    pub(crate) refused: u64,
    pub(crate) lost: u64,
}

/// How much was waited for a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) count: u64,
    pub(crate) total: Duration,
    pub(crate) longest: Duration,
}

impl Default for Tally {
    fn default() -> Self {
        Self { began: Instant::now(), counted: Mutex::default() }
    }
}

impl Tally {
    pub(super) fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Acquired { name, attempts, elapsed, .. } => {
                let mut counted = self.counted();
                counted.outcomes.acquired += 1;
                // The first attempt waits for nobody.
                if *attempts > 1 {
                    counted.wait(name, *elapsed);
                }
            }
            Event::PassedOn { name, elapsed, .. } => {
                let mut counted = self.counted();
                counted.outcomes.acquired += 1;
                counted.wait(name, *elapsed);
            }
            Event::NotAcquired { name, cause, attempts, elapsed, .. } => {
                let mut counted = self.counted();
                counted.outcomes.refused += 1;
                if *attempts > 1 && matches!(cause, Cause::Contended { .. }) {
                    counted.wait(name, *elapsed);
                }
            }
            Event::Lost { .. } => self.counted().outcomes.lost += 1,
            _ => {}
        }
    }

    /// How long it has been counted.
    pub(crate) fn since(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn outcomes(&self) -> Outcomes {
        self.counted().outcomes
    }

    /// The locks that most time was waited for, of those that are `wanted`.
    pub(crate) fn contended(&self, most: usize, wanted: impl Fn(&str) -> bool) -> Vec<(Box<str>, Waits)> {
        let counted = self.counted();
        let mut all: Vec<_> = counted.waits.iter().filter(|(name, _)| wanted(name)).collect();
        all.sort_by_key(|(_, waits)| std::cmp::Reverse(waits.total));
        all.into_iter().take(most).map(|(name, waits)| (name.clone(), *waits)).collect()
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn wait(&mut self, name: &str, waited: Duration) {
        if !self.waits.contains_key(name) && self.waits.len() >= NAMES_MAX {
            let least = self.waits.iter().min_by_key(|(_, waits)| waits.total).map(|(name, _)| name.clone());
            least.map(|least| self.waits.remove(&least));
        }
        let waits = self.waits.entry(name.into()).or_default();
        waits.count += 1;
        waits.total += waited;
        waits.longest = waits.longest.max(waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locks_that_were_waited_for_longest_come_first_and_the_least_leaves() {
        let mut counted = Counted::default();
        for number in 0..=NAMES_MAX {
            counted.wait(&format!("{number}"), Duration::from_millis(number as u64 + 1));
        }
        counted.wait("7", Duration::from_secs(9));
        let tally = Tally { began: Instant::now(), counted: Mutex::new(counted) };
        let most = tally.contended(2, |name| name != "1000");
        assert_eq!((&*most[0].0, most[0].1.count, most[0].1.longest), ("7", 2, Duration::from_secs(9)));
        assert_eq!(&*most[1].0, "999");
        assert_eq!(tally.contended(5_000, |_| true).len(), NAMES_MAX);
        assert!(tally.contended(5_000, |name| name == "0").is_empty(), "the least has left");
    }
}
