//! One process that competes for the lock. It prints a line for each hold: worker, and when the
//! lock was asked for, had and given up; and last the CPU time that it used.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use floor::Party;
use rustix::time::{ClockId, clock_gettime};
use tenure::Locks;

use crate::cpu_time;

/// `contended-worker KIND INDEX WORKERS HOLD_MS TIME_MS PORT...`
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [kind, index, workers, hold_ms, time_ms, ports @ ..] = arguments else { bail!("too few arguments") };
    let ports = ports.iter().map(|port| port.parse()).collect::<Result<Vec<u16>, _>>()?;
    let hold = Duration::from_millis(hold_ms.parse()?);
    let end = now() + time_ms.parse::<u64>()? * 1_000_000;
    let text = match kind.as_str() {
        "tenure" => compete(&ports, workers.parse()?, hold, end)?,
        "floor" => take_turns(&ports, index.parse()?, workers.parse()?, hold, end)?,
        other => bail!("not a kind of worker: {other:?}"),
    };
    print!("{text}");
    println!("{}", cpu_time::of_this_process().as_nanos());
    Ok(())
}

fn compete(ports: &[u16], workers: usize, hold: Duration, end: u64) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let locks = Locks::connect(ports.iter().map(|port| format!("redis://127.0.0.1:{port}"))).await?;
        let tasks: Vec<_> = (0..workers)
            .map(|worker| {
                let lock = locks.lock("contended").wait_forever();
                tokio::spawn(async move {
                    let mut text = String::new();
                    while now() < end {
                        let called = now();
                        let guard = lock.acquire().await?;
                        let acquired = now();
                        if !hold.is_zero() {
                            // As exact as the floor's: the runtime's timer is a millisecond late.
                            tokio::task::spawn_blocking(move || std::thread::sleep(hold)).await?;
                        }
                        let released = now();
                        let _ = guard.release().await;
                        writeln!(text, "{worker} {called} {acquired} {released}")?;
                    }
                    anyhow::Ok(text)
                })
            })
            .collect();
        let mut all = String::new();
        for task in tasks {
            all += &task.await??;
        }
        locks.shutdown().await?;
        Ok(all)
    })
}

/// One party of the floor's ring; the first one begins.
fn take_turns(ports: &[u16], index: usize, parties: usize, hold: Duration, end: u64) -> Result<String> {
    let (name, next) = (format!("floor-{index}"), format!("floor-{}", (index + 1) % parties));
    let mut party = Party::connect(ports, "floor:pass-on", &name, &next)?;
    let (mut text, first) = (String::new(), index == 0);
    // The others may not be there yet.
    std::thread::sleep(Duration::from_millis(if first { 150 } else { 0 }));
    let mut called = now();
    if !first {
        party.wait().context("the first turn")?;
    }
    while now() < end {
        party.acquire()?;
        let acquired = now();
        std::thread::sleep(hold);
        let released = now();
        party.release()?;
        writeln!(text, "0 {called} {acquired} {released}")?;
        called = now();
        if party.wait().is_err() {
            return Ok(text); // The others have gone.
        }
    }
    // So that the next one does not wait for us.
    let _ = party.acquire();
    let _ = party.release();
    Ok(text)
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
