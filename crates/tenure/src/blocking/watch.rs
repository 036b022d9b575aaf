//! One view of the fleet, for programs without a runtime.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::{Error, wait_for};
use crate::{FleetNews, LockView};

/// Follows the locks and nodes of a fleet. Made by [`Locks::watch`](super::Locks::watch); see
/// [`crate::FleetWatch`].
///
/// ```
/// let locks = tenure::blocking::Locks::memory()?;
/// let mut watch = locks.watch().prefix("invoice:");
/// let _guard = locks.lock("invoice:42").acquire()?;
/// 'watch: while let Some(news) = watch.next()? {
///     for change in news.locks {
///         println!("{}: {:?}", change.name, change.now.map(|lock| lock.state().clone()));
///         break 'watch;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FleetWatch(pub(super) crate::FleetWatch);

impl FleetWatch {
    /// The approximate polling interval.
    pub const LOOK_EVERY: Duration = crate::FleetWatch::LOOK_EVERY;

    /// The largest share of a node's time that polling takes.
    #[must_use]
    pub fn share_max() -> f64 {
        crate::FleetWatch::share_max()
    }

    /// Follows only locks whose names begin with this.
    #[must_use]
    pub fn prefix(self, begins: impl Into<String>) -> Self {
        Self(self.0.prefix(begins))
    }

    /// Follows one lock in detail. See [`crate::FleetWatch::lock`].
    #[must_use]
    pub fn lock(self, name: impl Into<String>) -> Self {
        Self(self.0.lock(name))
    }

    /// Whether it follows all locks under a prefix rather than a single one.
    #[must_use]
    pub const fn is_list(&self) -> bool {
        self.0.is_list()
    }

    /// The prefix or the name that it follows.
    #[must_use]
    pub fn begins(&self) -> &str {
        self.0.begins()
    }

    /// The locks that this watch has reported so far.
    pub fn locks(&self) -> impl Iterator<Item = &Arc<LockView>> {
        self.0.locks()
    }

    /// Waits for news; `None` when the manager is gone.
    ///
    /// # Errors
    /// [`Error::InsideRuntime`].
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot fail inside a runtime")]
    pub fn next(&mut self) -> Result<Option<FleetNews>, Error<Infallible>> {
        wait_for(self.0.next())
    }
}
