//! Rings when the lock is about to end, by a clock that goes on while the machine is suspended. It rings in a process that
//! does nothing else, so that one that is stopped, or has too much to do, is not what the command's end depends on.

use std::time::Duration;

/// A time by that clock, in nanoseconds.
pub(super) fn now() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    let clock = nix::time::ClockId::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    let clock = nix::time::ClockId::CLOCK_MONOTONIC;
    clock.now().ok().map(Duration::from)
}

#[cfg(target_os = "linux")]
pub(super) use self::linux::Alarm;

#[cfg(not(target_os = "linux"))]
pub(super) use self::other::Alarm;

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

    /// It is set anew whenever the lock has been renewed.
    #[derive(Debug)]
    pub(in super::super) struct Alarm(TimerFd);

    impl Alarm {
        pub(in super::super) fn new() -> nix::Result<Self> {
            TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)
                .map(Self)
        }

        pub(in super::super) fn set(&self, at: Duration) {
            let _ = self.0.set(Expiration::OneShot(at.into()), TimerSetTimeFlags::TFD_TIMER_ABSTIME);
        }

        pub(in super::super) fn stop(&self) {
            let _ = self.0.unset();
        }

        /// Waits until there is something to read. `true` if it rings before that; it does so once.
        pub(in super::super) fn rings_before(&self, line: impl AsFd) -> bool {
            let timer = self.0.as_fd();
            let mut watched =
                [PollFd::new(timer, PollFlags::POLLIN), PollFd::new(line.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut watched, PollTimeout::NONE);
            let rings = ready.is_ok() && watched[0].any() == Some(true);
            if rings {
                self.stop();
            }
            rings
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::os::fd::AsFd;
    use std::time::Duration;

    /// There is none here.
    #[derive(Debug)]
    pub(in super::super) struct Alarm;

    impl Alarm {
        pub(in super::super) const fn new() -> nix::Result<Self> {
            Ok(Self)
        }

        pub(in super::super) const fn set(&self, _: Duration) {}

        pub(in super::super) const fn stop(&self) {}

        pub(in super::super) fn rings_before(&self, _: impl AsFd) -> bool {
            false
        }
    }
}
