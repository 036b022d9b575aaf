//! `POST /v1/release`: the end of a lease; `/v1/release-many` of several.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::{LeaseRef, LeaseRefs, OF_LEASE, Results, results};
use crate::Service;
use crate::body::{Asked, AskedMany};
use crate::caller::Caller;
use crate::form::{Vote, votes};
use crate::problem::{ANY, OF_BODY, Problem, problems};

problems!(Problems: ANY, OF_BODY, OF_LEASE);
problems!(ProblemsOfMany: ANY, OF_BODY);

/// A lease that has ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Released {
    name: String,
    released: bool,
    votes: Vec<Vote>,
}

impl Released {
    pub(super) fn of(name: &str, votes: Vec<Vote>) -> Self {
        Self { name: name.to_owned(), released: true, votes }
    }
}

/// Releases a lock.
#[utoipa::path(
    post, path = "/v1/release", operation_id = "release", tag = "locks",
    request_body = LeaseRef,
    responses((status = 200, description = "Released", body = Released), Problems),
)]
pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    caller: Caller,
    asked: Asked<LeaseRef>,
) -> Result<Json<Released>, Problem> {
    release(service, caller, asked.what).await.map(Json)
}

/// Releases up to 1,000 locks. The results are in the order of the request.
#[utoipa::path(
    post, path = "/v1/release-many", operation_id = "releaseMany", tag = "locks",
    request_body = LeaseRefs,
    responses((status = 200, description = "One result each", body = Results<Released>), ProblemsOfMany),
)]
pub(crate) async fn call_many(
    State(service): State<Arc<Service>>,
    caller: Caller,
    AskedMany(asked): AskedMany<LeaseRefs>,
) -> Result<Json<Results<Released>>, Problem> {
    let each =
        asked.what.checked()?.into_iter().map(|lease| release(Arc::clone(&service), caller.clone(), lease));
    Ok(Json(results(each).await))
}

async fn release(service: Arc<Service>, caller: Caller, given: LeaseRef) -> Result<Released, Problem> {
    let released = service.locks.release(&given.handover(&service, &caller)?).await?;
    Ok(Released::of(&given.name, votes(&released.votes)))
}
