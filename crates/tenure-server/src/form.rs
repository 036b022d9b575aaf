//! What nodes and locks look like as JSON, here and in the tool.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::{Finding, NodeReport, NodeVote, Vote, Votes};

/// What the nodes said.
#[must_use]
pub fn votes(given: &Votes) -> Value {
    let vote = |vote: &NodeVote| {
        let said = match &vote.vote {
            Some(Vote::Granted) => "granted",
            Some(Vote::Refused(_)) => "refused",
            _ => "unknown",
        };
        json!({ "node": &*vote.node, "vote": said, "rtt_us": microseconds(vote.elapsed) })
    };
    given.iter().map(vote).collect()
}

/// How a node is.
#[must_use]
pub fn node(report: &NodeReport) -> Value {
    let finding = |finding: &Finding| json!({ "severity": finding.severity.to_string(), "message": finding.message, "advice": finding.advice });
    json!({
        "node": &*report.node,
        "reachable": report.reachable,
        "votes": report.votes,
        "version": report.version.as_deref(),
        "role": format!("{:?}", report.role).to_lowercase(),
        "persistence": format!("{:?}", report.persistence).to_lowercase(),
        "replicas": report.replicas,
        "eviction": report.eviction.as_deref(),
        "quarantine_left_ms": report.quarantine_left.map(milliseconds),
        "clock_offset_us": report.clock_offset_us,
        "rtt_us": report.round_trip.map(microseconds),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// A duration in whole milliseconds, rounded down.
#[must_use]
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
