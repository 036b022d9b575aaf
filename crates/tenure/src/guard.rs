//! The guard: a held lock as a Rust value.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Fence, LockKey, NotExtended, Options, ReleaseOutcome, Standing};
use tokio::sync::oneshot;

use crate::driver::{MachineId, ReleaseReply, Request, SharedLease, look};
use crate::error::{ExtendError, ReleaseError};
use crate::manager::Inner;
use crate::votes::Votes;

/// A lock that is held.
///
/// Dropping it releases the lock in the background; that never blocks, needs no runtime, and works while
/// panicking. [`Guard::release`] does the same and tells what came of it.
///
/// A guard is *valid* as long as [`Guard::valid_for`] is above zero. Nothing stops a program that goes on
/// working after that, so look before every step that must not happen twice.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    hold: Hold,
    options: Options,
}

/// What became of a release that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
    /// Which node said what. Nodes that have not answered yet are still being told.
    pub votes: Votes,
}

impl Guard {
    pub(crate) fn new(hold: Hold, options: Options) -> Self {
        Self { hold, options }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.hold.key.name()
    }

    /// How long the lock may still be counted on, by this machine's clock: the ttl less the time since the
    /// round began, less drift. Zero when it is over, or when a majority of nodes said that it is lost.
    ///
    /// It is computed on every call, so it is right also after the process was paused or suspended.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.hold.valid_for()
    }

    /// Whether the lock may be counted on at this moment.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.valid_for().is_zero()
    }

    /// The fencing token of this acquisition: larger than that of every acquisition of this lock that had succeeded
    /// before this one began. Hand it to what the lock protects, and let that refuse smaller ones: then not even a
    /// holder that was paused beyond its term can do harm. Extensions keep it.
    ///
    /// [`Fence::NONE`], smaller than all others, if the lock was acquired with [`Lock::unfenced`](crate::Lock::unfenced).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let first = locks.lock("import").acquire().await?;
    /// let fence = first.fence();
    /// first.release().await?;
    /// let second = locks.lock("import").acquire().await?;
    /// assert!(second.fence() > fence);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.hold.standing(|standing| standing.and_then(Standing::fence).unwrap_or(Fence::NONE))
    }

    /// How many of the nodes that hold the lock may forget it (crash, flush, clock jump) before another
    /// client could get it. Rises while late votes come in, to N - m for an odd N.
    #[must_use]
    pub fn margin(&self) -> usize {
        self.hold.standing(|standing| standing.map_or(0, Standing::margin))
    }

    /// Which node said what in the round that gave or last extended the lock.
    #[must_use]
    pub fn votes(&self) -> Votes {
        self.hold.votes()
    }

    /// Holds the lock for a further ttl from now.
    ///
    /// # Errors
    /// [`ExtendError`]. A failed extension releases nothing and shortens nothing; only
    /// [`ExtendError::Lost`] and [`ExtendError::Expired`] mean that the lock is gone.
    ///
    /// # Cancel safety
    /// The extension goes on when the future is dropped, and the guard shows what came of it.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let mut guard = locks.lock("import").acquire().await?;
    /// for step in 0..3 {
    ///     // ... a part of the work ...
    ///     guard.extend().await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn extend(&mut self) -> Result<(), ExtendError> {
        self.extend_for(self.options.ttl).await
    }

    /// As [`Guard::extend`], for another ttl than the lock was acquired with. An extension that is shorter
    /// than what is left changes nothing.
    ///
    /// # Errors
    /// As [`Guard::extend`], and [`ExtendError::InvalidOption`] if the ttl is not allowed.
    ///
    /// # Cancel safety
    /// As [`Guard::extend`].
    pub async fn extend_for(&mut self, ttl: Duration) -> Result<(), ExtendError> {
        let name = || self.name().to_owned();
        let manager = &self.hold.manager;
        let term = self.options.term(ttl, manager.max_ttl);
        let term = term.map_err(|error| ExtendError::InvalidOption { name: name(), error })?;
        let (reply, answer) = oneshot::channel();
        manager.send(Request::Extend { id: self.hold.id, term, reply });
        let Ok(extended) = answer.await else {
            return Err(ExtendError::ShutDown { name: name(), valid_for: self.valid_for() });
        };
        extended.map_err(|reason| self.extend_error(reason))
    }

    /// Releases the lock, and tells as soon as a majority of nodes has answered; the others are told in the
    /// background.
    ///
    /// # Errors
    /// [`ReleaseError::NotHeld`] if the lock was no longer ours, [`ReleaseError::Unavailable`] if no majority
    /// answered. In both cases the lock is not ours any more, and there is nothing left to do.
    ///
    /// # Cancel safety
    /// The release goes on when the future is dropped, also before it was first polled.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let guard = locks.lock("import").acquire().await?;
    /// let released = guard.release().await?;
    /// assert_eq!(released.votes.granted(), 1);
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<Released, ReleaseError> {
        let name = self.name().to_owned();
        let (reply, answer) = oneshot::channel();
        let manager = Arc::clone(&self.hold.manager);
        manager.send(Request::Release { id: self.hold.id, reply });
        self.hold.forget();
        let Ok(ReleaseReply { outcome, ballots, frees_within }) = answer.await else {
            return Err(ReleaseError::ShutDown { name });
        };
        let votes = manager.votes(&ballots);
        match outcome {
            ReleaseOutcome::Released => Ok(Released { votes }),
            ReleaseOutcome::NotHeld => Err(ReleaseError::NotHeld { name, votes }),
            ReleaseOutcome::Unavailable => Err(ReleaseError::Unavailable { name, votes, frees_within }),
        }
    }

    fn extend_error(&self, reason: NotExtended) -> ExtendError {
        let (name, valid_for) = (self.name().to_owned(), self.valid_for());
        let votes = |ballots: &[_]| self.hold.manager.votes(ballots);
        match reason {
            NotExtended::Lost { ballots } => ExtendError::Lost { name, votes: votes(&ballots) },
            NotExtended::Refused { ballots } => {
                ExtendError::Refused { name, votes: votes(&ballots), valid_for }
            }
            NotExtended::MaxHold => ExtendError::MaxHold { name, valid_for },
            NotExtended::Unavailable { ballots } => {
                ExtendError::Unavailable { name, votes: votes(&ballots), valid_for }
            }
            _ => ExtendError::Expired { name },
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name())
            .field("fence", &self.fence())
            .field("valid_for", &self.valid_for())
            .field("margin", &self.margin())
            .finish_non_exhaustive()
    }
}

/// A lease that is given up when this is dropped.
///
/// It exists from the moment an acquire is asked for, so there is no moment at which nobody is responsible.
pub(crate) struct Hold {
    manager: Arc<Inner>,
    key: LockKey,
    lease: SharedLease,
    id: MachineId,
    /// Set when the lease has ended in another way, and nothing is left to give up.
    forgotten: bool,
}

impl Hold {
    pub(crate) fn new(manager: Arc<Inner>, key: LockKey, lease: SharedLease) -> Self {
        let id = manager.next_id();
        Self { manager, key, lease, id, forgotten: false }
    }

    pub(crate) const fn id(&self) -> MachineId {
        self.id
    }

    pub(crate) fn valid_for(&self) -> Duration {
        let now = self.manager.clock.now();
        self.standing(|standing| match standing {
            Some(standing) if !standing.is_lost() => standing.validity().left(now),
            _ => Duration::ZERO,
        })
    }

    pub(crate) fn votes(&self) -> Votes {
        self.standing(|standing| {
            self.manager.votes(standing.map_or(&[], |standing| standing.round().ballots()))
        })
    }

    /// Drops the responsibility: the lease has ended, or the worker has been told to end it.
    pub(crate) fn forget(mut self) {
        self.forgotten = true;
    }

    fn standing<T>(&self, read: impl FnOnce(Option<&Standing>) -> T) -> T {
        read(look(&self.lease).standing())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.forgotten {
            self.manager.send(Request::Abandon { id: self.id });
        }
    }
}
