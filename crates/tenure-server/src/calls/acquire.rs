//! `POST /v1/acquire`: the lock, or why not.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tenure::{AcquireError, Guard, Handover, Held, InLine, Lock, MaxHold};
use tokio::time::sleep;
use utoipa::ToSchema;

use crate::Service;
use crate::body::Asked;
use crate::caller::Caller;
use crate::grant::{Grant, Kept, Unheard};
use crate::idempotency::{Claim, IdempotencyKey, Known};
use crate::lease::{Lease, gather, lease};
use crate::names::Names;
use crate::problem::{ANY, Kind, OF_BODY, OF_RIGHTS, Problem, problems};

/// Nobody waits for longer with one call: connections do not live for ever.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// So often whoever has a claim looks whether it waits for itself.
const LOOK: Duration = Duration::from_millis(250);

/// So many locks a client can say that it holds: the same as it can lock together.
const HOLDING_MAX: usize = 32;

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireRequest {
    /// Name of the lock: at most 1,024 bytes, compared byte by byte.
    #[schema(min_length = 1, max_length = 1024)]
    pub(super) name: Option<String>,
    /// Several names to lock together, all or none, instead of `name`.
    #[schema(min_items = 1, max_items = 32)]
    pub(super) names: Option<Vec<String>>,
    /// Acquire one slot of a semaphore with this many slots, instead of a lock.
    #[schema(minimum = 1, maximum = 64)]
    pub(super) slots: Option<usize>,
    /// Keep the lock from others for at least this long, even if it is released sooner.
    pub(super) at_least_ms: Option<u64>,
    /// How long the lock lasts unless extended. Defaults to the instance's ttl.
    #[schema(minimum = 50)]
    pub(super) ttl_ms: Option<u64>,
    /// How long to wait in line. Without it, there is a single attempt.
    #[serde(default)]
    #[schema(maximum = 3_600_000)]
    pub(super) wait_ms: u64,
    /// Text shown to others while the lock is held: at most 256 bytes.
    #[schema(max_length = 256)]
    pub(super) label: Option<String>,
    /// The longest that the lock may be held, extensions included.
    pub(super) max_hold_ms: Option<u64>,
    /// Acquire only with at least this margin: the number of nodes that may forget the lock.
    pub(super) min_margin: Option<usize>,
    /// Share the lock with others that share it: many readers or one writer.
    #[serde(default)]
    pub(super) shared: bool,
    /// Makes the lock reentrant: calls with the same owner hold it at the same time, nobody else
    /// does. At most 128 bytes, without spaces.
    #[schema(min_length = 1, max_length = 128)]
    pub(super) owner: Option<String>,
    /// The locks that the client holds while it waits, each as the `held` of its lease, so that
    /// deadlocks are reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 32)]
    pub(super) holding: Option<Vec<String>>,
}

problems!(Problems: ANY, OF_RIGHTS, OF_BODY, &[
    Kind::OutOfBounds,
    Kind::Contended,
    Kind::Mismatched,
    Kind::Unavailable,
    Kind::TooLate,
    Kind::ClocksSetBack,
    Kind::Draining,
    Kind::Overloaded,
    Kind::Rate,
    Kind::StillRunning,
    Kind::KeyReused,
    Kind::NotHeld,
    Kind::MaxHold,
]);

/// Acquires a lock, at once or after waiting in line.
///
/// With an `Idempotency-Key` the call can be repeated: the same key and body return the same lease,
/// extended.
#[utoipa::path(
    post, path = "/v1/acquire", operation_id = "acquire", tag = "locks",
    params(("Idempotency-Key" = Option<String>, Header, description = "Visible ASCII characters", min_length = 1, max_length = 255)),
    request_body = AcquireRequest,
    responses(
        (
            status = 200, description = "The lease", body = Lease,
            links(
                ("extend" = (operation_id = "extend", request_body = json!({ "name": "$response.body#/name", "token": "$response.body#/token" }))),
                ("release" = (operation_id = "release", request_body = json!({ "name": "$response.body#/name", "token": "$response.body#/token" }))),
            ),
        ),
        Problems,
    ),
)]
pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    caller: Caller,
    IdempotencyKey(key): IdempotencyKey,
    asked: Asked<AcquireRequest>,
) -> Result<Response, Problem> {
    let Asked { received, what: request } = asked;
    let names = request.names()?;
    names.may_be_locked_by(&caller)?;
    let name = names.to_text();
    // What several may hold keeps nobody waiting for itself; and the label of one of several names
    // says nothing of the others.
    let is_alone = !request.shared && request.owner.is_none();
    let is_alone = is_alone && request.slots.is_none() && request.names.is_none();
    let claim = key.as_deref().filter(|_| is_alone);
    let claim = claim.map(|key| Claim { service: &service, caller: &caller, name: &name, key });
    let running = match key.as_deref() {
        None => None,
        Some(key) => match service.idempotency.begin(&service, &caller, key, &request)? {
            Known::New(running) => Some(running),
            Known::Before(before) => return again(&service, &before, received).await,
        },
    };
    let _room = service.room(&caller)?;
    let unheard = Unheard::new(acquire(&service, request, claim.as_ref()).await?);
    gather(unheard.guard()).await;
    caller.is_still(&service.callers)?;
    let mut response = Json(lease(unheard.guard(), received, &service.keys)).into_response();
    response.extensions_mut().insert(Grant::of(unheard, running));
    Ok(response)
}

/// Waits for the lock. Whoever has a claim to it from before is told so.
async fn acquire(
    service: &Service,
    mut request: AcquireRequest,
    claim: Option<&Claim<'_>>,
) -> Result<Guard, Problem> {
    if let Some(claim) = claim {
        request.label = Some(claim.mark(request.label.as_deref()));
    }
    let waits = request.wait_ms > 0;
    let turn = service.turns.take().await?;
    let (acquire, in_line) = request.acquire_in_line(service)?;
    let mut acquire = pin!(turn.during(acquire, in_line.clone()));
    loop {
        tokio::select! {
            biased;
            outcome = &mut acquire => {
                if let (Some(claim), Err(AcquireError::Contended { place: Some(place), .. })) = (claim, &outcome)
                    && claim.is_behind(place)
                {
                    return Err(claim.yours().await);
                }
                return Ok(outcome?);
            }
            // Whoever asks once has an answer in a moment. A lock that was granted and is just
            // being given back would look taken to the next instance.
            () = service.drained(), if waits => return Err(Problem::draining()),
            () = sleep(LOOK), if claim.is_some() => {}
        }
        if let (Some(claim), Some(place)) = (claim, in_line.place())
            && claim.is_behind(&place)
        {
            return Err(claim.yours().await);
        }
    }
}

/// The lease that a key led to before, if the nodes say that it still is one.
async fn again(service: &Service, before: &Handover, received: Instant) -> Result<Response, Problem> {
    // The client may have the lock already.
    let kept = Kept::resume(service, before).await?;
    Ok(Json(lease(kept.guard(), received, &service.keys)).into_response())
}

/// An acquire under way.
pub(crate) type Acquiring = Pin<Box<dyn Future<Output = Result<Guard, AcquireError>> + Send>>;

impl AcquireRequest {
    pub(super) fn names(&self) -> Result<Names, Problem> {
        Names::of(self.name.clone(), self.names.clone())
    }

    /// Asks for it, and looks at the place in line; of a permit, in that of a slot.
    pub(super) fn acquire_in_line(self, service: &Service) -> Result<(Acquiring, InLine), Problem> {
        let (slots, names) = (self.slots, self.names()?);
        if slots.is_some() && (self.names.is_some() || self.shared || self.owner.is_some()) {
            return Err(Problem::new(
                Kind::BadRequest,
                "slots: a semaphore takes one name and cannot be combined with shared or owner; remove the \
                 others",
            ));
        }
        let lock = self.lock(service)?;
        let Some(slots) = slots else {
            let (acquire, in_line) = lock.acquire_in_line();
            return Ok((Box::pin(acquire), in_line));
        };
        let semaphore = service.locks.semaphore(names.to_text(), slots).with(|_| lock);
        let (acquire, in_line) = semaphore.acquire_in_line();
        Ok((Box::pin(acquire), in_line))
    }

    fn lock(self, service: &Service) -> Result<Lock, Problem> {
        let wait = Duration::from_millis(self.wait_ms);
        if wait > WAIT_MAX {
            return Err(Problem::new(
                Kind::OutOfBounds,
                format!("wait_ms: expected at most {}; to wait longer, ask again", WAIT_MAX.as_millis()),
            ));
        }
        if self.shared && self.owner.is_some() {
            return Err(Problem::new(
                Kind::BadRequest,
                "owner: cannot be combined with shared; remove one of them",
            ));
        }
        let lock = self.names()?.lock(&service.locks);
        let mut lock = if wait.is_zero() { lock.no_wait() } else { lock.wait(wait) };
        if let Some(ttl) = self.ttl_ms {
            lock = lock.ttl(Duration::from_millis(ttl));
        }
        if let Some(label) = self.label {
            lock = lock.label_for(label);
        }
        if let Some(max_hold) = self.max_hold_ms {
            lock = lock.max_hold(MaxHold::AtMost(Duration::from_millis(max_hold)));
        }
        if let Some(min_margin) = self.min_margin {
            lock = lock.min_margin(min_margin);
        }
        if let Some(at_least) = self.at_least_ms {
            lock = lock.at_least(Duration::from_millis(at_least));
        }
        if self.shared {
            lock = lock.shared();
        }
        if let Some(owner) = self.owner {
            lock = lock.owner(owner);
        }
        let holding = self.holding.unwrap_or_default();
        if holding.len() > HOLDING_MAX {
            let detail = format!("holding: expected at most {HOLDING_MAX} locks");
            return Err(Problem::new(Kind::BadRequest, detail));
        }
        for held in holding {
            let held: Held = held.parse().map_err(|_| {
                Problem::new(
                    Kind::BadRequest,
                    "holding: expected the `held` of a lease, unchanged, for each lock",
                )
            })?;
            lock = lock.while_holding(held);
        }
        Ok(lock)
    }
}
