//! How nodes are, as data. Findings, roles and the like derive their form.

use serde::{Serialize, Serializer};

use super::{microseconds, milliseconds};
use crate::diagnostics::{Finding, NodeReport};
use crate::node::{Persistence, Role};

#[derive(Serialize)]
#[serde(rename = "NodeReport")]
struct NodeForm<'a> {
    node: &'a str,
    reachable: bool,
    votes: bool,
    role: &'a Role,
    version: Option<&'a str>,
    incarnation: Option<&'a str>,
    quarantine_left_ms: Option<u64>,
    clock_offset_us: Option<i64>,
    persistence: Persistence,
    eviction: Option<&'a str>,
    replicas: u32,
    cpu_time_ms: Option<u64>,
    memory_used_bytes: Option<u64>,
    round_trip_us: Option<u64>,
    findings: &'a [Finding],
}

impl Serialize for NodeReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = NodeForm {
            node: &self.node,
            reachable: self.reachable,
            votes: self.votes,
            role: &self.role,
            version: self.version.as_deref(),
            incarnation: self.incarnation.as_deref(),
            quarantine_left_ms: self.quarantine_left.map(milliseconds),
            clock_offset_us: self.clock_offset_us,
            persistence: self.persistence,
            eviction: self.eviction.as_deref(),
            replicas: self.replicas,
            cpu_time_ms: self.cpu_time.map(milliseconds),
            memory_used_bytes: self.memory_used,
            round_trip_us: self.round_trip.map(microseconds),
            findings: &self.findings,
        };
        form.serialize(serializer)
    }
}
