//! What `tenure plan` computes with: what each operation costs a server, and how far what follows
//! from it is from what was measured elsewhere.
//!
//! Costs are taken from fleets of 3 and 5 nodes, from 16 clients that ask alone and from one with
//! 16 tasks, whose locks travel together. Then they are held against points that were not used: 4
//! and 7 nodes, 64 tasks, another number of names; where the tool has a plan for it, the tool is
//! asked. Every server tells its own CPU time and memory (`INFO`), to the microsecond and byte.

mod check;
mod constants;
mod cost;
mod fleet;

use std::time::Instant;

use anyhow::{Result, ensure};

use self::cost::Cost;
use self::fleet::Fleet;
use crate::settings::Settings;

/// The fleets: 3 and 5 nodes to take costs from, 4 and 7 to check.
const NODES: [usize; 4] = [3, 4, 5, 7];
const THREE: usize = 0;
const FOUR: usize = 1;
const FIVE: usize = 2;
const SEVEN: usize = 3;

/// Clients that ask alone, and tasks whose locks travel together.
const CLIENTS: usize = 16;
const TASKS: usize = 16;
/// The number of tasks of the check.
const TASKS_CHECKED: usize = 64;

/// Names whose memory is held against what follows from fewer.
const NAMES_CHECKED: usize = 60_000;

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let tool = std::env::current_exe()?.with_file_name("tenure");
    ensure!(tool.exists(), "there is no tool to ask; build it: cargo build --release -p tenure-cli");
    let begun = Instant::now();
    let mut fleets = NODES.into_iter().map(Fleet::start).collect::<Result<Vec<_>>>()?;
    let time = settings.time;
    // In turns, so that what disturbs the machine disturbs all; medians over the rounds.
    let cases = [(CLIENTS, 1), (1, TASKS), (1, TASKS_CHECKED), (1, 1)];
    let mut measured = vec![vec![vec![]; cases.len()]; fleets.len()];
    for round in 0..settings.rounds {
        for turn in 0..fleets.len() {
            let at = (round + turn) % fleets.len();
            for (case, (clients, tasks)) in cases.into_iter().enumerate() {
                measured[at][case].push(fleets[at].cost(clients, tasks, time)?);
            }
        }
    }
    let costs: Vec<Vec<Cost>> =
        measured.iter().map(|cases| cases.iter().map(|rounds| Cost::median(rounds)).collect()).collect();
    print_points(&costs, &cases, settings.json);
    let five = &mut fleets[FIVE];
    let constants = five.constants(&costs, time)?;
    constants.print(settings.json);
    let memory_checked = Fleet::start(1)?.memory(NAMES_CHECKED)?;
    let checks = constants.check(&tool, &costs, memory_checked)?;
    for ratio in checks {
        println!(
            "{}{}",
            if settings.json { "" } else { "  " },
            if settings.json { ratio.json() } else { ratio.to_string() }
        );
    }
    if !settings.json {
        println!("\nmeasured in {:.0} s", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// What was measured of every fleet and kind of client.
fn print_points(costs: &[Vec<Cost>], cases: &[(usize, usize)], json: bool) {
    if !json {
        println!(
            "CPU in microseconds for each lock, of a server and of the client; cores of a server; bytes on the wire; what others used of the machine"
        );
        println!(
            "  nodes  clients x tasks   locks/s   acquire   release    client     cores   bytes  others"
        );
    }
    for (nodes, costs) in NODES.into_iter().zip(costs) {
        for ((clients, tasks), cost) in cases.iter().zip(costs) {
            let Cost { acquire, release, client, per_second, wire, others } = cost;
            let cores = cost.server() * per_second / 1e6;
            if json {
                println!(
                    r#"{{"nodes":{nodes},"clients":{clients},"tasks":{tasks},"locks_per_second":{per_second:.0},"acquire_us":{acquire:.2},"release_us":{release:.2},"client_us":{client:.2},"node_cores":{cores:.3},"wire_bytes":{wire:.0},"others":{others:.2}}}"#
                );
            } else {
                println!(
                    "  {nodes:5}{clients:>9} x {tasks:<5}{per_second:>10.0}{acquire:>10.2}{release:>10.2}{client:>10.2}{cores:>10.2}{wire:>8.0}{others:>8.2}"
                );
            }
        }
    }
}

/// The cores of this machine.
fn cpus() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64)
}
