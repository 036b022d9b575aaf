//! The metrics of Tenure: their names, and what is counted when.
//!
//! The lock service serves them to Prometheus. Programs that use the library get the same ones with
//! the feature `metrics`, through the [`metrics`](https://docs.rs/metrics) facade: install the
//! recorder of your choice. Without a recorder an event costs a few nanoseconds and allocates
//! nothing.
//!
//! | metric | kind | labels | |
//! |---|---|---|---|
//! | `tenure_acquires_total` | counter | `outcome`, `group` | acquires that ended |
//! | `tenure_acquire_duration_seconds` | histogram | `outcome` | from the first attempt to the end |
//! | `tenure_extensions_total` | counter | `outcome`, `group` | extensions and renewals |
//! | `tenure_leases_lost_total` | counter | `group` | locks lost while they were renewed here |
//! | `tenure_node_distrusted_total` | counter | `node` | how often a node lost its vote |
//! | `tenure_quorum_nodes` | gauge | | how many nodes must agree |
//! | `tenure_node_*` | gauge | `node` | the state of each node: [`NODE_GAUGES`] |
//!
//! Outcomes of an acquire are [`ACQUIRE_OUTCOMES`], those of an extension [`EXTENSION_OUTCOMES`].
//! Lock names are never labels, because there may be any number of them. To tell locks apart,
//! define groups by name prefix with `Builder::metrics_groups`; all other locks have the group
//! `""`.
//!
//! Counters follow events. Gauges are recorded when you call `Locks::record_nodes`.
#![cfg_attr(feature = "metrics", doc = "", doc = include_str!("metrics/example.md"))]

#[cfg(feature = "metrics")]
pub(crate) mod recorded;

use std::time::Duration;

use tenure_core::Cause;

use crate::diagnostics::NodeReport;
use crate::event::Event;

/// A metric: its name and meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name in Prometheus.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// A gauge of a node.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NodeGauge {
    /// Its name and meaning.
    pub metric: Metric,
    /// Its value in a report; `None` if unknown.
    pub value: fn(&NodeReport) -> Option<f64>,
}

/// What an event counts as. Made by [`Count::of`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Count<'a> {
    /// An acquire ended: [`ACQUIRES`] and [`ACQUIRE_SECONDS`].
    #[non_exhaustive]
    Acquire {
        /// One of [`ACQUIRE_OUTCOMES`].
        outcome: &'static str,
        /// The lock.
        name: &'a str,
        /// How long it took.
        elapsed: Duration,
    },
    /// A lock was extended, or not: [`EXTENSIONS`].
    #[non_exhaustive]
    Extension {
        /// One of [`EXTENSION_OUTCOMES`].
        outcome: &'static str,
        /// The lock.
        name: &'a str,
    },
    /// A lock was lost: [`LEASES_LOST`].
    #[non_exhaustive]
    Lost {
        /// The lock.
        name: &'a str,
    },
    /// A node lost its vote: [`NODE_DISTRUSTED`].
    #[non_exhaustive]
    NodeDistrusted {
        /// The node's address.
        node: &'a str,
    },
}

/// Acquires that ended.
pub const ACQUIRES: Metric =
    metric("tenure_acquires_total", "Finished acquires by outcome.", &["outcome", "group"]);

/// How long acquires took.
pub const ACQUIRE_SECONDS: Metric = metric(
    "tenure_acquire_duration_seconds",
    "Time from the first attempt of an acquire to its end.",
    &["outcome"],
);

/// Extensions and renewals.
pub const EXTENSIONS: Metric =
    metric("tenure_extensions_total", "Extensions and renewals by outcome.", &["outcome", "group"]);

/// Locks that were lost.
pub const LEASES_LOST: Metric =
    metric("tenure_leases_lost_total", "Locks lost while this instance renewed them.", &["group"]);

/// Nodes that lost their vote.
pub const NODE_DISTRUSTED: Metric =
    metric("tenure_node_distrusted_total", "Times a node lost its vote.", &["node"]);

/// The majority.
pub const QUORUM_NODES: Metric = metric("tenure_quorum_nodes", "Number of nodes that must agree.", &[]);

/// The gauges of each node.
pub const NODE_GAUGES: [NodeGauge; 6] = [
    NodeGauge {
        metric: metric("tenure_node_reachable", "Whether a node is connected.", &["node"]),
        value: |node| Some(f64::from(u8::from(node.reachable))),
    },
    NodeGauge {
        metric: metric("tenure_node_votes", "Whether a node votes for new locks.", &["node"]),
        value: |node| Some(f64::from(u8::from(node.votes))),
    },
    NodeGauge {
        metric: metric(
            "tenure_node_quarantine_seconds",
            "Time left until a node in quarantine votes again.",
            &["node"],
        ),
        value: |node| node.quarantine_left.map(|left| left.as_secs_f64()),
    },
    NodeGauge {
        metric: metric(
            "tenure_node_clock_offset_seconds",
            "How far a node's clock is ahead of the median of all nodes.",
            &["node"],
        ),
        value: |node| node.clock_offset_us.map(|offset| offset as f64 / 1e6),
    },
    NodeGauge {
        metric: metric("tenure_node_round_trip_seconds", "Round-trip time of the last command.", &["node"]),
        value: |node| node.round_trip.map(|took| took.as_secs_f64()),
    },
    NodeGauge {
        metric: metric(
            "tenure_node_memory_used_bytes",
            "Memory that a node's server reports using.",
            &["node"],
        ),
        value: |node| node.memory_used.map(|bytes| bytes as f64),
    },
];

/// The outcomes of an acquire.
pub const ACQUIRE_OUTCOMES: [&str; 7] =
    ["acquired", "contended", "unavailable", "clocks_set_back", "too_late", "other_kind", "other"];

/// The outcomes of an extension.
pub const EXTENSION_OUTCOMES: [&str; 3] = ["extended", "lost", "unavailable"];

impl<'a> Count<'a> {
    /// What an event counts as; `None` if it is not counted.
    #[must_use]
    pub const fn of(event: &Event<'a>) -> Option<Self> {
        Some(match *event {
            Event::Acquired { name, elapsed, .. } | Event::PassedOn { name, elapsed, .. } => {
                Self::Acquire { outcome: "acquired", name, elapsed }
            }
            Event::NotAcquired { name, ref cause, elapsed, .. } => {
                Self::Acquire { outcome: outcome(cause), name, elapsed }
            }
            Event::Extended { name, .. } => Self::Extension { outcome: "extended", name },
            Event::NotExtended { name, lost: true, .. } => Self::Extension { outcome: "lost", name },
            Event::NotExtended { name, .. } => Self::Extension { outcome: "unavailable", name },
            Event::Lost { name, .. } => Self::Lost { name },
            Event::NodeDistrusted { node, .. } => Self::NodeDistrusted { node },
            _ => return None,
        })
    }
}

/// The outcome of a failed acquire: one of [`ACQUIRE_OUTCOMES`].
#[must_use]
pub const fn outcome(cause: &Cause) -> &'static str {
    match cause {
        Cause::Contended { .. } => "contended",
        Cause::Unavailable => "unavailable",
        Cause::ClocksSetBack { .. } => "clocks_set_back",
        Cause::TooLate => "too_late",
        Cause::OtherKind { .. } => "other_kind",
        _ => "other",
    }
}

/// The index of the longest group that `name` begins with; `None` if there is none.
#[must_use]
pub fn group(groups: &[String], name: &str) -> Option<usize> {
    let fitting = groups.iter().enumerate().filter(|(_, group)| name.starts_with(group.as_str()));
    fitting.max_by_key(|(_, group)| group.len()).map(|(place, _)| place)
}

const fn metric(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { name, help, labels }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_group_that_a_name_begins_with_counts() {
        let groups = ["a", "a/b", "c"].map(str::to_owned);
        assert_eq!(group(&groups, "a/b/1"), Some(1));
        assert_eq!(group(&groups, "a/1"), Some(0));
        assert_eq!(group(&groups, "b/1"), None);
    }

    #[test]
    fn every_outcome_of_an_acquire_is_in_the_list() {
        let left = Duration::ZERO;
        let causes = [
            Cause::Contended { retry_after: None },
            Cause::Unavailable,
            Cause::ClocksSetBack { left },
            Cause::TooLate,
            Cause::OtherKind { found: tenure_core::Kind::Plain },
        ];
        for cause in causes {
            assert!(ACQUIRE_OUTCOMES.contains(&outcome(&cause)) && outcome(&cause) != "other", "{cause:?}");
        }
    }
}
