//! `POST /v1/extend`: a further term for a lease; `/v1/extend-many` for all that a client holds.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;

use super::{LeaseRef, LeaseRefs, OF_LEASE, Results, results};
use crate::Service;
use crate::body::{Asked, AskedMany};
use crate::caller::Caller;
use crate::grant::Kept;
use crate::lease::{Lease, lease};
use crate::problem::{ANY, Kind, OF_BODY, OF_RIGHTS, Problem, problems};

problems!(Problems: ANY, OF_RIGHTS, OF_BODY, OF_LEASE, &[Kind::MaxHold]);
problems!(ProblemsOfMany: ANY, OF_BODY, &[Kind::OutOfBounds]);

/// Extends a lease by its ttl from now.
#[utoipa::path(
    post, path = "/v1/extend", operation_id = "extend", tag = "locks",
    request_body = LeaseRef,
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
    asked: Asked<LeaseRef>,
) -> Result<Json<Lease>, Problem> {
    extend(service, caller, asked.what, asked.received).await.map(Json)
}

/// Extends up to 1,000 leases. The results are in the order of the request.
#[utoipa::path(
    post, path = "/v1/extend-many", operation_id = "extendMany", tag = "locks",
    request_body = LeaseRefs,
    responses((status = 200, description = "One result per lease", body = Results<Lease>), ProblemsOfMany),
)]
pub(crate) async fn call_many(
    State(service): State<Arc<Service>>,
    caller: Caller,
    AskedMany(asked): AskedMany<LeaseRefs>,
) -> Result<Json<Results<Lease>>, Problem> {
    let Asked { received, what } = asked;
    let each = what
        .checked()?
        .into_iter()
        .map(|lease| extend(Arc::clone(&service), caller.clone(), lease, received));
    Ok(Json(results(each).await))
}

async fn extend(
    service: Arc<Service>,
    caller: Caller,
    given: LeaseRef,
    received: Instant,
) -> Result<Lease, Problem> {
    // The client has the lock already, so nothing that happens to this call gives it back.
    let (_, handover) = given.open(&service, &caller)?;
    let kept = Kept::resume(&service, &handover).await?;
    Ok(lease(kept.guard(), received, &service.keys))
}
