//! The pause between two attempts.
//!
//! Contenders that retry in step split the votes again and again, so the pause is random; and it is
//! never shorter than the last round took, which is the time needed to win a majority.

use std::time::Duration;

/// How attempts follow each other while a lock is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retry {
    /// At most so many attempts; `None` leaves the limit to the wait. Default `None`.
    pub tries_max: Option<u32>,
    /// The shortest pause. Default 50 ms.
    pub delay: Duration,
    /// Up to this much is added at random. Default 50 ms.
    pub jitter: Duration,
}

impl Retry {
    /// The pause after a round that took `round`, with `dice` a random number.
    #[must_use]
    pub fn pause(&self, round: Duration, dice: u64) -> Duration {
        let jitter_max = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX);
        let jitter = (u128::from(jitter_max) * u128::from(dice)) >> 64;
        let jitter = u64::try_from(jitter).expect("a product of two u64, shifted by 64");
        self.delay.max(round).saturating_add(Duration::from_nanos(jitter))
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
    fn absurd_numbers_do_not_overflow() {
        let retry = Retry { tries_max: None, delay: Duration::MAX, jitter: Duration::MAX };
        assert_eq!(retry.pause(Duration::MAX, u64::MAX), Duration::MAX);
    }
}
