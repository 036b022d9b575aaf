//! `POST /v1/acquire`: the lock, or why not.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tenure::{Lock, MaxHold};

use crate::Service;
use crate::body::Asked;
use crate::grant::Grant;
use crate::lease::lease;
use crate::problem::{Kind, Problem};

/// Nobody waits for longer with one call: connections do not live for ever.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Who is refused because too many are there comes back after this.
const COME_BACK: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireRequest {
    name: String,
    ttl_ms: Option<u64>,
    /// Without it the lock is asked for once.
    #[serde(default)]
    wait_ms: u64,
    label: Option<String>,
    max_hold_ms: Option<u64>,
    min_margin: Option<usize>,
}

pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    asked: Asked<AcquireRequest>,
) -> Result<Response, Problem> {
    let Asked { received, what: request } = asked;
    if service.is_draining() {
        return Err(draining());
    }
    let room = service.room.try_acquire();
    let _room = room.map_err(|_| {
        Problem::new(
            Kind::Overloaded,
            "as many acquires as this instance takes are under way; ask again later",
        )
        .retry_after(Some(COME_BACK))
    })?;
    let guard = tokio::select! {
        biased;
        guard = request.lock(&service)?.acquire() => guard?,
        () = service.drained() => return Err(draining()),
    };
    let mut response = Json(lease(&guard, received, &service.keys)).into_response();
    response.extensions_mut().insert(Grant::of(guard));
    Ok(response)
}

fn draining() -> Problem {
    Problem::new(Kind::Draining, "this instance is about to end; ask another one")
        .retry_after(Some(COME_BACK))
}

impl AcquireRequest {
    fn lock(self, service: &Service) -> Result<Lock, Problem> {
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
