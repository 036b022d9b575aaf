//! Work under a lock: acquired before it, renewed during it, released after it.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::Lock;
use crate::circle::Scope;
use crate::error::WithError;
use crate::guard::Guard;

impl Lock {
    /// Runs `work` under the lock: acquires it, renews it while the work runs, and releases it
    /// however the work ends, including by a panic or by dropping this future. Returns what the
    /// work returns.
    ///
    /// If the lock is lost, the work is cancelled at its next `.await`, before another client can
    /// get the lock.
    ///
    /// # Errors
    /// [`WithError::Acquire`] if the lock was not acquired, [`WithError::Lost`] if it was lost.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the lock in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let rows = locks.lock("import").with(async |guard| {
    ///     println!("importing with fence {}", guard.fence());
    ///     42
    /// }).await?;
    /// assert_eq!(rows, 42);
    /// # Ok(()) }
    /// ```
    pub async fn with<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T, WithError> {
        let guard = self.acquire().await?;
        self.work_under(guard, work).await
    }

    /// Like [`Lock::with`], but asks for the lock once: `Ok(None)` means that another client has
    /// it, and the work was not started.
    ///
    /// # Errors
    /// As [`Lock::with`], but never [`AcquireError::Contended`](crate::AcquireError::Contended).
    ///
    /// # Cancel safety
    /// As [`Lock::with`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let report = locks.lock("nightly-report");
    /// match report.try_with(async |_guard| "written").await? {
    ///     Some(done) => println!("{done}"),
    ///     None => println!("another machine writes it"),
    /// }
    /// # let _held = report.acquire().await?;
    /// # assert_eq!(report.try_with(async |_| ()).await?, None);
    /// # Ok(()) }
    /// ```
    pub async fn try_with<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<Option<T>, WithError> {
        match self.try_acquire().await? {
            Some(guard) => self.work_under(guard, work).await.map(Some),
            None => Ok(None),
        }
    }

    async fn work_under<T>(&self, guard: Guard, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T, WithError> {
        let done = {
            let work = Scope::entered(&guard).around(work(&guard));
            let (mut lost, mut work) = (pin!(guard.lost()), pin!(work));
            // The loss is looked at first: work must not go on when it could be noticed.
            poll_fn(|cx| match lost.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => work.as_mut().poll(cx).map(Some),
            })
            .await
        };
        match done {
            Some(value) => {
                // The work is done; whether the nodes confirm is told in events, and frees itself
                // if not.
                let _ = guard.release().await;
                Ok(value)
            }
            None => Err(WithError::Lost { name: self.name.clone() }),
        }
    }
}
