//! The client's clock.
//!
//! Validity must not be overestimated, so the clock has to go on while the machine is suspended,
//! and it must not be slewed by time synchronisation (which may bend a clock by more than the 1 %
//! drift allowance). No single Linux clock does both: `CLOCK_BOOTTIME` is slewed,
//! `CLOCK_MONOTONIC_RAW` stops in suspend. The time suspended is `BOOTTIME - MONOTONIC`, both
//! slewed alike; raw time plus that does both. `docs/decisions/0003-client-clock.md` tells why the
//! larger of the two clocks is not enough.

use std::sync::OnceLock;
use std::time::Duration;

use tenure_core::{NodeTime, Time};

/// Where a manager reads the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The machine's clock.
    System,
    /// Tokio's clock, which tests can pause.
    Tokio,
}

impl Clock {
    pub(crate) fn now(self) -> Time {
        match self {
            Self::System => system::now(),
            Self::Tokio => Time::from_nanos(nanos(tokio_elapsed() + suspended())),
        }
    }
}

#[cfg(not(test))]
const fn suspended() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
thread_local! {
    static SUSPENDED: std::cell::Cell<Duration> = const { std::cell::Cell::new(Duration::ZERO) };
}

#[cfg(test)]
fn suspended() -> Duration {
    SUSPENDED.get()
}

/// As if the machine had been suspended for so long: the client's clock has gone on, and no timer
/// has.
#[cfg(test)]
pub(crate) fn suspend(asleep: Duration) {
    SUSPENDED.set(SUSPENDED.get() + asleep);
}

/// The clock that validity is judged by, as the time since some moment in the past: to tell another
/// process on this machine how long a lock is valid.
///
/// It is not slewed, and runs while the machine is suspended. All processes of a machine read the
/// same, except in other time namespaces.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let guard = tenure::Locks::memory().lock("import").acquire().await?;
/// // The clock first: what passes between the two makes it earlier.
/// let now = tenure::machine_time();
/// let valid_until = now + guard.valid_for();
/// # assert!(valid_until > now);
/// # Ok(()) }
/// ```
#[cfg(target_os = "linux")]
#[must_use]
pub fn machine_time() -> Duration {
    Duration::from_nanos(system::now().as_nanos())
}

/// The clock of memory nodes. It is theirs alone, as a real node's is; tests that pause tokio pause
/// it, too.
pub(crate) fn memory_node_time() -> NodeTime {
    /// An arbitrary start, well away from zero, so that nothing takes it for "unset".
    const START: Duration = Duration::from_secs(1_000_000_000);
    NodeTime::from_micros(nanos(START + tokio_elapsed()) / 1_000)
}

fn tokio_elapsed() -> Duration {
    static ORIGIN: OnceLock<tokio::time::Instant> = OnceLock::new();
    let now = tokio::time::Instant::now();
    // One second back: a paused clock of another test's runtime may lie a little before the first
    // reading.
    let origin = *ORIGIN.get_or_init(|| now.checked_sub(Duration::from_secs(1)).unwrap_or(now));
    now.saturating_duration_since(origin)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(target_os = "linux")]
mod system {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::time::{ClockId, clock_gettime};
    use tenure_core::Time;

    /// Keeps the sum positive: 30 years in nanoseconds.
    const START: u64 = 1_000_000_000_000_000_000;

    pub(super) fn now() -> Time {
        let now = with_suspension(read);
        // The three readings lie some nanoseconds apart, so two results may cross; time must not go
        // back.
        static LATEST: AtomicU64 = AtomicU64::new(0);
        Time::from_nanos(LATEST.fetch_max(now, Ordering::Relaxed).max(now))
    }

    /// Time that is not slewed, and goes on while the machine is suspended: of these clocks only
    /// the last one does.
    fn with_suspension(read: impl Fn(ClockId) -> u64) -> u64 {
        let raw = i128::from(read(ClockId::MonotonicRaw));
        let monotonic = i128::from(read(ClockId::Monotonic));
        // In a time namespace the difference may be negative; only its changes matter.
        let suspended = i128::from(read(ClockId::Boottime)) - monotonic;
        u64::try_from(raw + suspended + i128::from(START)).unwrap_or(0)
    }

    fn read(clock: ClockId) -> u64 {
        let time = clock_gettime(clock);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        seconds.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn time_goes_on_while_the_machine_is_suspended_and_is_not_slewed() {
            // A machine whose clocks show this, in milliseconds.
            let shown = |raw: u64, monotonic: u64, boot: u64| {
                with_suspension(|clock| match clock {
                    ClockId::MonotonicRaw => raw * 1_000_000,
                    ClockId::Monotonic => monotonic * 1_000_000,
                    ClockId::Boottime => boot * 1_000_000,
                    other => panic!("{other:?} may be slewed, or be set"),
                })
            };
            let before = shown(100_000, 100_000, 100_000);
            // Suspended for a minute: only the clock that counts from boot moves.
            assert_eq!(shown(100_000, 100_000, 160_000) - before, 60_000_000_000);
            // Slewed by 8 %: both of the others move alike.
            assert_eq!(shown(110_000, 110_800, 110_800) - before, 10_000_000_000);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::sync::OnceLock;
    use std::time::Instant;

    use tenure_core::Time;

    pub(super) fn now() -> Time {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        Time::from_nanos(super::nanos(ORIGIN.get_or_init(Instant::now).elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_runs_at_the_rate_of_the_world_and_never_back() {
        let (before, start) = (Clock::System.now(), std::time::Instant::now());
        let mut last = before;
        while start.elapsed() < Duration::from_millis(100) {
            let now = Clock::System.now();
            assert!(now >= last);
            last = now;
        }
        let elapsed = Clock::System.now().since(before);
        assert!(elapsed >= Duration::from_millis(90) && elapsed < Duration::from_secs(10), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_stands_still_when_tokio_is_paused() {
        let before = Clock::Tokio.now();
        assert_eq!(Clock::Tokio.now(), before);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(Clock::Tokio.now().since(before), Duration::from_secs(5));
    }
}
