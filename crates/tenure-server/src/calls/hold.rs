//! `POST /v1/hold`: the lock for as long as the connection lives, told line by line.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::acquire::AcquireRequest;
use super::{LeaseRef, OF_LEASE};
use crate::Service;
use crate::body::Asked;
use crate::caller::Caller;
use crate::grant::Kept;
use crate::hold::{Hold, Line, OnDisconnect, Stage, Waiting};
use crate::names::Names;
use crate::problem::{ANY, Kind, OF_BODY, OF_RIGHTS, Problem, problems};

/// As for an acquire; or a name and a token, to go on with a lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HoldRequest {
    /// At most 1,024 bytes; compared byte by byte.
    #[schema(min_length = 1, max_length = 1024)]
    name: Option<String>,
    /// Instead of `name`, several to be locked together: all of them, or none.
    #[schema(min_items = 1, max_items = 32)]
    names: Option<Vec<String>>,
    /// A permit of a semaphore of so many, instead of a lock.
    #[schema(minimum = 1, maximum = 64)]
    slots: Option<usize>,
    /// For how long nobody else gets it, even if it is released before.
    at_least_ms: Option<u64>,
    /// Goes on with a lease that the client has, instead of acquiring one. Only the name stands
    /// beside it.
    token: Option<String>,
    /// For how long, unless it is renewed. Without it, what the instance is configured for.
    #[schema(minimum = 50)]
    ttl_ms: Option<u64>,
    /// How long to wait in line. Without it the lock is asked for once.
    #[schema(maximum = 3_600_000)]
    wait_ms: Option<u64>,
    /// Shown to others while it is held: at most 256 bytes.
    #[schema(max_length = 256)]
    label: Option<String>,
    /// The most that all renewals together may come to.
    max_hold_ms: Option<u64>,
    /// Only if so many nodes may forget it.
    min_margin: Option<usize>,
    /// Share it with others who do so: many readers or one writer.
    shared: Option<bool>,
    /// Makes it reentrant: whoever names the same owner may hold it at the same time, nobody else.
    /// At most 128 bytes, without spaces.
    #[schema(min_length = 1, max_length = 128)]
    owner: Option<String>,
    on_disconnect: Option<OnDisconnect>,
}

problems!(Problems: ANY, OF_RIGHTS, OF_BODY, OF_LEASE, &[
    Kind::OutOfBounds,
    Kind::Contended,
    Kind::Mismatched,
    Kind::MaxHold,
    Kind::TooLate,
    Kind::ClocksSetBack,
    Kind::Overloaded,
    Kind::Rate,
]);

/// Acquires a lock, or goes on with one, and renews it while the connection lives.
///
/// The answer has one object a line. When the connection ends, renewal ends, and nothing is
/// released before the last validity that was told is over.
#[utoipa::path(
    post, path = "/v1/hold", operation_id = "hold", tag = "locks",
    request_body = HoldRequest,
    responses((status = 200, description = "Lines, each such an object", content_type = "application/x-ndjson", body = Line), Problems),
)]
pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    caller: Caller,
    asked: Asked<HoldRequest>,
) -> Result<Response, Problem> {
    let Asked { received, what: mut request } = asked;
    Names::of(request.name.clone(), request.names.clone())?.may_be_locked_by(&caller)?;
    let on_disconnect = request.on_disconnect.unwrap_or_default();
    let stage = match request.token.take() {
        Some(token) => request.go_on(token, &service, &caller).await?,
        None => request.acquire(&service, &caller).await?,
    };
    let counted = service.metrics.hold();
    let lines = Hold { service, caller, received, on_disconnect, _counted: counted }.lines(stage);
    // What buffers lines between here and the client makes them late.
    let headers = [
        (CONTENT_TYPE.as_str(), "application/x-ndjson"),
        (CACHE_CONTROL.as_str(), "no-store"),
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

impl HoldRequest {
    /// The first that is to be told, or why there is nothing to tell.
    async fn acquire(self, service: &Service, caller: &Caller) -> Result<Stage, Problem> {
        let room = service.room(caller)?;
        let turn = service.turns.take().await?;
        let request = AcquireRequest {
            name: self.name,
            names: self.names,
            slots: self.slots,
            at_least_ms: self.at_least_ms,
            ttl_ms: self.ttl_ms,
            wait_ms: self.wait_ms.unwrap_or_default(),
            label: self.label,
            max_hold_ms: self.max_hold_ms,
            min_margin: self.min_margin,
            shared: self.shared.unwrap_or_default(),
            owner: self.owner,
        };
        let name = request.names()?.to_text();
        Waiting::new(name, request.acquire_in_line(service)?, room, turn).begin().await
    }

    /// Whoever has a lease needs no room, but an instance that does not end.
    async fn go_on(self, token: String, service: &Service, caller: &Caller) -> Result<Stage, Problem> {
        let Self { name, names, ttl_ms, wait_ms, label, max_hold_ms, min_margin, shared, owner, .. } = self;
        let terms = ttl_ms.is_some() || wait_ms.is_some() || max_hold_ms.is_some() || min_margin.is_some();
        let terms = terms || self.slots.is_some() || self.at_least_ms.is_some();
        if terms || label.is_some() || shared.is_some() || owner.is_some() {
            return Err(Problem::new(
                Kind::BadRequest,
                "token: a lease goes on as it was acquired; leave out what is said when it is acquired",
            ));
        }
        // Its client may have it extended elsewhere, and count on that.
        if self.on_disconnect == Some(OnDisconnect::Release) {
            return Err(Problem::new(
                Kind::BadRequest,
                "on_disconnect: a lease that goes on by its token is not released with the connection",
            ));
        }
        if service.is_draining() {
            return Err(Problem::draining());
        }
        let (_, handover) = LeaseRef { name, names, token }.open(service, caller)?;
        Ok(Stage::GoingOn(Kept::resume(service, &handover).await?))
    }
}
