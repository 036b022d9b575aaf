//! `GET /v1/lock`, `/v1/locks`, `/v1/nodes`: what the nodes say, without touching anything.

pub(crate) mod report;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use self::report::{LockReport, Locks};
use crate::Service;
use crate::body::Query;
use crate::caller::{Caller, Verb};
use crate::form::{Node, node};
use crate::problem::{ANY, Kind, OF_RIGHTS, Problem, problems};

problems!(ProblemsOfLock: ANY, OF_RIGHTS, &[Kind::BadRequest, Kind::OutOfBounds, Kind::Draining]);
problems!(ProblemsOfLocks: ANY, OF_RIGHTS, &[Kind::BadRequest, Kind::Draining]);
problems!(ProblemsOfNodes: ANY, OF_RIGHTS);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LockQuery {
    /// Name of the lock: at most 1,024 bytes.
    #[param(min_length = 1, max_length = 1024)]
    name: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LocksQuery {
    /// Prefix of the names.
    #[serde(default)]
    prefix: String,
}

/// All nodes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Nodes {
    pub(super) nodes: Vec<Node>,
}

/// Shows who holds a lock.
#[utoipa::path(
    get, path = "/v1/lock", operation_id = "lock", tag = "look",
    params(LockQuery),
    responses((status = 200, description = "What the nodes say about the lock", body = LockReport), ProblemsOfLock),
)]
pub(crate) async fn lock(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(asked): Query<LockQuery>,
) -> Result<Json<LockReport>, Problem> {
    caller.may(Verb::Read, &asked.name)?;
    let found = service.locks.inspect(&asked.name).await?;
    let sees = |name: &str| caller.sees(name);
    let report = LockReport::of(&found, &service.keys, sees);
    // Hardly ever, so the rest of the answers is not held up.
    if found.line.iter().all(|waiter| waiter.keeps.is_empty()) {
        return Ok(Json(report));
    }
    let circles = service.locks.circles([&asked.name]).await?;
    Ok(Json(report.with_deadlocks(&circles, sees)))
}

/// Lists the locks.
#[utoipa::path(
    get, path = "/v1/locks", operation_id = "locks", tag = "look",
    params(LocksQuery),
    responses((status = 200, description = "The locks", body = Locks), ProblemsOfLocks),
)]
pub(crate) async fn locks(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(asked): Query<LocksQuery>,
) -> Result<Json<Locks>, Problem> {
    caller.may_in_general(Verb::Read)?;
    let mut list = service.locks.list_under(&asked.prefix, |_| {}).await?;
    list.locks.retain(|lock| caller.sees(&lock.name));
    Ok(Json(Locks::of(&list, &service.keys, caller.sees_all())))
}

/// Shows the state of the nodes.
#[utoipa::path(
    get, path = "/v1/nodes", operation_id = "nodes", tag = "look",
    responses((status = 200, description = "The nodes", body = Nodes), ProblemsOfNodes),
)]
pub(crate) async fn nodes(
    State(service): State<Arc<Service>>,
    caller: Caller,
) -> Result<Json<Nodes>, Problem> {
    caller.may_in_general(Verb::Read)?;
    let nodes = service.locks.nodes().await;
    Ok(Json(Nodes { nodes: nodes.iter().map(node).collect() }))
}
