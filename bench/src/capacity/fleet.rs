//! Clients of one fleet of servers, what they do, and what the servers tell of it.

use std::time::Duration;

use anyhow::Result;
use tenure::{Guard, Locks, Options, RedisNode};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::cpu_time;

/// After this, nothing is under way any more.
const SETTLED: Duration = Duration::from_millis(10);

/// Clients of one fleet, on a runtime of one thread.
pub(super) struct Fleet {
    pub(super) cluster: Cluster,
    pub(super) runtime: Runtime,
    /// No name is used twice.
    names: usize,
    /// The memory of a server that nobody has used yet.
    pub(super) empty: f64,
}

impl Fleet {
    pub(super) fn start(nodes: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let cluster = Cluster::of(nodes);
        let empty = cluster.info("memory", "used_memory")?;
        Ok(Self { cluster, runtime, names: 0, empty })
    }

    /// Nodes beyond the majority still work when the client has what it wants.
    pub(super) fn settle(&self) {
        self.runtime.block_on(async { tokio::time::sleep(SETTLED).await });
    }

    pub(super) fn connect(&self, count: usize) -> Result<Vec<Locks>> {
        let connect = || {
            let nodes =
                self.cluster.urls().map(|url| RedisNode::parse(&url)).collect::<Result<Vec<_>, _>>()?;
            let mut options = Options::default();
            // A machine that others use is slow, which is no reason to stop.
            options.node_timeout = Some(Duration::from_secs(1));
            self.runtime.block_on(async {
                let locks = Locks::builder().nodes(nodes).defaults(options).build()?;
                locks.ready().await;
                anyhow::Ok(locks)
            })
        };
        (0..count).map(|_| connect()).collect()
    }

    pub(super) fn disconnect(&self, clients: Vec<Locks>) {
        for locks in clients {
            let _ = self.runtime.block_on(locks.shutdown());
        }
    }

    /// So many locks, each of a new name, by so many tasks of each client: what each task got.
    pub(super) fn acquire(
        &mut self,
        clients: &[Locks],
        tasks: usize,
        count: usize,
    ) -> Result<Vec<Vec<Guard>>> {
        let first = self.names;
        self.names += count;
        let workers = clients.len() * tasks;
        self.runtime.block_on(async {
            let mut working = JoinSet::new();
            for worker in 0..workers {
                let locks = clients[worker % clients.len()].clone();
                working.spawn(async move {
                    let mut guards = vec![];
                    for number in (first + worker..first + count).step_by(workers) {
                        guards.push(locks.lock(format!("capacity:{number}")).acquire().await?);
                    }
                    anyhow::Ok(guards)
                });
            }
            let mut guards = vec![];
            while let Some(done) = working.join_next().await {
                guards.push(done??);
            }
            Ok(guards)
        })
    }

    /// Releases them, each task what it has.
    pub(super) fn release(&self, shares: Vec<Vec<Guard>>) -> Result<()> {
        self.runtime.block_on(async {
            let mut working = JoinSet::new();
            for share in shares {
                working.spawn(async move {
                    for guard in share {
                        guard.release().await?;
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(done) = working.join_next().await {
                done??;
            }
            Ok(())
        })
    }

    /// The CPU time of a server, in microseconds.
    pub(super) fn cpu(&self) -> Result<f64> {
        let [user, system] = ["used_cpu_user", "used_cpu_sys"].map(|field| self.cluster.info("cpu", field));
        Ok((user? + system?) * 1e6)
    }

    /// The CPU time of everybody, and of all servers.
    pub(super) fn busy(&self) -> Result<[Duration; 2]> {
        Ok([cpu_time::of_all_processes()?, self.cluster.cpu_time()?])
    }

    /// The memory of a server, in bytes.
    pub(super) fn used(&self) -> Result<f64> {
        self.cluster.info("memory", "used_memory")
    }

    pub(super) fn wire(&self) -> Result<f64> {
        let fields = ["total_net_input_bytes", "total_net_output_bytes"];
        fields.map(|field| self.cluster.info("stats", field)).into_iter().sum()
    }
}
