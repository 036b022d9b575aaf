//! `POST /v1/release`: the end of a lease; `/v1/release-many` of several.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenure::Holding;
use utoipa::ToSchema;

use super::force_release::take;
use super::{LeaseRef, LeaseRefs, OF_LEASE, Results, results};
use crate::Service;
use crate::body::{Asked, AskedMany};
use crate::caller::{Caller, Verb};
use crate::form::{Vote, votes};
use crate::idempotency::Claim;
use crate::problem::{ANY, Kind, OF_BODY, OF_RIGHTS, Problem, problems};

problems!(Problems: ANY, OF_RIGHTS, OF_BODY, OF_LEASE, &[Kind::OutOfBounds]);
problems!(ProblemsOfMany: ANY, OF_BODY, &[Kind::OutOfBounds]);

/// A lease that has ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Released {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Names that were locked together.
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<Vec<String>>,
    released: bool,
    votes: Vec<Vote>,
}

/// The lease by its token; or by the `Idempotency-Key` it was acquired with and its holder, which
/// the answer to a repeated acquire contains.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseRequest {
    #[schema(min_length = 1, max_length = 1024)]
    name: Option<String>,
    /// Names that are locked together, instead of `name`.
    names: Option<Vec<String>>,
    /// The token from the latest answer about this lease.
    token: Option<String>,
    /// Others may get it at once, although it was acquired with `at_least_ms`.
    #[serde(default)]
    early: bool,
    /// Used with the holder, instead of the token.
    idempotency_key: Option<String>,
    /// The holder to release; no other one is.
    holder: Option<String>,
}

/// Releases a lock.
#[utoipa::path(
    post, path = "/v1/release", operation_id = "release", tag = "locks",
    request_body = ReleaseRequest,
    responses((status = 200, description = "Released", body = Released), Problems),
)]
pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    caller: Caller,
    asked: Asked<ReleaseRequest>,
) -> Result<Json<Released>, Problem> {
    let ReleaseRequest { name, names, token, early, idempotency_key, holder } = asked.what;
    match (token, idempotency_key, holder, name) {
        (Some(token), None, None, name) => {
            release(service, caller, LeaseRef { name, names, token }, early).await.map(Json)
        }
        (None, Some(key), Some(holder), Some(name)) => {
            caller.may(Verb::Lock, &name)?;
            let claim = Claim { service: &service, caller: &caller, name: &name, key: &key };
            // What several hold has the label of one of them, and nobody knows of which.
            let is_meant = |holding: &Holding| {
                holding.sharers.is_none()
                    && holding.label.as_deref().is_some_and(|label| claim.is_of(label))
                    && service.keys.is_holder(&holding.owner, &holder)
            };
            let meant = |holding: &Holding| is_meant(holding).then(|| Arc::clone(&holding.owner));
            let votes = take(&service, &name, |holding| meant(holding).into_iter().collect()).await?;
            Ok(Json(Released { name: Some(name), names: None, released: true, votes }))
        }
        _ => Err(Problem::new(
            Kind::BadRequest,
            "token: send the lease's token; or, without one, its name, idempotency_key and holder",
        )),
    }
}

/// Releases up to 1,000 locks. The results are in the order of the request.
#[utoipa::path(
    post, path = "/v1/release-many", operation_id = "releaseMany", tag = "locks",
    request_body = LeaseRefs,
    responses((status = 200, description = "One result per lease", body = Results<Released>), ProblemsOfMany),
)]
pub(crate) async fn call_many(
    State(service): State<Arc<Service>>,
    caller: Caller,
    AskedMany(asked): AskedMany<LeaseRefs>,
) -> Result<Json<Results<Released>>, Problem> {
    let each = asked
        .what
        .checked()?
        .into_iter()
        .map(|lease| release(Arc::clone(&service), caller.clone(), lease, false));
    Ok(Json(results(each).await))
}

async fn release(
    service: Arc<Service>,
    caller: Caller,
    given: LeaseRef,
    early: bool,
) -> Result<Released, Problem> {
    let (locked, mut handover) = given.open(&service, &caller)?;
    if early {
        handover.at_least = Duration::ZERO;
    }
    let released = service.locks.release(&handover).await?;
    let (name, names) = locked.fields();
    Ok(Released { name, names, released: true, votes: votes(&released.votes) })
}
