//! `POST /v1/log-out`: ends the session of whoever calls.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::Service;
use crate::caller::{Caller, session};
use crate::problem::{ANY, problems};

problems!(Problems: ANY);

/// The outcome.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LoggedOut {
    /// Whether there was a session.
    ended: bool,
}

/// Ends the session, at this instance at once; the browser drops its cookie.
#[utoipa::path(
    post, path = "/v1/log-out", operation_id = "logOut", tag = "operation",
    responses((status = 200, description = "Logged out", body = LoggedOut), Problems),
)]
pub(crate) async fn call(State(service): State<Arc<Service>>, caller: Caller) -> Response {
    let ended = caller.session();
    if let Some(session) = ended {
        service.sessions.end(session, Timestamp::now());
    }
    let mut response = Json(LoggedOut { ended: ended.is_some() }).into_response();
    for cookie in session::forgotten(&service.keys, service.secure) {
        let value = HeaderValue::from_str(&cookie).expect("it is made of digits and words");
        response.headers_mut().append(SET_COOKIE, value);
    }
    response
}
