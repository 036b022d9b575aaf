//! A held lock, for programs without a runtime.

use std::convert::Infallible;
use std::ops::Deref;
use std::time::Duration;

use super::{Error, block_on, wait_for};
use crate::error::{ExtendError, ReleaseError, UpgradeError};
use crate::{Handover, Held, HoldState, Released};

/// A held lock. It dereferences to [`crate::Guard`] for everything that does not wait.
///
/// Dropping it releases the lock in the background. While it lives, the lock is renewed; if that
/// fails for too long, the lock is lost. Check [`is_valid`](crate::Guard::is_valid) before each
/// step that must not happen twice.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard(pub(super) crate::Guard);

/// The states of a held lock, one after the other. Made by [`Guard::states`].
#[derive(Debug)]
pub struct GuardStates(crate::GuardStates);

/// Signals that a held lock was extended or changed its state. Made by [`Guard::changes`].
#[derive(Debug)]
pub struct GuardChanges(crate::GuardChanges);

impl Guard {
    /// Extends the lock for another ttl from now.
    ///
    /// # Errors
    /// As [`crate::Guard::extend`], and [`Error::InsideRuntime`].
    pub fn extend(&mut self) -> Result<(), Error<ExtendError>> {
        block_on(self.0.extend())
    }

    /// As [`Guard::extend`], with a different ttl.
    ///
    /// # Errors
    /// As [`crate::Guard::extend_for`], and [`Error::InsideRuntime`].
    pub fn extend_for(&mut self, ttl: Duration) -> Result<(), Error<ExtendError>> {
        block_on(self.0.extend_for(ttl))
    }

    /// Turns a writer into a reader.
    ///
    /// # Errors
    /// As [`crate::Guard::downgrade`], and [`Error::InsideRuntime`].
    pub fn downgrade(&mut self) -> Result<(), Error<ExtendError>> {
        block_on(self.0.downgrade())
    }

    /// Always an error: a reader cannot become a writer.
    ///
    /// # Errors
    /// [`UpgradeError`] says why, and what to do instead.
    pub const fn upgrade(&mut self) -> Result<(), UpgradeError> {
        self.0.upgrade()
    }

    /// Another guard of the same hold. The lock is released with the last of these guards.
    ///
    /// ```
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let outer = locks.lock("import").acquire()?;
    /// let inner = outer.reenter();
    /// outer.release()?;
    /// assert!(inner.is_valid());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reenter(&self) -> Self {
        Self(self.0.reenter())
    }

    /// Takes the lock out of its guard, so that another process can resume it.
    #[must_use = "the lock stays locked until its term is over, or until it is resumed"]
    pub fn hand_over(self) -> Handover {
        self.0.hand_over()
    }

    /// Waits until every node has answered the round that acquired or last extended the lock, at
    /// most this long. See [`crate::Guard::late_votes`].
    ///
    /// # Errors
    /// [`Error::InsideRuntime`].
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use tenure::blocking::Locks;
    ///
    /// let nodes = ["a", "b", "c"].map(tenure::MemoryNode::new);
    /// let locks = Locks::build(Locks::builder().nodes(&nodes))?;
    /// let guard = locks.lock("import").acquire()?;
    /// guard.late_votes(Duration::from_millis(60))?;
    /// assert_eq!(guard.margin(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn late_votes(&self, within: Duration) -> Result<(), Error<Infallible>> {
        wait_for(self.0.late_votes_on_worker(within))
    }

    /// The states of the lock: the current one, then every change.
    ///
    /// ```
    /// use tenure::HoldState;
    ///
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let guard = locks.lock("import").acquire()?;
    /// let mut states = guard.states();
    /// assert_eq!(states.next()?, Some(HoldState::Held));
    /// guard.release()?;
    /// assert_eq!(states.next()?, Some(HoldState::Lost));
    /// assert_eq!(states.next()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn states(&self) -> GuardStates {
        GuardStates(self.0.states())
    }

    /// Reports every extension and every change of state from now on.
    #[must_use]
    pub fn changes(&self) -> GuardChanges {
        GuardChanges(self.0.changes())
    }

    /// Waits until the lock is lost, released or dropped.
    /// [`cancellation_token`](crate::Guard::cancellation_token) says the same without waiting.
    ///
    /// # Errors
    /// [`Error::InsideRuntime`].
    ///
    /// # Examples
    /// ```
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let guard = locks.lock("import").acquire()?;
    /// let watched = guard.reenter();
    /// let watcher = std::thread::spawn(move || {
    ///     let mut states = watched.states();
    ///     drop(watched);
    ///     while states.next().ok().flatten().is_some() {}
    ///     println!("stop now");
    /// });
    /// guard.release()?;
    /// watcher.join().expect("it does not panic");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lost(&self) -> Result<(), Error<Infallible>> {
        wait_for(self.0.lost())
    }

    /// Releases the lock, and returns as soon as a majority of nodes has answered.
    ///
    /// # Errors
    /// As [`crate::Guard::release`], and [`Error::InsideRuntime`], in which case the lock is
    /// released in the background.
    pub fn release(self) -> Result<Released, Error<ReleaseError>> {
        block_on(self.0.release())
    }

    /// Releases the lock and drops the rest of [`Lock::at_least`](super::Lock::at_least): the work
    /// failed, and another machine may try at once.
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub fn release_early(self) -> Result<Released, Error<ReleaseError>> {
        block_on(self.0.release_early())
    }
}

impl GuardStates {
    /// Waits for the next state; `None` after [`HoldState::Lost`].
    ///
    /// # Errors
    /// [`Error::InsideRuntime`].
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot fail inside a runtime")]
    pub fn next(&mut self) -> Result<Option<HoldState>, Error<Infallible>> {
        wait_for(self.0.next())
    }
}

impl GuardChanges {
    /// Waits for the next change. `false` if the guard is gone and nothing more can come.
    ///
    /// # Errors
    /// [`Error::InsideRuntime`].
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot fail inside a runtime")]
    pub fn next(&mut self) -> Result<bool, Error<Infallible>> {
        wait_for(self.0.next())
    }
}

impl Deref for Guard {
    type Target = crate::Guard;

    fn deref(&self) -> &crate::Guard {
        &self.0
    }
}

impl From<&Guard> for Held {
    fn from(guard: &Guard) -> Self {
        (&guard.0).into()
    }
}
