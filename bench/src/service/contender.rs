//! Who is put to work, each in its own way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tenure::{Guard, Locks};
use tenure_testkit::certificates::Authority;
use tokio::runtime::Runtime;

use super::http::{Connection, Way};
use super::instance::Instance;
use crate::cluster::Cluster;
use crate::peers::Etcd;

/// Whoever waits for a lock that goes round does so for less than this.
const WAIT: Duration = Duration::from_secs(60);

pub(super) struct Contender {
    kind: Arc<Kind>,
    /// How many locks it has used: no name comes again.
    used: Arc<AtomicU64>,
}

enum Kind {
    Library(Locks),
    /// A call that does nothing, which counts as a cycle.
    Livez(Way),
    Service(Way),
    /// One way to each member.
    Etcd(Vec<Way>),
}

/// What came of it: how long each took.
#[derive(Default)]
pub(super) struct Cycles {
    pub(super) times: Vec<Duration>,
    /// Cycles that came to nothing: a node that gets no CPU for as long as a timeout.
    pub(super) failed: usize,
    pub(super) elapsed: Duration,
}

/// Somebody who can lock.
enum Worker {
    Library(Locks),
    Livez(Connection),
    Service(Connection),
    /// With a lease of its own.
    Etcd(Connection, Value),
}

/// What a worker holds.
enum Held {
    Guard(Guard),
    /// What is sent to release it.
    Body(Value),
    Nothing,
}

impl Contender {
    pub(super) fn library(runtime: &Runtime, cluster: &Cluster) -> Result<Self> {
        let locks = runtime.block_on(async {
            let locks = Locks::connect(cluster.urls()).await?;
            locks.ready().await;
            anyhow::Ok(locks)
        })?;
        Ok(Self::of(Kind::Library(locks)))
    }

    pub(super) fn livez(instance: &Instance) -> Self {
        Self::of(Kind::Livez(Way::plain(instance.address())))
    }

    pub(super) fn service(instance: &Instance) -> Self {
        Self::of(Kind::Service(Way::plain(instance.address())))
    }

    pub(super) fn service_by_tls(instance: &Instance, authority: &Authority) -> Result<Self> {
        Ok(Self::of(Kind::Service(Way::by_tls(instance.address(), authority)?)))
    }

    pub(super) fn etcd(etcd: &Etcd) -> Self {
        let ways = etcd.ports().into_iter().map(|port| Way::plain(([127, 0, 0, 1], port).into()));
        Self::of(Kind::Etcd(ways.collect()))
    }

    fn of(kind: Kind) -> Self {
        Self { kind: Arc::new(kind), used: Arc::default() }
    }

    /// So many workers, each with locks of its own, for this time.
    pub(super) async fn cycles(&self, workers: usize, time: Duration) -> Result<Cycles> {
        let mut tasks = vec![];
        for mut worker in self.workers(workers).await? {
            let used = Arc::clone(&self.used);
            tasks.push(async move {
                let (end, mut done) = (Instant::now() + time, Cycles::default());
                while Instant::now() < end {
                    let begun = Instant::now();
                    match worker.cycle(&name(used.fetch_add(1, Ordering::Relaxed))).await {
                        Ok(()) => done.times.push(begun.elapsed()),
                        Err(_) => done.failed += 1,
                    }
                }
                done
            });
        }
        let (begun, mut all) = (Instant::now(), Cycles::default());
        let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
        for task in tasks {
            let done = task.await?;
            all.times.extend(done.times);
            all.failed += done.failed;
        }
        Ok(Cycles { elapsed: begun.elapsed(), ..all })
    }

    /// So many workers that all want one lock: how long it takes from a release to the next holder.
    pub(super) async fn hand_overs(&self, workers: usize, time: Duration) -> Result<Cycles> {
        let lock = name(self.used.fetch_add(1, Ordering::Relaxed));
        let (begun, mut all) = (Instant::now(), Cycles::default());
        let tasks: Vec<_> = self
            .workers(workers)
            .await?
            .into_iter()
            .map(|mut worker| {
                let lock = lock.clone();
                tokio::spawn(async move {
                    let (end, mut holds, mut failed) = (Instant::now() + time, vec![], 0);
                    while Instant::now() < end {
                        let Ok(held) = worker.acquire(&lock, Some(WAIT)).await else {
                            failed += 1;
                            continue;
                        };
                        // Before anybody hears of it.
                        holds.push(Instant::now());
                        failed += usize::from(worker.release(held).await.is_err());
                    }
                    (holds, failed)
                })
            })
            .collect();
        let mut holds = vec![];
        for task in tasks {
            let (held, failed) = task.await?;
            holds.extend(held);
            all.failed += failed;
        }
        holds.sort_unstable();
        all.times = holds.windows(2).map(|pair| pair[1].duration_since(pair[0])).collect();
        Ok(Cycles { elapsed: begun.elapsed(), ..all })
    }

    async fn workers(&self, count: usize) -> Result<Vec<Worker>> {
        let mut workers = vec![];
        for index in 0..count {
            workers.push(match &*self.kind {
                Kind::Library(locks) => Worker::Library(locks.clone()),
                Kind::Livez(way) => Worker::Livez(way.connect().await?),
                Kind::Service(way) => Worker::Service(way.connect().await?),
                Kind::Etcd(ways) => {
                    let mut connection = ways[index % ways.len()].connect().await?;
                    let lease = connection.post("/v3/lease/grant", &json!({ "TTL": 60 })).await?;
                    Worker::Etcd(connection, lease["ID"].clone())
                }
            });
        }
        Ok(workers)
    }
}

impl Worker {
    async fn cycle(&mut self, name: &str) -> Result<()> {
        let held = self.acquire(name, None).await?;
        self.release(held).await
    }

    async fn acquire(&mut self, name: &str, wait: Option<Duration>) -> Result<Held> {
        Ok(match self {
            Self::Library(locks) => {
                let lock = locks.lock(name);
                let lock = if let Some(wait) = wait { lock.wait(wait) } else { lock };
                Held::Guard(lock.acquire().await?)
            }
            Self::Livez(connection) => {
                connection.get("/livez").await?;
                Held::Nothing
            }
            Self::Service(connection) => {
                let wait_ms = wait.unwrap_or_default().as_secs() * 1_000;
                let asked = json!({ "name": name, "ttl_ms": 30_000, "wait_ms": wait_ms });
                let lease = connection.post("/v1/acquire", &asked).await?;
                Held::Body(json!({ "name": name, "token": lease["token"] }))
            }
            Self::Etcd(connection, lease) => {
                let asked = json!({ "name": name, "lease": lease });
                let lock = connection.post("/v3/lock/lock", &asked).await?;
                let key = lock.get("key").context("etcd gave no key")?;
                Held::Body(json!({ "key": key }))
            }
        })
    }

    async fn release(&mut self, held: Held) -> Result<()> {
        match (self, held) {
            (Self::Service(connection), Held::Body(body)) => {
                connection.post("/v1/release", &body).await?;
            }
            (Self::Etcd(connection, _), Held::Body(body)) => {
                connection.post("/v3/lock/unlock", &body).await?;
            }
            (_, Held::Guard(guard)) => {
                guard.release().await?;
            }
            (..) => {}
        }
        Ok(())
    }
}

/// The name of a lock. For etcd's gateway it is base64 as well.
fn name(number: u64) -> String {
    format!("{number:016x}")
}
