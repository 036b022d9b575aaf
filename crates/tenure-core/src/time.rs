//! Two clocks that must never be mixed: ours, and each node's.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Add;
use std::time::Duration;

/// What a clock shows. Kept as one more than that, so that a reading that may be missing takes no
/// more room than one: there are many of both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Reading(NonZeroU64);

impl Reading {
    const fn new(units: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(units))
    }

    const fn get(self) -> u64 {
        self.0.get() - 1
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A reading of the client's clock: nanoseconds since a start that only this process knows.
///
/// Arithmetic saturates, so a wait of [`Duration::MAX`] means "never" and cannot wrap round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Reading);

impl Time {
    /// A reading of `nanos` nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(Reading::new(nanos))
    }

    /// Nanoseconds since the clock's start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get()
    }

    /// How long ago `earlier` was; zero if it is not in the past.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self::from_nanos(self.as_nanos().saturating_add(nanos))
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
pub struct NodeTime(Reading);

impl NodeTime {
    /// A reading of `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(Reading::new(micros))
    }

    /// Microseconds since the epoch of the node's clock.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0.get()
    }

    /// Whole milliseconds, the unit in which nodes expire keys; the rest is cut off, as Redis does.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.as_micros() / 1_000
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
    fn a_missing_reading_takes_no_more_room() {
        assert_eq!(size_of::<(Option<Time>, Option<NodeTime>)>(), 16);
        for units in [0, 1, u64::MAX - 1] {
            assert_eq!(Time::from_nanos(units).as_nanos(), units);
            assert_eq!(NodeTime::from_micros(units).as_micros(), units);
            assert_eq!(format!("{:?}", Time::from_nanos(units)), format!("Time({units})"));
        }
        assert!(Time::from_nanos(0) < Time::from_nanos(1));
    }

    #[test]
    fn the_past_is_zero_seconds_ago_never_negative() {
        let (early, late) = (Time::from_nanos(1), Time::from_nanos(4));
        assert_eq!(late.since(early), Duration::from_nanos(3));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
