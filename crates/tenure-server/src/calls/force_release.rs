//! `POST /v1/force-release`: takes a lock from one certain holder, and from no later one.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tenure::{Holding, LockState};
use utoipa::ToSchema;

use crate::Service;
use crate::body::Asked;
use crate::caller::{Caller, Verb};
use crate::events::Happened;
use crate::form::{Vote, votes};
use crate::log::Act;
use crate::problem::{ANY, Kind, OF_BODY, OF_RIGHTS, Problem, problems};

/// The most that a reason can be: as a label.
const REASON_MAX: usize = 256;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForceReleaseRequest {
    #[schema(min_length = 1, max_length = 1024)]
    name: String,
    /// The holder to take it from: its id in `/v1/lock`, or that of one of several holders.
    holder: String,
    /// Why, for the audit log: at most 256 bytes.
    #[schema(min_length = 1, max_length = 256)]
    reason: String,
}

/// A lock that was released by force.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Taken {
    name: String,
    released: bool,
    votes: Vec<Vote>,
}

problems!(Problems: ANY, OF_RIGHTS, OF_BODY, &[
    Kind::OutOfBounds,
    Kind::NotHeld,
    Kind::Foreign,
    Kind::Unavailable,
    Kind::Draining,
    Kind::NotAudited,
]);

/// Takes a lock from its holder, which is not notified and keeps running until its next renewal
/// fails.
#[utoipa::path(
    post, path = "/v1/force-release", operation_id = "forceRelease", tag = "locks",
    request_body = ForceReleaseRequest,
    responses((status = 200, description = "Released", body = Taken), Problems),
)]
pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    caller: Caller,
    asked: Asked<ForceReleaseRequest>,
) -> Result<Json<Taken>, Problem> {
    let ForceReleaseRequest { name, holder, reason } = &asked.what;
    caller.may(Verb::Force, name)?;
    if reason.trim().is_empty() || reason.len() > REASON_MAX {
        return Err(Problem::new(
            Kind::OutOfBounds,
            format!("reason: say why, in at most {REASON_MAX} bytes, for the audit log"),
        ));
    }
    let facts = json!({ "holder": holder, "reason": reason });
    let act = Act { caller: &caller, call: "/v1/force-release", name, facts };
    let work = take(&service, name, |holding| {
        if service.keys.is_holder(&holding.owner, holder) {
            return holding.sharers.clone().unwrap_or_else(|| vec![Arc::clone(&holding.owner)]);
        }
        let one = holding.sharers.iter().flatten().filter(|hold| service.keys.is_holder(hold, holder));
        one.cloned().collect()
    });
    let votes = service.audit_log.keep(&act, work).await?;
    service.events.keep(Happened::forced(name, caller.name(), holder, reason));
    Ok(Json(Taken { name: name.clone(), released: true, votes }))
}

/// Takes a lock from those whom `meant` names, given what a node has. The nodes compare each of
/// them, so nobody who has it since is touched.
pub(super) async fn take(
    service: &Service,
    name: &str,
    meant: impl Fn(&Holding) -> Vec<Arc<str>>,
) -> Result<Vec<Vote>, Problem> {
    let report = service.locks.inspect(name).await?;
    let held = report.nodes.iter().filter_map(|answer| answer.holding.as_ref().ok()?.as_ref());
    let held = held.filter(|holding| !holding.is_reserved());
    let meant: BTreeSet<Arc<str>> = held.flat_map(meant).collect();
    if meant.is_empty() {
        return Err(match report.state {
            LockState::Unknown => Problem::new(
                Kind::Unavailable,
                format!("lock {name:?} is unavailable: no majority of nodes can vote. {}", report.outage()),
            ),
            _ => Problem::new(Kind::NotHeld, format!("lock {name:?} is no longer held by this holder")),
        });
    }
    if report.foreign().is_some_and(|foreign| meant.contains(&foreign.owner)) {
        let detail = format!(
            "lock {name:?} is held through another library, which Tenure does not release; delete its key \
             on the nodes by hand"
        );
        return Err(Problem::new(Kind::Foreign, detail));
    }
    let each = join_all(meant.iter().map(|owner| service.locks.release_by_force(name, owner))).await;
    let mut released = None;
    for done in each {
        released = Some(done?);
    }
    Ok(released.map_or_else(Vec::new, |released| votes(&released.votes)))
}
