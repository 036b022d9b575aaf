//! How the nodes are: facts and findings, with advice.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Distrust, Fault, Rounded};

use crate::Locks;
use crate::driver::{Call, Surveyed};
use crate::node::{Persistence, Role, Server};

/// A clock that is further than this from the others is worth a look: time servers keep it within a
/// tenth of it.
const CLOCK_OFFSET_MAX: Duration = Duration::from_millis(100);

/// The state of one node, with advice. Made by [`Locks::nodes`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeReport {
    /// Its address, as in votes and errors.
    pub node: Arc<str>,
    /// Whether it is connected right now.
    pub reachable: bool,
    /// Whether it votes for new locks right now.
    pub votes: bool,
    /// The role of its server.
    pub role: Role,
    /// Name and version of its server.
    pub version: Option<Arc<str>>,
    /// Identifies the current life of its memory; if it changes, the node may have forgotten locks.
    pub incarnation: Option<String>,
    /// How much longer it does not vote because it may have forgotten locks.
    pub quarantine_left: Option<Duration>,
    /// How far its clock is ahead of the median of all nodes, in microseconds; negative if behind.
    pub clock_offset_us: Option<i64>,
    /// What its server keeps across a restart.
    pub persistence: Persistence,
    /// Its server's eviction policy when memory is full; `None` if it evicts nothing.
    pub eviction: Option<Arc<str>>,
    /// How many replicas its server has.
    pub replicas: u32,
    /// The CPU time that its server has used since it started.
    pub cpu_time: Option<Duration>,
    /// The memory that its server uses, in bytes.
    pub memory_used: Option<u64>,
    /// The round trip of the last command.
    pub round_trip: Option<Duration>,
    /// Problems and remarks, the worst first.
    pub findings: Vec<Finding>,
}

/// A problem or remark about a node, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub kind: FindingKind,
    /// What was found.
    pub message: String,
    /// What to do.
    pub advice: &'static str,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Severity {
    /// For information.
    Info,
    /// A protection is off or trouble is near, but locks work.
    Warn,
    /// The node is not used.
    Refuse,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum FindingKind {
    /// The node cannot be reached.
    Unreachable,
    /// Its server must not be a node: a replica, part of a cluster, the same server twice,
    /// different settings.
    Unfit,
    /// It may have forgotten locks and does not vote for a while.
    Quarantined,
    /// Its clock jumped, or is far from the others.
    Clock,
    /// Its clock was set back behind fences that it granted: until the clock has passed them, it
    /// grants no new ones for those locks.
    FencesAhead,
    /// Its server has replicas, so a failover could replace it with an older copy.
    Replicas,
    /// Its server evicts keys when its memory is full.
    Eviction,
    /// Its server forgets locks when it restarts.
    Persistence,
    /// This user lacks a permission that a protection needs.
    Permission,
    /// Its server does not identify itself, so some faults go unnoticed.
    Identity,
    /// It lost its memory before.
    Returned,
    /// The file of an embedded store cannot be read or written.
    Store,
}

impl Locks {
    /// Checks every node: is it reachable, fit and trusted, what about its clock, persistence and
    /// replicas? Findings come with advice. Takes about a second at most.
    ///
    /// # Cancel safety
    /// It changes nothing, so it may be dropped at any time.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// for node in locks.nodes().await {
    ///     println!("{}: votes: {}", node.node, node.votes);
    ///     for finding in &node.findings {
    ///         println!("  {finding}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn nodes(&self) -> Vec<NodeReport> {
        self.ready().await;
        // A worker that is gone has no nodes any more.
        let surveyed = self.inner.call(|reply| Call::Nodes { reply }).await.unwrap_or_default();
        self.inner.addresses.iter().zip(surveyed).map(|(node, surveyed)| report(node, surveyed)).collect()
    }
}

fn report(node: &Arc<str>, Surveyed { report, server }: Surveyed) -> NodeReport {
    let server = server.unwrap_or_default();
    let distrust = report.trust.as_ref().err();
    let mut findings: Vec<Finding> =
        distrust.and_then(|distrust| of_trust(distrust, report.fault.as_ref())).into_iter().collect();
    if report.connected {
        findings.extend(of_clock(report.clock_offset_us, distrust));
        findings.extend(report.fences_ahead.map(of_fences));
        findings.extend(of_server(&server));
        if report.returned {
            let message = "it lost its memory at some point, or may have, and was quarantined".to_owned();
            let advice = "If that was not intended, find out why the server was restarted or flushed";
            findings.push(Finding { severity: Severity::Info, kind: FindingKind::Returned, message, advice });
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    NodeReport {
        node: Arc::clone(node),
        reachable: report.connected,
        votes: report.connected && distrust.is_none(),
        role: server.role,
        version: server.version,
        incarnation: report.nonce.map(|nonce| nonce.to_string()),
        quarantine_left: match distrust {
            Some(Distrust::Quarantined { left }) => Some(*left),
            _ => None,
        },
        clock_offset_us: report.clock_offset_us,
        persistence: server.persistence,
        eviction: server.eviction,
        replicas: server.replicas,
        cpu_time: server.cpu_time,
        memory_used: server.memory_used,
        round_trip: report.round_trip,
        findings,
    }
}

fn of_trust(distrust: &Distrust, fault: Option<&Fault>) -> Option<Finding> {
    let (severity, kind, advice) = match distrust {
        Distrust::Unknown => {
            if let Some(Fault::Store { reason, .. }) = fault {
                let (severity, kind, message) = (Severity::Refuse, FindingKind::Store, reason.to_string());
                let advice = "Fix it: no lock is granted until then. See docs/how-to/run-nodes.md, \
                              Embedded stores";
                return Some(Finding { severity, kind, message, advice });
            }
            let reason = match fault? {
                Fault::Unreachable(reason) => format!("unreachable: {reason}"),
                other => other.to_string(),
            };
            let (message, advice) = match fault? {
                Fault::Misconfigured(_) => (reason, "Fix the settings of this client or of the server"),
                _ => (reason, "Check that the server is up and its address is correct"),
            };
            return Some(Finding {
                severity: Severity::Warn,
                kind: FindingKind::Unreachable,
                message,
                advice,
            });
        }
        Distrust::Unfit(_) => (
            Severity::Refuse,
            FindingKind::Unfit,
            "Remove it from the node list, or fix it as described in docs/how-to/run-nodes.md",
        ),
        Distrust::Barred => {
            (Severity::Refuse, FindingKind::Unfit, "Fix the node that belongs to another fleet first")
        }
        Distrust::Changing { .. } => {
            (Severity::Refuse, FindingKind::Unfit, "Give this client the new node list")
        }
        Distrust::Prepared => {
            (Severity::Warn, FindingKind::Unfit, "Wait for `tenure fleet change`, or run it again")
        }
        Distrust::Quarantined { .. } => (
            Severity::Warn,
            FindingKind::Quarantined,
            "Wait. If nodes restart often, use `appendfsync always` or a shorter max_ttl",
        ),
        _ => (
            Severity::Warn,
            FindingKind::Clock,
            "Synchronise the clocks of all nodes (NTP), and never set them by hand",
        ),
    };
    Some(Finding { severity, kind, message: distrust.to_string(), advice })
}

fn of_clock(offset_us: Option<i64>, distrust: Option<&Distrust>) -> Option<Finding> {
    // Said already, with more.
    if let Some(Distrust::ClockApart { .. } | Distrust::ClockJumped { .. }) = distrust {
        return None;
    }
    let offset = Duration::from_micros(offset_us?.unsigned_abs());
    let direction = if offset_us? < 0 { "behind" } else { "ahead of" };
    (offset > CLOCK_OFFSET_MAX).then(|| Finding {
        severity: Severity::Warn,
        kind: FindingKind::Clock,
        message: format!("its clock is {offset:.2?} {direction} the median of all nodes"),
        advice: "Synchronise the clocks of all nodes (NTP); a node whose clock jumps loses its vote for a \
                 while",
    })
}

fn of_fences(ahead: Duration) -> Finding {
    Finding {
        severity: Severity::Warn,
        kind: FindingKind::FencesAhead,
        message: format!("its clock was set back: it has granted fences {} ahead of it", Rounded(ahead)),
        advice: "Locks with such fences can be acquired once the clock catches up, at once without a \
                 fence, or after the fences are reset: docs/how-to/run-nodes.md, Clocks that were set back",
    }
}

fn of_server(server: &Server) -> Vec<Finding> {
    let warn = |kind, message: String, advice| Finding { severity: Severity::Warn, kind, message, advice };
    let mut findings = vec![];
    if server.replicas > 0 {
        findings.push(warn(
            FindingKind::Replicas,
            format!("it has {} replicas", server.replicas),
            "Nodes need no replicas. A replica that takes over under the same address lacks the latest \
             locks, so the node is quarantined",
        ));
    }
    if let Some(policy) = &server.eviction {
        findings.push(warn(
            FindingKind::Eviction,
            format!("it evicts keys when its memory is full (maxmemory-policy {policy})"),
            "Set maxmemory-policy to noeviction: an evicted lock can be granted to someone else",
        ));
    }
    let forgets = match server.persistence {
        Persistence::None => Some("no persistence: a restart loses all locks"),
        Persistence::Snapshots => Some("only snapshots survive a restart (no append-only file)"),
        Persistence::Log => Some("its append-only file is not synced before every reply"),
        Persistence::Unknown | Persistence::Always => None,
    };
    findings.extend(forgets.map(|message| {
        let advice = "After a restart it is quarantined before it votes, if a client that knew it notices. \
                      With appendonly yes, appendfsync always and no-appendfsync-on-rewrite no it loses \
                      nothing";
        warn(FindingKind::Persistence, message.to_owned(), advice)
    }));
    findings.extend(server.unnamed.map(|off| {
        let message = format!("INFO does not identify the server (run_id, master_replid): {off}");
        let advice = "Use Redis or Valkey. If you must use this server, never restart it while locks are held, and list it once";
        warn(FindingKind::Identity, message, advice)
    }));
    findings.extend(server.unprotected.iter().map(|message| {
        let advice = "Grant the user the permissions listed in docs/how-to/run-nodes.md";
        warn(FindingKind::Permission, (*message).to_owned(), advice)
    }));
    findings
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}. {}", self.severity, self.message, self.advice)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Refuse => "refuse",
        })
    }
}
