//! Once per period: a lock that nobody else gets for a while, even if its work is done sooner.

use std::time::Duration;

use super::Lock;
use crate::error::ReleaseError;
use crate::guard::{Guard, Released};

impl Lock {
    /// How long nobody else gets the lock after it was acquired, even if it is released earlier. A
    /// job that several machines start at about the same time, each by its own clock, runs once.
    ///
    /// The nodes keep the name locked for at least that long, whether or not the release reaches
    /// them or the holder dies. A job that takes longer holds its lock as usual. At most the
    /// fleet's `max_ttl`, and only for exclusive locks.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let locks = tenure::Locks::memory();
    /// let every_minute = locks.lock("report").at_least(Duration::from_secs(50));
    /// if let Some(guard) = every_minute.try_acquire().await? {
    ///     // Write the report, in a second.
    ///     guard.release().await?;
    /// }
    /// assert!(every_minute.try_acquire().await?.is_none(), "another machine, a little late");
    /// # Ok(()) }
    /// ```
    pub fn at_least(mut self, at_least: Duration) -> Self {
        self.options_mut().at_least = at_least;
        self
    }
}

impl Guard {
    /// Releases the lock and drops the rest of [`Lock::at_least`]: the work failed, and another
    /// machine may try at once.
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// The release continues when the future is dropped.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// let locks = tenure::Locks::memory();
    /// let every_minute = locks.lock("report").at_least(Duration::from_secs(50));
    /// every_minute.acquire().await?.release_early().await?;
    /// assert!(every_minute.try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn release_early(self) -> Result<Released, ReleaseError> {
        self.parts().0.waive_at_least();
        self.release().await
    }
}
