//! `POST /v1/force-release`: takes a lock from one certain holder, and from no later one.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::json;
use tenure::LockState;
use utoipa::ToSchema;

use super::release::Released;
use crate::Service;
use crate::body::Asked;
use crate::caller::{Caller, Verb};
use crate::form::votes;
use crate::log::Act;
use crate::problem::{ANY, Kind, OF_BODY, OF_RIGHTS, Problem, problems};

/// The most that a reason can be: as a label.
const REASON_MAX: usize = 256;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForceReleaseRequest {
    #[schema(min_length = 1, max_length = 1024)]
    name: String,
    /// Whom to take it from, as `/v1/lock` calls the holder.
    holder: String,
    /// Why, for the audit log: at most 256 bytes.
    #[schema(min_length = 1, max_length = 256)]
    reason: String,
}

problems!(Problems: ANY, OF_RIGHTS, OF_BODY, &[
    Kind::OutOfBounds,
    Kind::NotHeld,
    Kind::Foreign,
    Kind::Unavailable,
    Kind::Draining,
    Kind::NotAudited,
]);

/// Takes a lock from its holder, who is not asked and goes on working until it notices.
#[utoipa::path(
    post, path = "/v1/force-release", operation_id = "forceRelease", tag = "locks",
    request_body = ForceReleaseRequest,
    responses((status = 200, description = "Released", body = Released), Problems),
)]
pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    caller: Caller,
    asked: Asked<ForceReleaseRequest>,
) -> Result<Json<Released>, Problem> {
    let ForceReleaseRequest { name, holder, reason } = &asked.what;
    caller.may(Verb::Force, name)?;
    if reason.trim().is_empty() || reason.len() > REASON_MAX {
        return Err(Problem::new(
            Kind::OutOfBounds,
            format!("reason: say why, in at most {REASON_MAX} bytes; it is kept in the audit log"),
        ));
    }
    let facts = json!({ "holder": holder, "reason": reason });
    let act = Act { caller: &caller, call: "/v1/force-release", name, facts };
    let work = take(&service, name, |owner, _| service.keys.is_holder(owner, holder));
    service.audit_log.keep(&act, work).await.map(Json)
}

/// Takes a lock from the holder for whom `is_meant` says so, given the owner and its label as a
/// node has them. The nodes compare the owner, so nobody who has it since is touched.
pub(super) async fn take(
    service: &Service,
    name: &str,
    is_meant: impl Fn(&str, Option<&str>) -> bool,
) -> Result<Released, Problem> {
    let report = service.locks.inspect(name).await?;
    let held = report.nodes.iter().filter_map(|answer| answer.holding.as_ref().ok()?.as_ref());
    let mut held = held.filter(|holding| !holding.is_reserved());
    let meant = held.find(|holding| is_meant(&holding.owner, holding.label.as_deref()));
    let Some(holding) = meant else {
        return Err(match report.state {
            LockState::Unknown => Problem::new(
                Kind::Unavailable,
                format!("lock {name:?} is unavailable: no majority of nodes can vote. {}", report.outage()),
            ),
            _ => Problem::new(Kind::NotHeld, format!("lock {name:?} is not held by this holder any more")),
        });
    };
    let released = service.locks.release_by_force(name, &holding.owner).await?;
    Ok(Released::of(name, votes(&released.votes)))
}
