//! Whether this instance lives, and whether it takes new work.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::Service;
use crate::problem::{ANY, Kind, OF_PROBE, Problem, problems};

problems!(Problems: ANY);
problems!(NotAlive: OF_PROBE);
problems!(NotReady: OF_PROBE, &[Kind::Draining]);

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Alive {
    alive: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    ready: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Version {
    version: &'static str,
}

/// Whether this instance is alive.
#[utoipa::path(
    get, path = "/livez", operation_id = "livez", tag = "operation",
    responses((status = 200, description = "Alive", body = Alive), NotAlive),
)]
pub(crate) async fn livez() -> Json<Alive> {
    Json(Alive { alive: true })
}

/// Whether this instance accepts new work: it has started and is not shutting down.
///
/// It does not depend on the nodes: all instances share them, and releases must get through.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz", tag = "operation",
    responses((status = 200, description = "Ready", body = Ready), NotReady),
)]
pub(crate) async fn readyz(State(service): State<Arc<Service>>) -> Result<Json<Ready>, Problem> {
    if service.is_draining() {
        return Err(Problem::draining());
    }
    Ok(Json(Ready { ready: true }))
}

/// The version of this instance.
#[utoipa::path(
    get, path = "/version", operation_id = "version", tag = "operation",
    responses((status = 200, description = "The version", body = Version), Problems),
)]
pub(crate) async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION") })
}
