//! What keeps locks from being faster, as far as a benchmark can tell: one sentence about the time
//! that one lock takes, one about how many there can be.

use std::time::Duration;

use tenure::Persistence;

use super::measured::{Benchmark, LoadRun, NodeRun};

/// A core, or all of them, that is busier than this has nothing left to give.
const BUSY: f64 = 0.85;

/// Loads whose acquires take no longer than this many times one alone wait for something that is
/// not used up.
const UNHURRIED: f64 = 2.0;

/// A node that is so many times farther away than the next nearer one is slow.
const SLOW: f64 = 3.0;

/// What the limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// To the node whose vote makes the majority.
    RoundTrip,
    /// The majority needs one that is much farther away than the others, or slower.
    SlowNode,
    /// Servers write to disk before they reply.
    Persistence,
    /// The disk of the embedded store.
    Disk,
    /// This process.
    ClientCpu,
    /// A node's server, which uses one core.
    ServerCpu,
    /// All cores of this machine, by whoever uses them.
    MachineCpu,
    /// Nothing that was measured is used up.
    Unknown,
}

/// What the limit is, with the numbers it was seen by.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) limit: Limit,
    pub(crate) message: String,
}

impl Limit {
    /// For programs.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::RoundTrip => "round_trip",
            Self::SlowNode => "slow_node",
            Self::Persistence => "persistence",
            Self::Disk => "disk",
            Self::ClientCpu => "client_cpu",
            Self::ServerCpu => "server_cpu",
            Self::MachineCpu => "machine_cpu",
            Self::Unknown => "unknown",
        }
    }
}

impl Benchmark {
    /// What one lock after the other waits for.
    pub(crate) fn latency_limit(&self) -> Option<Finding> {
        let single = self.single()?;
        let acquire = single.acquire.p50;
        let took = format!("One lock at a time takes {} to acquire", ms(acquire));
        if self.embedded {
            return Some(disk(single, &took));
        }
        let near = self.by_distance();
        let (node, round_trip) = self.decisive()?;
        let rest = acquire.saturating_sub(round_trip);
        if node.persistence == Persistence::Always && rest > round_trip {
            let message = format!(
                "{took}; {} of that is the round trip, and most of the rest is disk: the servers sync \
                 every write before they reply (appendfsync always)",
                ms(round_trip)
            );
            return Some(Finding { limit: Limit::Persistence, message });
        }
        let place = self.majority() - 1;
        let nearer = place.checked_sub(1).and_then(|place| near.get(place)).map(|(_, nearer)| *nearer);
        if let Some(nearer) = nearer.filter(|nearer| round_trip > nearer.mul_f64(SLOW)) {
            let down = self.nodes.len() - near.len();
            let why = if down > 0 {
                format!(", because {down} of {} nodes do not vote", self.nodes.len())
            } else {
                String::new()
            };
            let message = format!(
                "{took}: a majority needs {}, with a round trip of {}; the next nearest takes {}{why}",
                node.node,
                ms(round_trip),
                ms(nearer)
            );
            return Some(Finding { limit: Limit::SlowNode, message });
        }
        let which = if self.nodes.len() == 1 { "the node" } else { self.ordinal() };
        let message = format!("{took}; the round trip to {which}, {}, takes {}", node.node, ms(round_trip));
        if round_trip >= rest {
            return Some(Finding { limit: Limit::RoundTrip, message });
        }
        let message = format!("{message}; the rest is computation, here and on the servers");
        Some(Finding { limit: Limit::MachineCpu, message })
    }

    /// What keeps the rate from growing.
    pub(crate) fn rate_limit(&self) -> Option<Finding> {
        let fastest = self.fastest()?;
        let rate = format!("{} locks/s with {}", whole(fastest.per_second()), fastest.name());
        let found = |limit, message| Some(Finding { limit, message });
        if fastest.client_cpu >= BUSY {
            let message = format!(
                "{rate}, limited by the CPU of this process ({} of a core); run more processes for more",
                percent(fastest.client_cpu)
            );
            return found(Limit::ClientCpu, message);
        }
        if let Some((node, cpu)) = self.busiest(fastest).filter(|(_, cpu)| *cpu >= BUSY) {
            let message = format!(
                "{rate}, limited by the CPU of {} ({} of the one core its server uses)",
                node.node,
                percent(cpu)
            );
            return found(Limit::ServerCpu, message);
        }
        if let Some(machine) = fastest.machine.filter(|machine| *machine >= BUSY) {
            let message = format!(
                "{rate}, limited by the CPU of this machine ({} of all cores; this process uses {} of one)",
                percent(machine),
                percent(fastest.client_cpu)
            );
            return found(Limit::MachineCpu, message);
        }
        let single = self.single()?;
        if self.embedded {
            return Some(disk(fastest, &rate));
        }
        let unhurried = fastest.acquire.p50 <= single.acquire.p50.mul_f64(UNHURRIED);
        if unhurried && self.decisive().is_some() {
            let Finding { limit, .. } = self.latency_limit()?;
            let message = format!(
                "{rate}, limited by how many run at once: each takes {}, a single one {}, and no CPU is \
                 saturated; run more tasks for more",
                ms(fastest.acquire.p50),
                ms(single.acquire.p50)
            );
            return found(limit, message);
        }
        let busiest = self.busiest(fastest);
        let servers =
            busiest.map_or_else(String::new, |(_, cpu)| format!(", the busiest server {}", percent(cpu)));
        let message = format!(
            "{rate}: nothing measured is saturated (this process {} of a core{servers}); check the network \
             and what else runs on the servers' machines",
            percent(fastest.client_cpu)
        );
        found(Limit::Unknown, message)
    }

    /// The node whose server worked the most.
    fn busiest(&self, load: &LoadRun) -> Option<(&NodeRun, f64)> {
        let known = self.nodes.iter().zip(&load.server_cpu).filter_map(|(node, cpu)| Some((node, (*cpu)?)));
        known.max_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    fn ordinal(&self) -> &'static str {
        match self.majority() {
            2 => "the second-nearest node",
            3 => "the third-nearest node",
            4 => "the fourth-nearest node",
            5 => "the fifth-nearest node",
            _ => "the node that completes the majority",
        }
    }
}

/// A store on disk: what is not computed is waited for.
fn disk(load: &LoadRun, what: &str) -> Finding {
    if load.client_cpu >= BUSY {
        let message = format!("{what}; this process uses {} of a core", percent(load.client_cpu));
        return Finding { limit: Limit::ClientCpu, message };
    }
    let message = format!(
        "{what}; this process computes for {} of the time and waits for the embedded store's disk for the \
         rest",
        percent(load.client_cpu)
    );
    Finding { limit: Limit::Disk, message }
}

/// Milliseconds with as many digits as matter.
pub(crate) fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.1} ms") }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A large number as people read it.
pub(crate) fn whole(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::measured::Times;

    const fn ms_of(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn nodes(round_trips_ms: &[u64]) -> Vec<NodeRun> {
        let node = |(index, ms): (usize, &u64)| NodeRun {
            node: format!("n{index}"),
            votes: *ms > 0,
            version: None,
            persistence: Persistence::None,
            round_trip: (*ms > 0).then(|| ms_of(*ms)),
            error: None,
        };
        round_trips_ms.iter().enumerate().map(node).collect()
    }

    /// A load in which an acquire takes so long, and process, servers and machine are so busy.
    fn load(tasks: usize, acquire: Duration, [client, server, machine]: [f64; 3]) -> LoadRun {
        let times = Times { p50: acquire, p99: acquire };
        LoadRun {
            clients: 1,
            tasks,
            elapsed: Duration::from_secs(1),
            cycles: 1_000 * tasks,
            failed: 0,
            acquire: times,
            release: times,
            client_cpu: client,
            server_cpu: vec![Some(server); 5],
            machine: Some(machine),
        }
    }

    fn benchmark(round_trips_ms: &[u64], loads: [LoadRun; 2]) -> Benchmark {
        let nodes = nodes(round_trips_ms);
        Benchmark { nodes, loads: loads.into(), pass_on: None, embedded: false, elapsed: ms_of(1) }
    }

    fn limits(benchmark: &Benchmark) -> [Limit; 2] {
        [benchmark.latency_limit(), benchmark.rate_limit()].map(|finding| finding.expect("measured").limit)
    }

    #[test]
    fn what_limits_is_told_by_what_is_used_up() {
        let idle = [0.1, 0.1, 0.2];
        let (near, far) = ([1, 1, 1, 1, 1], [1, 1, 50, 50, 50]);
        let one = |ms| load(1, ms_of(ms), idle);
        let many = |ms, busy| load(64, ms_of(ms), busy);
        for (round_trips, loads, expected) in [
            (near, [one(1), many(1, idle)], [Limit::RoundTrip, Limit::RoundTrip]),
            (near, [one(1), many(9, [0.9, 0.9, 0.9])], [Limit::RoundTrip, Limit::ClientCpu]),
            (near, [one(1), many(9, [0.5, 0.97, 0.5])], [Limit::RoundTrip, Limit::ServerCpu]),
            (near, [one(1), many(9, [0.5, 0.3, 0.99])], [Limit::RoundTrip, Limit::MachineCpu]),
            (near, [one(1), many(9, idle)], [Limit::RoundTrip, Limit::Unknown]),
            (far, [one(51), many(51, idle)], [Limit::SlowNode, Limit::SlowNode]),
            ([1, 1, 48, 0, 0], [one(49), many(49, idle)], [Limit::SlowNode, Limit::SlowNode]),
        ] {
            assert_eq!(limits(&benchmark(&round_trips, loads)), expected, "{round_trips:?}");
        }
        let mut synced = benchmark(&near, [one(5), many(5, idle)]);
        synced.nodes.iter_mut().for_each(|node| node.persistence = Persistence::Always);
        assert_eq!(limits(&synced), [Limit::Persistence; 2]);
        let mut embedded = benchmark(&[1], [one(2), many(40, idle)]);
        embedded.embedded = true;
        assert_eq!(limits(&embedded), [Limit::Disk; 2]);
    }

    #[test]
    fn every_sentence_has_a_number() {
        let benchmark =
            benchmark(&[1, 1, 50, 50, 50], [load(1, ms_of(51), [0.1; 3]), load(64, ms_of(51), [0.1; 3])]);
        for finding in [benchmark.latency_limit(), benchmark.rate_limit()].into_iter().flatten() {
            assert!(finding.message.contains("51.0 ms"), "{}", finding.message);
        }
        assert_eq!(whole(1_234_567.8), "1,234,568");
    }
}
