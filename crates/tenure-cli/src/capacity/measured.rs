//! What `bench` has measured.

use std::time::Duration;

use tenure::Persistence;

/// Fewer cycles than this say nothing about what one of them costs a server: what it does besides
/// is more.
const CYCLES_MIN: f64 = 1_000.0;

/// One run of the benchmark.
#[derive(Clone, Debug)]
pub(crate) struct Benchmark {
    pub(crate) nodes: Vec<NodeRun>,
    /// In the order in which they were measured: the first is one task alone.
    pub(crate) loads: Vec<LoadRun>,
    /// From one client's release to another's acquire, of a lock that both want.
    pub(crate) pass_on: Option<Times>,
    /// The nodes are files on this machine.
    pub(crate) embedded: bool,
    pub(crate) elapsed: Duration,
}

/// What was seen of one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeRun {
    pub(crate) node: String,
    pub(crate) votes: bool,
    pub(crate) version: Option<String>,
    pub(crate) persistence: Persistence,
    /// While nothing else was asked; `None` if it did not answer.
    pub(crate) round_trip: Option<Duration>,
    /// Why it does not vote.
    pub(crate) error: Option<String>,
}

/// What one load came to: so many clients, each with so many tasks that acquire and release.
#[derive(Clone, Debug)]
pub(crate) struct LoadRun {
    pub(crate) clients: usize,
    pub(crate) tasks: usize,
    pub(crate) elapsed: Duration,
    pub(crate) cycles: usize,
    pub(crate) failed: usize,
    pub(crate) acquire: Times,
    pub(crate) release: Times,
    /// What this process used, in cores.
    pub(crate) client_cpu: f64,
    /// What each node's server used, in cores; `None` if it does not tell.
    pub(crate) server_cpu: Vec<Option<f64>>,
    /// How busy this machine was, of all its cores; `None` if it does not tell.
    pub(crate) machine: Option<f64>,
}

/// The middle of what was measured, and what one in a hundred exceeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Benchmark {
    /// The votes that a lock needs.
    pub(crate) fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// The nodes that answer, the nearest first.
    pub(crate) fn by_distance(&self) -> Vec<(&NodeRun, Duration)> {
        let mut near: Vec<_> = self
            .nodes
            .iter()
            .filter(|node| node.votes)
            .filter_map(|node| Some((node, node.round_trip?)))
            .collect();
        near.sort_by_key(|(_, round_trip)| *round_trip);
        near
    }

    /// The node whose vote makes the majority: an acquire waits for it.
    pub(crate) fn decisive(&self) -> Option<(&NodeRun, Duration)> {
        self.by_distance().into_iter().nth(self.majority() - 1)
    }

    /// One task alone.
    pub(crate) fn single(&self) -> Option<&LoadRun> {
        self.loads.iter().find(|load| load.clients == 1 && load.tasks == 1)
    }

    /// The load with the most locks per second.
    pub(crate) fn fastest(&self) -> Option<&LoadRun> {
        self.loads.iter().max_by(|a, b| a.per_second().total_cmp(&b.per_second()))
    }
}

/// What a load is called.
pub(crate) fn load_name(clients: usize, tasks: usize) -> String {
    let (count, word) = if clients == 1 { (tasks, "task") } else { (clients, "client") };
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

impl LoadRun {
    pub(crate) fn name(&self) -> String {
        load_name(self.clients, self.tasks)
    }

    /// Locks acquired and released per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.cycles as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The CPU time of this process for each lock, in microseconds.
    pub(crate) fn client_cpu_us(&self) -> Option<f64> {
        self.each(self.client_cpu)
    }

    /// The CPU time of one server for each lock, in microseconds: the middle of all servers.
    pub(crate) fn server_cpu_us(&self) -> Option<f64> {
        let mut known: Vec<f64> = self.server_cpu.iter().flatten().copied().collect();
        known.sort_by(f64::total_cmp);
        self.each(*known.get(known.len() / 2)?)
    }

    fn each(&self, cores: f64) -> Option<f64> {
        (self.cycles as f64 >= CYCLES_MIN).then(|| cores * 1e6 / self.per_second())
    }
}

impl Times {
    pub(crate) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let at = |percent| times.get((times.len() - 1) * percent / 100).copied();
        if times.is_empty() { None } else { Some(Self { p50: at(50)?, p99: at(99)? }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = Times::of((1..=200).rev().map(Duration::from_micros).collect()).expect("some");
        assert_eq!((times.p50.as_micros(), times.p99.as_micros()), (100, 198));
        assert_eq!(Times::of(vec![]), None);
    }
}
