//! What nodes and locks look like as JSON, here and in the tool.

use std::time::Duration;

use serde::Serialize;
use tenure::{Circle, CircleMember, Finding, Kind, NodeReport, Votes};
use utoipa::ToSchema;

/// A node's vote, and how long it took.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Vote {
    node: String,
    vote: Said,
    /// Round-trip time in microseconds.
    rtt_us: u64,
}

/// `unknown`: no answer in time.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Said {
    Granted,
    Refused,
    Unknown,
}

/// One member of a deadlock.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct InCircle {
    /// Its label, if it has one.
    #[schema(required)]
    label: Option<String>,
    /// The lock it holds.
    pub(crate) holds: String,
    /// The lock it waits for.
    waits_for: String,
}

/// The state of a node.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Node {
    node: String,
    /// Whether it is connected now.
    reachable: bool,
    /// Whether it votes for new locks now.
    votes: bool,
    /// Name and version of its server.
    #[schema(required)]
    version: Option<String>,
    /// `master`, `replica`, `cluster`, `sentinel`, `embedded` or `unknown`.
    role: String,
    /// What survives a restart: `none`, `snapshots`, `log`, `always` or `unknown`.
    persistence: String,
    replicas: u32,
    /// Its eviction policy, if it evicts keys when its memory is full.
    #[schema(required)]
    eviction: Option<String>,
    /// Time left in quarantine: it may have forgotten locks and does not vote.
    #[schema(required)]
    quarantine_left_ms: Option<u64>,
    /// How far its clock is ahead of the median of all nodes.
    #[schema(required)]
    clock_offset_us: Option<i64>,
    /// Round-trip time of the last command.
    #[schema(required)]
    rtt_us: Option<u64>,
    /// Findings, the worst first.
    findings: Vec<Noted>,
}

/// A finding about a node, and what to do about it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Finding)]
struct Noted {
    /// `info`, `warn` or `refuse`; with `refuse`, the node is not used.
    severity: String,
    message: String,
    advice: String,
}

/// What the nodes said.
#[must_use]
pub fn votes(given: &Votes) -> Vec<Vote> {
    let vote = |vote: &tenure::NodeVote| Vote {
        node: vote.node.to_string(),
        vote: match &vote.vote {
            Some(tenure::Vote::Granted) => Said::Granted,
            Some(tenure::Vote::Refused(_)) => Said::Refused,
            _ => Said::Unknown,
        },
        rtt_us: microseconds(vote.elapsed),
    };
    given.iter().map(vote).collect()
}

/// The members of a deadlock.
pub(crate) fn deadlock(circle: &Circle) -> Vec<InCircle> {
    let member = |member: &CircleMember| InCircle {
        label: member.label.as_deref().map(str::to_owned),
        holds: member.holds.to_string(),
        waits_for: member.waits_for.to_string(),
    };
    circle.members.iter().map(member).collect()
}

/// The state of a node.
#[must_use]
pub fn node(report: &NodeReport) -> Node {
    let noted = |finding: &Finding| Noted {
        severity: finding.severity.to_string(),
        message: finding.message.clone(),
        advice: finding.advice.to_owned(),
    };
    Node {
        node: report.node.to_string(),
        reachable: report.reachable,
        votes: report.votes,
        version: report.version.as_deref().map(str::to_owned),
        role: format!("{:?}", report.role).to_lowercase(),
        persistence: format!("{:?}", report.persistence).to_lowercase(),
        replicas: report.replicas,
        eviction: report.eviction.as_deref().map(str::to_owned),
        quarantine_left_ms: report.quarantine_left.map(milliseconds),
        clock_offset_us: report.clock_offset_us,
        rtt_us: report.round_trip.map(microseconds),
        findings: report.findings.iter().map(noted).collect(),
    }
}

/// The word for a kind of lock.
#[must_use]
pub const fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Plain => "plain",
        Kind::Reentrant => "reentrant",
        _ => "foreign",
    }
}

/// A duration in whole milliseconds, rounded down.
#[must_use]
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
