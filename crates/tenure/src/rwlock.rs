//! A lock with many readers or one writer.

use crate::{Lock, Locks};

/// A lock that many readers hold at once, or one writer alone. Made by [`Locks::rwlock`].
///
/// [`RwLock::read`] and [`RwLock::write`] give a [`Lock`] with everything that locks have: a term,
/// a wait, renewal, loss, a label. Both sides have the same name on the same nodes, so a writer is
/// also kept out by a plain [`Lock`] of that name, and by every other Redlock client.
///
/// Neither side starves. When a writer is done, the readers that wait come next, up to 32 at once;
/// when the last of them is done, the next writer. A reader that comes while a writer waits does
/// so, too, although others read. Writers are served in the order in which they came.
///
/// A reader that dies is in the way of writers until its own term is over, and no longer.
///
/// # Fences
/// A writer's fence is larger than those of all readers and writers before it, a reader's larger
/// than those of all writers before it. Readers have no order among themselves. So a resource keeps
/// two numbers: it lets a reader in whose fence is at least the last writer's, and a writer whose
/// fence is at least the largest of all.
///
/// # Cost
/// A reader takes 1.1 times as long as a writer, and 1.4 times the servers' CPU: a hold of its own
/// is kept beside the lock. It pays where reading takes long, many read at once, and writing is
/// rare (`docs/benchmarks.md`).
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
    /// The lock for whoever reads.
    pub fn read(&self) -> Lock {
        self.lock.clone().shared()
    }

    /// The lock for whoever writes.
    pub fn write(&self) -> Lock {
        self.lock.clone()
    }
}

impl Locks {
    /// The read-write lock called `name`. Asks nobody yet.
    pub fn rwlock(&self, name: impl Into<String>) -> RwLock {
        RwLock { lock: self.lock(name) }
    }
}
