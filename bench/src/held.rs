//! What it costs to hold many locks: 100,000 in one process, renewed by itself, beside bare
//! messages that keep as many.
//!
//! Both hold the locks at a ttl of 30 s and extend each every 10 s, spread evenly over that time,
//! in messages of up to 64 locks to each of five servers, at 512 moments. Tenure goes first, in a
//! process that has done nothing else, so that its memory can be seen. For one half of the time it
//! only renews, for the other one task acquires and releases meanwhile without a pause. The bare
//! messages do both for half as long; their acquires have connections and a thread of their own.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use floor::Holder;
use tenure::{Event, Guard, HoldState, Locks, RedisNode};
use tokio::runtime::Runtime;

use crate::client::{Client, Flavour, FloorClient, Names, Setup, work};
use crate::cluster::Cluster;
use crate::measure::{Percentiles, Work, micros};
use crate::report::{Ratio, Target};
use crate::{cpu_time, memory};

/// The script that Tenure extends with.
pub(crate) const EXTEND: &str = include_str!("../../crates/tenure/src/node/redis/script/extend.lua");

/// The default ttl is 30 s; a lock is renewed after a third of it.
const INTERVAL: Duration = Duration::from_secs(10);

/// At so many moments of the interval locks are extended.
const MOMENTS: u32 = 512;

struct Settings {
    time: Duration,
    locks: u64,
    json: bool,
}

/// What holding the locks took.
struct Held {
    cpu: Duration,
    elapsed: Duration,
    acquires: Percentiles,
    fenced: Option<Percentiles>,
    /// Bytes for each lock.
    memory: f64,
    /// What other processes used meanwhile.
    others: Duration,
}

pub(crate) fn run(options: &[String]) -> Result<()> {
    let settings = Settings::parse(options)?;
    let Settings { time, locks, json } = settings;
    if !json {
        println!("{locks} locks held and renewed by one process on five Redis servers, for {time:?}");
    }
    let cluster = Cluster::start();
    let ours = hold(&cluster, locks, time / 2).context("Tenure")?;
    let bare = hold_bare(&cluster, locks, time / 4).context("bare messages")?;
    for (name, held) in [("tenure", &ours), ("bare", &bare)] {
        held.print(name, locks, json);
    }
    let ratio = |name, value, limit| Ratio { name, value, target: Target::AtMost(limit) };
    let ratios = [
        ratio("memory per held lock in bytes", ours.memory, 1_000.0),
        ratio("client CPU, tenure / bare messages", ours.cpu_share() / bare.cpu_share(), 2.0),
        ratio("acquire p50 meanwhile, unfenced / bare", ours.acquire_p50() / bare.acquire_p50(), 1.3),
    ];
    for ratio in ratios {
        println!("{}{}", if json { "" } else { "  " }, if json { ratio.json() } else { ratio.to_string() });
    }
    Ok(())
}

/// Holds locks with Tenure. Fails if one is lost.
fn hold(cluster: &Cluster, count: u64, time: Duration) -> Result<Held> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let troubles = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&troubles);
    let observer = move |event: &Event<'_>| {
        let trouble = matches!(event, Event::AtRisk { .. } | Event::Lost { .. } | Event::NotExtended { .. });
        seen.fetch_add(usize::from(trouble), Ordering::Relaxed);
    };
    let nodes = cluster.urls().map(|url| RedisNode::parse(&url)).collect::<Result<Vec<_>, _>>()?;
    let locks = runtime.block_on(async { Locks::builder().nodes(nodes).observer(observer).build() })?;
    let cycles = |fenced, time| {
        let setup = Setup { tasks: 1, fenced, flavour: Flavour::Single, names: Names::Reused };
        runtime.block_on(work(locks.clone(), setup, format!("meanwhile:{fenced}"), Instant::now() + time))
    };
    runtime.block_on(locks.ready());
    cycles(true, Duration::from_millis(500));

    let before = memory::resident()?;
    let guards = acquire_evenly(&runtime, &locks, count)?;
    // The first renewals, too: what they need stays.
    runtime.block_on(async { tokio::time::sleep(INTERVAL).await });
    let memory = (memory::resident()?.saturating_sub(before)) as f64 / count as f64;

    let (clocks, start) = (Clocks::read(cluster)?, Instant::now());
    runtime.block_on(async { tokio::time::sleep(time).await });
    let (elapsed, [cpu, others]) = (start.elapsed(), clocks.spent(cluster)?);
    let acquires = percentiles(&cycles(false, time / 2))?;
    let fenced = percentiles(&cycles(true, time / 2))?;

    let held = guards.iter().filter(|guard| guard.state() == HoldState::Held).count();
    let troubles = troubles.load(Ordering::Relaxed);
    ensure!(held as u64 == count, "only {held} of {count} locks are held");
    eprintln!(
        "{held} of {count} locks are held after {:?}; renewals that failed: {troubles}",
        start.elapsed()
    );
    drop(guards);
    // Far more than is left to do.
    while runtime.block_on(locks.shutdown()).is_err() {}
    Ok(Held { cpu, elapsed, acquires, fenced: Some(fenced), memory, others })
}

/// Acquires so many locks, spread over the time from one renewal to the next.
fn acquire_evenly(runtime: &Runtime, locks: &Locks, count: u64) -> Result<Vec<Guard>> {
    let mut guards = Vec::with_capacity(usize::try_from(count)?);
    let start = Instant::now();
    for moment in 0..MOMENTS {
        wait_for(start, moment, |pause| runtime.block_on(async { tokio::time::sleep(pause).await }));
        let lock = |number| locks.lock(format!("held:{number}"));
        let tasks: Vec<_> =
            share(count, moment).map(|number| runtime.spawn(lock(number).acquire())).collect();
        for task in tasks {
            guards.push(runtime.block_on(task)??);
        }
    }
    Ok(guards)
}

/// Keeps as many locks with bare messages.
fn hold_bare(cluster: &Cluster, count: u64, time: Duration) -> Result<Held> {
    let mut holder = Holder::connect(cluster.ports(), "bare", EXTEND)?;
    let mut floor = FloorClient::connect(cluster, 1, "meanwhile:bare")?;
    for moment in 0..MOMENTS {
        holder.acquire(share(count, moment))?;
    }
    let (clocks, start) = (Clocks::read(cluster)?, Instant::now());
    extend_evenly(&mut holder, count, || start.elapsed() >= time)?;
    let (elapsed, [cpu, others]) = (start.elapsed(), clocks.spent(cluster)?);

    let done = AtomicBool::new(false);
    let acquires = std::thread::scope(|scope| {
        let extends = scope.spawn(|| extend_evenly(&mut holder, count, || done.load(Ordering::Relaxed)));
        let work = floor.work(time);
        done.store(true, Ordering::Relaxed);
        extends.join().expect("no panic there")?;
        percentiles(&work?)
    })?;
    Box::new(floor).finish()?;
    Ok(Held { cpu, elapsed, acquires, fenced: None, memory: 0.0, others })
}

/// Extends every lock once in every interval.
fn extend_evenly(holder: &mut Holder, count: u64, done: impl Fn() -> bool) -> Result<()> {
    let start = Instant::now();
    let mut moment = 0;
    while !done() {
        wait_for(start, moment, std::thread::sleep);
        holder.extend(share(count, moment % MOMENTS))?;
        moment += 1;
    }
    Ok(())
}

/// The locks of this moment.
fn share(count: u64, moment: u32) -> Range<u64> {
    let begin = |moment: u32| count * u64::from(moment) / u64::from(MOMENTS);
    begin(moment)..begin(moment + 1)
}

fn wait_for(start: Instant, moment: u32, sleep: impl FnOnce(Duration)) {
    let pause = (INTERVAL * moment / MOMENTS).saturating_sub(start.elapsed());
    if !pause.is_zero() {
        sleep(pause);
    }
}

fn percentiles(work: &Work) -> Result<Percentiles> {
    ensure!(!work.cycles.is_empty(), "not a single cycle came to its end");
    Ok(Percentiles::of(work.cycles.iter().map(|cycle| cycle.acquire).collect()))
}

/// The CPU time that this process, the servers and all processes had used.
struct Clocks([Duration; 3]);

impl Clocks {
    fn read(cluster: &Cluster) -> Result<Self> {
        let clocks = [cpu_time::of_this_process(), cluster.cpu_time()?, cpu_time::of_all_processes()?];
        Ok(Self(clocks))
    }

    /// What this process has used since, and what is not ours.
    fn spent(&self, cluster: &Cluster) -> Result<[Duration; 2]> {
        let now = Self::read(cluster)?.0;
        let spent = |clock: usize| now[clock].saturating_sub(self.0[clock]);
        Ok([spent(0), spent(2).saturating_sub(spent(0) + spent(1))])
    }
}

impl Held {
    /// Of one core.
    fn cpu_share(&self) -> f64 {
        self.cpu.div_duration_f64(self.elapsed)
    }

    fn acquire_p50(&self) -> f64 {
        micros(self.acquires.p50)
    }

    fn print(&self, name: &str, locks: u64, json: bool) {
        let renewals = self.elapsed.div_duration_f64(INTERVAL) * locks as f64;
        let cpu = micros(self.cpu) / renewals;
        let (share, memory) = (100.0 * self.cpu_share(), self.memory);
        let others = 100.0 * self.others.div_duration_f64(self.elapsed);
        let [p50, p99] = [self.acquires.p50, self.acquires.p99].map(micros);
        let fenced = self.fenced.map_or(0.0, |fenced| micros(fenced.p50));
        if json {
            println!(
                r#"{{"variant":"{name}","locks":{locks},"cpu_percent_of_a_core":{share:.2},"cpu_us_per_renewal":{cpu:.3},"bytes_per_lock":{memory:.0},"acquire_p50_us":{p50:.1},"acquire_p99_us":{p99:.1},"fenced_acquire_p50_us":{fenced:.1},"others_percent_of_a_core":{others:.1}}}"#
            );
        } else {
            println!(
                "  {name:8} CPU {share:5.2} % of a core, {cpu:5.2} us per renewal   acquire p50 {p50:4.0} p99 {p99:4.0} us (fenced {fenced:.0})   {memory:.0} bytes per lock   others {others:.0} % of a core"
            );
        }
    }
}

impl Settings {
    fn parse(options: &[String]) -> Result<Self> {
        let mut settings = Self { time: Duration::from_secs(120), locks: 100_000, json: false };
        let mut options = options.iter().map(String::as_str);
        while let Some(option) = options.next() {
            let mut number = || -> Result<u64> {
                options
                    .next()
                    .and_then(|text| text.parse().ok())
                    .with_context(|| format!("{option} needs a whole number"))
            };
            match option {
                "--seconds" => settings.time = Duration::from_secs(number()?),
                "--locks" => settings.locks = number()?,
                "--json" => settings.json = true,
                unknown => bail!("{unknown:?} is no option; see --help"),
            }
        }
        ensure!((12..=3_600).contains(&settings.time.as_secs()), "--seconds must be 12 to 3600");
        ensure!((1_000..=1_000_000).contains(&settings.locks), "--locks must be 1000 to 1000000");
        Ok(settings)
    }
}
