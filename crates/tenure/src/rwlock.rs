//! A lock with many readers or one writer.

use crate::{Lock, Locks};

/// A lock for many readers or one writer. Made by [`Locks::rwlock`].
///
/// [`RwLock::read`] and [`RwLock::write`] return a [`Lock`] with everything that locks have: a
/// term, a wait, renewal, loss, a label. Both use the same name on the nodes, so a writer also
/// excludes a plain [`Lock`] of that name, and every other Redlock client.
///
/// Neither side starves. After a writer, the waiting readers come next, up to 32 at once; after the
/// last of them, the next writer. A reader that arrives while a writer waits also waits, even if
/// others are reading. Writers are served in order of arrival.
///
/// A dead reader blocks writers until its own term is over, and no longer.
///
/// # Fences
/// A writer's fence is larger than those of all earlier readers and writers, a reader's larger than
/// those of all earlier writers. Readers have no order among themselves. So a resource keeps two
/// numbers: it accepts a reader whose fence is at least the last writer's, and a writer whose fence
/// is at least the largest of all.
///
/// # Cost
/// A reader takes 1.1 times as long as a writer, and 1.4 times the servers' CPU, because each
/// reader's hold is stored beside the lock. It pays off when reads are long, readers are many and
/// writes are rare (`docs/benchmarks.md`).
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = tenure::Locks::memory();
/// let table = locks.rwlock("table");
/// let (one, other) = (table.read().acquire().await?, table.read().acquire().await?);
/// assert!(table.write().try_acquire().await?.is_none(), "they read");
/// one.release().await?;
/// other.release().await?;
/// let writer = table.write().acquire().await?;
/// assert!(table.read().try_acquire().await?.is_none(), "it writes");
/// # writer.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct RwLock {
    lock: Lock,
}

impl RwLock {
    /// The reader's lock.
    pub fn read(&self) -> Lock {
        self.lock.clone().shared()
    }

    /// The writer's lock.
    pub fn write(&self) -> Lock {
        self.lock.clone()
    }
}

impl Locks {
    /// The read-write lock called `name`. No node is asked yet.
    pub fn rwlock(&self, name: impl Into<String>) -> RwLock {
        RwLock { lock: self.lock(name) }
    }
}
