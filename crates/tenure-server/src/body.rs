//! What a client sends: JSON of one form, or a query of one form, and nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::Service;
use crate::grant::Received;
use crate::problem::{Kind, Problem};

/// The most that one thing can be.
const BODY_MAX: usize = 16 * 1_024;

/// The most that many can be.
const BODY_MAX_MANY: usize = 256 * 1_024;

/// A sender that takes longer for so little is none.
const SEND_LIMIT: Duration = Duration::from_secs(10);

/// What was asked for, and when.
pub(crate) struct Asked<T> {
    pub(crate) received: Instant,
    pub(crate) what: T,
}

/// The same for many things at once.
pub(crate) struct AskedMany<T>(pub(crate) Asked<T>);

impl<T: DeserializeOwned> FromRequest<Arc<Service>> for Asked<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, Problem> {
        read(request, BODY_MAX, service).await
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<Service>> for AskedMany<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Self, Problem> {
        read(request, BODY_MAX_MANY, service).await.map(Self)
    }
}

/// What stands behind the `?`.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        read.map(|read| Self(read.0)).map_err(|error| Problem::new(Kind::BadRequest, error.body_text()))
    }
}

async fn read<T: DeserializeOwned>(
    request: Request,
    most: usize,
    service: &Service,
) -> Result<Asked<T>, Problem> {
    let limit = SEND_LIMIT.min(service.bounds.head);
    let received = request.extensions().get::<Received>().map_or_else(Instant::now, |received| received.0);
    if !is_json(&request) {
        return Err(Problem::new(
            Kind::NotJson,
            "send JSON with the header `Content-Type: application/json`",
        ));
    }
    let bytes = timeout(limit, to_bytes(request.into_body(), most)).await;
    let bytes =
        bytes.map_err(|_| Problem::new(Kind::SlowRequest, "the request body did not arrive in time"))?;
    // A connection that breaks has nobody left to tell.
    let bytes =
        bytes.map_err(|_| Problem::new(Kind::TooLarge, format!("the body is larger than {most} bytes")))?;
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    let what = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, reason) = (error.path().to_string(), error.inner().to_string());
        Problem::new(Kind::BadRequest, if path == "." { reason } else { format!("{path}: {reason}") })
    })?;
    json.end().map_err(|error| Problem::new(Kind::BadRequest, error.to_string()))?;
    Ok(Asked { received, what })
}

fn is_json(request: &Request) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}
