//! What a line says.

use axum::body::Bytes;
use serde::Serialize;
use serde_json::Value;
use tenure::{Guard, Risk};
use utoipa::ToSchema;

use crate::form::InCircle;
use crate::lease::Lease;
use crate::problem::{self, Problem};

/// What happened to a lock that a connection holds or waits for. Fields that do not apply are
/// absent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Line {
    pub(super) event: Event,
    pub(super) name: String,
    /// The number of waiters ahead of this caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ahead: Option<u64>,
    /// The number of waiters in total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waiters: Option<u64>,
    /// The holder's label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    /// Who holds what and waits for what, this caller first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deadlock: Option<Vec<InCircle>>,
    /// The lock is yours until its validity ends, counted from before the request was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease: Option<Lease>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<problem::Body>)]
    pub(super) problem: Option<Value>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = HoldEvent)]
pub(crate) enum Event {
    /// Another has the lock.
    Waiting,
    /// Each member of a circle holds the lock that the one before waits for. The wait goes on.
    Deadlock,
    /// The lock is yours.
    Acquired,
    /// It still is.
    Renewed,
    /// It could not be renewed. What was told stands.
    AtRisk,
    /// Stop the work that it protects.
    Lost,
    /// Ask another instance, or go on there.
    Draining,
    /// The wait ended without the lock.
    Problem,
}

/// Why a lock is at risk, or was lost.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = HoldReason)]
pub(crate) enum Reason {
    /// Too few nodes answer, or still have it.
    NotExtended,
    /// It may not be held for longer.
    MaxHold,
    /// A majority of nodes says that it is not ours: it was released elsewhere, or by force.
    Taken,
    /// This instance was held up for longer than the lock was valid.
    Expired,
}

impl Line {
    pub(super) fn of(event: Event, name: &str) -> Self {
        let name = name.to_owned();
        let (ahead, waiters, label, deadlock, lease, reason, problem) = Default::default();
        Self { event, name, ahead, waiters, label, deadlock, lease, reason, problem }
    }

    /// There is nothing more to tell.
    pub(super) fn refusal(name: &str, problem: &Problem) -> Self {
        Self { problem: Some(problem.to_json()), ..Self::of(Event::Problem, name) }
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        let mut text = serde_json::to_vec(self).expect("it is made of texts and numbers");
        text.push(b'\n');
        Bytes::from(text)
    }
}

impl Reason {
    pub(super) fn of(guard: &Guard) -> Self {
        match guard.risk() {
            Some(Risk::Limit) => Self::MaxHold,
            Some(Risk::Taken) => Self::Taken,
            Some(_) => Self::NotExtended,
            None => Self::Expired,
        }
    }
}
