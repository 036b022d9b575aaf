//! Whether this instance lives, and whether it takes new work.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::Service;
use crate::problem::{Kind, Problem};

pub(crate) async fn livez() -> Json<Value> {
    Json(json!({ "alive": true }))
}

/// Started, and not about to end. Whether the nodes can be asked is another matter: all instances
/// share them, and releases must get through.
pub(crate) async fn readyz(State(service): State<Arc<Service>>) -> Result<Json<Value>, Problem> {
    if service.is_draining() {
        return Err(Problem::new(Kind::Draining, "this instance is about to end; ask another one"));
    }
    Ok(Json(json!({ "ready": true })))
}

pub(crate) async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}
