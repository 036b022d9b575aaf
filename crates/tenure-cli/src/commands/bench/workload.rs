//! What is done to the nodes: locks that nobody else wants, and one that two clients want.

use std::time::{Duration, Instant};

use tenure::{Guard, Lock, Locks};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::capacity::measured::Times;

/// A task uses so many names, one after the other, again and again, as most programs do.
const NAMES: usize = 4;

/// After a failure, before the next try: a node that is gone must not keep this process busy.
const PAUSE: Duration = Duration::from_millis(20);

/// How long the other client may take to get the lock.
const PASS_ON_WITHIN: Duration = Duration::from_secs(4);

/// What was done.
#[derive(Default)]
pub(super) struct Work {
    acquires: Vec<Duration>,
    releases: Vec<Duration>,
    /// Locks that were not acquired, or not released for certain.
    pub(super) failed: usize,
}

impl Work {
    pub(super) fn cycles(&self) -> usize {
        self.releases.len()
    }

    /// How long acquires and releases took.
    pub(super) fn times(&self) -> Option<(Times, Times)> {
        Times::of(self.acquires.clone()).zip(Times::of(self.releases.clone()))
    }
}

/// Acquires and releases for this time, with so many tasks of each client. Dropping it ends them.
pub(super) async fn cycles(clients: &[Locks], tasks: usize, time: Duration) -> Work {
    let end = Instant::now() + time;
    let mut working = JoinSet::new();
    for (client, locks) in clients.iter().enumerate() {
        for task in 0..tasks {
            working.spawn(work(locks.clone(), format!("{client}-{task}"), end));
        }
    }
    let mut all = Work::default();
    while let Some(done) = working.join_next().await {
        let Ok(work) = done else { continue };
        all.acquires.extend(work.acquires);
        all.releases.extend(work.releases);
        all.failed += work.failed;
    }
    all
}

async fn work(locks: Locks, name: String, end: Instant) -> Work {
    let names: Vec<Lock> = (0..NAMES).map(|number| locks.lock(format!("{name}-{number}"))).collect();
    let mut work = Work::default();
    for lock in names.iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        let begun = Instant::now();
        let Ok(guard) = lock.acquire().await else {
            work.failed += 1;
            sleep(PAUSE).await;
            continue;
        };
        work.acquires.push(begun.elapsed());
        let begun = Instant::now();
        match guard.release().await {
            Ok(_) => work.releases.push(begun.elapsed()),
            Err(_) => work.failed += 1,
        }
    }
    work
}

/// Two clients hand a lock over to each other for this time: from the call that releases it to the
/// return of the call that waits for it.
pub(super) async fn pass_on(clients: &[Locks], time: Duration) -> Option<Times> {
    let locks: Vec<Lock> = clients.iter().map(|client| client.lock("wanted").wait(PASS_ON_WITHIN)).collect();
    let (end, mut times) = (Instant::now() + time, vec![]);
    let mut held: Guard = locks.first()?.acquire().await.ok()?;
    for (turn, next) in locks.iter().cycle().skip(1).enumerate() {
        if Instant::now() >= end {
            break;
        }
        let waiting = next.acquire();
        let mut waiting = JoinSet::from_iter([async move { (waiting.await, Instant::now()) }]);
        // Until it is in line at a majority, and as soon as that is known.
        let looking = &clients[turn % clients.len()];
        while looking.inspect("wanted").await.ok()?.waiters != Some(1) {
            if Instant::now() >= end {
                return Times::of(times);
            }
        }
        let begun = Instant::now();
        let releasing = tokio::spawn(held.release());
        let (acquired, had) = waiting.join_next().await?.ok()?;
        times.push(had - begun);
        releasing.await.ok()?.ok()?;
        held = acquired.ok()?;
    }
    let _ = held.release().await;
    Times::of(times)
}
