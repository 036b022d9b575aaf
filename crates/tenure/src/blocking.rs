//! The same locks for programs without an async runtime.
//!
//! Every call blocks the calling thread. Inside an async runtime that would hold up other tasks, so
//! there every call returns [`Error::InsideRuntime`] instead; use the async API there.
//!
//! ```
//! use tenure::blocking::Locks;
//!
//! let locks = Locks::memory()?;
//! let guard = locks.lock("invoice:42").acquire()?;
//! assert!(guard.is_valid());
//! guard.release()?;
//! locks.shutdown()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops::Deref;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::error::{AcquireError, BuildError, ExtendError, ReleaseError, ShutdownError};
use crate::{Builder, MemoryNode, Released, Worker};

/// A manager whose calls block. Made by [`Locks::build`].
#[derive(Clone, Debug)]
pub struct Locks(crate::Locks);

/// A lock that can be asked for. Made by [`Locks::lock`] and [`Locks::lock_with`].
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock(crate::Lock);

/// A lock that is held. It shows everything that [`crate::Guard`] shows.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard(crate::Guard);

/// Why a blocking call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// The call was made inside an async runtime, where blocking would hold up other tasks.
    #[error("a blocking lock was used inside an async runtime; use the async API there")]
    InsideRuntime,
    /// The operation itself failed.
    #[error(transparent)]
    Operation(#[from] E),
}

impl Locks {
    /// A manager with one node in this process's memory.
    ///
    /// # Errors
    /// [`BuildError::Thread`] if the system cannot start a thread.
    pub fn memory() -> Result<Self, BuildError> {
        Self::build(crate::Locks::builder().node(MemoryNode::new("0")))
    }

    /// A manager of the store that the processes of this user share on this machine.
    ///
    /// # Errors
    /// As [`crate::Locks::embedded`], and [`BuildError::Thread`] if the system cannot start a
    /// thread.
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Result<Self, BuildError> {
        Self::build(crate::Locks::builder().node(crate::SqliteNode::user_default()?))
    }

    /// A manager with the settings that the environment and the files of this machine name.
    ///
    /// # Errors
    /// As [`crate::Locks::from_env`], and [`BuildError::Thread`] if the system cannot start a
    /// thread.
    #[cfg(feature = "config")]
    pub fn from_env() -> Result<Self, crate::config::ConfigError> {
        Ok(Self::build(crate::config::Config::from_env()?.builder()?)?)
    }

    /// Builds a manager from the settings of the async one. Its worker has a thread of its own.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(builder: Builder) -> Result<Self, BuildError> {
        builder.worker(Worker::OwnThread).build().map(Self)
    }

    /// The lock called `name`, with the default options.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        self.lock_with(name, |lock| lock)
    }

    /// The lock called `name`, with options set on the async lock.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let lock = locks.lock_with("x", |lock| lock.ttl(Duration::from_secs(5)).wait_forever());
    /// let guard = lock.acquire()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lock_with(
        &self,
        name: impl Into<String>,
        options: impl FnOnce(crate::Lock) -> crate::Lock,
    ) -> Lock {
        Lock(options(self.0.lock(name)))
    }

    /// Ends the manager in good order, as [`crate::Locks::shutdown`] does.
    ///
    /// # Errors
    /// As [`crate::Locks::shutdown`], and [`Error::InsideRuntime`].
    pub fn shutdown(&self) -> Result<(), Error<ShutdownError>> {
        block_on(self.0.shutdown())
    }
}

impl Lock {
    /// Acquires the lock, as [`crate::Lock::acquire`] does.
    ///
    /// # Errors
    /// As [`crate::Lock::acquire`], and [`Error::InsideRuntime`].
    pub fn acquire(&self) -> Result<Guard, Error<AcquireError>> {
        block_on(self.0.acquire()).map(Guard)
    }

    /// Asks for the lock once, as [`crate::Lock::try_acquire`] does.
    ///
    /// # Errors
    /// As [`crate::Lock::try_acquire`], and [`Error::InsideRuntime`].
    pub fn try_acquire(&self) -> Result<Option<Guard>, Error<AcquireError>> {
        Ok(block_on(self.0.try_acquire())?.map(Guard))
    }
}

impl Guard {
    /// Holds the lock for a further ttl, as [`crate::Guard::extend`] does.
    ///
    /// # Errors
    /// As [`crate::Guard::extend`], and [`Error::InsideRuntime`].
    pub fn extend(&mut self) -> Result<(), Error<ExtendError>> {
        block_on(self.0.extend())
    }

    /// Holds the lock for another ttl, as [`crate::Guard::extend_for`] does.
    ///
    /// # Errors
    /// As [`crate::Guard::extend_for`], and [`Error::InsideRuntime`].
    pub fn extend_for(&mut self, ttl: Duration) -> Result<(), Error<ExtendError>> {
        block_on(self.0.extend_for(ttl))
    }

    /// Shares the lock from now on, as [`crate::Guard::downgrade`] does.
    ///
    /// # Errors
    /// As [`crate::Guard::downgrade`], and [`Error::InsideRuntime`].
    pub fn downgrade(&mut self) -> Result<(), Error<ExtendError>> {
        block_on(self.0.downgrade())
    }

    /// Releases the lock, as [`crate::Guard::release`] does.
    ///
    /// # Errors
    /// As [`crate::Guard::release`], and [`Error::InsideRuntime`]; the lock is released in the
    /// background then.
    pub fn release(self) -> Result<Released, Error<ReleaseError>> {
        block_on(self.0.release())
    }
}

impl Deref for Guard {
    type Target = crate::Guard;

    fn deref(&self) -> &crate::Guard {
        &self.0
    }
}

fn block_on<T, E>(call: impl Future<Output = Result<T, E>>) -> Result<T, Error<E>> {
    if Handle::try_current().is_ok() {
        return Err(Error::InsideRuntime);
    }
    pollster::block_on(call).map_err(Error::Operation)
}
