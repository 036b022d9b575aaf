//! An event, as data: one line of a log.

use serde::{Serialize, Serializer};

use super::{milliseconds, number};
use crate::circle::Circle;
use crate::error::votes::Votes;
use crate::event::Event;
use crate::metrics::outcome;

/// What an event does not have is left out.
#[derive(Default, Serialize)]
#[serde(rename = "Event")]
struct EventForm<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    margin: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    passed_on_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_for_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    votes: Option<&'a Votes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiters: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asks_in_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    circle: Option<&'a Circle>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distrust: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EventForm::of(self).serialize(serializer)
    }
}

impl<'a> EventForm<'a> {
    fn of(event: &Event<'a>) -> Self {
        let valid = |event, name, valid_for, fence| Self {
            valid_for_ms: Some(milliseconds(valid_for)),
            fence: number(fence),
            ..Self::lock(event, name)
        };
        match *event {
            Event::Acquired { name, attempts, elapsed, margin, fence, passed_on_after } => Self {
                attempts: Some(attempts),
                elapsed_ms: Some(milliseconds(elapsed)),
                margin: Some(margin),
                fence: number(fence),
                passed_on_after_ms: passed_on_after.map(milliseconds),
                ..Self::lock("acquired", name)
            },
            Event::PassedOn { name, elapsed, valid_for, fence } => Self {
                elapsed_ms: Some(milliseconds(elapsed)),
                valid_for_ms: Some(milliseconds(valid_for)),
                fence: number(fence),
                ..Self::lock("passed_on", name)
            },
            Event::Retrying { name, ref cause, pause, votes } => Self {
                cause: Some(outcome(cause)),
                pause_ms: Some(milliseconds(pause)),
                votes: Some(votes),
                ..Self::lock("retrying", name)
            },
            Event::Waiting { name, ahead, waiters, nodes, holder, free_after, asks_in } => Self {
                ahead: Some(ahead),
                waiters: Some(waiters),
                nodes: Some(nodes),
                holder,
                free_after_ms: free_after.map(milliseconds),
                asks_in_ms: Some(milliseconds(asks_in)),
                ..Self::lock("waiting", name)
            },
            Event::Circle { name, circle } => Self { circle: Some(circle), ..Self::lock("circle", name) },
            Event::NotAcquired { name, ref cause, attempts, elapsed } => Self {
                cause: Some(outcome(cause)),
                attempts: Some(attempts),
                elapsed_ms: Some(milliseconds(elapsed)),
                ..Self::lock("not_acquired", name)
            },
            Event::Extended { name, valid_for, fence } => valid("extended", name, valid_for, fence),
            Event::NotExtended { name, lost, valid_for, fence } => {
                Self { lost: Some(lost), ..valid("not_extended", name, valid_for, fence) }
            }
            Event::AtRisk { name, valid_for, fence } => valid("at_risk", name, valid_for, fence),
            Event::Safe { name, valid_for, fence } => valid("safe", name, valid_for, fence),
            Event::Lost { name, valid_for, fence, held } => {
                Self { held_ms: held.map(milliseconds), ..valid("lost", name, valid_for, fence) }
            }
            Event::GivenUp { name, fence, held } => {
                let held_ms = held.map(milliseconds);
                Self { fence: number(fence), held_ms, ..Self::lock("given_up", name) }
            }
            Event::CleanedUp { name } => Self::lock("cleaned_up", name),
            Event::NotCleanedUp { name, nodes } => {
                Self { nodes: Some(nodes), ..Self::lock("not_cleaned_up", name) }
            }
            Event::NodeDistrusted { node, distrust } => {
                Self { distrust: Some(distrust.to_string()), ..Self::node("node_distrusted", node) }
            }
            Event::NodeTrusted { node } => Self::node("node_trusted", node),
            Event::FencePoisoned { node, fence } => {
                Self { fence: number(fence), ..Self::node("fence_poisoned", node) }
            }
            Event::NodesNotRemembered { reason } => {
                Self { event: "nodes_not_remembered", reason: Some(reason), ..Self::default() }
            }
        }
    }

    fn lock(event: &'static str, name: &'a str) -> Self {
        Self { event, name: Some(name), ..Self::default() }
    }

    fn node(event: &'static str, node: &'a str) -> Self {
        Self { event, node: Some(node), ..Self::default() }
    }
}
