//! `tenure bench`: how fast locks are on these nodes, and what limits them.
//!
//! Everything is done under a prefix that is made for this run and given up after it
//! (`bench/trial.rs`), with loads one after the other (`bench/workload.rs`), while the CPU of this
//! process, of the servers and of this machine is watched (`bench/usage.rs`).

mod trial;
mod usage;
mod workload;

use std::time::{Duration, Instant};

use self::trial::Trial;
use self::usage::Usage;
use crate::args::BenchArgs;
use crate::capacity::measured::{Benchmark, LoadRun, NodeRun, load_name};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::{Output, Progress};
use crate::settings::Settings;
use crate::signals::{Signal, Signals, ends_wait};

/// Clients and tasks of each. Tasks of one client share its connections, and their locks travel
/// together; those of many clients come alone.
const LOADS: [(usize, usize); 5] = [(1, 1), (1, 4), (1, 16), (1, 64), (16, 1)];

/// The steps of a run: round trips, the loads, the hand-over.
const STEPS: usize = LOADS.len() + 2;

pub(crate) async fn run(args: &BenchArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let mut signals = Signals::install()?;
    let mut trial = Trial::new(settings)?;
    output.note(&trial.announcement(args.seconds));
    let mut progress = output.progress();
    let measured = tokio::select! {
        measured = measure(&mut trial, args.seconds, settings, &mut progress) => measured,
        signal = interruption(&mut signals) => {
            let message = format!("interrupted by {signal}; the benchmark's locks were removed");
            Err(Failure::new(Exit::signal(signal as i32), "interrupted", message))
        }
    };
    progress.clear();
    if let Some(left) = trial.clean_up().await {
        output.note(&left);
    }
    output.benchmark(&measured?)?;
    Ok(Exit::DONE)
}

/// The first signal that means that we should stop.
async fn interruption(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            // The key for it was meant for us.
            Signal::SIGTSTP => {
                let _ = nix::sys::signal::raise(Signal::SIGSTOP);
            }
            signal if ends_wait(signal) => return signal,
            _ => {}
        }
    }
}

async fn measure(
    trial: &mut Trial,
    time: Duration,
    settings: &Settings,
    progress: &mut Progress,
) -> Result<Benchmark, Failure> {
    let begun = Instant::now();
    progress.step("round trips", 1, STEPS);
    let nodes = trial.begin().await?;
    let left = time.saturating_sub(begun.elapsed()).max(time / 2);
    let each = left / u32::try_from(STEPS - 1).unwrap_or(1);
    let mut loads = vec![];
    for (index, (clients, tasks)) in LOADS.into_iter().enumerate() {
        progress.step(&load_name(clients, tasks), index + 2, STEPS);
        match load(trial, &nodes, clients, tasks, each).await? {
            Some(load) => loads.push(load),
            None => trial.probe().await?,
        }
    }
    progress.step("hand-over", STEPS, STEPS);
    let pass_on = workload::pass_on(trial.clients(2)?, each).await;
    // Locks that nodes stopped giving in the middle of it say nothing about how fast they are.
    trial.probe().await?;
    let embedded = settings.is_embedded();
    Ok(Benchmark { nodes, loads, pass_on, embedded, elapsed: begun.elapsed() })
}

/// One load; `None` if not a single lock came of it.
async fn load(
    trial: &mut Trial,
    nodes: &[NodeRun],
    clients: usize,
    tasks: usize,
    time: Duration,
) -> Result<Option<LoadRun>, Failure> {
    let locks = trial.clients(clients)?;
    for client in locks {
        client.ready().await;
    }
    let watched = &locks[0];
    let before = Usage::now(watched).await;
    let begun = Instant::now();
    let work = workload::cycles(locks, tasks, time).await;
    let elapsed = begun.elapsed();
    let after = Usage::now(watched).await;
    let Some((acquire, release)) = work.times() else { return Ok(None) };
    Ok(Some(LoadRun {
        clients,
        tasks,
        elapsed,
        cycles: work.cycles(),
        failed: work.failed,
        acquire,
        release,
        client_cpu: after.process_since(&before, elapsed),
        server_cpu: after.servers_since(&before, nodes.len()),
        machine: after.machine_since(&before),
    }))
}
