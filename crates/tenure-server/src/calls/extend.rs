//! `POST /v1/extend`: a further term for a lease; `/v1/extend-many` for all that a client holds.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::{LeaseRef, LeaseRefs, results};
use crate::Service;
use crate::body::{Asked, AskedMany};
use crate::lease::lease;
use crate::problem::Problem;

pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    asked: Asked<LeaseRef>,
) -> Result<Json<Value>, Problem> {
    extend(service, asked.what, asked.received).await.map(Json)
}

pub(crate) async fn call_many(
    State(service): State<Arc<Service>>,
    AskedMany(asked): AskedMany<LeaseRefs>,
) -> Result<Json<Value>, Problem> {
    let Asked { received, what } = asked;
    let each = what.checked()?.into_iter().map(|lease| extend(Arc::clone(&service), lease, received));
    Ok(Json(results(each).await))
}

async fn extend(service: Arc<Service>, given: LeaseRef, received: Instant) -> Result<Value, Problem> {
    let guard = service.locks.resume(&given.handover(&service)?).await?;
    let told = lease(&guard, received, &service.keys);
    // The client has the lock already, so nothing that happens to this call gives it back.
    let _ = guard.hand_over();
    Ok(told)
}
