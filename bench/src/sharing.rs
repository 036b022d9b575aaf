//! Readers and writers of one lock: what a reader costs beside a writer when nobody competes, and
//! how much more eight readers get done beside two writers than with a lock that all have alone.
//!
//! The cases are measured in turns on five servers, in four processes. Whether a writer ever has
//! the lock beside anybody else is checked all the while. And once more with two writers in line
//! that reach only two of the five servers: they must not stop the readers.

mod worker;

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tenure::Locks;
use tenure_testkit::{Proxy, nursery};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::worker::{HOLD, client};

use crate::cluster::Cluster;
use crate::measure::{Percentiles, median_of, micros};
use crate::report::{Ratio, Target};
use crate::settings::Settings;

const PROCESSES: usize = 4;
const READERS: usize = 8;
const WRITERS: usize = 2;

/// How long it may take until all writers are in line.
const PATIENCE: Duration = Duration::from_secs(20);

/// What one round has shown.
struct Shown {
    /// A cycle that nobody competes for: its median, and the servers' CPU, in microseconds.
    writer: (f64, f64),
    reader: (f64, f64),
    /// Reads and writes a second, and the longest wait of either, in ms.
    shared: Rates,
    alone: Rates,
    /// With writers that reach a minority.
    stuck: Rates,
}

#[derive(Clone, Copy, Default)]
struct Rates {
    reads: f64,
    writes: f64,
    read_wait: f64,
    write_wait: f64,
}

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let Settings { time, rounds, json } = *settings;
    let begun = Instant::now();
    if !json {
        println!("readers and writers on five Redis servers, {rounds} rounds of {time:?} for each; medians");
    }
    let cluster = Cluster::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut shown = vec![];
    for round in 0..rounds {
        let name = |kind: &str| format!("sharing:{kind}:{round}");
        shown.push(Shown {
            writer: uncontended(&runtime, &cluster, &name("w"), false, time)?,
            reader: uncontended(&runtime, &cluster, &name("r"), true, time)?,
            shared: contended(&runtime, &cluster, &name("s"), true, Besides::Nobody, time)?,
            alone: contended(&runtime, &cluster, &name("a"), false, Besides::Nobody, time)?,
            stuck: contended(&runtime, &cluster, &name("m"), true, Besides::StuckWriters, time)?,
        });
    }
    let median = |figure: fn(&Shown) -> f64| median_of(&shown, figure);
    if !json {
        println!("  one task, nobody competes: cycle p50 and the servers' CPU, in us");
        println!("    writer {:7.0} {:7.0}", median(|one| one.writer.0), median(|one| one.writer.1));
        println!("    reader {:7.0} {:7.0}", median(|one| one.reader.0), median(|one| one.reader.1));
        println!(
            "  {READERS} readers and {WRITERS} writers, {HOLD:?} each: reads/s, writes/s, longest waits in ms"
        );
        let rates = |figures: [fn(&Shown) -> f64; 4]| figures.map(|figure| median(figure).round());
        let (shared, alone) = (
            rates([
                |one| one.shared.reads,
                |one| one.shared.writes,
                |one| one.shared.read_wait,
                |one| one.shared.write_wait,
            ]),
            rates([
                |one| one.alone.reads,
                |one| one.alone.writes,
                |one| one.alone.read_wait,
                |one| one.alone.write_wait,
            ]),
        );
        println!("    readers share it  {shared:?}\n    all have it alone {alone:?}");
        let (reads, longest) = (median(|one| one.stuck.reads), median(|one| one.stuck.read_wait));
        println!(
            "    readers alone, two writers in line that reach two servers: {reads:.0}, {longest:.0} ms"
        );
    }
    for ratio in [
        Ratio {
            name: "cycle p50 of a reader / of a writer",
            value: median(|one| one.reader.0 / one.writer.0),
            target: Target::AtMost(2.0),
        },
        Ratio {
            name: "the servers' CPU of a reader / of a writer",
            value: median(|one| one.reader.1 / one.writer.1),
            target: Target::AtMost(2.5),
        },
        Ratio {
            name: "reads/s, shared / alone",
            value: median(|one| one.shared.reads / one.alone.reads),
            target: Target::AtLeast(4.0),
        },
        Ratio {
            name: "reads/s, beside writers that reach a minority / beside writers",
            value: median(|one| one.stuck.reads / one.shared.reads),
            target: Target::AtLeast(0.6),
        },
    ] {
        println!("{}{}", if json { "" } else { "  " }, if json { ratio.json() } else { ratio.to_string() });
    }
    if !json {
        println!("\nmeasured in {:.0} s", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

fn uncontended(
    runtime: &Runtime,
    cluster: &Cluster,
    name: &str,
    shared: bool,
    time: Duration,
) -> Result<(f64, f64)> {
    runtime.block_on(async {
        let locks = Locks::connect(cluster.urls()).await?;
        let lock = locks.lock(name);
        let lock = if shared { lock.shared() } else { lock };
        let warm_up = Instant::now();
        while warm_up.elapsed() < time / 10 {
            lock.acquire().await?.release().await?;
        }
        let (before, begun, mut cycles) = (cluster.cpu_time()?, Instant::now(), vec![]);
        while begun.elapsed() < time {
            let cycle = Instant::now();
            lock.acquire().await?.release().await?;
            cycles.push(cycle.elapsed());
        }
        let cpu = micros(cluster.cpu_time()? - before) / cycles.len() as f64;
        locks.shutdown().await?;
        Ok((micros(Percentiles::of(cycles).p50), cpu))
    })
}

/// Readers and writers in processes of their own, and besides, if asked for, two writers in line
/// that reach only two of the five servers.
fn contended(
    runtime: &Runtime,
    cluster: &Cluster,
    name: &str,
    shared: bool,
    besides: Besides,
    time: Duration,
) -> Result<Rates> {
    let witness = tempfile::NamedTempFile::new()?;
    let stuck = match besides {
        Besides::Nobody => None,
        Besides::StuckWriters => Some(runtime.block_on(StuckWriters::start(cluster, name))?),
    };
    let urls: Vec<String> = cluster.urls().collect();
    let mut processes = vec![];
    for process in 0..PROCESSES {
        let mut command = nursery::command(std::env::current_exe()?);
        let of_each = |all: usize| (all + PROCESSES - 1 - process) / PROCESSES;
        command.arg("sharing-worker").arg(name).arg(witness.path());
        command.arg(if shared { "shared" } else { "alone" });
        let writers = if stuck.is_some() { 0 } else { of_each(WRITERS) };
        command.args([of_each(READERS), writers].map(|count| count.to_string()));
        command.arg(time.as_millis().to_string()).args(&urls).stdout(Stdio::piped());
        processes.push(nursery::spawn(command)?);
    }
    let mut rates = Rates::default();
    for process in processes {
        let output = process.wait_with_output()?;
        ensure!(output.status.success(), "a process of readers and writers failed ({})", output.status);
        let text = String::from_utf8(output.stdout)?;
        let counts = text.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let [reads, writes, read_wait_us, write_wait_us, broken] = counts[..] else {
            bail!("a process of readers and writers said {text:?}")
        };
        ensure!(broken == 0.0, "a writer had the lock beside somebody else, {broken} times");
        rates.reads += reads / time.as_secs_f64();
        rates.writes += writes / time.as_secs_f64();
        rates.read_wait = rates.read_wait.max(read_wait_us / 1e3);
        rates.write_wait = rates.write_wait.max(write_wait_us / 1e3);
    }
    if let Some(stuck) = stuck {
        runtime.block_on(stuck.end())?;
    }
    Ok(rates)
}

/// Who is there besides.
#[derive(Clone, Copy)]
enum Besides {
    Nobody,
    StuckWriters,
}

/// Two writers that got in line on all servers and can reach only two of them since.
struct StuckWriters {
    proxies: Vec<Proxy>,
    locks: Vec<Locks>,
    waiting: Vec<JoinHandle<()>>,
}

impl StuckWriters {
    async fn start(cluster: &Cluster, name: &str) -> Result<Self> {
        let near = client(cluster.urls())?;
        let reader = near.lock(name).shared().acquire().await?;
        let proxies: Vec<Proxy> = cluster.ports().iter().map(|port| Proxy::start(*port)).collect();
        let (mut locks, mut waiting) = (vec![], vec![]);
        for _ in 0..WRITERS {
            let far = client(proxies.iter().map(Proxy::url))?;
            let lock = far.lock(name).wait_forever();
            waiting.push(tokio::spawn(async move {
                // It never gets it; if it did, the file would tell.
                while let Ok(guard) = lock.acquire().await {
                    drop(guard);
                }
            }));
            locks.push(far);
        }
        let begun = Instant::now();
        while near.inspect(name).await?.waiters != Some(WRITERS as u64) {
            ensure!(begun.elapsed() < PATIENCE, "the writers do not get in line");
            sleep(Duration::from_millis(5)).await;
        }
        proxies[2..].iter().for_each(|proxy| proxy.close(true));
        reader.release().await?;
        near.shutdown().await?;
        Ok(Self { proxies, locks, waiting })
    }

    async fn end(self) -> Result<()> {
        self.waiting.iter().for_each(JoinHandle::abort);
        self.proxies.iter().for_each(|proxy| proxy.close(false));
        for locks in self.locks {
            locks.shutdown().await?;
        }
        Ok(())
    }
}

/// What `sharing` starts.
pub(crate) fn run_worker(arguments: &[String]) -> Result<()> {
    worker::run(arguments)
}
