//! `GET /metrics`: what Prometheus collects.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::Service;
use crate::caller::{Caller, Verb};
use crate::problem::{ANY, Kind, OF_RIGHTS, Problem, problems};

problems!(Problems: ANY, OF_RIGHTS);

/// The metrics of this instance, in Prometheus text format.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "operation",
    responses((status = 200, description = "Metrics", content_type = "text/plain; version=0.0.4", body = String), Problems),
)]
pub(crate) async fn call(State(service): State<Arc<Service>>, caller: Caller) -> Result<Response, Problem> {
    caller.may_in_general(Verb::Metrics)?;
    let text = service.metrics.text(&service).await;
    let text =
        text.map_err(|error| Problem::new(Kind::Internal, format!("cannot encode the metrics: {error}")))?;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}
