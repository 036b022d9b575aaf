//! One lock that everybody wants: 16 workers in 4 processes, beside the least that passing a lock
//! on can cost.
//!
//! The rounds are interleaved: Tenure with hold times of 0 and 5 ms, the floor (a ring of as many
//! processes, see `floor/pass_on.rs`) with the same, and a bare round (five servers, return at the
//! third reply). A pass-on lasts from the call that releases the lock to the return of the call
//! that acquires it next, in whichever process; the clock is the machine's.

mod worker;

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
pub(crate) use worker::run as run_worker;

use crate::client::{Client, FloorClient};
use crate::cluster::Cluster;
use crate::measure::{Percentiles, median_of, micros};
use crate::report::{Ratio, Target};
use crate::settings::Settings;

const PROCESSES: usize = 4;
const WORKERS: usize = 4;
const HOLDS_MS: [u64; 2] = [0, 5];

/// One acquisition: who, when it was asked for, when it was had, and when its release was called.
/// In nanoseconds of the machine's clock.
struct Hold {
    worker: usize,
    called: u64,
    acquired: u64,
    released: u64,
}

/// What one round has shown of one hold time.
#[derive(Clone, Copy, Default)]
struct Shown {
    per_second: f64,
    pass_on_p50: f64,
    pass_on_p99: f64,
    longest_wait: f64,
    least: f64,
    most: f64,
    client_cpu: f64,
    server_cpu: f64,
}

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let Settings { time, rounds, json } = *settings;
    let begun = Instant::now();
    if !json {
        println!(
            "one lock, {PROCESSES} processes of {WORKERS} workers on five Redis servers; times in microseconds"
        );
        println!("{rounds} rounds of {time:?} for each; medians over the rounds");
    }
    let cluster = Cluster::start();
    let mut bare = vec![];
    let mut shown: [[Vec<Shown>; 2]; 2] = Default::default();
    for round in 0..rounds {
        for turn in 0..2 {
            let case = (round + turn) % 2;
            for (place, hold_ms) in HOLDS_MS.into_iter().enumerate() {
                shown[case][place].push(measure(&cluster, case == 1, hold_ms, time)?);
            }
        }
        bare.push(bare_round(&cluster, time / 4, round)?);
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let rows = shown.map(|case| case.map(|rounds| Shown::median(&rounds)));
    let bare = median(bare);
    for (case, name) in ["tenure", "floor"].into_iter().enumerate() {
        for (place, hold_ms) in HOLDS_MS.into_iter().enumerate() {
            rows[case][place].print(name, hold_ms, json);
        }
    }
    if json {
        println!(r#"{{"case":"bare round","p50_us":{bare:.1}}}"#);
    } else {
        println!("  bare round, p50 {bare:.0}");
    }
    let ratio = |name, value, target| Ratio { name, value, target };
    let ratios = [
        ratio(
            "pass-on p50, hold 0, tenure / floor",
            rows[0][0].pass_on_p50 / rows[1][0].pass_on_p50,
            Target::AtMost(1.4),
        ),
        ratio(
            "pass-on p50, hold 5 ms, tenure / floor",
            rows[0][1].pass_on_p50 / rows[1][1].pass_on_p50,
            Target::AtMost(1.4),
        ),
        ratio("least / most served worker, hold 0", rows[0][0].least / rows[0][0].most, Target::AtLeast(0.8)),
        ratio(
            "least / most served worker, hold 5 ms",
            rows[0][1].least / rows[0][1].most,
            Target::AtLeast(0.8),
        ),
    ];
    for ratio in ratios {
        println!("{}{}", if json { "" } else { "  " }, if json { ratio.json() } else { ratio.to_string() });
    }
    if !json {
        println!("\nmeasured in {:.0} s", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Lets the processes compete for this time.
fn measure(cluster: &Cluster, floor: bool, hold_ms: u64, time: Duration) -> Result<Shown> {
    let server_cpu = cluster.cpu_time()?;
    let program = std::env::current_exe()?;
    let start = |index: usize| -> Result<Child> {
        let mut command = Command::new(&program);
        let workers = if floor { PROCESSES } else { WORKERS };
        command.args(["contended-worker", if floor { "floor" } else { "tenure" }, &index.to_string()]);
        command.args([workers.to_string(), hold_ms.to_string(), time.as_millis().to_string()]);
        command.args(cluster.ports().iter().map(u16::to_string));
        Ok(command.stdout(Stdio::piped()).spawn()?)
    };
    let mut children = (0..PROCESSES).map(start).collect::<Result<Vec<_>>>()?;
    let (mut holds, mut client_cpu) = (vec![], 0.0);
    for (process, child) in children.iter_mut().enumerate() {
        let mut text = String::new();
        child.stdout.take().context("its output is read")?.read_to_string(&mut text)?;
        ensure!(child.wait()?.success(), "a worker failed");
        for line in text.lines() {
            let numbers: Vec<u64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
            match numbers[..] {
                [worker, called, acquired, released] => {
                    let workers = if floor { 1 } else { WORKERS };
                    let worker = process * workers + usize::try_from(worker)?;
                    holds.push(Hold { worker, called, acquired, released });
                }
                [cpu_nanos] => client_cpu += cpu_nanos as f64,
                _ => ensure!(false, "not a line of a worker: {line:?}"),
            }
        }
    }
    let server_cpu = (cluster.cpu_time()? - server_cpu).as_nanos() as f64;
    Shown::of(holds, client_cpu, server_cpu, if floor { PROCESSES } else { PROCESSES * WORKERS })
}

/// The time that a bare acquire takes on five servers.
fn bare_round(cluster: &Cluster, time: Duration, round: usize) -> Result<f64> {
    let mut client = FloorClient::connect(cluster, 1, &format!("contended:{round}"))?;
    let cycles = client.work(time)?.cycles;
    Box::new(client).finish()?;
    Ok(micros(Percentiles::of(cycles.iter().map(|cycle| cycle.acquire).collect()).p50))
}

impl Shown {
    fn of(mut holds: Vec<Hold>, client_cpu: f64, server_cpu: f64, workers: usize) -> Result<Self> {
        holds.sort_by_key(|hold| hold.acquired);
        // The beginning and the end are not contended.
        let cut = holds.len() / 20;
        let holds = &holds[cut..holds.len() - cut];
        ensure!(holds.len() > 20, "only {} acquisitions", holds.len());
        for pair in holds.windows(2) {
            ensure!(pair[1].acquired >= pair[0].released, "two holders at once");
        }
        // Only to another: who takes it back from itself waits for nobody.
        let pairs = holds.windows(2).filter(|pair| pair[0].worker != pair[1].worker);
        let pass_ons = pairs.map(|pair| Duration::from_nanos(pair[1].acquired - pair[0].released)).collect();
        let pass_ons = Percentiles::of(pass_ons);
        let waits = holds.iter().map(|hold| hold.acquired - hold.called);
        let served: Vec<usize> =
            (0..workers).map(|worker| holds.iter().filter(|hold| hold.worker == worker).count()).collect();
        let elapsed = (holds[holds.len() - 1].acquired - holds[0].acquired) as f64 / 1e9;
        let count = holds.len() as f64;
        Ok(Self {
            per_second: count / elapsed,
            pass_on_p50: micros(pass_ons.p50),
            pass_on_p99: micros(pass_ons.p99),
            longest_wait: waits.max().unwrap_or(0) as f64 / 1e3,
            least: served.iter().min().copied().unwrap_or(0) as f64,
            most: served.iter().max().copied().unwrap_or(0) as f64,
            client_cpu: client_cpu / 1e3 / count,
            server_cpu: server_cpu / 1e3 / count,
        })
    }

    fn median(rounds: &[Self]) -> Self {
        let of = |figure| median_of(rounds, figure);
        Self {
            per_second: of(|shown| shown.per_second),
            pass_on_p50: of(|shown| shown.pass_on_p50),
            pass_on_p99: of(|shown| shown.pass_on_p99),
            longest_wait: of(|shown| shown.longest_wait),
            least: of(|shown| shown.least),
            most: of(|shown| shown.most),
            client_cpu: of(|shown| shown.client_cpu),
            server_cpu: of(|shown| shown.server_cpu),
        }
    }

    fn print(&self, name: &str, hold_ms: u64, json: bool) {
        let Self { per_second, pass_on_p50, pass_on_p99, longest_wait, .. } = self;
        let Self { least, most, client_cpu, server_cpu, .. } = self;
        if json {
            println!(
                r#"{{"case":"{name}","hold_ms":{hold_ms},"per_second":{per_second:.0},"pass_on_p50_us":{pass_on_p50:.1},"pass_on_p99_us":{pass_on_p99:.1},"longest_wait_us":{longest_wait:.0},"least_served":{least},"most_served":{most},"client_cpu_us":{client_cpu:.1},"server_cpu_us":{server_cpu:.1}}}"#
            );
        } else {
            println!(
                "  {name:7} hold {hold_ms} ms: {per_second:6.0}/s, pass-on p50 {pass_on_p50:5.0} p99 {pass_on_p99:6.0}, longest wait \
                 {longest_wait:7.0}, served {least} to {most}, CPU client {client_cpu:.0} servers {server_cpu:.0}"
            );
        }
    }
}
