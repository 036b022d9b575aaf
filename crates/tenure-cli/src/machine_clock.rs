//! The clock that validity is judged by; all processes of the machine read the same.

use std::time::Duration;

/// The time that has passed since some moment before we began.
pub(crate) fn now() -> Duration {
    #[cfg(target_os = "linux")]
    {
        tenure::machine_time()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let clock = rustix::time::ClockId::Monotonic;
        Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default()
    }
}
