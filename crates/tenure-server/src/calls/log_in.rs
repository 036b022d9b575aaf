//! `POST /v1/log-in`: a token becomes a cookie, for the dashboard.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, SET_COOKIE};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use utoipa::ToSchema;

use super::me::Me;
use crate::Service;
use crate::body::Asked;
use crate::caller;
use crate::log::Record;
use crate::problem::{ANY, OF_BODY, Problem, problems};

problems!(Problems: ANY, OF_BODY);

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogInRequest {
    /// The caller's token, as `tenure token new` printed it.
    token: String,
}

/// Logs a person in: the cookie in the answer replaces the token, in browsers only.
#[utoipa::path(
    post, path = "/v1/log-in", operation_id = "logIn", tag = "operation",
    request_body = LogInRequest,
    responses((status = 200, description = "Logged in", body = Me, headers(("Set-Cookie" = String))), Problems),
    security(()),
)]
pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    Extension(record): Extension<Record>,
    asked: Asked<LogInRequest>,
) -> Result<Response, Problem> {
    let caller = caller::log_in(&service, record, &asked.what.token)?;
    let cookie = caller.session().map(|session| session.cookie(&service.keys, service.secure));
    let headers = [(CACHE_CONTROL, "no-store".to_owned()), (SET_COOKIE, cookie.unwrap_or_default())];
    Ok((headers, Json(Me::of(&caller))).into_response())
}
