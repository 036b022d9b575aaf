//! What tests need in a process of its own.
//!
//! `testclient increment FILE TIMES URL...` adds one to the number in FILE, TIMES times, each time
//! under the lock "counter". Reading and writing are two steps, so an increment is lost whenever
//! two clients hold the lock at once.
//!
//! `testclient fence URL...` takes the lock "fenced" for a moment and prints its fence, and the
//! time in milliseconds that this process believes it is.
//!
//! `testclient hold TTL URL...` takes the lock "held" for TTL milliseconds, which is renewed, and
//! prints its fence. Then it does what it is told, line by line: `state` prints how the lock
//! stands; `release` releases it, and `hand over` prints what another process needs to go on with
//! it. The last two end the program.
//!
//! `testclient grab NAME TTL URL...` waits for this lock, prints its fence, and keeps it until it
//! is killed.
//!
//! `testclient share NAME TTL URL...` and `testclient own NAME OWNER TTL URL...` wait for this lock
//! as a reader or for an owner, and then do what they are told as `hold` does.
//!
//! `testclient fill URL...` takes one lock after another, prints the name of each that it has, and
//! ends with a line that begins with `failed`.
//!
//! `testclient default` takes a lock in the default store, and prints where that is or what is
//! wrong.
//!
//! `testclient resume HANDOVER URL...` goes on with a lock that was handed over, and then does the
//! same.
//!
//! `testclient queue WAITERS HOLD IMPATIENT TTL URL...` and `testclient crowd MANAGERS WAITERS HOLD
//! URL...`: see `queue.rs`.
//!
//! `testclient sets WORKERS HOLD SEED URL...`, `testclient slots WORKERS HOLD PERMITS URL...`,
//! `testclient period EVERY AT_LEAST URL...` and `testclient candidates COUNT TTL URL...`: see
//! `several.rs`.
//!
//! `testclient serve` starts two servers, prints their process ids and waits to be killed.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test client that cannot go on has to fail")]

mod queue;
mod several;

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::{Guard, Lock, Locks, Retry};
use tenure_testkit::RedisServer;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["increment", file, times, urls @ ..] => {
            let locks = Locks::connect(urls).await.unwrap();
            increment(&locks, Path::new(file), times.parse().unwrap()).await;
            locks.shutdown().await.unwrap();
        }
        ["fence", urls @ ..] => {
            let guard = Locks::connect(urls).await.unwrap().lock("fenced").acquire().await.unwrap();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            println!("{} {}", guard.fence(), now.as_millis());
            guard.release().await.unwrap();
        }
        ["hold", ttl_ms, urls @ ..] => {
            let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
            let locks = Locks::connect(urls).await.unwrap();
            let guard = locks.lock("held").ttl(ttl).node_timeout(ttl / 4).acquire().await.unwrap();
            do_what_is_told(guard).await;
            locks.shutdown().await.unwrap();
        }
        ["grab", name, ttl_ms, urls @ ..] => {
            let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
            let locks = Locks::connect(urls).await.unwrap();
            let guard = locks.lock(*name).ttl(ttl).wait_forever().acquire().await.unwrap();
            println!("{}", guard.fence());
            std::future::pending::<()>().await;
        }
        ["share", name, ttl_ms, urls @ ..] => {
            let locks = Locks::connect(urls).await.unwrap();
            hold(locks.lock(*name).shared(), ttl_ms).await;
        }
        ["own", name, owner, ttl_ms, urls @ ..] => {
            let locks = Locks::connect(urls).await.unwrap();
            hold(locks.lock(*name).owner(owner), ttl_ms).await;
        }
        ["fill", urls @ ..] => {
            let locks = Locks::connect(urls).await.unwrap();
            for name in 0_u64.. {
                match locks.lock(name.to_string()).ttl(Duration::from_secs(60)).try_acquire().await {
                    Ok(guard) => {
                        println!("{name}");
                        std::mem::forget(guard.expect("nobody else wants it"));
                    }
                    Err(error) => return println!("failed: {error}"),
                }
            }
        }
        ["default"] => match Locks::embedded() {
            Ok(locks) => {
                match locks.lock("x").try_acquire().await {
                    Ok(guard) => println!("{} {}", locks.node_addresses().next().unwrap(), guard.is_some()),
                    Err(error) => println!("{error}"),
                }
                locks.shutdown().await.unwrap();
            }
            Err(error) => println!("{error}"),
        },
        ["resume", handover, urls @ ..] => {
            let locks = Locks::connect(urls).await.unwrap();
            let mut guard = locks.resume(&handover.parse().unwrap()).await.unwrap();
            guard.extend().await.unwrap();
            do_what_is_told(guard).await;
            locks.shutdown().await.unwrap();
        }
        ["queue", waiters, hold_ms, impatient, ttl_ms, urls @ ..] => {
            let [hold, ttl] = [hold_ms, ttl_ms].map(|ms| Duration::from_millis(ms.parse().unwrap()));
            queue::queue(waiters.parse().unwrap(), hold, impatient.parse().unwrap(), ttl, urls).await;
        }
        ["crowd", managers, waiters, hold_ms, urls @ ..] => {
            let hold = Duration::from_millis(hold_ms.parse().unwrap());
            queue::crowd(managers.parse().unwrap(), waiters.parse().unwrap(), hold, urls).await;
        }
        ["sets", workers, hold_ms, seed, urls @ ..] => {
            let hold = Duration::from_millis(hold_ms.parse().unwrap());
            several::sets(workers.parse().unwrap(), hold, seed.parse().unwrap(), urls).await;
        }
        ["slots", workers, hold_ms, permits, urls @ ..] => {
            let hold = Duration::from_millis(hold_ms.parse().unwrap());
            several::slots(workers.parse().unwrap(), hold, permits.parse().unwrap(), urls).await;
        }
        ["period", every_ms, at_least_ms, urls @ ..] => {
            let [every, at_least] =
                [every_ms, at_least_ms].map(|ms| Duration::from_millis(ms.parse().unwrap()));
            several::period(every, at_least, urls).await;
        }
        ["candidates", count, ttl_ms, urls @ ..] => {
            let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
            several::candidates(count.parse().unwrap(), ttl, urls).await;
        }
        ["serve"] => {
            let servers: [RedisServer; 2] = RedisServer::start_many(&[]);
            println!("{} {}", servers[0].pid(), servers[1].pid());
            std::future::pending::<()>().await;
        }
        other => panic!("not a verb: {other:?}"),
    }
}

async fn hold(lock: Lock, ttl_ms: &str) {
    let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
    do_what_is_told(lock.ttl(ttl).wait_forever().acquire().await.unwrap()).await;
}

async fn do_what_is_told(guard: Guard) {
    println!("{}", guard.fence());
    let (sender, mut orders) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    while let Some(order) = orders.recv().await {
        match order.as_str() {
            "state" => println!("{:?}", guard.state()),
            "release" => return println!("{}", guard.release().await.unwrap().votes.granted()),
            "hand over" => return println!("{}", guard.hand_over()),
            other => panic!("not an order: {other:?}"),
        }
    }
}

async fn increment(locks: &Locks, file: &Path, times: u32) {
    let retry = Retry::default().delay(Duration::from_millis(2)).jitter(Duration::from_millis(30));
    // Sixteen of these on two cores keep a server waiting for its turn longer than a node timeout
    // should be.
    let lock = locks.lock("counter").ttl(Duration::from_secs(10)).node_timeout(Duration::from_secs(1));
    let lock = lock.retry(retry).wait(Duration::from_secs(120));
    for _ in 0..times {
        let guard = lock.acquire().await.unwrap();
        let number: u32 = std::fs::read_to_string(file).unwrap().parse().unwrap();
        std::fs::write(file, (number + 1).to_string()).unwrap();
        assert!(guard.is_valid(), "the step took longer than the lock is valid");
        guard.release().await.unwrap();
    }
}

/// A number that looks random, from the one before.
fn roll(dice: &mut u64) -> u64 {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    *dice
}
