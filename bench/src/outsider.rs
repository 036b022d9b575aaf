//! A client outside the line, beside five that pass the lock on to each other without an end; and
//! what its turns cost them.
//!
//! For one, three and five servers, in turns: the five alone, the five alone without the rule that
//! leaves the lock to others now and then, and the five with a client of another library, which
//! asks for the lock with plain `SET NX PX` every 35 ms.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tenure::Locks;

use crate::cluster::Cluster;
use crate::report::{Ratio, Target};
use crate::settings::Settings;

const CLIENTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(35);

/// So long that what else the machine does at the moment matters little.
const HOLD: Duration = Duration::from_millis(2);

/// Turns come every five seconds: in such a time there is one, and in the longer one beside the
/// client outside there are two.
const TIME: Duration = Duration::from_secs(5);

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let Settings { rounds, json, .. } = *settings;
    if !json {
        println!(
            "one lock, {CLIENTS} clients in line that ask for it again at once, and one outside that asks every {PAUSE:?}"
        );
        println!(
            "they hold it for {HOLD:?}; {rounds} rounds of {TIME:?} for each; medians over the rounds, and the longest wait of all"
        );
    }
    let mut ratios = vec![];
    for (nodes, name) in [
        (1, "acquisitions in line, with the rule / without, 1 node"),
        (3, "acquisitions in line, with the rule / without, 3 nodes"),
        (5, "acquisitions in line, with the rule / without, 5 nodes"),
    ] {
        // Servers that are used with one list of nodes refuse another.
        let cluster = Cluster::start();
        let ports = &cluster.ports()[..nodes];
        let (mut with, mut without, mut beside, mut ratio) = (vec![], vec![], vec![], vec![]);
        let (mut longest, mut turns) = (Duration::ZERO, 0);
        for round in 0..rounds {
            // So that what else the machine does falls on both.
            for turn in 0..2 {
                let closed = (round + turn) % 2 == 1;
                let per_second = take_turns(ports, closed, TIME)?;
                if closed { &mut without } else { &mut with }.push(per_second);
            }
            ratio.push(with[round] / without[round]);
            let ended = Arc::new(AtomicBool::new(false));
            let outsider = Outsider::start(ports, Arc::clone(&ended))?;
            beside.push(take_turns(ports, false, 2 * TIME)?);
            ended.store(true, Ordering::Relaxed);
            let waits = outsider.join().map_err(|_| anyhow::anyhow!("the client outside panicked"))??;
            ensure!(!waits.is_empty(), "the client outside never got the lock");
            turns += waits.len() - 1;
            longest = longest.max(waits.into_iter().max().unwrap_or_default());
        }
        let [with, without, beside, value] = [with, without, beside, ratio].map(median);
        if json {
            let seconds = longest.as_secs_f64();
            println!(
                r#"{{"nodes":{nodes},"with_per_second":{with:.0},"without_per_second":{without:.0},"beside_per_second":{beside:.0},"outside_turns":{turns},"outside_longest_wait_s":{seconds:.2}}}"#
            );
        } else {
            println!(
                "  {nodes} nodes: in line {with:5.0}/s, without the rule {without:5.0}/s, beside the client outside {beside:5.0}/s; that one \
                 had {turns} turns, and waited for {longest:.2?} at most"
            );
        }
        ratios.push(Ratio { name, value, target: Target::AtLeast(0.95) });
    }
    for ratio in ratios {
        println!("{}{}", if json { "" } else { "  " }, if json { ratio.json() } else { ratio.to_string() });
    }
    Ok(())
}

/// How many acquisitions a second those in line have.
fn take_turns(ports: &[u16], closed: bool, time: Duration) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let count = Arc::new(AtomicU64::new(0));
        let mut tasks = vec![];
        for _ in 0..CLIENTS {
            let locks = Locks::connect(ports.iter().map(|port| format!("redis://127.0.0.1:{port}"))).await?;
            let (lock, count) = (locks.lock(KEY).wait_forever().closed(closed), Arc::clone(&count));
            tasks.push(tokio::spawn(async move {
                let start = Instant::now();
                while start.elapsed() < time {
                    let guard = lock.acquire().await?;
                    count.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(HOLD).await;
                    // On a machine that is busy some are confirmed late.
                    let _ = guard.release().await;
                }
                anyhow::Ok(locks)
            }));
        }
        let start = Instant::now();
        for task in tasks {
            task.await??.shutdown().await?;
        }
        Ok(count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
    })
}

const KEY: &str = "outsider";

/// A client of another library.
struct Outsider(Vec<TcpStream>);

impl Outsider {
    /// Begins to ask; tells in the end how long it waited each time, and at last without success.
    fn start(
        ports: &[u16],
        ended: Arc<AtomicBool>,
    ) -> Result<std::thread::JoinHandle<Result<Vec<Duration>>>> {
        let connections = ports.iter().map(|port| TcpStream::connect(("127.0.0.1", *port)));
        let mut outsider = Self(connections.collect::<std::io::Result<_>>()?);
        Ok(std::thread::spawn(move || {
            let (mut waits, mut start) = (vec![], Instant::now());
            while !ended.load(Ordering::Relaxed) {
                if outsider.acquires()? {
                    waits.push(start.elapsed());
                    start = Instant::now();
                }
                std::thread::sleep(PAUSE);
            }
            // The wait that nothing came of counts as well.
            waits.push(start.elapsed());
            Ok(waits)
        }))
    }

    /// Whether it got the lock on a majority; then it has it for two milliseconds. It leaves
    /// nothing behind.
    fn acquires(&mut self) -> Result<bool> {
        let majority = self.0.len() / 2 + 1;
        let granted =
            self.say(&format!("SET tenure:{KEY} outside NX PX 3000"), |reply| reply.starts_with("+OK"))?;
        if granted >= majority {
            std::thread::sleep(Duration::from_millis(2));
        }
        let script =
            "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";
        self.say(&format!("EVAL \"{script}\" 1 tenure:{KEY} outside"), |_| true)?;
        Ok(granted >= majority)
    }

    /// Says this to all servers, and counts those that say yes.
    fn say(&mut self, command: &str, is_yes: impl Fn(&str) -> bool) -> Result<usize> {
        for connection in &mut self.0 {
            connection.write_all(format!("{command}\r\n").as_bytes())?;
        }
        let mut yes = 0;
        for connection in &mut self.0 {
            let mut reply = [0; 64];
            let count = connection.read(&mut reply).context("a server is gone")?;
            yes += usize::from(is_yes(&String::from_utf8_lossy(&reply[..count])));
        }
        Ok(yes)
    }
}

/// Of an even number the lower one: what is better by chance must not be what is told.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}
