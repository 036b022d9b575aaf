//! What a lock costs servers and client, and what follows from it for another load.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::cpus;
use super::fleet::Fleet;
use crate::cpu_time;
use crate::measure::{median_of, micros};

/// Locks that are acquired before they are released again, so that the two can be told apart.
const HELD: usize = 2_000;

/// What one kind of client cost on one fleet, in microseconds of CPU for each lock.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    pub(super) acquire: f64,
    pub(super) release: f64,
    pub(super) client: f64,
    pub(super) per_second: f64,
    /// Bytes on the wire to and from one node.
    pub(super) wire: f64,
    /// What other processes used of the machine meanwhile. CPU times do not suffer from it, rates
    /// do.
    pub(super) others: f64,
}

impl Fleet {
    /// What locks cost that nobody else wants, each name used once.
    pub(super) fn cost(&mut self, clients: usize, tasks: usize, time: Duration) -> Result<Cost> {
        let clients = self.connect(clients)?;
        // The scripts and the caches are warm then.
        self.acquire(&clients, tasks, 100)?;
        let wire = self.wire()?;
        let (mut acquire, mut release, mut client, mut elapsed) = (0.0, 0.0, Duration::ZERO, Duration::ZERO);
        let (begun, mut locks, busy_before, own_before) =
            (Instant::now(), 0, self.busy()?, cpu_time::of_this_process());
        while begun.elapsed() < time {
            let (server, own, start) = (self.cpu()?, cpu_time::of_this_process(), Instant::now());
            let guards = self.acquire(&clients, tasks, HELD)?;
            let taken = start.elapsed();
            self.settle();
            let between = self.cpu()?;
            let start = Instant::now();
            self.release(guards)?;
            elapsed += taken + start.elapsed();
            self.settle();
            locks += HELD;
            client += cpu_time::of_this_process() - own;
            acquire += between - server;
            release += self.cpu()? - between;
        }
        let (each, busy_after) = (1.0 / locks as f64, self.busy()?);
        let wire = (self.wire()? - wire) * each;
        let own = cpu_time::of_this_process() - own_before;
        let [all, servers] = [0, 1].map(|which| busy_after[which].saturating_sub(busy_before[which]));
        let others = all.saturating_sub(servers + own).div_duration_f64(begun.elapsed()) / cpus();
        self.disconnect(clients);
        Ok(Cost {
            acquire: acquire * each,
            release: release * each,
            client: micros(client) * each,
            per_second: locks as f64 / elapsed.as_secs_f64(),
            wire,
            others,
        })
    }
}

impl Cost {
    pub(super) fn median(rounds: &[Self]) -> Self {
        let middle = |figure| median_of(rounds, figure);
        Self {
            acquire: middle(|cost| cost.acquire),
            release: middle(|cost| cost.release),
            client: middle(|cost| cost.client),
            per_second: middle(|cost| cost.per_second),
            wire: middle(|cost| cost.wire),
            others: middle(|cost| cost.others),
        }
    }

    pub(super) fn mean(one: &Self, other: &Self) -> Self {
        let mean = |of: fn(&Self) -> f64| f64::midpoint(of(one), of(other));
        Self {
            acquire: mean(|cost| cost.acquire),
            release: mean(|cost| cost.release),
            client: mean(|cost| cost.client),
            per_second: mean(|cost| cost.per_second),
            wire: mean(|cost| cost.wire),
            others: mean(|cost| cost.others),
        }
    }

    pub(super) fn server(&self) -> f64 {
        self.acquire + self.release
    }

    /// From the cost alone and with so many in a message to that with another number: a part is
    /// paid once for the message, the rest for each lock.
    pub(super) fn together(&self, some: &Self, count: usize, other: usize) -> Self {
        let predict = |alone: f64, some: f64| {
            let each = (some * count as f64 - alone) / (count as f64 - 1.0);
            each + (alone - each) / other as f64
        };
        Self {
            acquire: predict(self.acquire, some.acquire),
            release: predict(self.release, some.release),
            client: predict(self.client, some.client),
            ..*some
        }
    }
}
