//! An acquire, from the call to the guard.
//!
//! The worker asks the nodes; what is here comes before and after. A [`Hold`] is there from the
//! start: whatever becomes of the caller, it gives up what the lease has come to.

use std::sync::Arc;

use tenure_core::{Cause, Entropy, HeldLock, Lease, NotAcquired, Terms, Wait};
use tokio_util::sync::DropGuard;
use tracing::Instrument;

use super::span::AcquireSpan;
use super::{InLine, Lock, label};
use crate::circle::{Held, Registered, Scope, Watched};
use crate::driver::{AcquireFailure, Call, SharedLease, draw_entropy};
use crate::error::AcquireError;
use crate::guard::{Guard, Hold};

/// An acquire that is about to ask the nodes.
struct Asked {
    terms: Arc<Terms>,
    entropy: Entropy,
    lease: SharedLease,
    /// Gives up whatever comes of it, if it is dropped.
    hold: Hold,
    /// What goes on until there is an answer, if its caller holds other locks: it counts for
    /// deadlocks, and is looked for in some. Boxed, because few do.
    beside: Option<Box<(Registered, DropGuard)>>,
}

impl Lock {
    /// Asks for it. `names_holder`: if others have it, finds out who, as far as the nodes did not
    /// say so already. `view`: lets somebody look at the place in line meanwhile.
    pub(super) fn ask(
        self,
        names_holder: bool,
        view: Option<InLine>,
    ) -> impl Future<Output = Result<Guard, AcquireError>> + Send + Sync {
        let span = AcquireSpan::new(&self.name);
        let inside = span.to_span();
        let ask = async move {
            let begun = span.begin(self.manager.clock);
            let mut outcome = self.ask_for_lock(view, &span).await;
            if names_holder && let Err(error) = &mut outcome {
                // Boxed, because few acquires come to it.
                Box::pin(self.name_holder(error)).await;
            }
            span.end(begun, &outcome);
            outcome
        };
        ask.instrument(inside)
    }

    /// Adds to an error who holds the lock, as far as the nodes did not say so already. Takes a
    /// node timeout at most.
    async fn name_holder(&self, error: &mut AcquireError) {
        let AcquireError::Contended { place, held_here, .. } = error else { return };
        let Ok((key, terms)) = self.check() else { return };
        // A valid lease of this manager settles it. Those of others are compared with what the
        // nodes have: they may mean another lock by the same name.
        *held_here = !self.manager.own_tokens(&key).await.is_empty();
        let others = if *held_here { vec![] } else { self.manager.tokens_of_others(&key).await };
        if place.is_some() && others.is_empty() {
            return;
        }
        let Some((seen, owners)) = self.manager.place(key, terms.term).await else { return };
        *held_here |= others.iter().any(|token| owners.contains(token.to_string().as_str()));
        place.get_or_insert_with(|| Box::new(seen));
    }

    async fn ask_for_lock(&self, view: Option<InLine>, span: &AcquireSpan) -> Result<Guard, AcquireError> {
        let Asked { terms, entropy, lease, hold, beside } = self.begin(view, span)?;
        let id = hold.id();
        let answer = self.manager.call(|reply| Call::Acquire { id, lease, entropy, reply }).await;
        drop(beside);
        match answer.unwrap_or(Err(AcquireFailure::ShutDown)) {
            Ok(()) => self.guard(hold, &terms),
            Err(failure) => {
                hold.forget();
                Err(self.error(&terms, failure))
            }
        }
    }

    /// Everything that comes before the nodes are asked. It is no part of the future, which would
    /// have room for it until the lock is acquired.
    fn begin(&self, view: Option<InLine>, span: &AcquireSpan) -> Result<Asked, AcquireError> {
        let (key, terms) = self.check()?;
        let entropy =
            draw_entropy().map_err(|error| self.error(&terms, AcquireFailure::NoRandomness(error)))?;
        let held = self.held_meanwhile();
        let holds: Vec<HeldLock> = held.iter().flat_map(Held::holds).collect();
        // Whoever may be part of a deadlock has to be told apart from others.
        let own = || (!holds.is_empty()).then(|| label::of("").into());
        let who = self.options.label.clone().or_else(own);
        let lease = Lease::new(key.clone(), Arc::clone(&terms), self.manager.quorum)
            .labelled(who.clone())
            .holding(&holds)
            .closed(self.closed);
        let lease = SharedLease::new(lease);
        if let Some(view) = &view {
            view.show(&lease);
        }
        // From here on, dropping `hold` gives up whatever the lease has come to.
        let hold = Hold::new(Arc::clone(&self.manager), key, lease.clone());
        let id = hold.id();
        self.manager.trace(id, span);
        let mut beside = None;
        if !holds.is_empty() {
            let registered =
                Registered::new(&self.manager, (id, hold.key(), &terms.mode), who.clone(), &held);
            let registered = match registered {
                Ok(registered) => registered,
                Err(circle) => {
                    hold.forget();
                    return Err(AcquireError::Circle { name: self.name.clone(), circle: Box::new(circle) });
                }
            };
            let manager = Arc::clone(&self.manager);
            let watched = Watched { manager, lease: lease.clone(), label: who, holds, view };
            let (lookout, looking) = watched.look_out();
            self.manager.send(Call::LookOut { id, lookout });
            beside = Some(Box::new((registered, looking)));
        }
        Ok(Asked { terms, entropy, lease, hold, beside })
    }

    /// What the caller holds for as long as it waits, as far as that is known.
    fn held_meanwhile(&self) -> Vec<Held> {
        if self.slot.is_some() || self.options.wait == Wait::No {
            return vec![];
        }
        let mut held = self.held.clone();
        held.extend(Scope::present());
        held
    }

    /// The guard, if the lock is still valid at this very moment: the caller may have been held up
    /// since the votes were counted.
    fn guard(&self, hold: Hold, terms: &Terms) -> Result<Guard, AcquireError> {
        if hold.valid_for().is_zero() {
            let votes = hold.votes();
            return Err(AcquireError::TooLate { name: self.name.clone(), votes, ttl: terms.term.ttl() });
        }
        Ok(Guard::new(hold.of_slot(self.slot), Arc::clone(&self.options)))
    }

    fn error(&self, terms: &Terms, failure: AcquireFailure) -> AcquireError {
        let name = self.name.clone();
        let NotAcquired { cause, ballots, attempts, elapsed, place } = match failure {
            AcquireFailure::NotAcquired(end) => end,
            AcquireFailure::ShutDown => return AcquireError::ShutDown { name },
            AcquireFailure::NoRandomness(error) => {
                return AcquireError::NoRandomness { name, error: error.to_string() };
            }
        };
        let votes = self.manager.votes(&ballots);
        match cause {
            Cause::Contended { retry_after } => {
                let place = place.map(Box::new);
                let held_here = false;
                AcquireError::Contended { name, votes, retry_after, attempts, elapsed, place, held_here }
            }
            Cause::ClocksSetBack { left } => AcquireError::ClocksSetBack { name, votes, retry_after: left },
            Cause::TooLate => AcquireError::TooLate { name, votes, ttl: terms.term.ttl() },
            Cause::OtherKind { found } => {
                AcquireError::OtherKind { name, votes, asked: terms.mode.kind(), found }
            }
            _ => {
                let retry_after = votes.retry_after();
                AcquireError::Unavailable { name, votes, retry_after, attempts, elapsed }
            }
        }
    }
}
