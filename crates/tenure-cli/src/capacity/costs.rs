//! What each operation costs: the only place with such numbers.
//!
//! `cargo xtask bench capacity` measures all of them at once, on real Redis 7.0 servers, and prints
//! them in the form of [`Costs::MEASURED`]; `docs/capacity.md` says on what machine, and how far
//! what is computed from them was from what was measured elsewhere. `plan --measured FILE` puts
//! what `tenure bench --json` measured on one's own nodes in their place.

use serde_json::Value;

/// The nodes that [`Costs::client`] is for.
pub(crate) const CLIENT_NODES: f64 = 5.0;

/// What operations cost. CPU times are those of one node's server unless they say otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    /// An acquire with a fence, in µs of CPU: the CPU time of all servers (`INFO cpu`) while many
    /// locks were acquired, each once, divided by locks and servers.
    pub(crate) acquire: Cpu,
    /// A release, measured like an acquire, while those locks were released.
    pub(crate) release: Cpu,
    /// An extension, in µs of CPU: the same locks held by one client over some renewals, less what
    /// idle servers use. Renewals travel together, up to 64 to a message.
    pub(crate) extend_us: f64,
    /// What a lock that is passed on from one client to another costs beyond an acquire and a
    /// release, in µs of CPU: getting in line, the wake-up, the claim. One lock that 16 clients
    /// want, less acquire and release.
    pub(crate) pass_on_us: f64,
    /// The CPU time of the client for a lock, acquired and released, in µs: alone, and with 64
    /// tasks. On [`CLIENT_NODES`] nodes; what it does for each node is most of it.
    pub(crate) client: Cpu,
    /// What an acquire takes beyond the round trip, in µs: one task on loopback, less a bare round
    /// of five questions.
    pub(crate) overhead_us: f64,
    /// The memory of a server for a lock that is held, beside its fence: `used_memory` of `INFO`
    /// with the locks held, less the same when they were released.
    pub(crate) held_bytes: f64,
    /// For a fence that is remembered, with its place in the list of fences: the same after the
    /// release, less before the acquires.
    pub(crate) fence_bytes: f64,
    /// For one who waits in line.
    pub(crate) waiter_bytes: f64,
    /// For a connection.
    pub(crate) connection_bytes: f64,
    /// For a server without any lock.
    pub(crate) server_bytes: f64,
    /// On the wire to and from one node, for an acquire and a release together (`INFO stats`).
    pub(crate) cycle_wire_bytes: f64,
    /// The same for an extension.
    pub(crate) extend_wire_bytes: f64,
}

/// CPU time that depends on how many come together, in µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cpu {
    /// One in each message, from many clients.
    pub(crate) alone: f64,
    /// Each of many in one message: one client with 64 tasks.
    pub(crate) together: f64,
}

impl Costs {
    /// As measured by `cargo xtask bench capacity`.
    pub(crate) const MEASURED: Self = Self {
        acquire: Cpu { alone: 15.9, together: 6.7 },
        release: Cpu { alone: 10.6, together: 2.8 },
        extend_us: 2.5,
        pass_on_us: 69.0,
        client: Cpu { alone: 87.0, together: 10.7 },
        overhead_us: 31.0,
        held_bytes: 165.0,
        fence_bytes: 270.0,
        waiter_bytes: 190.0,
        connection_bytes: 19_000.0,
        server_bytes: 940_000.0,
        cycle_wire_bytes: 600.0,
        extend_wire_bytes: 85.0,
    };

    /// These costs, with what a benchmark measured in their place: the words of `tenure bench
    /// --json`. What it measured too little of stays.
    pub(crate) fn with_measured(mut self, benchmark: &Value) -> Result<Self, String> {
        let loads = benchmark["loads"].as_array().ok_or("it has no \"loads\"")?;
        let load = |clients: u64, tasks: u64| {
            loads.iter().find(|load| load["clients"] == clients && load["tasks"] == tasks)
        };
        let [single, tasks, clients] =
            [(1, 1), (1, 64), (16, 1)].map(|(clients, tasks)| load(clients, tasks));
        let number = |load: Option<&Value>, field: &str| -> Result<Option<f64>, String> {
            let value = load
                .ok_or("a load is missing")?
                .get(field)
                .ok_or_else(|| format!("a load has no {field:?}"))?;
            match value.as_f64() {
                None if value.is_null() => Ok(None),
                Some(number) if number >= 0.0 => Ok(Some(number)),
                _ => Err(format!("{field:?} is {value}")),
            }
        };
        // It does not tell acquires and releases apart: their shares stay as they are.
        let cycle = self.cycle();
        if let Some(alone) = number(clients, "server_cpu_us")? {
            self.acquire.alone *= alone / cycle.alone;
            self.release.alone *= alone / cycle.alone;
        }
        if let Some(together) = number(tasks, "server_cpu_us")? {
            self.acquire.together *= together / cycle.together;
            self.release.together *= together / cycle.together;
        }
        let nodes = benchmark["nodes"].as_array().map_or(CLIENT_NODES, |nodes| nodes.len().max(1) as f64);
        let client =
            |load| Ok::<_, String>(number(load, "client_cpu_us")?.map(|us| us * CLIENT_NODES / nodes));
        self.client.alone = client(single)?.unwrap_or(self.client.alone);
        self.client.together = client(tasks)?.unwrap_or(self.client.together);
        let round_trip = benchmark["majority_rtt_us"].as_f64();
        if let (Some(acquire), Some(round_trip)) = (number(single, "acquire_p50_us")?, round_trip) {
            self.overhead_us = (acquire - round_trip).max(0.0);
        }
        Ok(self)
    }

    /// A lock that is acquired and released.
    pub(crate) fn cycle(&self) -> Cpu {
        let Self { acquire, release, .. } = self;
        Cpu { alone: acquire.alone + release.alone, together: acquire.together + release.together }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn benchmark() -> Value {
        let load = |clients: u64, tasks: u64, server: Value| {
            json!({ "clients": clients, "tasks": tasks, "server_cpu_us": server, "client_cpu_us": 90.0,
                    "acquire_p50_us": 1_050.0 })
        };
        let loads = [load(1, 1, json!(70.0)), load(1, 64, json!(26.0)), load(16, 1, json!(58.0))];
        json!({ "loads": loads, "majority_rtt_us": 1_000.0 })
    }

    #[test]
    fn what_was_measured_takes_the_place_of_what_is_built_in() {
        let costs = Costs::MEASURED.with_measured(&benchmark()).expect("whole");
        let Cpu { alone, together } = costs.cycle();
        assert!((alone - 58.0).abs() < 1e-9 && (together - 26.0).abs() < 1e-9, "{costs:?}");
        let shares = [costs, Costs::MEASURED].map(|costs| costs.acquire.alone / costs.cycle().alone);
        assert!((shares[0] - shares[1]).abs() < 1e-9);
        assert!((costs.overhead_us - 50.0).abs() < 1e-9);
        assert_eq!(costs.client, Cpu { alone: 90.0, together: 90.0 });
    }

    #[test]
    fn what_was_not_measured_stays_and_what_is_something_else_is_refused() {
        let mut far = benchmark();
        far["loads"][2]["server_cpu_us"] = Value::Null;
        let costs = Costs::MEASURED.with_measured(&far).expect("whole");
        assert!((costs.acquire.alone - Costs::MEASURED.acquire.alone).abs() < 1e-9);
        for wrong in [json!({}), json!({ "loads": [] }), json!({ "error": "unavailable" }), json!(7)] {
            assert!(Costs::MEASURED.with_measured(&wrong).is_err(), "{wrong}");
        }
        let mut negative = benchmark();
        negative["loads"][1]["server_cpu_us"] = json!(-1.0);
        assert!(Costs::MEASURED.with_measured(&negative).is_err());
    }
}
