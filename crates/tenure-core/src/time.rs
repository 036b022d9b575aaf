//! Two clocks that must never be mixed: ours, and each node's.

use std::ops::Add;
use std::time::Duration;

/// A reading of the client's clock: nanoseconds since a start that only this process knows.
///
/// Arithmetic saturates, so a wait of [`Duration::MAX`] means "never" and cannot wrap round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// A reading of `nanos` nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is not in the past.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

/// A reading of one node's clock, as Redis `TIME` gives it: microseconds since 1970 by that node.
///
/// It can step and run at another rate, so nothing in the client's arithmetic compares it with [`Time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTime(u64);

impl NodeTime {
    /// A reading of `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch of the node's clock.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds, the unit in which nodes expire keys; the rest is cut off, as Redis does.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_without_end_does_not_wrap_round() {
        assert_eq!(Time::from_nanos(5) + Duration::MAX, Time::from_nanos(u64::MAX));
    }

    #[test]
    fn the_past_is_zero_seconds_ago_never_negative() {
        let (early, late) = (Time::from_nanos(1), Time::from_nanos(4));
        assert_eq!(late.since(early), Duration::from_nanos(3));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
