//! Whether a node's clock can be believed: it must neither jump nor run much faster or slower than
//! ours.
//!
//! A node expires keys by its wall clock. If that jumps forward, a lock vanishes there before its
//! time; so a client that sees the clock move too far must not take the node's word for a lock
//! being free.
//!
//! A reply says that the node's clock showed *T* at some moment between sending and receiving. Of
//! two replies, the clock has certainly moved too far if `T2 - T1` exceeds the time from the first
//! sending to the last receiving, and has certainly fallen behind if it is less than the time from
//! the first receiving to the last sending; both with an allowance of 50 ms, and 1 % of the time in
//! between for clocks that run at different rates. Many small steps add up, so not only neighbours
//! are compared but every reply with all others of a window: the least and the greatest of each
//! stretch of the window are enough for that.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::{NodeTime, Time};

/// What a clock may be off within a window: below half of the shortest guard band, above the noise
/// of timers.
const ALLOWANCE: Duration = Duration::from_millis(50);

/// What a clock may be off per time, as a part of it: ten times better than the guard band allows
/// for, and far more than any clock that is not being corrected.
const RATE_PART: i64 = 100;

/// Into how many stretches a window is divided.
const STRETCHES: u32 = 8;

/// The replies of one node within a window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClockWatch {
    window: Duration,
    stretches: VecDeque<Stretch>,
    last: Option<Sample>,
}

/// The extremes of the replies of a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stretch {
    begun: Time,
    /// The least of `T - 1.01 sent`: what a later clock is measured against if it is ahead.
    ahead_of: i64,
    /// The greatest of `T - 0.99 received`: what a later clock is measured against if it is behind.
    behind_of: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sample {
    sent: Time,
    received: Time,
    time: NodeTime,
}

impl ClockWatch {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, stretches: VecDeque::new(), last: None }
    }

    /// Takes a reply's time. Returns by how much the clock jumped (microseconds, at least), if it
    /// did; the watch then begins anew from here.
    pub(super) fn observe(&mut self, sent: Time, received: Time, time: NodeTime) -> Option<i64> {
        // A reply that was sent before the last one tells nothing new, and would count time twice.
        if self.last.is_some_and(|last| sent < last.sent) {
            return None;
        }
        let sample = Sample { sent, received, time };
        let jump = self.jump(&sample);
        if jump.is_some() {
            self.stretches.clear();
        }
        self.last = Some(sample);
        self.put(&sample);
        jump
    }

    /// When the last reply came.
    pub(super) fn last_received(&self) -> Option<Time> {
        self.last.map(|sample| sample.received)
    }

    /// The node's clock less ours in microseconds, by the last reply.
    pub(super) fn offset_us(&self) -> Option<i64> {
        let sample = self.last?;
        Some(sample.shown() - i64::midpoint(micros(sample.sent), micros(sample.received)))
    }

    /// What the node's clock shows at the least, in microseconds: what it showed, and the time
    /// since that answer came.
    pub(super) fn shows_at_least(&self, now: Time) -> Option<i64> {
        let sample = self.last?;
        Some(sample.shown() + slower(now) - slower(sample.received))
    }

    fn jump(&self, sample: &Sample) -> Option<i64> {
        let allowance = i64::try_from(ALLOWANCE.as_micros()).unwrap_or(i64::MAX);
        let ahead = sample.shown() - faster(sample.received);
        let behind = sample.shown() - slower(sample.sent);
        let least = self.stretches.iter().map(|stretch| stretch.ahead_of).min()?;
        let greatest = self.stretches.iter().map(|stretch| stretch.behind_of).max()?;
        if ahead - least > allowance {
            Some(ahead - least)
        } else if behind - greatest < -allowance {
            Some(behind - greatest)
        } else {
            None
        }
    }

    fn put(&mut self, sample: &Sample) {
        let now = sample.received;
        let (ahead_of, behind_of) =
            (sample.shown() - faster(sample.sent), sample.shown() - slower(sample.received));
        match self.stretches.back_mut() {
            Some(stretch) if now.since(stretch.begun) < self.window / STRETCHES => {
                stretch.ahead_of = stretch.ahead_of.min(ahead_of);
                stretch.behind_of = stretch.behind_of.max(behind_of);
            }
            _ => self.stretches.push_back(Stretch { begun: now, ahead_of, behind_of }),
        }
        // The newest that is older than the window stays: something to compare with after a long
        // silence, also when what ended it was a reply that took so long that it says little.
        let too_old = self.window + self.window / STRETCHES;
        while self.stretches.len() > 1 && now.since(self.stretches[1].begun) > too_old {
            self.stretches.pop_front();
        }
    }
}

impl Sample {
    /// What the node's clock showed, in microseconds.
    fn shown(&self) -> i64 {
        bounded(self.time.as_micros())
    }
}

fn faster(time: Time) -> i64 {
    micros(time) + micros(time) / RATE_PART
}

fn slower(time: Time) -> i64 {
    micros(time) - micros(time) / RATE_PART
}

fn micros(time: Time) -> i64 {
    bounded(time.as_nanos() / 1_000)
}

/// A number that can be added to and taken from others of its kind without an overflow. Clocks
/// never come near it.
fn bounded(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX).min(i64::MAX / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);
    const EPOCH_US: i64 = 1_700_000_000_000_000;

    /// Observes a reply every `every_ms`, with a round trip of 2 ms; `clock` maps true microseconds
    /// to what the node shows. Returns when the first jump was seen.
    fn first_jump(every_ms: u64, count: u64, clock: impl Fn(i64) -> i64) -> Option<(u64, i64)> {
        let mut watch = ClockWatch::new(WINDOW);
        (0..count).find_map(|n| {
            let sent_ms = 1_000 + n * every_ms;
            let (sent, received) =
                (Time::from_nanos(sent_ms * 1_000_000), Time::from_nanos((sent_ms + 2) * 1_000_000));
            let shown = EPOCH_US + clock(i64::try_from(sent_ms).unwrap() * 1_000 + 1_000);
            let time = NodeTime::from_micros(u64::try_from(shown).unwrap());
            watch.observe(sent, received, time).map(|jump| (n, jump))
        })
    }

    #[test]
    fn a_clock_that_runs_at_our_rate_or_nearly_so_is_believed() {
        assert_eq!(first_jump(100, 10_000, |true_us| true_us), None);
        assert_eq!(first_jump(100, 10_000, |true_us| true_us + true_us / 200), None, "0.5 % fast");
        assert_eq!(first_jump(100, 10_000, |true_us| true_us - true_us / 200), None, "0.5 % slow");
    }

    #[test]
    fn a_step_forward_or_backward_is_seen_at_the_first_reply() {
        let step =
            |by_us: i64| move |true_us: i64| if true_us > 3_000_000 { true_us + by_us } else { true_us };
        for by_us in [60_000_000, -60_000_000, 100_000, -100_000] {
            let (n, jump) = first_jump(100, 100, step(by_us)).unwrap_or_else(|| panic!("{by_us}"));
            assert_eq!(n, 20, "{by_us}");
            assert!((jump - by_us).abs() < 10_000, "{jump} for {by_us}");
        }
    }

    #[test]
    fn a_frozen_clock_is_seen_within_a_tenth_of_a_second() {
        let (n, _) = first_jump(20, 1_000, |true_us| true_us.min(3_000_000)).unwrap();
        assert!((100..=105).contains(&n), "{n}");
    }

    #[test]
    fn a_slewed_clock_is_seen_within_a_second() {
        for rate in [8, -8] {
            let (n, _) = first_jump(20, 1_000, |true_us| true_us + true_us * rate / 100).unwrap();
            assert!(n < 50, "{n}");
        }
    }

    #[test]
    fn small_steps_add_up() {
        // 40 ms every second: each is within the allowance.
        let (n, _) = first_jump(100, 1_000, |true_us| true_us + true_us / 1_000_000 * 40_000).unwrap();
        assert!(n <= 21, "{n}");
    }

    #[test]
    fn a_jump_in_a_long_silence_is_seen_if_it_is_large_against_the_silence() {
        let clock = |true_us: i64| if true_us > 2_000_000 { true_us + 60_000_000 } else { true_us };
        assert!(first_jump(600_000, 3, clock).is_some());
    }

    /// A server stands still for longer than the window, with a command before it. That reply says
    /// little about its clock, and must not be all there is to compare with.
    #[test]
    fn a_reply_that_took_longer_than_the_window_hides_no_step() {
        let mut watch = ClockWatch::new(Duration::from_millis(1_100));
        let mut observe = |sent_ms: u64, received_ms: u64, shown_ms: u64| {
            let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
            let time = NodeTime::from_micros(EPOCH_US.unsigned_abs() + shown_ms * 1_000);
            watch.observe(at(sent_ms), at(received_ms), time)
        };
        for sent_ms in (1_000..3_000).step_by(100) {
            assert_eq!(observe(sent_ms, sent_ms + 2, sent_ms + 1), None);
        }
        assert_eq!(observe(3_000, 5_000, 5_000), None, "it was held up for two seconds");
        let jump = observe(5_100, 5_102, 5_101 + 1_500);
        assert!(jump.is_some_and(|by_us| by_us > 1_400_000), "{jump:?}");
    }
}
