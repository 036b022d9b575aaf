//! Workers that want several locks at once, permits of a semaphore, a lock once per period, or an
//! office. Each says what it has and when, by the clock of the machine, which nobody moves: a line
//! before it does anything, so that a kill takes back nothing that was relied on.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::{Guard, Locks, Node, Term, machine_time};
use tokio::time::sleep;

use crate::roll;

/// Two cores for many workers and five servers: an answer may take a while.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);

const SLOT_TTL: Duration = Duration::from_secs(1);

/// So many names there are, and so many of them one set has at most.
const NAMES: u64 = 8;
const SET_MAX: u64 = 4;

fn now() -> u128 {
    machine_time().as_micros()
}

fn say(line: &str) {
    // Whoever reads may have gone.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Tasks that lock random sets for a moment, again and again: see [`tell_hold`].
pub(crate) async fn sets(workers: u64, hold: Duration, seed: u64, urls: &[&str]) {
    let locks = Locks::connect(urls).await.unwrap();
    let tasks = (0..workers).map(|worker| {
        let locks = locks.clone();
        tokio::spawn(async move {
            let mut dice = seed * 1_000 + worker + 1;
            loop {
                let size = 1 + roll(&mut dice) % SET_MAX;
                let names: Vec<String> = (0..size).map(|_| (roll(&mut dice) % NAMES).to_string()).collect();
                let asked = now();
                let lock = locks.lock_all(&names).node_timeout(NODE_TIMEOUT).wait_forever();
                let Ok(guard) = lock.acquire().await else { continue };
                tell_hold(guard, hold, worker, asked).await;
            }
        })
    });
    // They go on until the process is killed.
    let _tasks: Vec<_> = tasks.collect();
    std::future::pending::<()>().await;
}

/// Holds a lock for a moment: `has NAMES FENCE BEGUN UNTIL WORKER WAITED` with the end of its
/// validity, and afterwards `had NAMES FENCE ENDED`.
async fn tell_hold(guard: Guard, hold: Duration, worker: u64, asked: u128) {
    let (names, fence) = (guard.names().collect::<Vec<_>>().join(","), guard.fence());
    // The clock is read first: a process that is stopped between the two reads then says less than
    // it holds, never more.
    let begun = now();
    let until = begun + guard.valid_for().as_micros();
    say(&format!("has {names} {fence} {begun} {until} {worker} {}", begun - asked));
    sleep(hold).await;
    let ended = now();
    // What it says when the lock is over counts no longer than the lock.
    if guard.is_valid() {
        say(&format!("had {names} {fence} {ended}"));
    }
    let _ = guard.release().await;
}

/// Tasks that take permits for a moment, again and again. How many there are is told by whoever
/// talks to it, line by line.
pub(crate) async fn slots(workers: u64, hold: Duration, permits: usize, urls: &[&str]) {
    let locks = Locks::connect(urls).await.unwrap();
    let (told, permits) = tokio::sync::watch::channel(permits);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            told.send_replace(line.parse().unwrap());
        }
        // It goes on until it is killed.
        std::mem::forget(told);
    });
    let tasks = (0..workers).map(|worker| {
        let (locks, permits) = (locks.clone(), permits.clone());
        tokio::spawn(async move {
            loop {
                let (count, asked) = (*permits.borrow(), now());
                let permit = locks.semaphore("s", count).wait(Duration::from_secs(2));
                // Permits of a process that is killed are free again soon.
                let permit = permit.with(|slot| slot.ttl(SLOT_TTL).node_timeout(NODE_TIMEOUT));
                let Ok(guard) = permit.acquire().await else { continue };
                tell_hold(guard, hold, worker, asked).await;
            }
        })
    });
    // They go on until the process is killed.
    let _tasks: Vec<_> = tasks.collect();
    std::future::pending::<()>().await;
}

/// A job that is to run every so often by this process's own wall clock, which may be wrong.
pub(crate) async fn period(every: Duration, at_least: Duration, urls: &[&str]) {
    let locks = Locks::connect(urls).await.unwrap();
    let job = locks.lock("job").ttl(Duration::from_secs(1)).node_timeout(NODE_TIMEOUT).at_least(at_least);
    loop {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let every_ms = every.as_millis();
        let rest = every_ms - clock.as_millis() % every_ms;
        sleep(Duration::from_millis(u64::try_from(rest).unwrap())).await;
        if let Ok(Some(guard)) = job.try_acquire().await {
            say(&format!("ran {} {}", guard.fence(), now()));
            sleep(Duration::from_millis(20)).await;
            let _ = guard.release().await;
        }
    }
}

/// Candidates for one office. Each term is told with its epoch and when it began, then again and
/// again until when it may still count on it, and when it has ended.
pub(crate) async fn candidates(count: u64, ttl: Duration, urls: &[&str]) {
    // Each process reaches the same nodes by ways of its own.
    let nodes = urls.iter().map(|url| Node::parse(url).unwrap());
    let locks = Locks::builder().nodes(nodes).fleet("candidates").build().unwrap();
    let tasks = (0..count).map(|number| {
        let leader = locks.leader("office").ttl(ttl).label(number.to_string());
        tokio::spawn(leader.run(move |term: Term| async move {
            let epoch = term.epoch();
            say(&format!("elected {epoch} {}", now()));
            let mut dice = epoch.get();
            let turns = 20 + roll(&mut dice) % 200;
            for _ in 0..turns {
                sleep(Duration::from_millis(10)).await;
                let until = now() + term.guard().valid_for().as_micros();
                if term.guard().is_valid() {
                    say(&format!("leads {epoch} {} {until}", now()));
                }
            }
            say(&format!("resigns {epoch} {}", now()));
            term.resign().await;
        }))
    });
    for task in tasks.collect::<Vec<_>>() {
        let _ = task.await;
    }
}
