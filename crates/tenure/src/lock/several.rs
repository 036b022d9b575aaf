//! Several names locked together.

use std::sync::Arc;

use super::Lock;
use crate::Locks;
use crate::guard::Guard;

impl Locks {
    /// Several locks as one: all of `names` are acquired, or none.
    ///
    /// A node grants all of them in one step or refuses, and nothing is held while waiting for the
    /// rest. So programs that want overlapping sets cannot deadlock, whatever the order of the
    /// names. There is one guard: it has one fence, larger than any earlier fence of each name, it
    /// is renewed as a whole, and it is lost when one of the names is.
    ///
    /// To others they are ordinary locks: a client that wants one of the names waits for this
    /// guard. Up to [`NAMES_MAX`](crate::NAMES_MAX) names, each once; they cannot be shared, and a
    /// set ignores [`Lock::cohort`]. Waiting is bounded, but not first come, first served: a set
    /// gets its names when all of them are free.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let transfer = locks.lock_all(["account:7", "account:3"]).acquire().await?;
    /// assert_eq!(transfer.names().collect::<Vec<_>>(), ["account:3", "account:7"]);
    /// assert!(locks.lock("account:3").try_acquire().await?.is_none());
    /// transfer.release().await?;
    /// assert!(locks.lock("account:3").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn lock_all<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) -> Lock {
        Lock::all(Arc::clone(&self.inner), names.into_iter().map(Into::into).collect())
    }
}

impl Guard {
    /// The locked names: one, or those of [`Locks::lock_all`] in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts().0.names()
    }
}
