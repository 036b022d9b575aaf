//! Ending a process group for good, from outside: by somebody whom its processes are no children
//! of.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How often we look whether it is gone: nobody tells us.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Kills the group until nothing of it lives. `false` if something still does when the time is
/// over: another user's process, or one that hangs in the kernel.
pub(super) fn end(group: Pid, limit: Duration) -> bool {
    let begun = Instant::now();
    loop {
        // Whoever is killed forks no more, so who is not seen afterwards does not come back.
        if killpg(group, Signal::SIGKILL) == Err(Errno::ESRCH) || is_dead(group) {
            return true;
        }
        if begun.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Whether all that is left of the group has ended and waits for a parent that does not ask: the
/// first process of many containers never does.
#[cfg(target_os = "linux")]
fn is_dead(group: Pid) -> bool {
    // Where processes are hidden from us, nobody can tell.
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let hides = |mount: &str| mount.contains(" /proc proc ") && mount.contains("hidepid=");
    if mounts.is_empty() || mounts.lines().any(hides) {
        return false;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let mut members = processes.flatten().filter_map(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        Member::parse(&stat).filter(|member| member.group == group.as_raw())
    });
    members.all(|member| !member.lives)
}

#[cfg(not(target_os = "linux"))]
fn is_dead(_: Pid) -> bool {
    false
}

/// What the system tells about a process.
#[cfg(target_os = "linux")]
#[derive(Debug, PartialEq, Eq)]
struct Member {
    group: i32,
    lives: bool,
}

#[cfg(target_os = "linux")]
impl Member {
    /// Reads `/proc/PID/stat`. The program's name in it may be anything.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let ended = matches!(*fields.first()?, "Z" | "X");
        // The first thread of a process may have ended before the others.
        let threads: u32 = fields.get(17)?.parse().ok()?;
        Some(Self { group: fields.get(2)?.parse().ok()?, lives: !ended || threads > 1 })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_its_last_thread_has_ended() {
        let stat = |state: &str, threads: u32| {
            format!("7 (a) Z 1) {state} 1 42 42 0 -1 4 1 0 0 0 0 0 0 0 20 0 {threads} 0 99")
        };
        for (state, threads, lives) in [("S", 1, true), ("Z", 1, false), ("Z", 2, true), ("T", 1, true)] {
            assert_eq!(Member::parse(&stat(state, threads)), Some(Member { group: 42, lives }));
        }
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let group = nix::unistd::getpgrp().as_raw();
        assert_eq!(Member::parse(&own), Some(Member { group, lives: true }));
    }
}
