//! Tenure's benchmarks on real servers. `cargo xtask bench <NAME>` builds and runs them.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a benchmark reports to whoever runs it, and stops when anything is wrong"
)]

mod capacity;
mod client;
mod cluster;
mod cohort;
mod contended;
mod cpu_time;
mod distance;
mod far_cluster;
mod fenced;
mod held;
mod line;
mod looking;
mod measure;
mod memory;
mod outsider;
mod peers;
mod pipelined;
mod report;
mod runtimes;
mod service;
mod settings;
mod sharing;
mod start;
mod suite;
mod uncontended;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::settings::Settings;

const HELP: &str = "\
Tenure's benchmarks on real servers. They start the servers they need, on loopback, and stop them.

Usage: cargo xtask bench <NAME> [OPTIONS]

Benchmarks:
  uncontended   a whole cycle (acquire, release) that nobody competes for, on five Redis servers: Tenure against
                the least that it can cost, with all servers healthy, one hung and one dead, and beside other
                libraries' keys
  fenced        the same with and without fences, on healthy servers, and what an acquire costs one server
  runtimes      the same on a runtime of one thread, on one with 1 and 2 worker threads, and with a thread of its own,
                with names that are used once
  contended     one lock that 16 workers in 4 processes want: time from release to the next holder, fairness, CPU,
                beside processes that only pass messages
  cohort        one lock that 64 tasks of one process want, passed on among them and not; and how long a second process
                waits that wants it, too
  sharing       readers and writers of one lock: what a reader costs beside a writer, and how much more eight readers
                get done beside two writers than with a lock that all have alone
  outsider      the longest wait of a client of another library beside five that pass the lock on to each other, on one,
                three and five servers, and what its turns cost those in line
  line          the same time with up to 10,000 others in line
  looking       an open watch (dashboard, `top`, `watch`) on servers that each remember a million fences: its part of
                their time, and of an acquire's
  held          100,000 locks held and renewed by one process: memory, CPU beside bare messages, acquires meanwhile
  peers         Tenure beside other lock libraries and etcd, each installed from its package registry and in its own
                language: see `peers --list`; options below
  start         the command-line tool, from its start to that of its command: embedded store beside `flock`, and round
                trips to servers far away
  distance      acquire, release, pass-on and the start of a client where a round trip takes 1, 10, 50 and 150 ms, and
                to servers at different distances, in round trips to the third-nearest
  service       the lock service over HTTP, plain and with TLS, beside the library, a call that does nothing, and three
                members of etcd: cycles on one and on 64 connections, and hand-over
  capacity      what each operation costs a server, for `tenure plan`, and how far its plans are from points that were
                not used to make them

Options:
  --seconds S   how long each case is measured in each round; 0.05 to 10, default 1
  --rounds N    how often; the median is reported; 1 to 20, default 5
  --json        one JSON object per line instead of tables
                peers: --seconds 0.1 to 30, --rounds default 3; --quick for a run of minutes; --peer NAME and
                --workload NAME, again and again, for some of them; --out DIR for table, raw numbers and plots;
                --list for all names
                held: --seconds is how long they are held, 12 to 3600, default 120; --locks N, default 100,000
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let wants_help = arguments.iter().any(|argument| argument == "--help" || argument == "-h");
    match arguments.split_first() {
        Some((name, options)) if name == "uncontended" && !wants_help => {
            uncontended::UNCONTENDED.run(&Settings::parse(options)?)
        }
        Some((name, options)) if name == "runtimes" && !wants_help => {
            runtimes::RUNTIMES.run(&Settings::parse(options)?)
        }
        Some((name, options)) if name == "fenced" && !wants_help => fenced::run(&Settings::parse(options)?),
        Some((name, options)) if name == "contended" && !wants_help => {
            contended::run(&Settings::parse(options)?)
        }
        Some((name, options)) if name == "outsider" && !wants_help => {
            outsider::run(&Settings::parse(options)?)
        }
        Some((name, options)) if name == "sharing" && !wants_help => sharing::run(&Settings::parse(options)?),
        // What `sharing` starts.
        Some((name, options)) if name == "sharing-worker" => sharing::run_worker(options),
        Some((name, options)) if name == "peers" && !wants_help => peers::run(options),
        // What `peers` starts.
        Some((name, options)) if name == "peers-driver" => peers::run_driver(options),
        Some((name, options)) if name == "cohort" && !wants_help => cohort::run(&Settings::parse(options)?),
        // What `cohort` starts.
        Some((name, options)) if name == "cohort-second" => cohort::run_second(options),
        // What `contended` starts.
        Some((name, options)) if name == "contended-worker" => contended::run_worker(options),
        Some((name, options)) if name == "held" && !wants_help => held::run(options),
        Some((name, options)) if name == "line" && !wants_help => line::run(&Settings::parse(options)?),
        Some((name, options)) if name == "looking" && !wants_help => looking::run(&Settings::parse(options)?),
        Some((name, options)) if name == "start" && !wants_help => start::run(&Settings::parse(options)?),
        Some((name, options)) if name == "distance" && !wants_help => {
            distance::run(&Settings::parse(options)?)
        }
        Some((name, options)) if name == "service" && !wants_help => service::run(&Settings::parse(options)?),
        Some((name, options)) if name == "capacity" && !wants_help => {
            capacity::run(&Settings::parse(options)?)
        }
        Some((name, _)) if !wants_help => bail!("there is no benchmark {name:?}\n\n{HELP}"),
        _ => {
            print!("{HELP}");
            Ok(())
        }
    }
}
