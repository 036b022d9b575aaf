//! `GET /v1/me`: who the caller is, and what it may do.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::Service;
use crate::caller::Caller;
use crate::form::milliseconds;
use crate::problem::{ANY, problems};

problems!(Problems: ANY);

/// The caller.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    /// The caller's name in logs: `anonymous` if the service has no list of callers.
    name: String,
    /// Any of `read`, `lock`, `force` and `metrics`.
    may: Vec<String>,
    /// Prefixes of the names it may use; empty means all locks.
    prefixes: Vec<String>,
    /// When the caller's token expires (RFC 3339).
    #[schema(required)]
    until: Option<String>,
    /// How long its session lasts, if it has logged in.
    #[schema(required)]
    session_left_ms: Option<u64>,
    /// The wall clock of this instance (Unix time).
    now_ms: u64,
}

impl Me {
    pub(super) fn of(caller: &Caller) -> Self {
        let principal = caller.principal();
        Self {
            name: principal.name.clone(),
            may: principal.rights.may.iter().map(ToString::to_string).collect(),
            prefixes: principal.rights.prefixes.clone(),
            until: principal.until.map(|until| until.to_string()),
            session_left_ms: caller.session().map(|session| milliseconds(session.left(Timestamp::now()))),
            now_ms: milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
        }
    }
}

/// Shows who the caller is, and what it may do.
#[utoipa::path(
    get, path = "/v1/me", operation_id = "me", tag = "look",
    responses((status = 200, description = "The caller", body = Me), Problems),
)]
pub(crate) async fn call(State(_): State<Arc<Service>>, caller: Caller) -> Json<Me> {
    Json(Me::of(&caller))
}
