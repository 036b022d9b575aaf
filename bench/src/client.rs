//! The two kinds of clients that are compared, behind one interface.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use floor::Floor;
use tenure::{Lock, Locks};
use tokio::runtime::{Builder, Runtime};

use crate::cluster::Cluster;
use crate::measure::{Cycle, Work};

/// A client that can be put to work.
pub(crate) trait Client {
    /// Acquires and releases, again and again, for this time.
    fn work(&mut self, time: Duration) -> Result<Work>;

    /// Waits until nothing of it is under way on any server. Returns how often it did not ask a
    /// server that was too far behind, if it does so.
    fn finish(self: Box<Self>) -> Result<usize>;
}

/// How many locks a task has. A node remembers the fence of each for a day.
const NAMES: usize = 16;

/// The floor, with `batch` cycles at a time.
pub(crate) struct FloorClient {
    floor: Floor,
    batch: usize,
}

/// Tenure on a current-thread runtime, with so many tasks.
pub(crate) struct TenureClient {
    runtime: Runtime,
    locks: Locks,
    fenced: bool,
    tasks: usize,
    names: Arc<str>,
}

impl FloorClient {
    /// `names` begins the names of its locks; nobody else may use it.
    pub(crate) fn connect(cluster: &Cluster, batch: usize, names: &str) -> Result<Self> {
        Ok(Self { floor: Floor::connect(cluster.ports(), names)?, batch })
    }
}

impl Client for FloorClient {
    fn work(&mut self, time: Duration) -> Result<Work> {
        let (mut cycles, begin) = (vec![], Instant::now());
        while begin.elapsed() < time {
            let start = Instant::now();
            self.floor.acquire(self.batch)?;
            let acquire = start.elapsed();
            self.floor.release()?;
            // Each cycle of a batch takes as long as the batch.
            let cycle = Cycle { acquire, whole: start.elapsed() };
            cycles.extend(std::iter::repeat_n(cycle, self.batch));
        }
        Ok(Work { cycles, failed: 0 })
    }

    fn finish(self: Box<Self>) -> Result<usize> {
        Ok(self.floor.finish()?)
    }
}

impl TenureClient {
    /// `names` begins the names of its locks; nobody else may use it.
    pub(crate) fn connect(cluster: &Cluster, tasks: usize, fenced: bool, names: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let locks = runtime.block_on(Locks::connect(cluster.urls()))?;
        Ok(Self { runtime, locks, fenced, tasks, names: names.into() })
    }
}

impl Client for TenureClient {
    fn work(&mut self, time: Duration) -> Result<Work> {
        let end = Instant::now() + time;
        let start = |task| {
            let names = format!("{}:{task}", self.names);
            self.runtime.spawn(work(self.locks.clone(), self.fenced, names, end))
        };
        let tasks: Vec<_> = (0..self.tasks).map(start).collect();
        self.runtime.block_on(async {
            let mut all = Work::default();
            for task in tasks {
                let mut work = task.await?;
                all.cycles.append(&mut work.cycles);
                all.failed += work.failed;
            }
            Ok(all)
        })
    }

    fn finish(self: Box<Self>) -> Result<usize> {
        self.runtime.block_on(self.locks.shutdown())?;
        Ok(0)
    }
}

/// One task: one cycle after the other, with locks of its own that come round again, as the locks
/// of most programs do.
pub(crate) async fn work(locks: Locks, fenced: bool, names: String, end: Instant) -> Work {
    let mut work = Work::default();
    while Instant::now() < end {
        let name = format!("{names}:{}", (work.cycles.len() + work.failed) % NAMES);
        let lock = locks.lock(name);
        let lock = if fenced { lock } else { lock.unfenced() };
        match cycle(&lock).await {
            Ok(cycle) => work.cycles.push(cycle),
            // A server that gets no CPU for as long as a node timeout: a busy machine, which the
            // report shows.
            Err(_) => work.failed += 1,
        }
    }
    work
}

async fn cycle(lock: &Lock) -> Result<Cycle> {
    let start = Instant::now();
    let guard = lock.acquire().await?;
    let acquire = start.elapsed();
    guard.release().await?;
    Ok(Cycle { acquire, whole: start.elapsed() })
}
