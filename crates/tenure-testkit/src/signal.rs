//! Halting, resuming and ending processes that were started here.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Halts it with SIGSTOP, and comes back when it stands still: the signal alone lets it run on for
/// a moment.
pub(crate) fn pause(process: u32) {
    let pid = pid(process);
    kill_process(pid, Signal::STOP).unwrap();
    // The end counts as well, or one that has just ended would be waited for in vain; its status is
    // left for others.
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid), options).unwrap();
}

/// Lets it go on with SIGCONT.
pub(crate) fn resume(process: u32) {
    kill_process(pid(process), Signal::CONT).unwrap();
}

/// Asks it to end with SIGTERM.
pub(crate) fn terminate(process: u32) {
    kill_process(pid(process), Signal::TERM).unwrap();
}

/// Interrupts it with SIGINT.
pub(crate) fn interrupt(process: u32) {
    kill_process(pid(process), Signal::INT).unwrap();
}

fn pid(process: u32) -> Pid {
    i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process id")
}
