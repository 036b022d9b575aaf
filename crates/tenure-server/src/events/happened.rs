//! One event, as it is told.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tenure::{Event, Fence};
use utoipa::ToSchema;

use crate::form::milliseconds;
use crate::metrics::outcome;

/// Something that happened to a lock or a node. What it does not have is left out.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct Happened {
    #[serde(skip)]
    pub(crate) kind: &'static str,
    /// When, by the wall clock: Unix time.
    time_ms: u64,
    /// The lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<Box<str>>,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    /// Why the lock was not acquired.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_for_ms: Option<u64>,
    /// How long this instance held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiters: Option<u64>,
    /// What the holder wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<Box<str>>,
    /// Why a node does not vote.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Box<str>>,
}

impl Happened {
    /// What is told of an event; `None` if it only says how something comes about.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        let lock = |kind, name: &str| Self { kind, name: Some(name.into()), ..Self::default() };
        let valid = |kind, name: &str, valid_for: Duration| Self {
            valid_for_ms: Some(milliseconds(valid_for)),
            ..lock(kind, name)
        };
        let node = |kind, node: &str| Self { kind, node: Some(node.into()), ..Self::default() };
        let told = match event {
            Event::Acquired { name, attempts, elapsed, fence, .. } => Self {
                fence: known(*fence),
                attempts: Some(*attempts),
                elapsed_ms: Some(milliseconds(*elapsed)),
                ..lock("acquired", name)
            },
            Event::Waiting { name, ahead, waiters, holder, .. } => Self {
                ahead: Some(*ahead),
                waiters: Some(*waiters),
                label: holder.map(Into::into),
                ..lock("waiting", name)
            },
            Event::NotAcquired { name, cause, attempts, elapsed, .. } => Self {
                cause: Some(outcome(cause)),
                attempts: Some(*attempts),
                elapsed_ms: Some(milliseconds(*elapsed)),
                ..lock("not_acquired", name)
            },
            Event::Extended { name, valid_for, .. } => valid("extended", name, *valid_for),
            Event::NotExtended { name, valid_for, .. } => valid("not_extended", name, *valid_for),
            Event::AtRisk { name, valid_for, .. } => valid("at_risk", name, *valid_for),
            Event::Safe { name, valid_for, .. } => valid("safe", name, *valid_for),
            Event::Lost { name, valid_for, .. } => valid("lost", name, *valid_for),
            Event::GivenUp { name, fence, held, .. } => {
                Self { fence: known(*fence), held_ms: held.map(milliseconds), ..lock("given_up", name) }
            }
            Event::NodeDistrusted { node: of, distrust, .. } => {
                Self { reason: Some(distrust.to_string().into()), ..node("node_distrusted", of) }
            }
            Event::NodeTrusted { node: of, .. } => node("node_trusted", of),
            _ => return None,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(Self { time_ms: milliseconds(now), ..told })
    }
}

fn known(fence: Fence) -> Option<u64> {
    (fence != Fence::NONE).then(|| fence.get())
}
