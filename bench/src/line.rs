//! What a long line costs: the time from a release to the next holder, with so many others in line
//! behind. Those are entries on the servers alone, behind everybody who asks: whether somebody
//! listens for them is found out only when their turn comes.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use tenure::Locks;

use crate::cluster::Cluster;
use crate::measure::{Percentiles, micros};
use crate::report::{Ratio, Target};
use crate::settings::Settings;

/// How many are in line behind.
const LENGTHS: [usize; 4] = [1, 100, 1_000, 10_000];

/// How many are added by one command.
const CHUNK: usize = 500;

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let Settings { time, rounds, json } = *settings;
    let cluster = Cluster::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for length in LENGTHS {
        fill(&cluster, length)?;
    }
    let mut times: [Vec<Duration>; LENGTHS.len()] = Default::default();
    runtime.block_on(async {
        let clients = [Locks::connect(cluster.urls()).await?, Locks::connect(cluster.urls()).await?];
        for round in 0..rounds {
            for turn in 0..LENGTHS.len() {
                let at = (round + turn) % LENGTHS.len();
                pass_on(&clients, &name(LENGTHS[at]), time, &mut times[at]).await?;
            }
        }
        for locks in clients {
            locks.shutdown().await?;
        }
        anyhow::Ok(())
    })?;
    let rows = times.map(Percentiles::of);
    if !json {
        println!("from a release to the next holder, in another client, on five Redis servers; microseconds");
        println!("{rounds} rounds of {time:?} for each length of the line, in turns\n");
        println!("  {:>10}{:>12}{:>10}", "in line", "p50", "p99");
    }
    for (length, pass_on) in LENGTHS.iter().zip(&rows) {
        let (p50, p99) = (micros(pass_on.p50), micros(pass_on.p99));
        if json {
            println!("{{\"in_line\":{length},\"pass_on_p50_us\":{p50:.1},\"pass_on_p99_us\":{p99:.1}}}");
        } else {
            println!("  {length:>10}{p50:>12.0}{p99:>10.0}");
        }
    }
    let [shortest, .., longest] = &rows;
    let value = micros(longest.p50) / micros(shortest.p50);
    let ratio = Ratio { name: "pass-on p50, 10,000 in line / 1", value, target: Target::AtMost(2.0) };
    println!("{}", if json { ratio.json() } else { format!("\n  {ratio}") });
    Ok(())
}

fn name(length: usize) -> String {
    format!("line-{length}")
}

/// Puts so many in line, behind everybody who will ask: their numbers are of tomorrow.
fn fill(cluster: &Cluster, length: usize) -> Result<()> {
    let tomorrow = SystemTime::now().duration_since(UNIX_EPOCH)? + Duration::from_secs(86_400);
    let line = format!("tenure~queue:{{tenure:{}}}", name(length));
    let numbers: Vec<String> =
        (0..length).map(|number| (tomorrow.as_micros() + number as u128).to_string()).collect();
    for chunk in numbers.chunks(CHUNK) {
        let mut command = vec!["ZADD".to_owned(), line.clone()];
        for number in chunk {
            command.extend([number.clone(), format!("{number}:{:016x}", 7)]);
        }
        cluster.execute(&command.iter().map(String::as_str).collect::<Vec<_>>());
    }
    Ok(())
}

/// Two clients pass a lock to and fro.
async fn pass_on(clients: &[Locks; 2], name: &str, time: Duration, times: &mut Vec<Duration>) -> Result<()> {
    let begun = Instant::now();
    let mut guard = clients[0].lock(name).wait_forever().acquire().await?;
    let waiters = clients[0].inspect(name).await?.waiters;
    for next in (0..2).cycle().skip(1) {
        let waiting = tokio::spawn(clients[next].lock(name).wait_forever().acquire());
        while clients[1 - next].inspect(name).await?.waiters <= waiters {}
        let released = Instant::now();
        let (end, next_guard) = tokio::join!(guard.release(), async { (waiting.await, Instant::now()) });
        end?;
        times.push(next_guard.1 - released);
        guard = next_guard.0??;
        if begun.elapsed() > time {
            break;
        }
    }
    guard.release().await?;
    Ok(())
}
