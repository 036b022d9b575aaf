//! One event, as it is told.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tenure::metrics::outcome;
use tenure::{Event, Fence, LockChange, LockState, LockView};
use utoipa::ToSchema;

use crate::form::{self, InCircle, milliseconds};
use crate::lease_key::LeaseKeys;

/// Something that happened to a lock or a node. Fields that do not apply are absent.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct Happened {
    #[serde(skip)]
    pub(crate) kind: &'static str,
    /// When it happened, by the wall clock (Unix time).
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
    /// The time from the release by the previous holder to the grant, as one node's clock saw both.
    #[serde(skip_serializing_if = "Option::is_none")]
    passed_on_after_ms: Option<u64>,
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
    /// The holder's label.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<Box<str>>,
    /// Who holds what and waits for what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadlock: Option<Vec<InCircle>>,
    /// Why a node does not vote, or why a lock was taken from its holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Box<str>>,
    /// How many nodes may forget it.
    #[serde(skip_serializing_if = "Option::is_none")]
    margin: Option<usize>,
    /// An id for the holder, as in `/v1/lock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<Box<str>>,
    /// An id for the previous holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<Box<str>>,
    /// The caller that took it from its holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<Box<str>>,
    /// Another client did it; the instance saw it on the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seen: Option<bool>,
    /// It happened at most this long before `time_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    within_ms: Option<u64>,
    /// Whether it had expired; otherwise it was released.
    #[serde(skip_serializing_if = "Option::is_none")]
    expired: Option<bool>,
}

impl Happened {
    /// What is told of an event; `None` if it only says how something comes about.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        let lock = |kind, name: &str| Self { kind, name: Some(name.into()), ..Self::default() };
        let valid = |kind, name: &str, valid_for: Duration, fence: Fence| Self {
            valid_for_ms: Some(milliseconds(valid_for)),
            fence: known(fence),
            ..lock(kind, name)
        };
        let node = |kind, node: &str| Self { kind, node: Some(node.into()), ..Self::default() };
        let told = match event {
            Event::Acquired { name, attempts, elapsed, fence, margin, passed_on_after, .. } => Self {
                passed_on_after_ms: passed_on_after.map(milliseconds),
                fence: known(*fence),
                margin: Some(*margin),
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
            Event::Circle { name, circle, .. } => {
                Self { deadlock: Some(form::deadlock(circle)), ..lock("deadlock", name) }
            }
            Event::NotAcquired { name, cause, attempts, elapsed, .. } => Self {
                cause: Some(outcome(cause)),
                attempts: Some(*attempts),
                elapsed_ms: Some(milliseconds(*elapsed)),
                ..lock("not_acquired", name)
            },
            Event::PassedOn { name, elapsed, valid_for, fence, .. } => Self {
                elapsed_ms: Some(milliseconds(*elapsed)),
                ..valid("passed_on", name, *valid_for, *fence)
            },
            Event::Extended { name, valid_for, fence, .. } => valid("extended", name, *valid_for, *fence),
            Event::NotExtended { name, valid_for, fence, .. } => {
                valid("not_extended", name, *valid_for, *fence)
            }
            Event::AtRisk { name, valid_for, fence, .. } => valid("at_risk", name, *valid_for, *fence),
            Event::Safe { name, valid_for, fence, .. } => valid("safe", name, *valid_for, *fence),
            Event::Lost { name, valid_for, fence, held, .. } => {
                Self { held_ms: held.map(milliseconds), ..valid("lost", name, *valid_for, *fence) }
            }
            Event::GivenUp { name, fence, held, .. } => {
                Self { fence: known(*fence), held_ms: held.map(milliseconds), ..lock("given_up", name) }
            }
            Event::NodeDistrusted { node: of, distrust, .. } => {
                Self { reason: Some(distrust.to_string().into()), ..node("node_distrusted", of) }
            }
            Event::NodeTrusted { node: of, .. } => node("node_trusted", of),
            _ => return None,
        };
        Some(Self { time_ms: now_ms(), ..told })
    }

    /// Another client did something, as a look has shown; `None` if the lock was only extended, or
    /// something about it changed that is not worth an event.
    pub(super) fn seen(change: &LockChange, keys: &LeaseKeys) -> Option<Self> {
        if !change.seen || !change.changes_hands() {
            return None;
        }
        let holder = |view: &Option<Arc<LockView>>| {
            let owner = view.as_ref()?.state().owner()?;
            Some(keys.holder(owner).into())
        };
        let (was, now) = (holder(&change.before), holder(&change.now));
        let kind = match (&was, &now) {
            (None, Some(_)) => "seen_held",
            (Some(_), Some(_)) => "seen_changed_hands",
            (Some(_), None) => "seen_freed",
            (None, None) => return None,
        };
        let state = change.now.as_ref().or(change.before.as_ref()).map(|view| view.state());
        let view = change.now.as_ref();
        Some(Self {
            kind,
            time_ms: now_ms(),
            name: Some((&*change.name).into()),
            fence: state.and_then(LockState::fence).map(Fence::get),
            label: state.and_then(|state| state.label()).map(|label| (&**label).into()),
            valid_for_ms: view.and_then(|view| view.left()).map(milliseconds),
            margin: view.and_then(|view| view.margin()),
            expired: now.is_none().then(|| change.expired()),
            holder: now,
            was,
            seen: Some(true),
            within_ms: Some(milliseconds(change.within)),
            ..Self::default()
        })
    }

    /// A lock was taken from its holder.
    pub(crate) fn forced(name: &str, caller: &str, holder: &str, reason: &str) -> Self {
        Self {
            kind: "forced",
            time_ms: now_ms(),
            name: Some(name.into()),
            was: Some(holder.into()),
            caller: Some(caller.into()),
            reason: Some(reason.into()),
            ..Self::default()
        }
    }
}

fn now_ms() -> u64 {
    milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn known(fence: Fence) -> Option<u64> {
    (fence != Fence::NONE).then(|| fence.get())
}
