//! The clocks of the world. True time moves them; nobody in the world sees true time.

use tenure_core::{NodeTime, Time};

const MILLION: i128 = 1_000_000;

/// What the nodes' clocks show, more or less, when a history begins: microseconds since 1970.
const EPOCH_US: i64 = 1_700_000_000_000_000;

/// A client's clock: it begins anywhere, runs at its own rate and never jumps. Where A4 is dropped
/// it stands still with its machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientClock {
    start_ns: u64,
    rate_ppm: i64,
    slept_ns: u64,
}

impl ClientClock {
    pub(crate) const fn new(start_ns: u64, rate_ppm: i64) -> Self {
        Self { start_ns, rate_ppm, slept_ns: 0 }
    }

    pub(crate) fn read(&self, true_ns: u64) -> Time {
        Time::from_nanos(self.start_ns + scaled(true_ns.saturating_sub(self.slept_ns), self.rate_ppm))
    }

    /// It stood still for so long, and goes on.
    pub(crate) const fn sleep(&mut self, slept_ns: u64) {
        self.slept_ns += slept_ns;
    }

    /// The first true moment at which the clock shows `time`.
    pub(crate) fn when(&self, time: Time) -> u64 {
        let shown = i128::from(time.as_nanos().saturating_sub(self.start_ns));
        let rate = MILLION + i128::from(self.rate_ppm);
        let mut true_ns = u64::try_from(shown * MILLION / rate).unwrap_or(u64::MAX / 2) + self.slept_ns;
        while self.read(true_ns) < time {
            true_ns += 1;
        }
        true_ns
    }
}

/// A node's wall clock: it can be off, run at another rate, stand still and step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeClock {
    since_ns: u64,
    base_us: i64,
    rate_ppm: i64,
    /// The latest that it has ever shown.
    highest_us: i64,
    /// By how much it has stepped in all.
    pub(crate) stepped_us: i64,
}

/// The rate of a clock that stands still.
pub(crate) const FROZEN: i64 = -1_000_000;

impl NodeClock {
    pub(crate) const fn new(offset_us: i64, rate_ppm: i64) -> Self {
        let base_us = EPOCH_US + offset_us;
        Self { since_ns: 0, base_us, rate_ppm, highest_us: base_us, stepped_us: 0 }
    }

    pub(crate) fn read(&self, true_ns: u64) -> NodeTime {
        NodeTime::from_micros(self.micros(true_ns).cast_unsigned())
    }

    pub(crate) fn set_rate(&mut self, true_ns: u64, rate_ppm: i64) {
        self.rebase(true_ns, 0);
        self.rate_ppm = rate_ppm;
    }

    pub(crate) fn step(&mut self, true_ns: u64, by_us: i64) {
        self.rebase(true_ns, by_us);
        self.stepped_us += by_us;
    }

    /// How far it is behind the latest that it has ever shown.
    pub(crate) fn behind_us(&self, true_ns: u64) -> u64 {
        self.highest_us.saturating_sub(self.micros(true_ns)).max(0).cast_unsigned()
    }

    fn micros(&self, true_ns: u64) -> i64 {
        let elapsed_us = scaled(true_ns.saturating_sub(self.since_ns), self.rate_ppm) / 1_000;
        self.base_us + elapsed_us.cast_signed()
    }

    fn rebase(&mut self, true_ns: u64, by_us: i64) {
        let now_us = self.micros(true_ns);
        self.highest_us = self.highest_us.max(now_us);
        (self.since_ns, self.base_us) = (true_ns, now_us + by_us);
        self.highest_us = self.highest_us.max(self.base_us);
    }
}

fn scaled(ns: u64, rate_ppm: i64) -> u64 {
    let scaled = i128::from(ns) * (MILLION + i128::from(rate_ppm)) / MILLION;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_a_clients_clock_is_found_in_true_time() {
        for rate_ppm in [-500, 0, 7, 500] {
            let clock = ClientClock::new(9_999_999_999, rate_ppm);
            for true_ns in [0, 1, 999_999_937, 77_000_000_001] {
                let when = clock.when(clock.read(true_ns));
                assert!(when <= true_ns && true_ns - when <= 1, "{rate_ppm} {true_ns} {when}");
            }
        }
    }

    #[test]
    fn a_frozen_clock_stands_still_and_goes_on_from_there() {
        let mut clock = NodeClock::new(0, 0);
        clock.set_rate(1_000_000, FROZEN);
        assert_eq!(clock.read(9_000_000), clock.read(1_000_000));
        clock.set_rate(9_000_000, 0);
        assert_eq!(clock.read(9_005_000).as_micros(), clock.read(9_000_000).as_micros() + 5);
        clock.step(10_000_000, -100);
        assert_eq!(clock.behind_us(10_000_000), 100);
        assert_eq!(clock.behind_us(10_050_000), 50);
    }
}
