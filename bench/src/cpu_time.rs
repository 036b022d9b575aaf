//! The CPU time that this process, another one, or all together have used.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// The kernel's `USER_HZ`: what `/proc` counts in, on every Linux machine.
const TICK: Duration = Duration::from_millis(10);

pub(crate) fn of_this_process() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().expect("no process has used negative time")
}

pub(crate) fn of_process(pid: u32) -> Result<Duration> {
    // Behind the program's name, which is in parentheses; user and system time are the 14th and
    // 15th field.
    ticks(&format!("/proc/{pid}/stat"), ") ", &[11, 12])
}

pub(crate) fn of_all_processes() -> Result<Duration> {
    // User, nice, system, and both kinds of interrupts: most of what loopback does is done in them,
    // and the processes' own clocks count it, too.
    ticks("/proc/stat", "cpu  ", &[0, 1, 2, 5, 6])
}

/// The sum of some fields behind the first `start` of a file.
fn ticks(path: &str, start: &str, fields: &[usize]) -> Result<Duration> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{path} cannot be read"))?;
    let (_, text) = text.split_once(start).with_context(|| format!("{path} has no {start:?}"))?;
    let values: Vec<&str> = text.split_whitespace().collect();
    let ticks = fields.iter().map(|field| values.get(*field).unwrap_or(&"").parse::<u32>());
    Ok(TICK * ticks.sum::<Result<u32, _>>().with_context(|| format!("{path} is not what it should be"))?)
}
