//! Who waits for a lease, and what they are told.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    HoldState, Lease, LockKey, NotAcquired, NotExtended, Place, Standing, Ticket, Time, lease,
};
use tokio::sync::oneshot;

use super::timers::Timer;
use super::{AcquireFailure, AcquireReply, SharedLease};
use crate::observe::{Event, Observer};
use crate::votes::Votes;
use crate::watch::Watch;

/// A lease under way, and who waits for what it tells.
pub(super) struct LeaseEntry {
    pub(super) lease: SharedLease,
    pub(super) timer: Option<Timer>,
    pub(super) acquire: Option<oneshot::Sender<AcquireReply>>,
    pub(super) extend: Option<oneshot::Sender<Result<(), NotExtended>>>,
    /// Its place in line, as the driver knows it.
    pub(super) ticket: Option<Ticket>,
    /// Who wants to hear how the lock stands.
    pub(super) watch: Option<Arc<Watch>>,
}

/// What events say about a lease.
pub(super) struct Facts {
    pub(super) key: LockKey,
    attempts: u32,
    elapsed: Duration,
    margin: usize,
    valid_for: Duration,
    place: Place,
}

impl Facts {
    pub(super) fn of(lease: &Lease, now: Time) -> Self {
        Self {
            key: lease.key().clone(),
            attempts: lease.attempts(),
            elapsed: lease.elapsed(now),
            margin: lease.standing().map_or(0, Standing::margin),
            place: lease.place().unwrap_or_default(),
            valid_for: lease.standing().map_or(Duration::ZERO, |standing| standing.validity().left(now)),
        }
    }
}

impl LeaseEntry {
    pub(super) const fn of(lease: SharedLease) -> Self {
        Self { lease, timer: None, acquire: None, extend: None, watch: None, ticket: None }
    }

    /// Passes on what a lease tells its caller.
    pub(super) fn tell(
        &mut self,
        (observer, addresses): (&mut Observer, &[Arc<str>]),
        now: Time,
        facts: &Facts,
        news: lease::Output,
    ) {
        let Facts { attempts, elapsed, margin, valid_for, .. } = *facts;
        let name = facts.key.name();
        match news {
            lease::Output::Acquired => {
                observer.observe(&Event::Acquired { name, attempts, elapsed, margin });
                self.tell_acquired(Ok(()));
            }
            lease::Output::NotAcquired(end) => {
                let NotAcquired { cause, attempts, elapsed, .. } = end;
                observer.observe(&Event::NotAcquired { name, cause, attempts, elapsed });
                self.tell_acquired(Err(AcquireFailure::NotAcquired(end)));
            }
            lease::Output::Waiting { at, free_after } => {
                let Place { ahead, waiters, nodes, ref holder, .. } = facts.place;
                let (holder, asks_in) = (holder.as_deref(), at.since(now));
                observer.observe(&Event::Waiting {
                    name,
                    ahead,
                    waiters,
                    nodes,
                    holder,
                    free_after,
                    asks_in,
                });
            }
            lease::Output::Retrying { cause, at, ballots } => {
                let votes = &Votes::new(addresses, &ballots);
                observer.observe(&Event::Retrying { name, cause, pause: at.since(now), votes });
            }
            lease::Output::Extended => {
                observer.observe(&Event::Extended { name, valid_for });
                self.tell_extended(Ok(()));
            }
            lease::Output::NotExtended(reason) => {
                let lost = matches!(reason, NotExtended::Lost { .. });
                observer.observe(&Event::NotExtended { name, lost, valid_for });
                self.tell_extended(Err(reason));
            }
            lease::Output::State(state) => {
                observer.observe(&match state {
                    HoldState::Held => Event::Safe { name, valid_for },
                    HoldState::AtRisk => Event::AtRisk { name, valid_for },
                    HoldState::Lost => Event::Lost { name, valid_for },
                });
                self.watch.iter().for_each(|watch| watch.tell(state));
            }
            // For the driver itself.
            lease::Output::Widened
            | lease::Output::Send { .. }
            | lease::Output::Propose { .. }
            | lease::Output::CleanUp(_) => {}
        }
    }

    pub(super) fn tell_acquired(&mut self, reply: AcquireReply) {
        // A caller that is gone has sent, or will send, an `Abandon`.
        self.acquire.take().map(|caller| caller.send(reply));
    }

    /// There is nothing to hold any more.
    pub(super) fn tell_ended(&self) {
        self.watch.iter().for_each(|watch| watch.tell(HoldState::Lost));
    }

    fn tell_extended(&mut self, reply: Result<(), NotExtended>) {
        self.extend.take().map(|caller| caller.send(reply));
    }
}
