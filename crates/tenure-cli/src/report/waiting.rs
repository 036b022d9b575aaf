//! One who waits for a lock.

use std::time::UNIX_EPOCH;

use serde_json::Value;
use tenure::{Circle, CircleMember, WaiterReport};
use tenure_server::form::milliseconds;

use super::{each, text};

/// One who waits for a lock.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) client: String,
    pub(crate) label: Option<String>,
    /// By the clocks of the nodes, since 1970.
    pub(crate) since_ms: u64,
    pub(crate) shared: bool,
    /// The locks that it keeps meanwhile.
    pub(crate) keeps: Vec<String>,
}

/// A deadlock, as a service tells it.
pub(crate) fn circle(told: &Value) -> Circle {
    let word = |value: &Value| text(value).unwrap_or_default();
    let member = |told: &Value| {
        CircleMember::new(told["label"].as_str(), &word(&told["holds"]), &word(&told["waits_for"]))
    };
    told.as_array().into_iter().flatten().map(member).collect()
}

impl From<&WaiterReport> for Waiting {
    fn from(waiter: &WaiterReport) -> Self {
        Self {
            client: waiter.ticket.client.to_string(),
            label: waiter.label.as_ref().map(ToString::to_string),
            since_ms: milliseconds(waiter.since.duration_since(UNIX_EPOCH).unwrap_or_default()),
            shared: waiter.shares,
            keeps: waiter.keeps.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Waiting {
    /// As a service tells it.
    pub(super) fn read(told: &Value) -> Self {
        Self {
            client: text(&told["client"]).unwrap_or_default(),
            label: text(&told["label"]),
            since_ms: told["since_ms"].as_u64().unwrap_or_default(),
            shared: told["shared"] == true,
            keeps: each(&told["keeps"], |name| text(name).unwrap_or_default()),
        }
    }
}
