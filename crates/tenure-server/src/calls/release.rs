//! `POST /v1/release`: the end of a lease; `/v1/release-many` of several.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::{LeaseRef, LeaseRefs, results};
use crate::Service;
use crate::body::{Asked, AskedMany};
use crate::form::votes;
use crate::problem::Problem;

pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    asked: Asked<LeaseRef>,
) -> Result<Json<Value>, Problem> {
    release(service, asked.what).await.map(Json)
}

pub(crate) async fn call_many(
    State(service): State<Arc<Service>>,
    AskedMany(asked): AskedMany<LeaseRefs>,
) -> Result<Json<Value>, Problem> {
    let each = asked.what.checked()?.into_iter().map(|lease| release(Arc::clone(&service), lease));
    Ok(Json(results(each).await))
}

async fn release(service: Arc<Service>, given: LeaseRef) -> Result<Value, Problem> {
    let released = service.locks.release(&given.handover(&service)?).await?;
    Ok(json!({ "name": given.name, "released": true, "votes": votes(&released.votes) }))
}
