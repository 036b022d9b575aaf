//! When a lock belongs to the client: when the outermost layer has returned the answer.
//!
//! Before that a call that is cancelled, because its client has gone away, gives the lock back
//! ([`Unheard`]). From then on nothing that is seen on the connection does: the answer may have
//! been delivered although the write failed, and the client may be at work.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::response::Response;
use futures_util::FutureExt;
use tenure::{ExtendError, Guard, Handover, LockState};

use crate::Service;
use crate::idempotency::Running;
use crate::lease::gather;
use crate::problem::{Kind, Problem};

/// When the request was received: what a client is told of times counts from here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received(pub(crate) Instant);

/// A lock on its way to the client, beside the answer that says so.
#[derive(Clone)]
pub(crate) struct Grant(Arc<Mutex<Option<Granted>>>);

/// With the key that it was asked for with, if there is one.
type Granted = (Unheard, Option<Running>);

impl Grant {
    pub(crate) fn of(unheard: Unheard, key: Option<Running>) -> Self {
        Self(Arc::new(Mutex::new(Some((unheard, key)))))
    }

    fn hand_over(&self) {
        let granted = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((unheard, key)) = granted {
            // What it says is in the answer.
            let lease = unheard.tell().hand_over();
            if let Some(key) = key {
                key.granted(lease);
            }
        }
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grant")
    }
}

/// A lock that its client cannot know of yet: it is given back when this is dropped. Others may
/// have it at once even if it was to be kept from them for a period, because nothing was done under
/// it.
pub(crate) struct Unheard(Option<Guard>);

impl Unheard {
    pub(crate) const fn new(guard: Guard) -> Self {
        Self(Some(guard))
    }

    pub(crate) const fn guard(&self) -> &Guard {
        self.0.as_ref().expect("it was not told of")
    }

    /// From now on the client may count on it.
    pub(crate) fn tell(mut self) -> Guard {
        self.0.take().expect("it is told of once")
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        // The release leaves at the first look, and goes on by itself.
        self.0.take().map(|guard| guard.release_early().now_or_never());
    }
}

/// A lock that its client has already: it is handed over when this is dropped.
pub(crate) struct Kept(Option<Guard>);

impl Kept {
    pub(crate) const fn new(guard: Guard) -> Self {
        Self(Some(guard))
    }

    /// A lock that its client goes on with, if the nodes say that it still has it.
    pub(crate) async fn resume(service: &Service, lease: &Handover) -> Result<Self, Problem> {
        let resumed = service.locks.resume(lease).await;
        if let Err(ExtendError::MaxHold { .. }) = &resumed
            && has_ended(service, lease).await
        {
            // How long it may be held matters no more.
            let name = &lease.name;
            return Err(Problem::new(
                Kind::NotHeld,
                format!("lock {name:?} is no longer held: its lease has ended"),
            ));
        }
        let kept = Self::new(resumed?);
        gather(kept.guard()).await;
        Ok(kept)
    }

    pub(crate) const fn guard(&self) -> &Guard {
        self.0.as_ref().expect("it was not taken")
    }

    pub(crate) fn take(mut self) -> Guard {
        self.0.take().expect("it is taken once")
    }

    /// The same, in another's hands. Nothing is left here.
    pub(crate) const fn pass_on(&mut self) -> Self {
        Self(self.0.take())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // The client has what it says.
        self.0.take().map(Guard::hand_over);
    }
}

/// Whether no node has this lease any more, as far as a majority tells.
async fn has_ended(service: &Service, lease: &Handover) -> bool {
    let Ok(report) = service.locks.inspect(&lease.name).await else { return false };
    let owner = lease.token.to_string();
    !matches!(report.state, LockState::Unknown) && !report.owners().contains(owner.as_str())
}

/// The last thing that is done with an answer.
pub(crate) fn hand_over(response: &mut Response) {
    if let Some(grant) = response.extensions_mut().remove::<Grant>() {
        grant.hand_over();
    }
}
