//! What distance costs: everything in round trips to the node whose answer makes the majority.
//!
//! The servers are behind proxies that hold messages back. The yardstick is measured in the same
//! run, through the same proxies: five bare questions at once, until the third answer. Connections
//! are made with the proxy, so the handshake of TCP takes no time and is in no figure.

use std::time::{Duration, Instant};

use anyhow::Result;
use tenure::Locks;
use tokio::runtime::Runtime;

use crate::far_cluster::{FarCluster, SERVERS};
use crate::measure::{Percentiles, micros};
use crate::report::{Ratio, Target};
use crate::settings::Settings;

/// Round trips to the five servers, in ms.
const DISTANCES_MS: [[u64; SERVERS]; 5] =
    [[1; SERVERS], [10; SERVERS], [50; SERVERS], [150; SERVERS], [1, 10, 50, 150, 180]];

/// So many cycles at least are measured in each round, however far it is.
const CYCLES_MIN: usize = 3;

/// What was measured at one distance.
#[derive(Default)]
struct Times {
    bare: Vec<Duration>,
    acquire: Vec<Duration>,
    release: Vec<Duration>,
    /// From the call that releases to the return of the call of another client that waits.
    pass_on: Vec<Duration>,
    /// From nothing to the first lock, far away and without any distance.
    start: Vec<Duration>,
    start_near: Vec<Duration>,
}

/// The same, in milliseconds and in round trips.
struct Row {
    name: String,
    bare_ms: f64,
    acquire: f64,
    acquire_p99: f64,
    release: f64,
    pass_on: f64,
    start: f64,
}

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let Settings { time, rounds, json } = *settings;
    if !json {
        println!(
            "five Redis servers behind proxies that hold messages back, in round trips to the third-nearest"
        );
        println!("{rounds} rounds of {time:?} for each; medians");
    }
    let cluster = FarCluster::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The first start of a set of nodes is another matter.
    runtime.block_on(start(&cluster, [Duration::ZERO; SERVERS]))?;
    let mut times: Vec<Times> = DISTANCES_MS.iter().map(|_| Times::default()).collect();
    for round in 0..rounds {
        for turn in 0..DISTANCES_MS.len() {
            let at = (round + turn) % DISTANCES_MS.len();
            times[at].measure(&cluster, &runtime, DISTANCES_MS[at].map(Duration::from_millis), time)?;
        }
    }
    let rows: Vec<Row> =
        DISTANCES_MS.iter().zip(times).map(|(distance, times)| Row::of(distance, times)).collect();
    if !json {
        println!(
            "\n  {:24}{:>14}{:>10}{:>8}{:>10}{:>10}{:>10}",
            "round trips in ms", "measured ms", "acquire", "p99", "release", "pass-on", "start"
        );
    }
    rows.iter().for_each(|row| row.print(json));
    for ratio in ratios(&rows) {
        println!("{}{}", if json { "" } else { "  " }, if json { ratio.json() } else { ratio.to_string() });
    }
    Ok(())
}

/// The worst over all distances. A hop of a proxy and of the machine is no round trip, and where a
/// round trip takes 1 ms it shows.
fn ratios(rows: &[Row]) -> [Ratio; 4] {
    let worst = |of: fn(&Row) -> f64| rows.iter().map(of).fold(0.0, f64::max);
    let ratio = |name, of, limit| Ratio { name, value: worst(of), target: Target::AtMost(limit) };
    [
        ratio("acquire / round trip to the third-nearest", |row| row.acquire, 1.2),
        ratio("release / round trip to the third-nearest", |row| row.release, 1.2),
        ratio("pass-on / round trip to the third-nearest", |row| row.pass_on, 2.4),
        ratio("start to first lock / the same round trip", |row| row.start, 3.0),
    ]
}

impl Times {
    fn measure(
        &mut self,
        cluster: &FarCluster,
        runtime: &Runtime,
        round_trips: [Duration; SERVERS],
        time: Duration,
    ) -> Result<()> {
        runtime.block_on(async {
            self.start_near.push(start(cluster, [Duration::ZERO; SERVERS]).await?);
            self.start.push(start(cluster, round_trips).await?);
            let [ours, others] = [connect(cluster).await?, connect(cluster).await?];
            let mut pings = cluster.pings().await?;
            let (begun, mut cycles) = (Instant::now(), 0);
            while cycles < CYCLES_MIN || begun.elapsed() < time {
                self.bare.push(pings.majority().await?);
                self.cycle(&ours).await?;
                self.pass_on(&ours, &others).await?;
                cycles += 1;
            }
            for locks in [ours, others] {
                locks.shutdown().await?;
            }
            Ok(())
        })
    }

    async fn cycle(&mut self, locks: &Locks) -> Result<()> {
        let begun = Instant::now();
        let guard = locks.lock("far").acquire().await?;
        self.acquire.push(begun.elapsed());
        let begun = Instant::now();
        guard.release().await?;
        self.release.push(begun.elapsed());
        Ok(())
    }

    async fn pass_on(&mut self, ours: &Locks, others: &Locks) -> Result<()> {
        let guard = ours.lock("wanted").acquire().await?;
        let waiter = others.lock("wanted").wait_forever();
        let waiting = tokio::spawn(async move { (waiter.acquire().await, Instant::now()) });
        // Until it is in line everywhere: refused once, then a round with its ticket.
        while ours.inspect("wanted").await?.waiters != Some(1) {}
        let begun = Instant::now();
        let released = tokio::spawn(guard.release());
        let (next, had) = waiting.await?;
        self.pass_on.push(had - begun);
        next?.release().await?;
        released.await??;
        Ok(())
    }
}

async fn connect(cluster: &FarCluster) -> Result<Locks> {
    let locks = Locks::builder().nodes(cluster.nodes()?).build()?;
    locks.ready().await;
    Ok(locks)
}

/// From nothing to a lock.
async fn start(cluster: &FarCluster, round_trips: [Duration; SERVERS]) -> Result<Duration> {
    cluster.move_to(round_trips);
    let begun = Instant::now();
    let locks = Locks::builder().nodes(cluster.nodes()?).build()?;
    let guard = locks.lock("first").acquire().await?;
    let elapsed = begun.elapsed();
    guard.release().await?;
    locks.shutdown().await?;
    Ok(elapsed)
}

impl Row {
    fn of(distance: &[u64; SERVERS], times: Times) -> Self {
        let name = if distance.iter().all(|round_trip| *round_trip == distance[0]) {
            distance[0].to_string()
        } else {
            distance.map(|round_trip| round_trip.to_string()).join(", ")
        };
        let Times { bare, acquire, release, pass_on, start, start_near } = times;
        let [bare, acquire, release, pass_on, start, near] =
            [bare, acquire, release, pass_on, start, start_near].map(Percentiles::of);
        let round_trip = micros(bare.p50);
        let of = |time: Duration| micros(time) / round_trip;
        Self {
            name,
            bare_ms: round_trip / 1e3,
            acquire: of(acquire.p50),
            acquire_p99: of(acquire.p99),
            release: of(release.p50),
            pass_on: of(pass_on.p50),
            start: of(start.p50.saturating_sub(near.p50)),
        }
    }

    fn print(&self, json: bool) {
        let Self { name, bare_ms, acquire, acquire_p99, release, pass_on, start } = self;
        if json {
            println!(
                r#"{{"round_trips_ms":"{name}","third_nearest_ms":{bare_ms:.2},"acquire":{acquire:.3},"acquire_p99":{acquire_p99:.3},"release":{release:.3},"pass_on":{pass_on:.3},"start":{start:.3}}}"#
            );
        } else {
            println!(
                "  {name:24}{bare_ms:>14.2}{acquire:>10.2}{acquire_p99:>8.2}{release:>10.2}{pass_on:>10.2}{start:>10.2}"
            );
        }
    }
}
