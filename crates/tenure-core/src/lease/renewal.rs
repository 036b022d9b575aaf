//! When a held lock is extended by itself.
//!
//! Renewals of many locks are moved a little forward onto common moments, so that one message to a
//! node carries many of them.

use std::time::Duration;

use crate::time::Time;

/// Common moments lie this share of the interval apart.
const GRID_SHARE: u32 = 512;

/// After a renewal that failed, the next one comes after this share of the interval.
const RETRY_SHARE: u32 = 4;

/// How a held lock is renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Renewal {
    /// Every third of the ttl: two renewals may fail before the lock is lost.
    #[default]
    AtThird,
    /// At this interval, at most half of the ttl.
    Every(Duration),
    /// Never: the lock expires with its ttl unless the program extends it.
    Off,
}

impl Renewal {
    /// The interval for a lock of this ttl.
    #[must_use]
    pub fn interval(self, ttl: Duration) -> Option<Duration> {
        match self {
            Self::AtThird => Some(ttl / 3),
            Self::Every(interval) => Some(interval),
            Self::Off => None,
        }
    }
}

/// When to renew a lock whose current validity counts from `started`.
pub(crate) fn next(started: Time, interval: Duration) -> Time {
    let grid = nanos(interval / GRID_SHARE).max(1);
    let due = (started + interval).as_nanos();
    Time::from_nanos(due - due % grid)
}

/// When to try again after a renewal that failed.
pub(crate) fn again(now: Time, interval: Duration) -> Time {
    now + interval / RETRY_SHARE
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_acquired_at_about_the_same_time_are_renewed_together_and_never_late() {
        let interval = Duration::from_secs(10);
        let moments: std::collections::BTreeSet<Time> =
            (0..1_000).map(|n| next(Time::from_nanos(n * 100_000), interval)).collect();
        assert!(moments.len() <= 7, "100 ms of acquisitions, grid of 19.5 ms: {}", moments.len());
        for n in 0..1_000 {
            let started = Time::from_nanos(n * 1_234_567);
            let moment = next(started, interval);
            assert!(moment <= started + interval && moment + interval / GRID_SHARE > started + interval);
        }
    }

    #[test]
    fn the_interval_is_a_third_of_the_ttl_unless_said_otherwise() {
        let ttl = Duration::from_secs(30);
        assert_eq!(Renewal::default().interval(ttl), Some(Duration::from_secs(10)));
        assert_eq!(Renewal::Every(Duration::from_secs(7)).interval(ttl), Some(Duration::from_secs(7)));
        assert_eq!(Renewal::Off.interval(ttl), None);
    }
}
