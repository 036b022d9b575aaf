//! The manager, for programs without a runtime.

use std::convert::Infallible;
use std::time::Duration;

use super::{Error, FleetWatch, Guard, Leader, Lock, RwLock, Semaphore, block_on, wait_for};
use crate::error::{AcquireError, BuildError, ExtendError, ReleaseError, ShutdownError};
use crate::{
    Builder, Circle, Handover, ListProgress, LockList, LockReport, MemoryNode, NodeReport, Released, Worker,
};

/// A manager whose calls block. Made by [`Locks::build`].
///
/// Create one per program and share it: clones are cheap and share one manager.
///
/// ```
/// use std::time::Duration;
/// use tenure::blocking::Locks;
///
/// let locks = Locks::memory()?;
/// let guard = locks.lock("invoice:42").ttl(Duration::from_secs(30)).acquire()?;
/// assert!(guard.valid_for() > Duration::from_secs(29));
/// guard.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Locks(pub(super) crate::Locks);

impl Locks {
    /// A manager with one node in this process's memory: for trials, tests and examples.
    ///
    /// # Errors
    /// [`BuildError::Thread`] if the system cannot start a thread.
    pub fn memory() -> Result<Self, BuildError> {
        Self::build(Self::builder().node(MemoryNode::new("0")))
    }

    /// A manager of the store that this user's processes share on this machine.
    ///
    /// # Errors
    /// As [`crate::Locks::embedded`], and [`BuildError::Thread`] if the system cannot start a
    /// thread.
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Result<Self, BuildError> {
        Self::build(Self::builder().node(crate::SqliteNode::user_default()?))
    }

    /// A manager with the settings of the environment and of `tenure.toml`.
    ///
    /// # Errors
    /// As [`crate::Locks::from_env`], and [`BuildError::Thread`] if the system cannot start a
    /// thread.
    #[cfg(feature = "config")]
    pub fn from_env() -> Result<Self, crate::config::ConfigError> {
        let config = crate::config::Config::from_env()?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        Ok(Self::build(config.builder()?)?)
    }

    /// A manager of these nodes, with default settings, as [`crate::Locks::connect`]. Returns when
    /// every node has been tried.
    ///
    /// # Errors
    /// As [`crate::Locks::connect`], and [`Error::InsideRuntime`].
    ///
    /// # Examples
    /// ```no_run
    /// let locks = tenure::blocking::Locks::connect(["redis://a", "redis://b", "redis://c"])?;
    /// let guard = locks.lock("invoice:42").acquire()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, Error<BuildError>> {
        let mut builder = Self::builder();
        for url in urls {
            builder = builder.url(url.as_ref())?;
        }
        let locks = Self::build(builder)?;
        locks.ready().map_err(|error| error.map::<BuildError>(|never| match never {}))?;
        Ok(locks)
    }

    /// Starts a builder with default settings; [`Locks::build`] builds the manager.
    pub fn builder() -> Builder {
        crate::Locks::builder()
    }

    /// Builds the manager. Its worker runs on a separate thread.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(builder: Builder) -> Result<Self, BuildError> {
        builder.worker(Worker::OwnThread).build().map(Self)
    }

    /// Waits until every node has been tried once. Calls made earlier wait for that, too.
    ///
    /// # Errors
    /// [`Error::InsideRuntime`].
    pub fn ready(&self) -> Result<(), Error<Infallible>> {
        wait_for(self.0.ready())
    }

    /// The lock called `name`. No node is asked yet; see [`Lock`].
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock(self.0.lock(name))
    }

    /// The lock called `name`, with options set on the async lock: for programs that use both.
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

    /// Several locks as one, as [`crate::Locks::lock_all`]: all of `names` are acquired, or none.
    ///
    /// ```
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let transfer = locks.lock_all(["account:7", "account:3"]).acquire()?;
    /// assert_eq!(transfer.names().collect::<Vec<_>>(), ["account:3", "account:7"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lock_all<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) -> Lock {
        Lock(self.0.lock_all(names))
    }

    /// The read-write lock called `name`. No node is asked yet.
    pub fn rwlock(&self, name: impl Into<String>) -> RwLock {
        RwLock(self.0.rwlock(name))
    }

    /// The semaphore called `name`, for at most `permits` holders at a time. No node is asked yet.
    pub fn semaphore(&self, name: impl Into<String>, permits: usize) -> Semaphore {
        Semaphore(self.0.semaphore(name, permits))
    }

    /// The election called `name`, for candidates and observers. No node is asked yet.
    pub fn leader(&self, name: impl Into<String>) -> Leader {
        Leader(self.0.leader(name))
    }

    /// Follows all locks and nodes of this manager, as [`crate::Locks::watch`] does.
    #[must_use]
    pub fn watch(&self) -> FleetWatch {
        FleetWatch(self.0.watch())
    }

    /// Asks every node about the lock `name`: who holds it, for how long, and who waits.
    ///
    /// # Errors
    /// As [`crate::Locks::inspect`], and [`Error::InsideRuntime`].
    ///
    /// # Examples
    /// ```
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let _guard = locks.lock("invoice:42").acquire()?;
    /// let report = locks.inspect("invoice:42")?;
    /// assert_eq!(report.held_here, Some(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inspect(&self, name: &str) -> Result<LockReport, Error<AcquireError>> {
        block_on(self.0.inspect(name))
    }

    /// Looks for deadlocks that involve these locks.
    ///
    /// # Errors
    /// As [`crate::Locks::circles`], and [`Error::InsideRuntime`].
    pub fn circles<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Vec<Circle>, Error<AcquireError>> {
        block_on(self.0.circles(names))
    }

    /// Lists the locks that the nodes have under this manager's prefix.
    ///
    /// # Errors
    /// As [`crate::Locks::list`], and [`Error::InsideRuntime`].
    ///
    /// # Examples
    /// ```
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let _guard = locks.lock("invoice:42").acquire()?;
    /// assert_eq!(locks.list()?.locks.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list(&self) -> Result<LockList, Error<AcquireError>> {
        block_on(self.0.list())
    }

    /// As [`Locks::list`], for locks whose names begin with `begins`, with a progress report after
    /// each slice.
    ///
    /// # Errors
    /// As [`Locks::list`].
    pub fn list_under(
        &self,
        begins: &str,
        progress: impl FnMut(&ListProgress),
    ) -> Result<LockList, Error<AcquireError>> {
        block_on(self.0.list_under(begins, progress))
    }

    /// Checks every node. Findings come with advice.
    ///
    /// # Errors
    /// [`Error::InsideRuntime`].
    ///
    /// # Examples
    /// ```
    /// let locks = tenure::blocking::Locks::memory()?;
    /// assert!(locks.nodes()?.iter().all(|node| node.votes));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn nodes(&self) -> Result<Vec<NodeReport>, Error<Infallible>> {
        wait_for(self.0.nodes())
    }

    /// Records the state of the nodes, as `crate::Locks::record_nodes` does.
    ///
    /// # Errors
    /// [`Error::InsideRuntime`].
    #[cfg(feature = "metrics")]
    pub fn record_nodes(&self) -> Result<(), Error<Infallible>> {
        wait_for(self.0.record_nodes())
    }

    /// Resumes a lock that was handed over.
    ///
    /// # Errors
    /// As [`crate::Locks::resume`], and [`Error::InsideRuntime`].
    ///
    /// # Examples
    /// ```
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let handover = locks.lock("import").acquire()?.hand_over();
    /// let guard = locks.resume(&handover)?;
    /// assert_eq!(guard.fence(), handover.fence);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume(&self, handover: &Handover) -> Result<Guard, Error<ExtendError>> {
        block_on(self.0.resume(handover)).map(Guard)
    }

    /// Releases a lock that was handed over, whether or not its term is over.
    ///
    /// # Errors
    /// As [`crate::Locks::release`], and [`Error::InsideRuntime`].
    pub fn release(&self, handover: &Handover) -> Result<Released, Error<ReleaseError>> {
        block_on(self.0.release(handover))
    }

    /// As [`Locks::release`], but gives the remaining nodes a moment to answer.
    ///
    /// # Errors
    /// As [`Locks::release`].
    pub fn release_everywhere(&self, handover: &Handover) -> Result<Released, Error<ReleaseError>> {
        block_on(self.0.release_everywhere(handover))
    }

    /// Takes the lock from one specific holder, as listed by [`LockReport::owners`]. For operators:
    /// see [`crate::Locks::release_by_force`].
    ///
    /// # Errors
    /// As [`crate::Locks::release_by_force`], and [`Error::InsideRuntime`].
    pub fn release_by_force(&self, name: &str, owner: &str) -> Result<Released, Error<ReleaseError>> {
        block_on(self.0.release_by_force(name, owner))
    }

    /// Shuts the manager down, as [`crate::Locks::shutdown`] does.
    ///
    /// # Errors
    /// As [`crate::Locks::shutdown`], and [`Error::InsideRuntime`].
    pub fn shutdown(&self) -> Result<(), Error<ShutdownError>> {
        block_on(self.0.shutdown())
    }

    /// As [`Locks::shutdown`], but waits up to `limit` for every node that may still have a key,
    /// even a silent one.
    ///
    /// # Errors
    /// As [`Locks::shutdown`].
    pub fn shutdown_within(&self, limit: Duration) -> Result<(), Error<ShutdownError>> {
        block_on(self.0.shutdown_within(limit))
    }

    /// The addresses of the nodes, in order.
    pub fn node_addresses(&self) -> impl Iterator<Item = &str> {
        self.0.node_addresses()
    }
}
