//! How long a lock may be counted on, by our own clock.

use std::time::Duration;

use crate::config::Term;
use crate::time::Time;

/// The moment up to which a lock is ours.
///
/// It is `T1 + ttl - drift`, with T1 read before the first request left, so every node that granted
/// keeps the key at least that long. Whether it is over is judged by the clock at the moment of
/// asking, never by a timer having fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Validity {
    end: Time,
    /// From here on the holder is told that the lock is lost, and no extension changes that.
    loss: Time,
}

impl Validity {
    /// The validity of a round for `term` that was begun at `started`.
    #[must_use]
    pub fn of(started: Time, term: &Term) -> Self {
        let lasts = term.ttl() - term.drift();
        Self { end: started + lasts, loss: started + lasts.saturating_sub(term.loss_lead()) }
    }

    /// What is presumed until an extension has proved it: nobody may count on it.
    pub(crate) const fn presumed(end: Time) -> Self {
        Self { end, loss: end }
    }

    /// The first moment at which the lock is no longer ours.
    #[must_use]
    pub const fn end(self) -> Time {
        self.end
    }

    /// The moment at which the holder is told that the lock is lost: early enough to stop its work
    /// before the end.
    #[must_use]
    pub const fn loss(self) -> Time {
        self.loss
    }

    /// What is left of it; zero when it is over.
    #[must_use]
    pub const fn left(self, now: Time) -> Duration {
        self.end.since(now)
    }

    /// Whether the lock counts as lost: the end is so near that work must stop.
    #[must_use]
    pub fn is_lost(self, now: Time) -> bool {
        now >= self.loss
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

    #[test]
    fn loss_is_told_before_the_end_and_not_before_half_of_a_short_term_is_over() {
        // ttl, loss lead: in milliseconds.
        for (ttl_ms, lead_us) in [(50, 12_500), (200, 50_000), (1_000, 50_000), (30_000, 1_500_000)] {
            let options = Options { ttl: Duration::from_millis(ttl_ms), ..Options::default() };
            let validity = Validity::of(ms(1_000), &options.check(MaxTtl::default()).unwrap().term);
            assert_eq!(validity.end().since(validity.loss()), Duration::from_micros(lead_us), "ttl {ttl_ms}");
            assert!(validity.is_lost(validity.loss()) && !validity.is_over(validity.loss()));
            assert!(!validity.is_lost(ms(1_000 + ttl_ms / 2)), "ttl {ttl_ms}");
        }
    }
}
