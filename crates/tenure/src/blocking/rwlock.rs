//! A lock with many readers or one writer, for programs without a runtime.

use super::Lock;

/// A lock for many readers or one writer. Made by [`Locks::rwlock`](super::Locks::rwlock); see
/// [`crate::RwLock`].
///
/// ```
/// let locks = tenure::blocking::Locks::memory()?;
/// let table = locks.rwlock("table");
/// let (one, other) = (table.read().acquire()?, table.read().acquire()?);
/// assert!(table.write().try_acquire()?.is_none(), "they read");
/// # drop((one, other));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct RwLock(pub(super) crate::RwLock);

impl RwLock {
    /// The reader's lock.
    pub fn read(&self) -> Lock {
        Lock(self.0.read())
    }

    /// The writer's lock.
    pub fn write(&self) -> Lock {
        Lock(self.0.write())
    }
}
