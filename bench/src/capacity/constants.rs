//! Everything that the tool has a number for: costs, fitted to what was measured, and what each
//! thing that a server keeps needs of its memory.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tenure::{Guard, Locks};
use tokio::task::JoinSet;

use super::cost::Cost;
use super::fleet::Fleet;
use super::{CLIENTS, FIVE, TASKS, TASKS_CHECKED, THREE};
use crate::client::{Client, FloorClient};
use crate::measure::{Percentiles, micros};

/// Names for the memory of a fence.
const NAMES: usize = 20_000;

const WAITERS: usize = 2_000;

/// After this, a server has shrunk what it had for a connection.
const QUIET: Duration = Duration::from_secs(2);

/// Held to be renewed, with a ttl that makes each be renewed every second.
const RENEWED: usize = 4_000;
const RENEWED_TTL: Duration = Duration::from_secs(3);

/// Everything that the tool has a number for.
pub(super) struct Constants {
    pub(super) alone: Cost,
    /// Fitted to what 16 tasks cost, for 64.
    pub(super) together: Cost,
    pub(super) client_single: f64,
    extend: f64,
    extend_wire: f64,
    pass_on: f64,
    pub(super) overhead: f64,
    memory: Memory,
    waiter: f64,
    connection: f64,
    server: f64,
}

/// Of one server, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    held: f64,
    fence: f64,
    /// In all, while nothing is held.
    pub(super) used: f64,
    pub(super) names: usize,
}

impl Fleet {
    pub(super) fn constants(&mut self, costs: &[Vec<Cost>], time: Duration) -> Result<Constants> {
        let mean = |case: usize| Cost::mean(&costs[THREE][case], &costs[FIVE][case]);
        let (alone, together) = (mean(0), mean(1));
        // Servers that nobody has used yet, so that no memory of others is in between.
        let memory = Fleet::start(1)?.memory(NAMES)?;
        let fresh = Fleet::start(1)?;
        let connection = fresh.connection()?;
        let waiter = fresh.waiter()?;
        let clients = self.connect(CLIENTS)?;
        let pass_on = self.pass_on(&clients, time)? - alone.server();
        self.disconnect(clients);
        let (extend, extend_wire) = self.extend()?;
        Ok(Constants {
            alone,
            together: alone.together(&together, TASKS, TASKS_CHECKED),
            client_single: costs[FIVE][3].client,
            extend,
            extend_wire,
            pass_on: pass_on.max(0.0),
            overhead: self.overhead(time)?,
            memory,
            waiter,
            connection,
            server: self.empty,
        })
    }

    /// What locks and fences of so many new names need.
    pub(super) fn memory(&mut self, names: usize) -> Result<Memory> {
        let clients = self.connect(1)?;
        let before = self.used()?;
        let guards = self.acquire(&clients, TASKS_CHECKED, names)?;
        self.settle();
        let held = self.used()?;
        self.release(guards)?;
        self.settle();
        let used = self.used()?;
        self.disconnect(clients);
        let each = 1.0 / names as f64;
        Ok(Memory { held: (held - used) * each, fence: (used - before) * each, used: used - before, names })
    }

    /// What a connection needs.
    fn connection(&self) -> Result<f64> {
        // Scripts and the record come with the first.
        self.disconnect(self.connect(1)?);
        let before = self.used()?;
        let clients = self.connect(CLIENTS)?;
        // Servers shrink the buffers of connections that are quiet.
        std::thread::sleep(QUIET);
        let connection = (self.used()? - before) / CLIENTS as f64;
        self.disconnect(clients);
        Ok(connection)
    }

    /// What one who waits in line needs.
    fn waiter(&self) -> Result<f64> {
        let clients = self.connect(CLIENTS)?;
        let each = self.runtime.block_on(async {
            let guard = clients[0].lock("awaited").acquire().await?;
            let before = self.used()?;
            let mut waiting = JoinSet::new();
            for number in 0..WAITERS {
                waiting.spawn(clients[number % clients.len()].lock("awaited").wait_forever().acquire());
            }
            while clients[0].inspect("awaited").await?.waiters != Some(WAITERS as u64) {}
            let used = self.used()?;
            waiting.shutdown().await;
            guard.release().await?;
            anyhow::Ok((used - before) / WAITERS as f64)
        })?;
        self.disconnect(clients);
        Ok(each)
    }

    /// What a lock costs that all clients want.
    fn pass_on(&self, clients: &[Locks], time: Duration) -> Result<f64> {
        let before = self.cpu()?;
        let end = Instant::now() + time;
        let done = self.runtime.block_on(async {
            let mut working = JoinSet::new();
            for locks in clients {
                let lock = locks.lock("wanted").wait_forever();
                working.spawn(async move {
                    let mut done = 0;
                    while Instant::now() < end {
                        lock.acquire().await?.release().await?;
                        done += 1;
                    }
                    anyhow::Ok(done)
                });
            }
            let mut all = 0;
            while let Some(done) = working.join_next().await {
                all += done??;
            }
            anyhow::Ok(all)
        })?;
        ensure!(done > 0, "the lock was never passed on");
        Ok((self.cpu()? - before) / f64::from(done))
    }

    /// What a renewal costs, and its bytes: as those of one client that holds many locks.
    fn extend(&mut self) -> Result<(f64, f64)> {
        let clients = self.connect(1)?;
        let pause = || self.runtime.block_on(async { tokio::time::sleep(RENEWED_TTL).await });
        let (idle, idle_wire) = (self.cpu()?, self.wire()?);
        pause();
        let (idle, idle_wire) = (self.cpu()? - idle, self.wire()? - idle_wire);
        let guards = self.runtime.block_on(async {
            let mut guards = vec![];
            for number in 0..RENEWED {
                guards.push(clients[0].lock(format!("renewed:{number}")).ttl(RENEWED_TTL).acquire().await?);
            }
            anyhow::Ok(guards)
        })?;
        pause();
        let (cpu, wire) = (self.cpu()?, self.wire()?);
        pause();
        let (cpu, wire) = (self.cpu()? - cpu - idle, self.wire()? - wire - idle_wire);
        // A third of the ttl after the last.
        let renewals = 3.0 * RENEWED as f64;
        ensure!(guards.iter().all(Guard::is_valid), "a lock was lost");
        self.release(vec![guards])?;
        self.disconnect(clients);
        Ok(((cpu / renewals).max(0.0), (wire / renewals).max(0.0)))
    }

    /// What one acquire takes longer than five bare commands, until the third answer.
    fn overhead(&self, time: Duration) -> Result<f64> {
        let mut floor = FloorClient::connect(&self.cluster, 1, "bare")?;
        let bare = floor.work(time)?.cycles.iter().map(|cycle| cycle.acquire).collect();
        Box::new(floor).finish()?;
        let clients = self.connect(1)?;
        let end = Instant::now() + time;
        let acquires = self.runtime.block_on(async {
            let mut acquires = vec![];
            while Instant::now() < end {
                let begun = Instant::now();
                let guard = clients[0].lock("single").acquire().await?;
                acquires.push(begun.elapsed());
                guard.release().await?;
            }
            anyhow::Ok(acquires)
        })?;
        self.disconnect(clients);
        Ok((micros(Percentiles::of(acquires).p50) - micros(Percentiles::of(bare).p50)).max(0.0))
    }
}

impl Constants {
    /// As `crates/tenure-cli/src/capacity/costs.rs` has them.
    pub(super) fn print(&self, json: bool) {
        let Self { alone, together, memory, .. } = self;
        let numbers = [
            ("acquire.alone", alone.acquire),
            ("acquire.together", together.acquire),
            ("release.alone", alone.release),
            ("release.together", together.release),
            ("extend_us", self.extend),
            ("pass_on_us", self.pass_on),
            ("client.alone", self.client_single),
            ("client.together", together.client),
            ("overhead_us", self.overhead),
            ("held_bytes", memory.held),
            ("fence_bytes", memory.fence),
            ("waiter_bytes", self.waiter),
            ("connection_bytes", self.connection),
            ("server_bytes", self.server),
            ("cycle_wire_bytes", alone.wire),
            ("extend_wire_bytes", self.extend_wire),
        ];
        if !json {
            println!("costs, per node (client: per lock on five nodes); CPU in microseconds");
        }
        for (name, number) in numbers {
            if json {
                println!(r#"{{"cost":"{name}","value":{number:.2}}}"#);
            } else {
                println!("  {name:20}{number:>14.2}");
            }
        }
    }
}
