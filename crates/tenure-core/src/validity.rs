//! How long a lock may be counted on, by our own clock.

use std::time::Duration;

use crate::config::Term;
use crate::time::Time;

/// The moment up to which a lock is ours.
///
/// It is `T1 + ttl - drift`, with T1 read before the first request left, so every node that granted keeps
/// the key at least that long. Whether it is over is judged by the clock at the moment of asking, never by
/// a timer having fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Validity {
    end: Time,
}

impl Validity {
    /// The validity of a round for `term` that was begun at `started`.
    #[must_use]
    pub fn of(started: Time, term: &Term) -> Self {
        Self { end: started + (term.ttl() - term.drift()) }
    }

    /// The first moment at which the lock is no longer ours.
    #[must_use]
    pub const fn end(self) -> Time {
        self.end
    }

    /// What is left of it; zero when it is over.
    #[must_use]
    pub const fn left(self, now: Time) -> Duration {
        self.end.since(now)
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(self, now: Time) -> bool {
        now >= self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{MaxTtl, Options};

    fn ms(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn validity_is_ttl_less_elapsed_less_drift_and_counts_down() {
        let options = Options { ttl: Duration::from_secs(10), ..Options::default() };
        let term = options.check(MaxTtl::default()).unwrap().term;
        let validity = Validity::of(ms(1_000), &term);
        // 10 s less 1 % less 2 ms, from T1.
        assert_eq!(validity.end(), ms(1_000 + 9_898));
        assert_eq!(validity.left(ms(1_500)), Duration::from_millis(9_398));
        assert_eq!(validity.left(ms(10_897)), Duration::from_millis(1));
        assert!(!validity.is_over(ms(10_897)));
        assert!(validity.is_over(ms(10_898)));
        assert_eq!(validity.left(ms(99_999)), Duration::ZERO);
    }
}
