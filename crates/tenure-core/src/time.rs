//! Two clocks that must never be mixed: ours, and each node's.

use std::fmt;
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

/// A duration as people read it: `28 ms`, `28.3 s`, `1 min 6 s`, `2 h 5 min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounded(pub Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0 => write!(f, "{} ms", self.0.as_millis()),
            1..=59 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            60..=3599 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            _ => write!(f, "{} h {} min", seconds / 3600, seconds % 3600 / 60),
        }
    }
}

/// A reading of one node's clock, as Redis `TIME` gives it: microseconds since 1970 by that node.
///
/// It can step and run at another rate, so nothing in the client's arithmetic compares it with
/// [`Time`].
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
    fn a_duration_is_as_exact_as_people_read_it() {
        for (millis, text) in
            [(28, "28 ms"), (28_300, "28.3 s"), (66_000, "1 min 6 s"), (7_500_000, "2 h 5 min")]
        {
            assert_eq!(Rounded(Duration::from_millis(millis)).to_string(), text);
        }
    }

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
