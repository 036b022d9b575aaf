//! The pause between two attempts.
//!
//! Contenders that retry in step split the votes again and again, so the pause is random; and it is
//! never shorter than the last round took, which is the time needed to win a majority.

use std::time::Duration;

/// The shortest pause there is: attempts without one would keep a worker from everything else.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The pause between attempts while a lock is taken, and their number.
///
/// ```
/// use std::time::Duration;
/// use tenure_core::Retry;
///
/// let retry = Retry::default().delay(Duration::from_millis(200)).jitter(Duration::from_millis(100)).tries_max(3);
/// assert_eq!(retry.pause(Duration::from_millis(1), 0), Duration::from_millis(200));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Retry {
    /// The most attempts; `None` (the default) leaves the limit to the wait.
    pub tries_max: Option<u32>,
    /// The shortest pause; less than a millisecond counts as one. Default 50 ms.
    pub delay: Duration,
    /// The most that is added at random. Default 50 ms.
    pub jitter: Duration,
}

impl Retry {
    /// Sets the largest number of attempts.
    #[must_use]
    pub const fn tries_max(mut self, tries_max: u32) -> Self {
        self.tries_max = Some(tries_max);
        self
    }

    /// Sets the shortest pause.
    #[must_use]
    pub const fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the most that is added at random.
    #[must_use]
    pub const fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// The pause after a round that took `round`, with `dice` a random number.
    #[must_use]
    pub fn pause(&self, round: Duration, dice: u64) -> Duration {
        let jitter_max = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX);
        let jitter = (u128::from(jitter_max) * u128::from(dice)) >> 64;
        let jitter = u64::try_from(jitter).expect("a product of two u64, shifted by 64");
        self.delay.max(round).max(PAUSE_MIN).saturating_add(Duration::from_nanos(jitter))
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self { tries_max: None, delay: Duration::from_millis(50), jitter: Duration::from_millis(50) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_pause_is_delay_plus_a_random_part() {
        let retry = Retry { tries_max: None, delay: ms(50), jitter: ms(100) };
        assert_eq!(retry.pause(ms(1), 0), ms(50));
        assert_eq!(retry.pause(ms(1), u64::MAX / 2 + 1), ms(100));
        assert!(retry.pause(ms(1), u64::MAX) < ms(150));
    }

    #[test]
    fn the_pause_is_never_shorter_than_the_round_was() {
        let retry = Retry { tries_max: None, delay: ms(5), jitter: Duration::ZERO };
        assert_eq!(retry.pause(ms(40), 0), ms(40));
    }

    #[test]
    fn there_is_always_a_pause() {
        let retry = Retry { tries_max: None, delay: Duration::ZERO, jitter: Duration::ZERO };
        assert_eq!(retry.pause(Duration::ZERO, 0), ms(1));
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let retry = Retry { tries_max: None, delay: Duration::MAX, jitter: Duration::MAX };
        assert_eq!(retry.pause(Duration::MAX, u64::MAX), Duration::MAX);
    }
}
