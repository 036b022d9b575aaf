//! Who is responsible for a lease, from the call that asks for it to the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tenure_core::{HandedOver, HoldState, LockKey, Mode, NodeSet, Nonce, NotExtended, Standing};

use super::watch::Watch;
use crate::driver::{Call, Id, SharedLease};
use crate::error::ExtendError;
use crate::error::votes::Votes;
use crate::locks::Inner;

/// A lease that is given up when this is dropped.
///
/// It exists from the moment an acquire is asked for, so there is no moment at which nobody is
/// responsible.
pub(crate) struct Hold {
    pub(super) manager: Arc<Inner>,
    pub(super) key: LockKey,
    pub(super) lease: SharedLease,
    pub(super) id: Id,
    /// It has ended in another way, and nothing is left to give up.
    ended: bool,
    /// It is left to another process.
    left: AtomicBool,
    /// A guard was made of it: before that, whoever asked knows nothing of the lock.
    pub(super) is_known: bool,
    /// Which permit of a semaphore it is.
    pub(super) slot: Option<u8>,
    /// Made when somebody wants to hear how the lock stands.
    watch: OnceLock<Arc<Watch>>,
}

impl Hold {
    pub(crate) fn new(manager: Arc<Inner>, key: LockKey, lease: SharedLease) -> Self {
        let id = manager.next_id();
        let (left, watch) = (AtomicBool::new(false), OnceLock::new());
        Self { manager, key, lease, id, ended: false, left, is_known: false, slot: None, watch }
    }

    /// A lease that goes on with a lock of another process: until it is [`Hold::kept`], dropping it
    /// leaves the lock to others.
    pub(crate) fn resuming(manager: Arc<Inner>, key: LockKey, lease: SharedLease) -> Self {
        let hold = Self::new(manager, key, lease);
        hold.hand_over();
        hold
    }

    pub(crate) fn of_slot(mut self, slot: Option<u8>) -> Self {
        self.slot = slot;
        self
    }

    pub(crate) fn kept(mut self) -> Self {
        *self.left.get_mut() = false;
        self
    }

    /// Leaves the lock to another process from the moment this is dropped.
    pub(crate) fn hand_over(&self) {
        self.left.store(true, Ordering::Release);
    }

    pub(crate) const fn id(&self) -> Id {
        self.id
    }

    pub(crate) const fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) fn valid_for(&self) -> Duration {
        let now = self.manager.clock.now();
        self.standing(|standing| match standing {
            Some(standing) if !standing.is_lost() => standing.validity().left(now),
            _ => Duration::ZERO,
        })
    }

    pub(crate) fn validity(&self) -> (Duration, Duration) {
        let now = self.manager.clock.now();
        self.standing(|standing| match standing {
            Some(standing) if !standing.is_lost() && !standing.validity().is_over(now) => {
                let started = standing.round().started();
                (now.since(started), standing.validity().end().since(started))
            }
            _ => Default::default(),
        })
    }

    pub(crate) fn votes(&self) -> Votes {
        self.standing(|standing| {
            self.manager.votes(standing.map_or(&[], |standing| standing.round().ballots()))
        })
    }

    pub(super) fn passed_on_after(&self) -> Option<Duration> {
        self.lease.look().passed_on_after()
    }

    /// Drops the responsibility: the lease has ended, or the worker has been told to end it.
    pub(crate) fn forget(mut self) {
        self.ended = true;
    }

    pub(crate) fn name(&self) -> &str {
        self.key.name()
    }

    pub(crate) fn waive_at_least(&self) {
        self.lease.look().waive_at_least();
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.key.each().iter().map(LockKey::name)
    }

    pub(crate) fn state(&self) -> HoldState {
        let now = self.manager.clock.now();
        self.standing(|standing| standing.map_or(HoldState::Lost, |standing| standing.state(now)))
    }

    pub(crate) fn mode(&self) -> Mode {
        self.lease.look().mode()
    }

    pub(crate) fn handover(&self) -> Option<HandedOver> {
        self.lease.look().handover(self.manager.clock.now())
    }

    /// The lives of the memory of these nodes.
    pub(crate) fn lives_of(&self, nodes: NodeSet) -> Vec<Nonce> {
        self.manager.lives.of(nodes)
    }

    pub(crate) fn watch(&self) -> &Arc<Watch> {
        self.watch.get_or_init(|| {
            let watch = Watch::new();
            if !self.manager.send(Call::Watch { id: self.id, watch: Arc::clone(&watch) }) {
                watch.tell(HoldState::Lost);
            }
            watch
        })
    }

    pub(crate) fn extend_error(&self, reason: NotExtended, valid_for: Duration) -> ExtendError {
        let name = self.name().to_owned();
        let votes = |ballots: &[_]| self.manager.votes(ballots);
        match reason {
            NotExtended::Lost { ballots } => ExtendError::Lost { name, votes: votes(&ballots) },
            NotExtended::Refused { ballots } => {
                ExtendError::Refused { name, votes: votes(&ballots), valid_for }
            }
            NotExtended::Outdated { left } => {
                let quorum = self.manager.quorum;
                ExtendError::Outdated { name, left, nodes: quorum.nodes(), majority: quorum.majority() }
            }
            NotExtended::MaxHold => ExtendError::MaxHold { name, valid_for },
            NotExtended::RenewalsMax => ExtendError::RenewalsMax { name, valid_for },
            NotExtended::Unavailable { ballots } => {
                ExtendError::Unavailable { name, votes: votes(&ballots), valid_for }
            }
            _ => ExtendError::Expired { name },
        }
    }

    pub(super) fn standing<T>(&self, read: impl FnOnce(Option<&Standing>) -> T) -> T {
        read(self.lease.look().standing())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let id = self.id;
        if !self.is_known {
            // Nothing was done under the lock that others have to be kept from.
            self.waive_at_least();
        }
        // A worker that is gone cannot be told anything.
        let _ = match *self.left.get_mut() {
            true => self.manager.send(Call::HandOver { id }),
            false => self.manager.send(Call::Abandon { id }),
        };
    }
}
