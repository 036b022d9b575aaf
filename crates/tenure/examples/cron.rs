//! A job that three machines start every period, and one of them runs: `cargo run -p tenure
//! --example cron`.
//!
//! The clocks of machines differ. Without a lock all three run the job; with a plain lock, a
//! machine that is late finds the lock free again and runs the job a second time. `at_least` keeps
//! the lock for a part of the period, however short the job is.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::Duration;

use tenure::{Locks, MemoryNode};
use tokio::time::{Instant, sleep, sleep_until};

/// A minute in a real crontab.
const PERIOD: Duration = Duration::from_secs(2);

/// Longer than the clocks differ, and shorter than the period.
const AT_LEAST: Duration = Duration::from_secs(1);

const PERIODS: u32 = 3;

/// What cron would do on one machine whose clock is late by so much.
async fn machine(
    name: &str,
    late: Duration,
    locks: Locks,
    begin: Instant,
) -> Result<u32, tenure::AcquireError> {
    let mut runs = 0;
    for period in 0..PERIODS {
        sleep_until(begin + PERIOD * period + late).await;
        // Ask once and do not wait: another machine runs the job, which is all that is wanted.
        let Some(guard) = locks.lock("report").at_least(AT_LEAST).try_acquire().await? else { continue };
        println!("period {period}: {name} writes the report");
        sleep(Duration::from_millis(20)).await; // the job
        runs += 1;
        // If the job had failed, `release_early` would let another machine try in this period.
        let _ = guard.release().await;
    }
    Ok(runs)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Machines have a manager each, on the same three nodes. These are in memory, so that nothing
    // has to be installed; with servers it is `Locks::connect`.
    let nodes = ["a", "b", "c"].map(MemoryNode::new);
    let begin = Instant::now() + Duration::from_millis(50);
    let mut machines = vec![];
    for (name, late_ms) in [("web-1", 120), ("web-2", 60), ("web-3", 0)] {
        let locks = Locks::builder().nodes(&nodes).build()?;
        machines.push(tokio::spawn(machine(name, Duration::from_millis(late_ms), locks, begin)));
    }
    let mut runs = 0;
    for machine in machines {
        runs += machine.await??;
    }
    println!("{PERIODS} periods, 3 machines, {runs} reports");
    Ok(())
}
