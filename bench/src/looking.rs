//! What it costs to look: an open watch beside acquires, on servers that each remember a million
//! fences. The watch is that of the dashboard, `top` and `watch`.

use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tenure::{FleetWatch, Guard, Locks};

use crate::cluster::Cluster;
use crate::measure::{Percentiles, micros};
use crate::report::{Ratio, Target};
use crate::settings::Settings;

/// How many names a server remembers, and how many locks are held among them.
const FENCES: usize = 1_000_000;
const HELD: usize = 1_000;

/// Fences of names that nobody holds.
const REMEMBER: &str =
    "for i = 1, ARGV[1] do redis.call('SET', 'tenure~fence:{tenure:old:' .. i .. '}', '1:x') end";

/// The share of a server's time is read over so many rounds: the server counts by slices.
const SHARE_ROUNDS: u32 = 10;

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let Settings { time, rounds, json: _ } = *settings;
    let cluster = Cluster::start();
    cluster.execute(&["EVAL", REMEMBER, "0", &FENCES.to_string()]);
    // Locks are renewed by the runtime's thread while this one waits for the watcher.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let watcher = Watcher::start(&cluster)?;
    let figures = runtime.block_on(async {
        let locks = Locks::connect(cluster.urls()).await?;
        let held = hold(&locks).await?;
        let mut p50s = [vec![], vec![]];
        for round in 0..rounds {
            for turn in 0..2 {
                let open = (round + turn) % 2 == 1;
                let _watch = open.then(|| watcher.open()).transpose()?;
                p50s[usize::from(open)].push(micros(acquire(&locks, time).await?.p50));
            }
        }
        // Held locks are renewed all the while.
        let renewals = share(&cluster, time * SHARE_ROUNDS).await?;
        let watch = watcher.open()?;
        let share = share(&cluster, time * SHARE_ROUNDS).await? - renewals;
        let complete = watch.complete()?;
        let begun = Instant::now();
        let listed = locks.list().await?.locks.len();
        let list = begun.elapsed();
        anyhow::ensure!(listed == HELD, "{listed} of {HELD} locks are listed");
        drop(held);
        locks.shutdown().await?;
        anyhow::Ok(Figures { p50s: p50s.map(median), share, complete, list })
    })?;
    watcher.end();
    report(&figures, settings);
    Ok(())
}

struct Figures {
    /// Acquire p50 without and with an open watch, in microseconds.
    p50s: [f64; 2],
    share: f64,
    complete: Duration,
    list: Duration,
}

fn report(figures: &Figures, settings: &Settings) {
    let Figures { p50s: [without, with], share, complete, list } = figures;
    let ratios = [
        Ratio {
            name: "part of a server's time that an open watch takes",
            value: *share,
            target: Target::AtMost(FleetWatch::share_max()),
        },
        Ratio {
            name: "acquire p50, with an open watch / without",
            value: with / without,
            target: Target::AtMost(1.05),
        },
    ];
    if settings.json {
        let (complete, list) = (complete.as_secs_f64(), list.as_secs_f64());
        println!(
            r#"{{"acquire_p50_us":{without:.1},"acquire_p50_watched_us":{with:.1},"watch_complete_s":{complete:.1},"list_s":{list:.1}}}"#
        );
        ratios.iter().for_each(|ratio| println!("{}", ratio.json()));
        return;
    }
    println!("five Redis servers, each with {FENCES} fences and {HELD} locks; {} rounds", settings.rounds);
    println!("  acquire p50: {without:.1} us, with an open watch {with:.1} us");
    println!("  a watch is complete after {complete:.1?}, a list after {list:.1?}\n");
    ratios.iter().for_each(|ratio| println!("  {ratio}"));
}

async fn hold(locks: &Locks) -> Result<Vec<Guard>> {
    let mut held = vec![];
    for number in 0..HELD {
        held.push(locks.lock(format!("held:{number}")).acquire().await?);
    }
    Ok(held)
}

/// Acquires and releases for this time.
async fn acquire(locks: &Locks, time: Duration) -> Result<Percentiles> {
    let (begun, mut times) = (Instant::now(), vec![]);
    for number in 0.. {
        let asked = Instant::now();
        let guard = locks.lock(format!("work:{}", number % 16)).acquire().await?;
        times.push(asked.elapsed());
        guard.release().await?;
        if begun.elapsed() > time {
            break;
        }
    }
    Ok(Percentiles::of(times))
}

/// The part of this time that a server spends in scripts.
async fn share(cluster: &Cluster, time: Duration) -> Result<f64> {
    // What a script calls is in its own time.
    let spent_us = || {
        let of = |command| cluster.info("commandstats", command);
        anyhow::Ok(of("cmdstat_eval")? + of("cmdstat_evalsha")?)
    };
    let (before, begun) = (spent_us()?, Instant::now());
    tokio::time::sleep(time).await;
    Ok((spent_us()? - before) / micros(begun.elapsed()))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Another client, on a thread of its own, that opens and closes a watch when it is asked to.
struct Watcher {
    asks: Sender<Ask>,
    thread: JoinHandle<()>,
}

enum Ask {
    /// Opens a watch, and answers when it has looked for the first time.
    Open(Sender<()>),
    /// Answers how long the watch took until it was complete.
    Complete(Sender<Duration>),
    Close,
}

/// A watch that is open until this is dropped.
struct Open<'a>(&'a Watcher);

impl Watcher {
    fn start(cluster: &Cluster) -> Result<Self> {
        let (asks, asked) = mpsc::channel();
        let urls: Vec<String> = cluster.urls().collect();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let locks = runtime.block_on(Locks::connect(urls))?;
        let thread = std::thread::spawn(move || {
            let mut open: Option<(FleetWatch, Instant)> = None;
            while let Ok(ask) = asked.recv() {
                match ask {
                    Ask::Open(answer) => {
                        let (watch, _) = open.insert((locks.watch(), Instant::now()));
                        runtime.block_on(watch.next());
                        let _ = answer.send(());
                    }
                    Ask::Complete(answer) => {
                        let Some((watch, begun)) = &mut open else { continue };
                        while runtime
                            .block_on(watch.next())
                            .is_some_and(|news| !news.progress.is_some_and(|progress| progress.complete))
                        {
                        }
                        let _ = answer.send(begun.elapsed());
                    }
                    Ask::Close => open = None,
                }
            }
            let _ = runtime.block_on(locks.shutdown());
        });
        Ok(Self { asks, thread })
    }

    fn open(&self) -> Result<Open<'_>> {
        let (answer, answered) = mpsc::channel();
        self.asks.send(Ask::Open(answer)).context("the watcher is gone")?;
        answered.recv().context("the watcher is gone")?;
        Ok(Open(self))
    }

    fn end(self) {
        drop(self.asks);
        let _ = self.thread.join();
    }
}

impl Open<'_> {
    fn complete(&self) -> Result<Duration> {
        let (answer, answered) = mpsc::channel();
        self.0.asks.send(Ask::Complete(answer)).context("the watcher is gone")?;
        answered.recv().context("the watcher is gone")
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let _ = self.0.asks.send(Ask::Close);
    }
}
