//! The two kinds of clients that are compared, behind one interface.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use floor::Floor;
use tenure::{Lock, Locks, RedisNode, Worker};
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

/// How many locks a task has that uses them again. A node remembers the fence of each for a day.
const NAMES: usize = 16;

/// How Tenure is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) tasks: usize,
    pub(crate) fenced: bool,
    pub(crate) flavour: Flavour,
    pub(crate) names: Names,
}

/// Where the tasks and the driver run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// On a runtime of one thread, which is also the caller's.
    Single,
    /// On a runtime with so many worker threads.
    Threads(usize),
    /// The tasks on a runtime of one thread, the driver on a thread of its own.
    OwnThread,
}

impl Flavour {
    /// A runtime for the tasks.
    pub(crate) fn runtime(self) -> Result<Runtime> {
        Ok(match self {
            Self::Single | Self::OwnThread => Builder::new_current_thread().enable_all().build()?,
            Self::Threads(count) => Builder::new_multi_thread().worker_threads(count).enable_all().build()?,
        })
    }
}

/// Which locks a task uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// A few, again and again, as most programs do.
    Reused,
    /// Each once: the dearest for the servers.
    Once,
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.fenced { "fenced" } else { "unfenced" };
        let tasks = if self.tasks == 1 { "1 task".to_owned() } else { format!("{} tasks", self.tasks) };
        write!(f, "{kind}, {tasks}")?;
        match self.flavour {
            Flavour::Single if self.names == Names::Reused => Ok(()),
            Flavour::Single => f.write_str(", single"),
            Flavour::Threads(count) => write!(f, ", {count} threads"),
            Flavour::OwnThread => f.write_str(", own thread"),
        }
    }
}

/// The floor, with `batch` cycles at a time.
pub(crate) struct FloorClient {
    floor: Floor,
    batch: usize,
}

/// Tenure, with tasks of a runtime.
pub(crate) struct TenureClient {
    runtime: Runtime,
    locks: Locks,
    setup: Setup,
    names: Arc<str>,
    /// How often it was put to work: no name of [`Names::Once`] comes again.
    turns: usize,
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
    pub(crate) fn connect(cluster: &Cluster, setup: Setup, names: &str) -> Result<Self> {
        let runtime = setup.flavour.runtime()?;
        let worker = match setup.flavour {
            Flavour::OwnThread => Worker::OwnThread,
            Flavour::Single | Flavour::Threads(_) => Worker::CurrentRuntime,
        };
        let nodes = cluster.urls().map(|url| RedisNode::parse(&url)).collect::<Result<Vec<_>, _>>()?;
        let locks = runtime.block_on(async {
            let builder = Locks::builder().nodes(nodes).worker(worker);
            let builder = cluster.prefix().into_iter().fold(builder, tenure::Builder::prefix);
            let locks = builder.build()?;
            locks.ready().await;
            anyhow::Ok(locks)
        })?;
        Ok(Self { runtime, locks, setup, names: names.into(), turns: 0 })
    }
}

impl Client for TenureClient {
    fn work(&mut self, time: Duration) -> Result<Work> {
        let end = Instant::now() + time;
        self.turns += 1;
        let start = |task| {
            let names = format!("{}:{}:{task}", self.names, self.turns);
            self.runtime.spawn(work(self.locks.clone(), self.setup, names, end))
        };
        let tasks: Vec<_> = (0..self.setup.tasks).map(start).collect();
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

/// One task: one cycle after the other, with locks of its own.
pub(crate) async fn work(locks: Locks, setup: Setup, names: String, end: Instant) -> Work {
    let mut work = Work::default();
    while Instant::now() < end {
        let done = work.cycles.len() + work.failed;
        let number = if setup.names == Names::Reused { done % NAMES } else { done };
        let lock = locks.lock(format!("{names}:{number}"));
        let lock = if setup.fenced { lock } else { lock.unfenced() };
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
