//! At most so many at a time, for programs without a runtime.

use std::time::Duration;

use super::{Error, Guard, block_on};
use crate::InLine;
use crate::error::AcquireError;

/// At most `permits` holders at a time. Made by [`Locks::semaphore`](super::Locks::semaphore); see
/// [`crate::Semaphore`].
///
/// ```
/// let locks = tenure::blocking::Locks::memory()?;
/// let exports = locks.semaphore("exports", 2);
/// let (one, other) = (exports.acquire()?, exports.acquire()?);
/// assert_ne!(one.slot(), other.slot());
/// assert!(exports.try_acquire()?.is_none(), "two at a time");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore(pub(super) crate::Semaphore);

impl Semaphore {
    /// The term of a permit. See [`crate::Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// How long to wait for a permit. See [`crate::Lock::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.wait(wait))
    }

    /// Waits for a permit as long as it takes.
    pub fn wait_forever(self) -> Self {
        Self(self.0.wait_forever())
    }

    /// A note for others who ask who holds a permit. See [`crate::Lock::label`].
    pub fn label(self, note: impl AsRef<str>) -> Self {
        Self(self.0.label(note))
    }

    /// Any other option of a [`crate::Lock`].
    pub fn with(self, options: impl FnOnce(crate::Lock) -> crate::Lock) -> Self {
        Self(self.0.with(options))
    }

    /// Acquires a permit, waiting up to [`Semaphore::wait`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire`], and [`Error::InsideRuntime`].
    pub fn acquire(&self) -> Result<Guard, Error<AcquireError>> {
        block_on(self.0.acquire()).map(Guard)
    }

    /// [`crate::Semaphore::acquire_in_line`]: a call that waits, for a thread of its own, and a
    /// view of the place in line for the others.
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire`], and [`Error::InsideRuntime`].
    pub fn acquire_in_line(
        &self,
    ) -> (impl FnOnce() -> Result<Guard, Error<AcquireError>> + Send + use<>, InLine) {
        let (acquire, in_line) = self.0.acquire_in_line();
        (move || block_on(acquire).map(Guard), in_line)
    }

    /// Acquires a permit if one is free right now.
    ///
    /// # Errors
    /// As [`crate::Semaphore::try_acquire`], and [`Error::InsideRuntime`].
    pub fn try_acquire(&self) -> Result<Option<Guard>, Error<AcquireError>> {
        Ok(block_on(self.0.try_acquire())?.map(Guard))
    }
}
