//! Many waiters for one lock in one process, and what becomes of them.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::{Event, Locks, Node};
use tokio::time::{sleep, timeout};

use crate::roll;

const LOCK: &str = "x";
/// Dozens of managers beside five servers keep two cores busy: an answer may take a while.
const NODE_TIMEOUT: Duration = Duration::from_millis(900);

/// `waiters` tasks acquire the lock again and again, hold it for a moment and release it. One in
/// `impatient` calls is given up after a random time. Every step is printed with its time in
/// nanoseconds: `called`, `in_line` (on a majority of nodes), `served`, `released` and `gave_up`,
/// each with the number of the call.
pub(crate) async fn queue(waiters: u64, hold: Duration, impatient: u64, ttl: Duration, urls: &[&str]) {
    let tasks: Vec<_> = (0..waiters)
        .map(|number| {
            // A manager each, so that its observer knows whose place in line it hears of.
            let call = Arc::new(AtomicU64::new(0));
            let locks = manager(urls, ttl, Arc::clone(&call));
            tokio::spawn(wait_again_and_again(locks, call, number, hold, impatient, ttl))
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn manager(urls: &[&str], ttl: Duration, call: Arc<AtomicU64>) -> Locks {
    let majority = urls.len() / 2 + 1;
    let observer = move |event: &Event<'_>| {
        if let Event::Waiting { nodes, .. } = event
            && *nodes >= majority
        {
            tell("in_line", call.load(Ordering::SeqCst));
        }
    };
    let nodes = urls.iter().map(|url| Node::parse(url).unwrap());
    Locks::builder().nodes(nodes).max_ttl(ttl).observer(observer).build().unwrap()
}

async fn wait_again_and_again(
    locks: Locks,
    call: Arc<AtomicU64>,
    number: u64,
    hold: Duration,
    impatient: u64,
    ttl: Duration,
) {
    locks.ready().await;
    let mut dice = (u64::from(std::process::id()) << 20) + number + 1;
    for round in 0.. {
        let id = number * 1_000_000 + round;
        call.store(id, Ordering::SeqCst);
        tell("called", id);
        let lock = locks.lock(LOCK).ttl(ttl).node_timeout(NODE_TIMEOUT).wait_forever();
        let patience = match roll(&mut dice) % impatient.max(1) {
            0 if impatient > 0 => Duration::from_millis(1 + roll(&mut dice) % 300),
            _ => Duration::from_secs(3_600),
        };
        let mut acquire = Box::pin(lock.acquire());
        match timeout(patience, &mut acquire).await {
            Ok(guard) => {
                let guard = guard.unwrap();
                tell("served", id);
                sleep(hold).await;
                tell("released", id);
                let _ = guard.release().await;
            }
            Err(_) => tell("gave_up", id),
        }
        drop(acquire);
        sleep(Duration::from_millis(roll(&mut dice) % 40)).await;
    }
}

/// `managers` managers with `waiters` tasks each wait for the lock once, for ever, hold it for a
/// moment and release it. Prints a line for each that is served.
pub(crate) async fn crowd(managers: u64, waiters: u64, hold: Duration, urls: &[&str]) {
    let mut tasks = vec![];
    for _ in 0..managers {
        let nodes = urls.iter().map(|url| Node::parse(url).unwrap());
        let locks = Locks::builder().nodes(nodes).build().unwrap();
        locks.ready().await;
        for number in 0..waiters {
            let lock = locks.lock(LOCK).node_timeout(Duration::from_millis(500)).wait_forever();
            tasks.push(tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                tell("served", number);
                sleep(hold).await;
                let _ = guard.release().await;
            }));
            // Not all at the very same moment.
            if number % 16 == 0 {
                sleep(Duration::from_millis(5)).await;
            }
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
}

fn tell(what: &str, call: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    // Whoever reads may have gone.
    let _ = writeln!(std::io::stdout(), "{what} {call} {now}");
}
