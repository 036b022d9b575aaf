//! A plan, as a table for people and as an object for programs.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::bench::rounded;
use super::text::duration;
use crate::capacity::limits::{ms, percent, whole};
use crate::capacity::plan::{Bottleneck, Memory, Plan};

pub(super) fn text(plan: &Plan, placed: &[(String, String)]) -> String {
    let Plan { load, fleets, memory, .. } = plan;
    let may_fail = (load.nodes - 1) / 2;
    let nodes = if *fleets > 1.0 {
        format!(
            "{} in {} fleets of {}; {may_fail} in each may fail",
            whole(fleets * load.nodes as f64),
            whole(*fleets),
            load.nodes
        )
    } else {
        format!("{} in one fleet; {may_fail} may fail", load.nodes)
    };
    let Memory { fences, held, waiters, connections, .. } = *memory;
    let parts =
        [("fences", fences), ("held locks", held), ("waiters", waiters), ("connections", connections)];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, size)| *size >= 1.0)
        .map(|(what, size)| format!("{what} {}", bytes(*size)))
        .collect();
    let rows = [
        ("nodes", nodes),
        (
            "each node",
            format!("{} of a core, {}/s on the wire", percent(plan.node_cores()), bytes(plan.node_network)),
        ),
        ("its memory", format!("{}: {}", bytes(memory.total()), parts.join(", "))),
        (
            "connections",
            format!(
                "{} to each node, {} from each client",
                whole(load.clients),
                whole(plan.connections_per_client)
            ),
        ),
        (
            "all clients",
            format!(
                "{:.2} cores for locks; {} each for the locks it holds",
                plan.client_cpu,
                bytes(plan.client_held_bytes)
            ),
        ),
        (
            "renewals",
            format!("{}/s, each lock every {}", whole(plan.renewals_per_second), duration(load.ttl / 3)),
        ),
        (
            "latency",
            format!(
                "acquire {}, release {}, hand-over {}",
                ms(plan.acquire),
                ms(plan.release),
                ms(plan.pass_on)
            ),
        ),
        (
            "restarts",
            format!(
                "one node at a time: no effect on locks; a majority that forgets: no new locks for {}",
                duration(plan.quarantine)
            ),
        ),
        ("bottleneck", plan.bottleneck()),
    ];
    let mut text = rows.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name:<13}{value}");
        text
    });
    if *fleets > 1.0 {
        let _ = writeln!(
            text,
            "{:<13}of fleets f1 to f{}, a name belongs to the one with the largest MD5(fleet, line feed, \
             name), first eight bytes, big-endian; docs/capacity.md has examples",
            "names",
            whole(*fleets)
        );
    }
    for (name, fleet) in placed {
        let _ = writeln!(text, "{:<13}{name:?} belongs to {fleet}", "place");
    }
    for advice in &plan.advice {
        let _ = writeln!(text, "{:<13}{advice}", "note");
    }
    text
}

pub(super) fn json(plan: &Plan, placed: &[(String, String)]) -> Value {
    let Plan { load, fleets, memory, .. } = plan;
    json!({
        "fleets": fleets,
        "nodes_per_fleet": load.nodes,
        "nodes": fleets * load.nodes as f64,
        "node_cores": rounded(plan.node_cores()),
        "fleet_locks_per_second": plan.fleet_per_second.floor(),
        "fleet_locks_per_second_together": plan.fleet_per_second_together.floor(),
        "node_memory_bytes": memory.total().ceil(),
        "node_memory": {
            "server": memory.server.ceil(),
            "fences": memory.fences.ceil(),
            "held": memory.held.ceil(),
            "waiters": memory.waiters.ceil(),
            "connections": memory.connections.ceil(),
        },
        "node_network_bytes_per_second": plan.node_network.ceil(),
        "node_connections": load.clients.ceil(),
        "client_connections": plan.connections_per_client,
        "clients_cores": rounded(plan.client_cpu),
        "client_memory_bytes": plan.client_held_bytes.ceil(),
        "renewals_per_second": rounded(plan.renewals_per_second),
        "acquire_us": us(plan.acquire),
        "release_us": us(plan.release),
        "hand_over_us": us(plan.pass_on),
        "quarantine_ms": super::milliseconds(plan.quarantine),
        "bottleneck": match plan.bottleneck {
            Bottleneck::NodeCpu => "node_cpu",
            Bottleneck::NodeNetwork => "node_network",
        },
        "message": plan.bottleneck(),
        "advice": plan.advice,
        "placed": placed.iter().map(|(name, fleet)| json!({ "name": name, "fleet": fleet })).collect::<Vec<_>>(),
    })
}

fn us(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1e6)
}

/// A size as people read it.
fn bytes(size: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut size = size.max(0.0);
    let mut unit = 0;
    while size >= 1_000.0 && unit + 1 < units.len() {
        size /= 1_000.0;
        unit += 1;
    }
    if unit == 0 { format!("{size:.0} B") } else { format!("{size:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!([0.0, 999.0, 1_500.0, 2.5e9].map(bytes), ["0 B", "999 B", "1.5 kB", "2.5 GB"]);
    }
}
