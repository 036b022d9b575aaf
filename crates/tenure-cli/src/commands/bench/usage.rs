//! The CPU time that this process, the servers and this machine have used.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tenure::Locks;
use tokio::time::Instant;

/// A server that does not answer within this is left out: a node that hangs must not hold up the
/// benchmark.
const ANSWERS_WITHIN: Duration = Duration::from_millis(600);

/// What has been used up to now.
pub(super) struct Usage {
    process: Duration,
    /// By each node's server, and when it said so; empty if a node did not answer in time.
    servers: Vec<Option<Duration>>,
    asked: Instant,
    machine: Option<Machine>,
}

/// In ticks of the kernel, of all cores together.
struct Machine {
    busy: f64,
    all: f64,
}

impl Usage {
    pub(super) async fn now(locks: &Locks) -> Self {
        let process = clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default();
        let machine = Machine::now();
        let asked = Instant::now();
        let reports = tokio::time::timeout(ANSWERS_WITHIN, locks.nodes()).await.unwrap_or_default();
        let servers = reports.iter().map(|report| report.cpu_time.filter(|_| report.reachable)).collect();
        Self { process, servers, asked, machine }
    }

    /// What this process used since, in cores.
    pub(super) fn process_since(&self, before: &Self, elapsed: Duration) -> f64 {
        self.process.saturating_sub(before.process).div_duration_f64(elapsed)
    }

    /// What each server used since, in cores.
    pub(super) fn servers_since(&self, before: &Self, nodes: usize) -> Vec<Option<f64>> {
        let elapsed = self.asked - before.asked;
        let of = |index: usize| {
            let (now, then) = (*self.servers.get(index)?, *before.servers.get(index)?);
            Some(now?.saturating_sub(then?).div_duration_f64(elapsed))
        };
        (0..nodes).map(of).collect()
    }

    /// How busy this machine was since, of all its cores.
    pub(super) fn machine_since(&self, before: &Self) -> Option<f64> {
        let (now, then) = (self.machine.as_ref()?, before.machine.as_ref()?);
        let all = now.all - then.all;
        (all > 0.0).then(|| (now.busy - then.busy) / all)
    }
}

impl Machine {
    /// From the kernel, where it tells.
    fn now() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let ticks: Vec<f64> =
            stat.lines().next()?.split_whitespace().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
        // User, nice, system, idle, waiting for the disk, two kinds of interrupts.
        let [user, nice, system, idle, waiting, hard, soft] = *ticks.first_chunk::<7>()?;
        let busy = user + nice + system + hard + soft;
        Some(Self { busy, all: busy + idle + waiting })
    }
}
