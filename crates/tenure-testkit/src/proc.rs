//! What the kernel says of a process.

use std::time::Duration;

use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};

/// For how long it has used a processor.
#[must_use]
pub fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// The memory that it has, in KiB.
#[must_use]
pub fn memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    memory.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Keeps a process, with the threads that it has, on one processor.
pub fn keep_on(processor: usize, pid: u32) {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let thread = thread.unwrap().file_name().into_string().unwrap().parse().unwrap();
        keep(Pid::from_raw(thread), processor);
    }
}

/// Keeps this thread, and those that it starts from now on, on one processor.
pub fn keep_thread_on(processor: usize) {
    keep(None, processor);
}

fn keep(thread: Option<Pid>, processor: usize) {
    let mut processors = CpuSet::new();
    processors.set(processor);
    // A thread that has ended meanwhile needs none, and a machine with one processor has no other.
    let _ = sched_setaffinity(thread, &processors);
}

/// Lets a process, or a thread by its number, go before others. Without the right to do so it is
/// left as it is.
pub fn prefer(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let _ = setpriority_process(pid, -15);
}
