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

/// The same as for an acquire; or a name and a token, to continue a lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HoldRequest {
    /// Name of the lock: at most 1,024 bytes, compared byte by byte.
    #[schema(min_length = 1, max_length = 1024)]
    name: Option<String>,
    /// Several names to lock together, all or none, instead of `name`.
    #[schema(min_items = 1, max_items = 32)]
    names: Option<Vec<String>>,
    /// Acquire one slot of a semaphore with this many slots, instead of a lock.
    #[schema(minimum = 1, maximum = 64)]
    slots: Option<usize>,
    /// Keep the lock from others for at least this long, even if it is released sooner.
    at_least_ms: Option<u64>,
    /// Continues a lease that the client already has, instead of acquiring one. Send only the name
    /// with it.
    token: Option<String>,
    /// How long the lock lasts unless renewed. Defaults to the instance's ttl.
    #[schema(minimum = 50)]
    ttl_ms: Option<u64>,
    /// How long to wait in line. Without it, there is a single attempt.
    #[schema(maximum = 3_600_000)]
    wait_ms: Option<u64>,
    /// Text shown to others while the lock is held: at most 256 bytes.
    #[schema(max_length = 256)]
    label: Option<String>,
    /// The longest that the lock may be held, renewals included.
    max_hold_ms: Option<u64>,
    /// Acquire only with at least this margin: the number of nodes that may forget the lock.
    min_margin: Option<usize>,
    /// Share the lock with others that share it: many readers or one writer.
    shared: Option<bool>,
    /// Makes the lock reentrant: calls with the same owner hold it at the same time, nobody else
    /// does. At most 128 bytes, without spaces.
    #[schema(min_length = 1, max_length = 128)]
    owner: Option<String>,
    /// The locks that the client holds while it waits, each as the `held` of its lease, so that
    /// deadlocks are reported.
    #[schema(max_items = 32)]
    holding: Option<Vec<String>>,
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

/// Acquires a lock, or continues a lease, and renews it while the connection is open.
///
/// The answer has one object per line. When the connection closes, renewal stops; by default the
/// lock is not released before its last reported validity ends.
#[utoipa::path(
    post, path = "/v1/hold", operation_id = "hold", tag = "locks",
    request_body = HoldRequest,
    responses((status = 200, description = "Lines, each one of these objects", content_type = "application/x-ndjson", body = Line), Problems),
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
            holding: self.holding,
        };
        let name = request.names()?.to_text();
        Waiting::new(name, request.acquire_in_line(service)?, room, turn).begin().await
    }

    /// Whoever has a lease needs no room, but an instance that does not end.
    async fn go_on(self, token: String, service: &Service, caller: &Caller) -> Result<Stage, Problem> {
        let Self { name, names, ttl_ms, wait_ms, label, max_hold_ms, min_margin, shared, owner, .. } = self;
        let terms = ttl_ms.is_some() || wait_ms.is_some() || max_hold_ms.is_some() || min_margin.is_some();
        let terms = terms || self.slots.is_some() || self.at_least_ms.is_some() || self.holding.is_some();
        if terms || label.is_some() || shared.is_some() || owner.is_some() {
            return Err(Problem::new(
                Kind::BadRequest,
                "token: a lease continues with the options it was acquired with; remove them",
            ));
        }
        // Its client may have it extended elsewhere, and count on that.
        if self.on_disconnect == Some(OnDisconnect::Release) {
            return Err(Problem::new(
                Kind::BadRequest,
                "on_disconnect: a lease continued by its token is not released when the connection closes",
            ));
        }
        if service.is_draining() {
            return Err(Problem::draining());
        }
        let (_, handover) = LeaseRef { name, names, token }.open(service, caller)?;
        Ok(Stage::GoingOn(Kept::resume(service, &handover).await?))
    }
}
