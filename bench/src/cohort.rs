//! One lock that 64 tasks of one process want: passed on among them ([`Lock::cohort`]), and not;
//! and how long a second process waits that asks for it, too.
//!
//! The cases are measured in turns on five servers, on a runtime of one thread and on one with two.
//! The second process asks again and again, with a pause; what counts is the time from when it is
//! in line at the nodes until it has the lock. The bound is what `docs/guarantees.md` states: the
//! time for which a lock is passed on, one hold (nothing, here), and a hand-over between clients,
//! for which stands what one takes on average where no lock is passed on. Clients outside the line
//! have their turns besides, as they do without cohorts: a wait that had one in it counts without.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tenure::{COHORT_TIME, Event, Fence, Lock, Locks};
use tokio::runtime::Runtime;

use crate::client::Flavour;
use crate::cluster::Cluster;
use crate::measure::{Percentiles, micros};
use crate::report::{Ratio, Target};
use crate::settings::Settings;

const TASKS: usize = 64;

/// A turn of clients outside the line (`docs/guarantees.md`, P5).
const TURN_OUTSIDE: Duration = Duration::from_millis(125);

const FLAVOURS: [Flavour; 2] = [Flavour::Single, Flavour::Threads(2)];

/// The second process lets the others go on for so long before it asks again.
const PAUSE: Duration = Duration::from_millis(3);

/// What one round has shown of one case.
#[derive(Clone, Default)]
struct Shown {
    per_second: f64,
    server_cpu: f64,
    /// What the second process waited for, in line.
    waits: Vec<Duration>,
}

/// How the tasks of the first process ask, and whether there is a second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    cohort: bool,
    second: bool,
}

const CASES: [Case; 4] = [
    Case { cohort: false, second: false },
    Case { cohort: true, second: false },
    Case { cohort: false, second: true },
    Case { cohort: true, second: true },
];

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let Settings { time, rounds, json } = *settings;
    let begun = Instant::now();
    if !json {
        println!("one lock, {TASKS} tasks of one process on five Redis servers; waits in microseconds");
        println!("{rounds} rounds of {time:?} for each; medians over the rounds, waits over all of them");
    }
    let cluster = Cluster::start();
    let mut ratios = vec![];
    for flavour in FLAVOURS {
        let mut shown: [Vec<Shown>; CASES.len()] = Default::default();
        for round in 0..rounds {
            for turn in 0..CASES.len() {
                let case = (round + turn) % CASES.len();
                let name = format!("cohort:{flavour:?}:{round}:{case}");
                shown[case].push(measure(&cluster, flavour, CASES[case], &name, time)?);
            }
        }
        let shown = shown.map(Shown::of_all);
        for (case, shown) in CASES.iter().zip(&shown) {
            shown.print(flavour, *case, json);
        }
        let [plain, cohort, _, beside_cohort] = &shown;
        let own = |wait: &Duration| wait.checked_sub(TURN_OUTSIDE).unwrap_or(*wait);
        let longest = beside_cohort.waits.iter().map(own).max().unwrap_or_default();
        let bound = COHORT_TIME + Duration::from_secs_f64(1.0 / plain.per_second);
        let names = match flavour {
            Flavour::Single => {
                ["rate, cohort / without, single", "longest wait of a second process / bound, single"]
            }
            _ => ["rate, cohort / without, 2 threads", "longest wait of a second process / bound, 2 threads"],
        };
        let [rate, wait] = names;
        ratios.push(Ratio {
            name: rate,
            value: cohort.per_second / plain.per_second,
            target: Target::AtLeast(20.0),
        });
        let value = longest.div_duration_f64(bound);
        ratios.push(Ratio { name: wait, value, target: Target::AtMost(1.0) });
        if !json {
            let (longest, bound) = (micros(longest), micros(bound));
            println!("  a second process waited {longest:.0} at the most; the bound is {bound:.0}");
        }
    }
    for ratio in ratios {
        println!("{}{}", if json { "" } else { "  " }, if json { ratio.json() } else { ratio.to_string() });
    }
    if !json {
        println!("\nmeasured in {:.0} s", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

fn measure(cluster: &Cluster, flavour: Flavour, case: Case, name: &str, time: Duration) -> Result<Shown> {
    let runtime = flavour.runtime()?;
    let locks = runtime.block_on(Locks::connect(cluster.urls()))?;
    let lock = locks.lock(name).wait_forever();
    let lock = if case.cohort { lock.cohort() } else { lock };
    cycles(&runtime, &lock, time / 10)?;
    let second = case.second.then(|| start_second(cluster, name, time)).transpose()?;
    let (before, start) = (cluster.cpu_time()?, Instant::now());
    let count = cycles(&runtime, &lock, time)? as f64;
    let (elapsed, server_cpu) = (start.elapsed(), cluster.cpu_time()? - before);
    let waits = second.map_or(Ok(vec![]), waits_of)?;
    runtime.block_on(locks.shutdown())?;
    let per_second = count / elapsed.as_secs_f64();
    Ok(Shown { per_second, server_cpu: micros(server_cpu) / count, waits })
}

/// Lets all tasks take turns for this time. How many they had: one at a time, and each fence larger
/// than the last.
fn cycles(runtime: &Runtime, lock: &Lock, time: Duration) -> Result<usize> {
    let end = Instant::now() + time;
    let last = Arc::new(AtomicU64::new(Fence::NONE.get()));
    let holders = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (lock, last, holders) = (lock.clone(), Arc::clone(&last), Arc::clone(&holders));
            runtime.spawn(async move {
                let mut count = 0;
                while Instant::now() < end {
                    let guard = lock.acquire().await?;
                    ensure!(holders.fetch_add(1, Ordering::SeqCst) == 0, "two holders at once");
                    let fence = guard.fence().get();
                    ensure!(
                        last.swap(fence, Ordering::SeqCst) < fence,
                        "fence {fence} is not above the last"
                    );
                    holders.fetch_sub(1, Ordering::SeqCst);
                    // Whether all confirm is no matter here: a busy machine may keep nodes from it.
                    let _ = guard.release().await;
                    count += 1;
                }
                Ok(count)
            })
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += runtime.block_on(task)??;
    }
    Ok(sum)
}

fn start_second(cluster: &Cluster, name: &str, time: Duration) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    // It ends before the others do: alone it would wait for nobody.
    let time_ms = (time * 8 / 10).as_millis().to_string();
    command.args(["cohort-second", name, &time_ms]);
    command.args(cluster.ports().iter().map(u16::to_string));
    Ok(command.stdout(Stdio::piped()).spawn()?)
}

fn waits_of(mut second: Child) -> Result<Vec<Duration>> {
    let mut text = String::new();
    second.stdout.take().context("its output is read")?.read_to_string(&mut text)?;
    ensure!(second.wait()?.success(), "the second process failed");
    let waits = text.lines().map(|line| Ok(Duration::from_nanos(line.parse()?)));
    waits.collect()
}

/// The second process, `cohort-second NAME TIME_MS PORT...`: asks for the lock again and again, and
/// prints how long it was in line each time, in nanoseconds.
pub(crate) fn run_second(arguments: &[String]) -> Result<()> {
    let [name, time_ms, ports @ ..] = arguments else { bail!("too few arguments") };
    let in_line: Arc<Mutex<Option<Instant>>> = Arc::default();
    let told = Arc::clone(&in_line);
    let observer = move |event: &Event<'_>| {
        if matches!(event, Event::Waiting { .. }) {
            told.lock().unwrap().get_or_insert_with(Instant::now);
        }
    };
    let nodes = ports.iter().map(|port| tenure::RedisNode::parse(&format!("redis://127.0.0.1:{port}")));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    let runtime = Flavour::Single.runtime()?;
    runtime.block_on(async {
        let locks = Locks::builder().nodes(nodes).observer(observer).build()?;
        let lock = locks.lock(name).wait_forever();
        let end = Instant::now() + Duration::from_millis(time_ms.parse()?);
        while Instant::now() < end {
            *in_line.lock().unwrap() = None;
            let guard = lock.acquire().await?;
            if let Some(since) = in_line.lock().unwrap().take() {
                println!("{}", since.elapsed().as_nanos());
            }
            let _ = guard.release().await;
            tokio::time::sleep(PAUSE).await;
        }
        locks.shutdown().await?;
        Ok(())
    })
}

impl Shown {
    fn of_all(rounds: Vec<Self>) -> Self {
        let median = |part: fn(&Self) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(part).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (per_second, server_cpu) = (median(|shown| shown.per_second), median(|shown| shown.server_cpu));
        Self { per_second, server_cpu, waits: rounds.into_iter().flat_map(|shown| shown.waits).collect() }
    }

    fn print(&self, flavour: Flavour, Case { cohort, second }: Case, json: bool) {
        let Self { per_second, server_cpu, waits } = self;
        let runtime = if flavour == Flavour::Single { "single" } else { "2 threads" };
        let longest = waits.iter().max().copied().map(micros);
        let percentiles = (!waits.is_empty()).then(|| Percentiles::of(waits.clone()));
        let [p50, p99] = percentiles.map_or([0.0; 2], |waits| [micros(waits.p50), micros(waits.p99)]);
        if json {
            let longest = longest.unwrap_or(0.0);
            println!(
                r#"{{"runtime":"{runtime}","cohort":{cohort},"second_process":{second},"per_second":{per_second:.0},"server_cpu_us":{server_cpu:.2},"waits":{},"wait_p50_us":{p50:.0},"wait_p99_us":{p99:.0},"longest_wait_us":{longest:.0}}}"#,
                waits.len()
            );
        } else {
            let kind = if cohort { "cohort" } else { "without" };
            print!("  {runtime:9} {kind:7} {per_second:7.0}/s, servers' CPU {server_cpu:6.1}");
            match longest {
                Some(longest) => println!(
                    "; beside a second process, {} waits: p50 {p50:.0} p99 {p99:.0} longest {longest:.0}",
                    waits.len()
                ),
                None => println!(),
            }
        }
    }
}
