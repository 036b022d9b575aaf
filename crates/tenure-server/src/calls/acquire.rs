//! `POST /v1/acquire`: the lock, or why not.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tenure::{Lock, MaxHold};
use utoipa::ToSchema;

use crate::Service;
use crate::body::Asked;
use crate::caller::{Caller, Verb};
use crate::grant::Grant;
use crate::lease::{Lease, lease};
use crate::problem::{ANY, Kind, OF_BODY, Problem, problems};

/// Nobody waits for longer with one call: connections do not live for ever.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireRequest {
    /// At most 1,024 bytes; compared byte by byte.
    #[schema(min_length = 1, max_length = 1024)]
    pub(super) name: String,
    /// For how long, unless it is extended. Without it, what the instance is configured for.
    #[schema(minimum = 50)]
    pub(super) ttl_ms: Option<u64>,
    /// How long to wait in line. Without it the lock is asked for once.
    #[serde(default)]
    #[schema(maximum = 3_600_000)]
    pub(super) wait_ms: u64,
    /// Shown to others while it is held: at most 256 bytes.
    #[schema(max_length = 256)]
    pub(super) label: Option<String>,
    /// The most that all extensions together may come to.
    pub(super) max_hold_ms: Option<u64>,
    /// Only if so many nodes may forget it.
    pub(super) min_margin: Option<usize>,
}

problems!(Problems: ANY, OF_BODY, &[
    Kind::Contended,
    Kind::Unavailable,
    Kind::TooLate,
    Kind::ClocksSetBack,
    Kind::Draining,
    Kind::Overloaded,
    Kind::Rate,
]);

/// Acquires a lock, at once or after a wait in line.
#[utoipa::path(
    post, path = "/v1/acquire", operation_id = "acquire", tag = "locks",
    request_body = AcquireRequest,
    responses(
        (
            status = 200, description = "The lease", body = Lease,
            links(
                ("extend" = (operation_id = "extend", request_body = json!({ "name": "$response.body#/name", "token": "$response.body#/token" }))),
                ("release" = (operation_id = "release", request_body = json!({ "name": "$response.body#/name", "token": "$response.body#/token" }))),
            ),
        ),
        Problems,
    ),
)]

pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    caller: Caller,
    asked: Asked<AcquireRequest>,
) -> Result<Response, Problem> {
    let Asked { received, what: request } = asked;
    caller.may(Verb::Lock, &request.name)?;
    let _room = service.room(&caller)?;
    let guard = tokio::select! {
        biased;
        guard = request.lock(&service)?.acquire() => guard?,
        () = service.drained() => return Err(Problem::draining()),
    };
    // A guard that is dropped gives the lock back.
    caller.is_still(&service.callers)?;
    let mut response = Json(lease(&guard, received, &service.keys)).into_response();
    response.extensions_mut().insert(Grant::of(guard));
    Ok(response)
}

impl AcquireRequest {
    pub(super) fn lock(self, service: &Service) -> Result<Lock, Problem> {
        let wait = Duration::from_millis(self.wait_ms);
        if wait > WAIT_MAX {
            return Err(Problem::new(
                Kind::OutOfBounds,
                format!("wait_ms: at most {} are allowed; ask again after that", WAIT_MAX.as_millis()),
            ));
        }
        let lock = service.locks.lock(self.name);
        let mut lock = if wait.is_zero() { lock.no_wait() } else { lock.wait(wait) };
        if let Some(ttl) = self.ttl_ms {
            lock = lock.ttl(Duration::from_millis(ttl));
        }
        if let Some(label) = self.label {
            lock = lock.label_for(label);
        }
        if let Some(max_hold) = self.max_hold_ms {
            lock = lock.max_hold(MaxHold::AtMost(Duration::from_millis(max_hold)));
        }
        if let Some(min_margin) = self.min_margin {
            lock = lock.min_margin(min_margin);
        }
        Ok(lock)
    }
}
