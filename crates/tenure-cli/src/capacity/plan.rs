//! From a load to machines: nodes and fleets, CPU, memory, connections, network, latency.
//!
//! Every node of a fleet does the same work: each acquire, extension and release goes to all of
//! them. So more nodes make a fleet safer and not faster; what one server's core cannot do is
//! spread over several fleets, by name (`spread.rs`).

use std::time::Duration;

use super::costs::{CLIENT_NODES, Costs};
use super::limits::{percent, whole};
use super::load::Load;

/// A node's core is planned to be used so far: the rest is for bursts, and keeps the line before
/// the server short.
const UTILISATION_MAX: f64 = 0.6;

/// A server executes commands on one core, however many it has.
const SERVER_CORES_MAX: f64 = 1.0;

/// Names are spread over fleets evenly, but some are used more than others.
const IMBALANCE: f64 = 1.1;

/// What a node's network is planned for, in bytes per second each way: a gigabit.
const NETWORK_BYTES: f64 = 125_000_000.0;

/// Redis takes so many clients unless `maxclients` says otherwise.
const CONNECTIONS_MAX: f64 = 10_000.0;

/// Fences that are forgotten lie about for a while: nodes trim every tenth of the retention.
const UNTRIMMED: f64 = 1.1;

/// A waiter that nobody wakes asks by itself, now and then; per second.
const ASKS_PER_WAITER: f64 = 0.007;

/// The memory of a client for a lock that it holds, in bytes (`docs/benchmarks.md`).
const CLIENT_HELD_BYTES: f64 = 1_000.0;

/// What a load needs.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) load: Load,
    pub(crate) fleets: f64,
    /// The share of its cores that each node's server uses, of one at most.
    pub(crate) node_cpu: f64,
    /// What one fleet can do, planned and with clients so busy that locks travel together.
    pub(crate) fleet_per_second: f64,
    pub(crate) fleet_per_second_together: f64,
    pub(crate) memory: Memory,
    /// Of each node, in bytes per second, both ways.
    pub(crate) node_network: f64,
    pub(crate) connections_per_client: f64,
    /// Of all clients together, in cores.
    pub(crate) client_cpu: f64,
    pub(crate) client_held_bytes: f64,
    pub(crate) renewals_per_second: f64,
    pub(crate) acquire: Duration,
    pub(crate) release: Duration,
    pub(crate) pass_on: Duration,
    /// Without new locks after a majority of a fleet's nodes lost its memory.
    pub(crate) quarantine: Duration,
    pub(crate) bottleneck: Bottleneck,
    pub(crate) advice: Vec<String>,
}

/// The memory of each node, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) server: f64,
    pub(crate) fences: f64,
    pub(crate) held: f64,
    pub(crate) waiters: f64,
    pub(crate) connections: f64,
}

/// What is used up first when the load grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bottleneck {
    NodeCpu,
    NodeNetwork,
}

impl Plan {
    pub(crate) fn new(load: Load, costs: &Costs) -> Self {
        let cores = load.cores.min(SERVER_CORES_MAX);
        let (cycle, renewals) = (costs.cycle(), load.held / (load.ttl.as_secs_f64() / 3.0));
        let round_trip = load.round_trip.as_secs_f64();
        let overhead = costs.overhead_us / 1e6;
        // Nobody in line is served more often than once in the time that passing on takes.
        let passed_on = (load.waiters / (2.0 * (round_trip + overhead))).min(load.per_second);
        let beside = renewals * costs.extend_us
            + passed_on * costs.pass_on_us
            + load.waiters * ASKS_PER_WAITER * costs.acquire.alone;
        let cpu = (load.per_second * cycle.alone + beside) / 1e6 / cores;
        let wire = load.per_second * costs.cycle_wire_bytes + renewals * costs.extend_wire_bytes;
        let (by_cpu, by_network) =
            (fleets(cpu, UTILISATION_MAX), fleets(wire, UTILISATION_MAX * NETWORK_BYTES));
        let fleets = by_cpu.max(by_network);
        let share = if fleets > 1.0 { IMBALANCE / fleets } else { 1.0 };
        let node_cpu = cpu * share;
        let most = |cycle_us: f64| {
            let each = cycle_us + beside / load.per_second;
            UTILISATION_MAX * cores * 1e6 / each
        };
        // The line before a server that is busy for this share of the time (M/D/1).
        let queue = node_cpu / (2.0 * (1.0 - node_cpu)) * costs.acquire.alone / 1e6;
        let acquire = round_trip + overhead + queue;
        let memory = Memory {
            server: costs.server_bytes,
            fences: load.names * costs.fence_bytes * UNTRIMMED * share,
            held: load.held * costs.held_bytes * share,
            waiters: load.waiters * costs.waiter_bytes * share,
            connections: load.clients * costs.connection_bytes,
        };
        let mut plan = Self {
            load,
            fleets,
            node_cpu,
            fleet_per_second: most(cycle.alone),
            fleet_per_second_together: most(cycle.together),
            memory,
            node_network: wire * share,
            connections_per_client: fleets * load.nodes as f64,
            client_cpu: load.per_second * costs.client.alone / 1e6 * load.nodes as f64 / CLIENT_NODES,
            client_held_bytes: load.held * CLIENT_HELD_BYTES / load.clients,
            renewals_per_second: renewals,
            acquire: seconds(acquire),
            release: seconds(acquire),
            pass_on: seconds(2.0 * acquire),
            quarantine: load.max_ttl + load.max_ttl / 10,
            bottleneck: if by_network > by_cpu { Bottleneck::NodeNetwork } else { Bottleneck::NodeCpu },
            advice: vec![],
        };
        plan.advice = plan.advise();
        plan
    }

    /// What each node's server uses, in cores.
    pub(crate) fn node_cores(&self) -> f64 {
        self.node_cpu * self.load.cores.min(SERVER_CORES_MAX)
    }

    /// What is used up first, in a sentence.
    pub(crate) fn bottleneck(&self) -> String {
        let most = whole(self.fleet_per_second);
        match self.bottleneck {
            Bottleneck::NodeCpu => format!(
                "the CPU of each node, {} of a core; one fleet can do {most} such locks/s, or {} when \
                 clients are busy enough to send locks in batches",
                percent(self.node_cores()),
                whole(self.fleet_per_second_together)
            ),
            Bottleneck::NodeNetwork => format!(
                "the network of each node: {} of a gigabit each way",
                percent(self.node_network / NETWORK_BYTES)
            ),
        }
    }

    fn advise(&self) -> Vec<String> {
        let Load { nodes, cores, clients, names, .. } = self.load;
        let mut advice = vec![];
        if nodes.is_multiple_of(2) {
            advice.push(format!(
                "{nodes} nodes survive no more failures than {}; use an odd number",
                nodes - 1
            ));
        }
        if nodes < 3 {
            advice.push("fewer than 3 nodes survive no failure".to_owned());
        }
        if cores > SERVER_CORES_MAX {
            advice.push(format!("a server runs commands on one core; {cores} cores do no more than 1"));
        }
        if clients > CONNECTIONS_MAX {
            advice.push(format!(
                "{} connections to each node: raise maxclients (default {})",
                whole(clients),
                whole(CONNECTIONS_MAX)
            ));
        }
        if self.memory.fences > 0.5 * self.memory.total() && self.memory.fences > 1e9 {
            advice.push(format!(
                "most of the memory goes to the fences of {} names, each kept for a day; reuse names, \
                 shorten fence_retention, or state the number of names (--names)",
                whole(names)
            ));
        }
        advice
    }
}

impl Memory {
    pub(crate) fn total(&self) -> f64 {
        let Self { server, fences, held, waiters, connections } = self;
        server + fences + held + waiters + connections
    }
}

/// How many fleets this takes, if one may have so much.
fn fleets(needed: f64, each: f64) -> f64 {
    if needed <= each { 1.0 } else { (needed * IMBALANCE / each).ceil().max(2.0) }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(per_second: f64) -> Load {
        Load {
            per_second,
            held: per_second,
            waiters: 0.0,
            names: 10_000.0,
            clients: 10.0,
            ttl: Duration::from_secs(30),
            max_ttl: Duration::from_secs(60),
            nodes: 5,
            round_trip: Duration::from_millis(1),
            cores: 1.0,
        }
    }

    fn plan(load: Load) -> Plan {
        Plan::new(load, &Costs::MEASURED)
    }

    #[test]
    fn more_load_never_needs_less() {
        type Change = fn(Load, f64) -> Load;
        let changes: [(&str, Change); 5] = [
            ("locks per second", |load, by| Load { per_second: load.per_second * by, ..load }),
            ("held", |load, by| Load { held: load.held * by, ..load }),
            ("waiters", |load, by| Load { waiters: (load.waiters + 1.0) * by, ..load }),
            ("names", |load, by| Load { names: load.names * by, ..load }),
            ("shorter ttl", |load, by| Load { ttl: load.ttl.div_f64(by), ..load }),
        ];
        for (what, change) in changes {
            for per_second in [1.0, 1_000.0, 20_000.0, 1_000_000.0] {
                let mut last = plan(load(per_second));
                for by in (0..40).map(|step| 1.2_f64.powi(step)) {
                    let next = plan(change(load(per_second), by));
                    assert!(next.fleets >= last.fleets, "{what}: {by}");
                    let cpu = |plan: &Plan| plan.node_cpu * plan.fleets;
                    assert!(cpu(&next) >= cpu(&last) * 0.999 / IMBALANCE, "{what}: {by}");
                    assert!(next.node_cpu <= UTILISATION_MAX + 1e-9, "{what}: {by}");
                    last = next;
                }
            }
        }
    }

    #[test]
    fn a_fleet_that_does_all_it_can_needs_no_second_one() {
        let most = plan(load(1.0)).fleet_per_second;
        let at = |share: f64| plan(Load { held: 0.0, ..load(most * share) }).fleets;
        assert!(at(0.99) < 1.5 && at(1.2) > 1.5);
    }

    #[test]
    fn distance_costs_time_and_nothing_else() {
        let far = plan(Load { round_trip: Duration::from_millis(50), ..load(1_000.0) });
        let near = plan(load(1_000.0));
        assert_eq!(far.acquire - near.acquire, Duration::from_millis(49));
        assert_eq!(far.pass_on - near.pass_on, Duration::from_millis(98));
        assert!((far.node_cpu - near.node_cpu).abs() < 1e-12);
    }

    #[test]
    fn half_a_core_does_half() {
        let whole = plan(load(1_000.0));
        let half = plan(Load { cores: 0.5, ..load(1_000.0) });
        assert!((half.node_cpu - 2.0 * whole.node_cpu).abs() < 1e-9);
        let eight = plan(Load { cores: 8.0, ..load(1_000.0) });
        assert!((eight.node_cpu - whole.node_cpu).abs() < 1e-9);
        assert!(eight.advice.iter().any(|advice| advice.contains("one core")), "{:?}", eight.advice);
    }

    #[test]
    fn a_load_that_makes_no_sense_is_refused_by_the_name_of_its_flag() {
        let good = load(1.0);
        assert!(good.check().is_ok());
        for (wrong, flag) in [
            (load(0.0), "--locks-per-second"),
            (load(f64::NAN), "--locks-per-second"),
            (Load { names: 0.0, ..good }, "--names"),
            (Load { nodes: 0, ..good }, "--nodes"),
            (Load { nodes: 16, ..good }, "--nodes"),
            (Load { cores: 0.0, ..good }, "--cores"),
            (Load { round_trip: Duration::ZERO, ..good }, "--rtt"),
            (Load { round_trip: Duration::from_secs(2), ..good }, "--ttl"),
        ] {
            let problem = wrong.check().expect_err(flag);
            assert!(problem.contains(flag), "{problem}");
        }
    }
}
