//! Who waits for what, and what they are told.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use tenure_core::client::{Id, LeaseCell, News, NotBegun, Output, Request};
use tenure_core::{
    Entropy, Fence, HoldState, Lease, LockKey, NotAcquired, NotExtended, Place, Proposal, Standing, Time,
};
use tokio::sync::oneshot;

use super::{
    AcquireFailure, AcquireReply, Driver, Found, Input, ReleaseReply, SharedLease, Unfinished, draw_entropy,
    spans,
};
use crate::error::votes::Votes;
use crate::event::{Event, Observer};
use crate::guard::watch::Watch;

/// So much randomness is kept that callers drew and then did not need.
const DRAWN_MAX: usize = 64;

/// A lease, which its caller can look at, and who waits for what it tells.
pub(super) struct Caller {
    lease: SharedLease,
    pub(super) acquire: Option<oneshot::Sender<AcquireReply>>,
    pub(super) extend: Option<oneshot::Sender<Result<(), NotExtended>>>,
    /// Who wants to hear how the lock stands.
    pub(super) watch: Option<Arc<Watch>>,
    /// When the caller was given the lock.
    held_since: Option<Time>,
}

/// Those who wait for something else, by what they asked for.
pub(super) type Replies = HashMap<Id, ReplySender>;

pub(super) enum ReplySender {
    Release(oneshot::Sender<ReleaseReply>),
    Query(oneshot::Sender<Found>),
    Done(oneshot::Sender<()>),
    Shutdown(oneshot::Sender<Option<Unfinished>>),
}

/// What events say about a lease.
struct LeaseFacts {
    key: LockKey,
    attempts: u32,
    elapsed: Duration,
    margin: usize,
    fence: Fence,
    valid_for: Duration,
    place: Place,
    passed_on_after: Option<Duration>,
}

impl LeaseFacts {
    fn of(lease: &Lease, now: Time) -> Self {
        let standing = lease.standing();
        Self {
            key: lease.key().clone(),
            attempts: lease.attempts(),
            elapsed: lease.elapsed(now),
            margin: standing.map_or(0, Standing::margin),
            fence: standing.and_then(Standing::fence).unwrap_or(Fence::NONE),
            place: lease.place().unwrap_or_default(),
            passed_on_after: lease.passed_on_after(),
            valid_for: standing.map_or(Duration::ZERO, |standing| standing.validity().left(now)),
        }
    }
}

impl LeaseCell for Caller {
    fn look(&self) -> impl Deref<Target = Lease> {
        self.lease.look()
    }

    fn open(&mut self) -> impl DerefMut<Target = Lease> {
        self.lease.look()
    }
}

impl Driver {
    /// Keeps randomness that a caller has drawn for an attempt.
    pub(super) fn keep(&mut self, entropy: Entropy) {
        if self.drawn.len() < DRAWN_MAX {
            self.drawn.push(entropy);
        }
    }

    /// Draws randomness for an attempt. Whatever was drawn is used once.
    pub(super) fn draw(&mut self, lease: Id, proposal: Proposal) {
        match self.drawn.pop().map_or_else(draw_entropy, Ok) {
            Ok(entropy) => self.client.handle(self.now, Input::Attempt { lease, entropy, proposal }),
            Err(error) => {
                if let Some(caller) = self.client.lease_mut(lease) {
                    caller.tell_acquired(Err(AcquireFailure::NoRandomness(error)));
                }
                self.client.request(self.now, Request::Abandon { id: lease });
            }
        }
    }

    /// Carries to the callers what the client tells them.
    pub(super) fn tell_caller(&mut self, output: Output<Caller>) {
        match output {
            Output::Tell { lease, news } => {
                let span = match news {
                    News::Waiting { .. } => {
                        self.lookouts.begin(lease);
                        self.spans.of(lease)
                    }
                    News::Retrying { .. } | News::State(_) => self.spans.of(lease),
                    // Whoever releases it waits for the votes.
                    News::GivenUp { .. } if self.replies.contains_key(&lease) => self.spans.of(lease),
                    _ => {
                        self.lookouts.end(lease);
                        self.spans.end(lease)
                    }
                };
                if let Some(caller) = self.client.lease_mut(lease) {
                    let to = (&mut self.observer, &*self.addresses);
                    spans::within(span.as_ref(), || caller.tell(to, self.now, news));
                }
            }
            Output::Refused { id, lease: mut caller, reason: NotBegun::ShutDown } => {
                _ = self.spans.end(id);
                self.lookouts.end(id);
                caller.tell_acquired(Err(AcquireFailure::ShutDown));
            }
            Output::Refused { id, lease: mut caller, reason: NotBegun::Outdated { left } } => {
                _ = self.spans.end(id);
                caller.tell_extended(Err(NotExtended::Outdated { left }));
            }
            Output::Ended { id } => {
                if !self.replies.contains_key(&id) {
                    _ = self.spans.end(id);
                }
                self.lookouts.end(id);
                self.client.lease(id).inspect(|caller| caller.tell_ended());
            }
            Output::Released { lease, outcome, ballots, frees_within } => {
                _ = self.spans.end(lease);
                if let Some(ReplySender::Release(reply)) = self.replies.remove(&lease) {
                    let _ = reply.send(ReleaseReply { outcome, ballots, frees_within });
                }
            }
            Output::NotReleased { lease } => {
                _ = self.spans.end(lease);
                self.replies.remove(&lease);
            }
            Output::CleanedUp { key, unconfirmed } => {
                let name = key.name();
                self.observer.observe(&match unconfirmed.len() {
                    0 => Event::CleanedUp { name },
                    nodes => Event::NotCleanedUp { name, nodes },
                });
            }
            Output::Found { id, found } => {
                if let Some(ReplySender::Query(reply)) = self.replies.remove(&id) {
                    let _ = reply.send(found);
                }
            }
            Output::Started { id } | Output::Settled { id } => {
                if let Some(ReplySender::Done(reply)) = self.replies.remove(&id) {
                    let _ = reply.send(());
                }
            }
            Output::ShutDown { id, unfinished } => {
                if let Some(ReplySender::Shutdown(reply)) = self.replies.remove(&id) {
                    let _ = reply.send(unfinished);
                }
            }
            // For the connections.
            Output::Send { .. }
            | Output::Renew(_)
            | Output::Survey { .. }
            | Output::Draw { .. }
            | Output::Remember { .. }
            | Output::Life { .. }
            | Output::Notice { .. }
            | Output::Poisoned { .. } => {}
        }
    }
}

impl Caller {
    pub(super) const fn of(lease: SharedLease) -> Self {
        Self { lease, acquire: None, extend: None, watch: None, held_since: None }
    }

    /// Tells a caller what becomes of its lease.
    fn tell(&mut self, (observer, addresses): (&mut Observer, &[Arc<str>]), now: Time, news: News) {
        let facts = LeaseFacts::of(&self.lease.look(), now);
        let LeaseFacts { attempts, elapsed, margin, fence, valid_for, passed_on_after, .. } = facts;
        let name = facts.key.name();
        if matches!(news, News::Acquired | News::PassedOn | News::Extended) {
            self.held_since.get_or_insert(now);
        }
        let held = |since: Option<Time>| since.map(|since| now.since(since));
        match news {
            News::Acquired => {
                observer.observe(&Event::Acquired {
                    name,
                    attempts,
                    elapsed,
                    margin,
                    fence,
                    passed_on_after,
                });
                self.tell_acquired(Ok(()));
            }
            News::PassedOn => {
                observer.observe(&Event::PassedOn { name, elapsed, valid_for, fence });
                self.tell_acquired(Ok(()));
            }
            News::NotAcquired(end) => {
                let NotAcquired { cause, attempts, elapsed, .. } = end;
                observer.observe(&Event::NotAcquired { name, cause, attempts, elapsed });
                self.tell_acquired(Err(AcquireFailure::NotAcquired(end)));
            }
            News::Waiting { at, free_after } => {
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
            News::Retrying { cause, at, ballots } => {
                let votes = &Votes::new(addresses, &ballots);
                observer.observe(&Event::Retrying { name, cause, pause: at.since(now), votes });
            }
            News::Extended => {
                observer.observe(&Event::Extended { name, valid_for, fence });
                self.watch.iter().for_each(|watch| watch.tell_extended());
                self.tell_extended(Ok(()));
            }
            News::NotExtended(reason) => {
                let lost = matches!(reason, NotExtended::Lost { .. });
                observer.observe(&Event::NotExtended { name, lost, valid_for, fence });
                self.tell_extended(Err(reason));
            }
            News::State(state) => {
                observer.observe(&match state {
                    HoldState::Held => Event::Safe { name, valid_for, fence },
                    HoldState::AtRisk => Event::AtRisk { name, valid_for, fence },
                    HoldState::Lost => Event::Lost { name, valid_for, fence, held: held(self.held_since) },
                });
                self.watch.iter().for_each(|watch| watch.tell(state));
            }
            News::GivenUp { fence } => {
                let (fence, held) = (fence.unwrap_or(Fence::NONE), held(self.held_since));
                observer.observe(&Event::GivenUp { name, fence, held });
            }
            News::AllVoted => self.lease.tell_all_voted(),
            News::ShutDown => self.tell_acquired(Err(AcquireFailure::ShutDown)),
        }
    }

    fn tell_acquired(&mut self, reply: AcquireReply) {
        // A caller that is gone has sent, or will send, an `Abandon`.
        self.acquire.take().map(|caller| caller.send(reply));
    }

    fn tell_extended(&mut self, reply: Result<(), NotExtended>) {
        self.extend.take().map(|caller| caller.send(reply));
    }

    /// There is nothing to hold any more.
    pub(super) fn tell_ended(&self) {
        self.watch.iter().for_each(|watch| watch.tell(HoldState::Lost));
    }
}
