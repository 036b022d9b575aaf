//! Four times as much as an instance can do: new work waits or is refused, and whoever has a lease
//! keeps it.
//!
//! Requests leave at their times, whether or not earlier ones were answered, as long as there is a
//! free connection. The instance has a core to itself; its five nodes and those who ask share
//! another. The figures say who took how much.

mod leases;
mod load;

use std::process::id;
use std::sync::Arc;
use std::thread::{scope, spawn};
use std::time::{Duration, Instant};

use tenure_testkit::RedisServer;
use tenure_testkit::proc::{cpu_time, keep_on, keep_thread_on, prefer};

use self::leases::Leases;
use self::load::{Load, Tally};
use crate::campaign::{Extent, campaign, say};
use crate::instances::{Instance, Nodes};
use crate::wire::allow_connections;

/// How much more than it can do is asked of it.
const TIMES: f64 = 4.0;

/// So many at a time ask for locks when nobody asks for more than that: the best of these counts.
const CLOSED: [usize; 3] = [32, 64, 128];
const CLOSED_IN_SLICE: [usize; 1] = [4];

/// Below this the machine's scheduler decides how long a call takes.
const FLOOR: Duration = Duration::from_millis(1);

#[test]
fn four_times_what_an_instance_can_do_costs_nobody_its_lease() {
    // In a thread of its own, which is kept on a processor.
    campaign("overload", |extent, _| spawn(move || run(extent)).join().unwrap());
}

fn run(extent: Extent) -> String {
    let (count, connections) = extent.of((60, 50), (1_000, 4_000));
    let [short, long] = extent.of([600, 1_000], [5_000, 20_000]).map(Duration::from_millis);
    allow_connections(count + connections);
    let nodes = Nodes::start_with("connections_max = 6_000\n");
    let [instance]: [Instance; 1] = nodes.instances();
    // Else whoever asks takes the processor from whoever is asked, which does not happen on
    // machines of their own.
    if extent == Extent::Whole {
        keep_thread_on(1);
        for server in &nodes.servers {
            keep_on(1, server.pid());
            prefer(server.pid());
        }
        keep_on(0, instance.process().pid());
    }
    let leases = Arc::new(Leases::default());
    scope(|threads| {
        // A thread of their own: whoever waits for a core among those who ask would measure that.
        let keepers = threads.spawn(|| leases.keep(instance.address(), count));
        let ending = leases.ending();
        leases.are_all_there(count);
        let quiet = || {
            leases.times();
            std::thread::sleep(short);
            p99(leases.times())
        };
        let (at_most, before) = (|| peak(&instance, extent, short), quiet());
        let best = at_most();
        say(&format!("unloaded, an extension takes {before:?}; at most {best:.0} cycles/s"));
        // A slice shares the machine with others.
        let (rate, used) = (extent.of(200.0, best * TIMES), Used::now(&instance, &nodes));
        leases.times();
        let tally = Load { address: instance.address(), connections }.open(rate, long);
        let (during, used) = (p99(leases.times()), used.until_now(&instance, &nodes));
        let (goodput, refused) = (tally.cycles_per_second(), tally.refused_per_second());
        say(&format!("overloaded: {during:?}, {goodput:.0} cycles/s; {tally:?}; cores: {used:?}"));
        let (after, best_after) = (quiet(), at_most());
        drop(ending);
        keepers.join().unwrap();
        say(&format!("afterwards {after:?}, {best_after:.0} cycles/s"));
        if extent == Extent::Whole {
            // Targets are in `docs/explanation/overload.md`, with the figures that were reached.
            assert!(goodput >= 0.6 * best, "{goodput:.0} cycles/s of {best:.0}");
            assert!(after <= 4 * before.max(FLOOR), "an extension takes {after:?} since, {before:?} before");
            assert!(best_after >= 0.7 * best, "{best_after:.0} cycles/s since, {best:.0} before");
        }
        let deadline = Instant::now() + Duration::from_secs(15);
        while !nodes.left().is_empty() {
            assert!(Instant::now() < deadline, "{:?}", nodes.left());
            std::thread::sleep(Duration::from_millis(50));
        }
        let [before, during, after] = [before, during, after].map(|time| time.as_secs_f64() * 1e3);
        format!(
            "{count} of {count} leases lived; p99 of their extensions {before:.1} ms unloaded, {during:.1} ms under \
             load, {after:.1} ms afterwards; {goodput:.0} cycles/s beside {refused:.0} refusals, {best:.0} at most, \
             {best_after:.0} afterwards; cores used: service {:.2}, nodes {:.2}, those who ask {:.2}",
            used.service, used.nodes, used.own
        )
    })
}

/// How many cycles a second there are when each asks as soon as it has its answer.
fn peak(instance: &Instance, extent: Extent, time: Duration) -> f64 {
    let rate = |connections| {
        let tally: Tally = Load { address: instance.address(), connections }.closed(time);
        tally.cycles_per_second()
    };
    extent.of(&CLOSED_IN_SLICE[..], &CLOSED).iter().map(|connections| rate(*connections)).fold(0.0, f64::max)
}

/// How many cores are used by whom.
#[derive(Debug)]
struct Used {
    since: Instant,
    service: f64,
    nodes: f64,
    own: f64,
}

impl Used {
    fn now(instance: &Instance, nodes: &Nodes) -> Self {
        let of_nodes: Duration = nodes.servers.iter().map(RedisServer::cpu_time).sum();
        Self {
            since: Instant::now(),
            service: instance.process().cpu_time().as_secs_f64(),
            nodes: of_nodes.as_secs_f64(),
            own: cpu_time(id()).as_secs_f64(),
        }
    }

    fn until_now(&self, instance: &Instance, nodes: &Nodes) -> Self {
        let now = Self::now(instance, nodes);
        let share = |now: f64, then: f64| (now - then) / self.since.elapsed().as_secs_f64();
        Self {
            since: self.since,
            service: share(now.service, self.service),
            nodes: share(now.nodes, self.nodes),
            own: share(now.own, self.own),
        }
    }
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get((times.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
}
