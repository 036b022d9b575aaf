//! One lock: its name, its options, and how to get it.

mod ask;
mod at_least;
mod in_line;
pub(crate) mod label;
mod several;
mod span;
mod with;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    Drift, LockKey, MaxHold, Mode, NameError, OptionError, Options, OwnerId, OwnerIdError, Renewal, Retry,
    Terms, Wait,
};

use crate::circle::Held;
use crate::error::AcquireError;
use crate::guard::Guard;
pub use crate::lock::in_line::InLine;
use crate::locks::Inner;

/// A lock that you can ask for. Made by [`Locks::lock`](crate::Locks::lock).
///
/// Options are checked when you acquire. A `Lock` can be acquired as often as you like.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tenure::Locks;
///
/// let locks = Locks::memory();
/// let lock = locks.lock("report").ttl(Duration::from_secs(5)).wait(Duration::from_millis(200));
/// let first = lock.acquire().await?;
/// assert!(lock.try_acquire().await?.is_none(), "held by the first");
/// first.release().await?;
/// assert!(lock.try_acquire().await?.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    manager: Arc<Inner>,
    name: String,
    /// All names, if several are locked together; `name` is what they are called then.
    names: Option<Arc<[String]>>,
    /// Shared by all locks that have the manager's defaults, and with their guards.
    options: Arc<Options>,
    /// Nothing is left to those outside the line.
    closed: bool,
    /// What is wrong with the owner that was named, if anything.
    owner_error: Option<OwnerIdError>,
    /// What its caller holds until it is acquired.
    pub(crate) held: Vec<Held>,
    /// Which of several it is that would do as well: a wait for it is no wait for its holder alone.
    slot: Option<u8>,
}

impl Lock {
    pub(crate) fn new(manager: Arc<Inner>, name: String) -> Self {
        let options = Arc::clone(&manager.defaults);
        let (names, owner_error, held) = (None, None, vec![]);
        Self { manager, name, names, options, closed: false, owner_error, held, slot: None }
    }

    /// Several locks as one.
    pub(crate) fn all(manager: Arc<Inner>, names: Vec<String>) -> Self {
        let name = names.join(", ");
        Self { names: Some(names.into()), ..Self::new(manager, name) }
    }

    /// The term: how long the lock lives unless it is extended or released. Default 30 s. While the
    /// guard lives, the lock is renewed automatically ([`Lock::renewal`]); if the process dies, the
    /// lock expires after this time.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options_mut().ttl = ttl;
        self
    }

    /// How long [`Lock::acquire`] may wait. Default 10 s. The last attempt starts at the end of
    /// this time and may take one node timeout longer.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options_mut().wait = Wait::AtMost(wait);
        self
    }

    /// Lets [`Lock::acquire`] wait until it has the lock or its future is dropped.
    pub fn wait_forever(mut self) -> Self {
        self.options_mut().wait = Wait::Forever;
        self
    }

    /// The pause between attempts and their number. See [`Retry`].
    pub fn retry(mut self, retry: Retry) -> Self {
        self.options_mut().retry = retry;
        self
    }

    /// How long a node may take to answer before its vote counts as unknown. Must be much shorter
    /// than the ttl. By default it follows the round trips to each node: at least 50 ms (ttl / 10
    /// if that is less), at most ttl / 10.
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.options_mut().node_timeout = Some(node_timeout);
        self
    }

    /// The allowance for clocks that run at different rates. Default 1 % of the ttl plus 2 ms.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.options_mut().drift = drift;
        self
    }

    /// How much longer than the ttl the nodes keep the key. Default 10 % of the ttl, at least 100
    /// ms.
    pub fn guard_band(mut self, guard_band: Duration) -> Self {
        self.options_mut().guard_band = Some(guard_band);
        self
    }

    /// The longest that extensions may hold the lock in total. Default one hour, or the ttl if that
    /// is longer.
    pub fn max_hold(mut self, max_hold: MaxHold) -> Self {
        self.options_mut().max_hold = Some(max_hold);
        self
    }

    /// How the lock is renewed while it is held. Default: every third of the ttl. See [`Renewal`].
    pub fn renewal(mut self, renewal: Renewal) -> Self {
        self.options_mut().renewal = renewal;
        self
    }

    /// The most renewals. Default: as many as [`Lock::max_hold`] allows.
    pub fn renewals_max(mut self, renewals_max: u32) -> Self {
        self.options_mut().renewals_max = Some(renewals_max);
        self
    }

    /// Acquires without a fence: slightly faster, but the resource has nothing to check.
    /// [`Guard::fence`] is [`Fence::NONE`](crate::Fence::NONE) then.
    pub fn unfenced(mut self) -> Self {
        self.options_mut().fenced = false;
        self
    }

    /// Stores this note beside the lock while it is held, after the process id and the host name,
    /// so that others see who holds it: `4711@web-1 nightly import`. At most 256 bytes in total.
    pub fn label(mut self, note: impl AsRef<str>) -> Self {
        self.options_mut().label = Some(label::of(note.as_ref()).into());
        self
    }

    /// Stores exactly this label beside the lock while it is held, without process id and host
    /// name: for programs that hold locks on behalf of others. At most 256 bytes.
    pub fn label_for(mut self, holder: impl Into<Arc<str>>) -> Self {
        self.options_mut().label = Some(holder.into());
        self
    }

    /// Does not wait: [`Lock::acquire`] asks once. Unlike [`Lock::try_acquire`], its error says who
    /// holds the lock.
    pub fn no_wait(mut self) -> Self {
        self.options_mut().wait = Wait::No;
        self
    }

    /// Waits without a place in line: retries as [`Lock::retry`] says, and takes the lock when it
    /// happens to be free. Clients that wait in line are served first if the holder is a Tenure
    /// client.
    pub fn unqueued(mut self) -> Self {
        self.options_mut().queued = false;
        self
    }

    /// Lets callers of this manager that wait for the lock pass it on among themselves: for a lock
    /// that many tasks of one process want at the same time. One of them asks the nodes on behalf
    /// of all that are waiting; each gets the lock in turn, with its own guard and fence, and the
    /// nodes see a release only when the last one is done. With 64 tasks, one acquire in 64 asks
    /// the nodes.
    ///
    /// This lasts at most 10 ms and 128 passes from the grant. Then the lock goes to the next
    /// waiter elsewhere, and the next caller here queues behind it. So other processes wait at most
    /// 10 ms plus one hold longer, and *first come, first served* holds only between callers that
    /// ask the nodes.
    ///
    /// Callers that wait here are not in line on the nodes, so
    /// [`Locks::inspect`](crate::Locks::inspect) does not count them.
    ///
    /// Only callers with the same options (but for [`Lock::wait`] and [`Lock::retry`]) pass a lock
    /// on to each other. [`Lock::try_acquire`], [`Lock::unfenced`] and [`Lock::unqueued`] callers
    /// ask the nodes as usual, and a guard whose lock was [handed over](Guard::to_handover) is
    /// released.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use tenure::{Event, Locks, MemoryNode};
    ///
    /// let (acquired, passed_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    /// let count = (acquired.clone(), passed_on.clone());
    /// let locks = Locks::builder().nodes([&MemoryNode::new("a")]).observer(move |event| match event {
    ///     Event::Acquired { .. } => _ = count.0.fetch_add(1, Ordering::Relaxed),
    ///     Event::PassedOn { .. } => _ = count.1.fetch_add(1, Ordering::Relaxed),
    ///     _ => {}
    /// }).build()?;
    ///
    /// let lock = locks.lock("ledger").cohort();
    /// let tasks: Vec<_> = (0..64).map(|_| tokio::spawn(lock.acquire())).collect();
    /// let mut last = tenure::Fence::NONE;
    /// for task in tasks {
    ///     let guard = task.await??;
    ///     assert!(guard.fence() > last);
    ///     last = guard.fence();
    ///     guard.release().await?;
    /// }
    /// // The first task asks for itself, the second for itself and those behind it.
    /// let (acquired, passed_on) = (acquired.load(Ordering::Relaxed), passed_on.load(Ordering::Relaxed));
    /// assert_eq!(acquired + passed_on, 64);
    /// assert!(acquired < passed_on);
    /// # Ok(()) }
    /// ```
    pub fn cohort(mut self) -> Self {
        self.options_mut().cohort = true;
        self
    }

    /// Leaves nothing to those outside the line. Only there to measure what that costs.
    #[doc(hidden)]
    pub const fn closed(mut self, closed: bool) -> Self {
        self.closed = closed;
        self
    }

    /// Shares the lock with other readers, and keeps out everyone else. See
    /// [`RwLock`](crate::RwLock).
    pub fn shared(mut self) -> Self {
        self.options_mut().mode = Mode::Shared;
        self
    }

    /// Lets this owner acquire the lock again, from any process: a *reentrant* lock. Everyone else
    /// is kept out until the owner has released it as often as it acquired it.
    ///
    /// An owner is a text that the cooperating processes share: the id of a job, a request, a
    /// deployment. Each acquire has its own term, renewal and loss; if one process dies, its hold
    /// expires and the others stay. All holds of an owner that overlap have the same fence. An
    /// owner that holds the lock never waits for others in line to get it again.
    ///
    /// On the nodes it is the hash that Redisson's `RLock` uses, so the two exclude and wake each
    /// other. It is a different kind of lock than a plain or read-write one: asking for a name of
    /// the other kind fails with [`AcquireError::OtherKind`].
    ///
    /// Inside one process [`Guard::reenter`] does the same without asking the nodes.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tenure::AcquireError> {
    /// let locks = tenure::Locks::memory();
    /// let deploy = locks.lock("site").owner("deploy-4711");
    /// let outer = deploy.acquire().await?;
    /// let inner = deploy.acquire().await?;
    /// assert_eq!(inner.fence(), outer.fence());
    /// assert!(locks.lock("site").owner("deploy-4712").try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn owner(mut self, id: impl AsRef<str>) -> Self {
        match OwnerId::new(id.as_ref()) {
            Ok(id) => {
                self.options_mut().mode = Mode::Owned(id);
                self.owner_error = None;
            }
            // As with all options, it is told when the lock is asked for.
            Err(error) => self.owner_error = Some(error),
        }
        self
    }

    /// The margin an acquisition must have: how many nodes may forget the lock at once before
    /// another client could get it. Default 0, a bare majority. With 1 of five nodes, four must
    /// grant instead of three.
    ///
    /// This applies only to the acquisition; [`Guard::margin`] shows the margin while the lock is
    /// held.
    pub fn min_margin(mut self, min_margin: usize) -> Self {
        self.options_mut().min_margin = min_margin;
        self
    }

    /// Acquires the lock, waiting up to [`Lock::wait`].
    ///
    /// If the lock is taken, the call waits in line with all other clients and is woken when its
    /// turn comes: first come, first served.
    ///
    /// # Errors
    /// [`AcquireError::Contended`] if another client has it, [`AcquireError::Unavailable`] if no
    /// majority of nodes answers, [`AcquireError::TooLate`] if the answers took longer than the
    /// ttl, [`AcquireError::OtherKind`] at once if the name is used for another kind of lock,
    /// [`AcquireError::Circle`] at once if waiting would be a deadlock inside this manager, and the
    /// other variants for invalid names and options, and for managers that were shut down. After a
    /// wait, the error is that of the last attempt. To name the holder, a call that did not wait in
    /// line makes one more round trip, a node timeout at most.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time: the attempt is abandoned, and the manager removes its
    /// traces from the nodes in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tenure::AcquireError> {
    /// let locks = tenure::Locks::memory();
    /// let guard = locks.lock("invoice:42").acquire().await?;
    /// println!("mine for {:?}", guard.valid_for());
    /// # Ok(()) }
    /// ```
    pub fn acquire(&self) -> impl Future<Output = Result<Guard, AcquireError>> + Send + Sync + use<> {
        self.clone().ask(true, None)
    }

    /// As [`Lock::acquire`], with a view of the place in line: for programs that wait on behalf of
    /// others and show them their progress.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// let locks = tenure::Locks::memory();
    /// let holder = locks.lock("import").label_for("nightly").acquire().await?;
    /// let (acquire, in_line) = locks.lock("import").acquire_in_line();
    /// let waiter = tokio::spawn(acquire);
    /// let place = loop {
    ///     match in_line.place() {
    ///         Some(place) => break place,
    ///         None => tokio::time::sleep(Duration::from_millis(5)).await,
    ///     }
    /// };
    /// assert_eq!((place.ahead, place.holder.as_deref()), (0, Some("nightly")));
    /// holder.release().await?;
    /// let guard = waiter.await??;
    /// assert!(guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub fn acquire_in_line(
        &self,
    ) -> (impl Future<Output = Result<Guard, AcquireError>> + Send + Sync + use<>, InLine) {
        let in_line = InLine::default();
        (self.acquire_watched(&in_line), in_line)
    }

    /// The same, for a caller that lets others look at it.
    pub(crate) fn acquire_watched(
        &self,
        view: &InLine,
    ) -> impl Future<Output = Result<Guard, AcquireError>> + Send + Sync + use<> {
        self.clone().ask(true, Some(view.clone()))
    }

    /// Asks for the lock once. `Ok(None)` means that another client has it.
    ///
    /// # Errors
    /// As [`Lock::acquire`], but never [`AcquireError::Contended`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tenure::AcquireError> {
    /// let locks = tenure::Locks::memory();
    /// if let Some(guard) = locks.lock("nightly-report").try_acquire().await? {
    ///     println!("the report is ours to write");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn try_acquire(
        &self,
    ) -> impl Future<Output = Result<Option<Guard>, AcquireError>> + Send + Sync + use<> {
        let mut once = self.clone();
        once.options_mut().wait = Wait::No;
        let ask = once.ask(false, None);
        async move {
            match ask.await {
                Ok(guard) => Ok(Some(guard)),
                Err(AcquireError::Contended { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
    }

    /// The same lock under another name, as one of several that would do.
    pub(crate) fn slot(self, name: String, slot: u8) -> Self {
        Self { name, names: None, slot: Some(slot), ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn manager(&self) -> &Inner {
        &self.manager
    }

    pub(crate) fn keeps_everyone_out(&self) -> bool {
        self.options.mode.is_exclusive()
    }

    /// How long it is waited for.
    pub(crate) fn waits(&self) -> Wait {
        self.options.wait
    }

    pub(crate) fn key(&self) -> Result<LockKey, AcquireError> {
        self.check().map(|(key, _)| key)
    }

    pub(crate) fn options_mut(&mut self) -> &mut Options {
        Arc::make_mut(&mut self.options)
    }

    fn check(&self) -> Result<(LockKey, Arc<Terms>), AcquireError> {
        let name = || self.name.clone();
        let invalid_name = |error: NameError| AcquireError::InvalidName { name: name(), error };
        let invalid_option = |error: OptionError| AcquireError::InvalidOption { name: name(), error };
        let key = self.manager.key_of(&self.name, self.names.as_deref()).map_err(invalid_name)?;
        if let Some(error) = self.owner_error {
            return Err(invalid_option(OptionError::Owner(error)));
        }
        self.options.check_mode(&key, &self.options.mode).map_err(invalid_option)?;
        let terms = match &self.manager.default_terms {
            Some(terms) if Arc::ptr_eq(&self.options, &self.manager.defaults) => Arc::clone(terms),
            _ => Arc::new(self.options.check(self.manager.max_ttl).map_err(invalid_option)?),
        };
        terms.check_nodes(self.manager.quorum).map_err(invalid_option)?;
        Ok((key, terms))
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
