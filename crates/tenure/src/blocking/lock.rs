//! One lock, for programs without a runtime.

use std::sync::Arc;
use std::time::Duration;

use super::{Error, Guard, block_on};
use crate::circle::Scope;
use crate::error::{AcquireError, WithError};
use crate::{Drift, Held, HoldState, InLine, MaxHold, Renewal, Retry};

/// A lock that you can ask for. Made by [`Locks::lock`](super::Locks::lock).
///
/// ```
/// use std::time::Duration;
/// use tenure::blocking::Locks;
///
/// let locks = Locks::memory()?;
/// let lock = locks.lock("report").ttl(Duration::from_secs(5)).wait(Duration::from_millis(200));
/// let first = lock.acquire()?;
/// assert!(lock.try_acquire()?.is_none(), "held by the first");
/// first.release()?;
/// assert!(lock.try_acquire()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock(pub(super) crate::Lock);

/// Options: each is the one of the async lock.
impl Lock {
    /// How long the lock lives unless it is extended or released. See [`crate::Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// How long [`Lock::acquire`] may wait. See [`crate::Lock::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.wait(wait))
    }

    /// Lets [`Lock::acquire`] wait until it has the lock.
    pub fn wait_forever(self) -> Self {
        Self(self.0.wait_forever())
    }

    /// Does not wait: [`Lock::acquire`] asks once. See [`crate::Lock::no_wait`].
    pub fn no_wait(self) -> Self {
        Self(self.0.no_wait())
    }

    /// The pause between attempts and their number. See [`Retry`].
    pub fn retry(self, retry: Retry) -> Self {
        Self(self.0.retry(retry))
    }

    /// How long a node may take to answer. See [`crate::Lock::node_timeout`].
    pub fn node_timeout(self, node_timeout: Duration) -> Self {
        Self(self.0.node_timeout(node_timeout))
    }

    /// The allowance for clocks that run at different rates. See [`crate::Lock::drift`].
    pub fn drift(self, drift: Drift) -> Self {
        Self(self.0.drift(drift))
    }

    /// How much longer than the ttl the nodes keep the key. See [`crate::Lock::guard_band`].
    pub fn guard_band(self, guard_band: Duration) -> Self {
        Self(self.0.guard_band(guard_band))
    }

    /// The longest that extensions may hold the lock in total. See [`crate::Lock::max_hold`].
    pub fn max_hold(self, max_hold: MaxHold) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// How the lock is renewed while it is held. See [`Renewal`].
    pub fn renewal(self, renewal: Renewal) -> Self {
        Self(self.0.renewal(renewal))
    }

    /// The most renewals. See [`crate::Lock::renewals_max`].
    pub fn renewals_max(self, renewals_max: u32) -> Self {
        Self(self.0.renewals_max(renewals_max))
    }

    /// Acquires without a fence. See [`crate::Lock::unfenced`].
    pub fn unfenced(self) -> Self {
        Self(self.0.unfenced())
    }

    /// A note for others who ask who holds it. See [`crate::Lock::label`].
    pub fn label(self, note: impl AsRef<str>) -> Self {
        Self(self.0.label(note))
    }

    /// The whole label, without this process and machine. See [`crate::Lock::label_for`].
    pub fn label_for(self, holder: impl Into<Arc<str>>) -> Self {
        Self(self.0.label_for(holder))
    }

    /// Waits without a place in line. See [`crate::Lock::unqueued`].
    pub fn unqueued(self) -> Self {
        Self(self.0.unqueued())
    }

    /// Lets threads that wait for the lock pass it on among themselves. See
    /// [`crate::Lock::cohort`].
    pub fn cohort(self) -> Self {
        Self(self.0.cohort())
    }

    /// Shares the lock with other readers. See [`crate::Lock::shared`].
    pub fn shared(self) -> Self {
        Self(self.0.shared())
    }

    /// Lets this owner acquire the lock again, from any process. See [`crate::Lock::owner`].
    pub fn owner(self, id: impl AsRef<str>) -> Self {
        Self(self.0.owner(id))
    }

    /// The margin an acquisition must have. See [`crate::Lock::min_margin`].
    pub fn min_margin(self, min_margin: usize) -> Self {
        Self(self.0.min_margin(min_margin))
    }

    /// How long nobody else gets the lock, even if it is released earlier. See
    /// [`crate::Lock::at_least`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let every_minute = locks.lock("report").at_least(Duration::from_secs(50));
    /// every_minute.acquire()?.release()?;
    /// assert!(every_minute.try_acquire()?.is_none(), "done for this minute");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn at_least(self, at_least: Duration) -> Self {
        Self(self.0.at_least(at_least))
    }

    /// Declares a lock that the caller holds while it waits, so that a deadlock is found. See
    /// [`crate::Lock::while_holding`].
    ///
    /// ```
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let outer = locks.lock("account:3").acquire()?;
    /// let inner = locks.lock("account:7").while_holding(&outer).acquire()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn while_holding(self, held: impl Into<Held>) -> Self {
        Self(self.0.while_holding(held))
    }
}

impl Lock {
    /// Acquires the lock, waiting up to [`Lock::wait`].
    ///
    /// # Errors
    /// As [`crate::Lock::acquire`], and [`Error::InsideRuntime`].
    pub fn acquire(&self) -> Result<Guard, Error<AcquireError>> {
        block_on(self.0.acquire()).map(Guard)
    }

    /// A closure that acquires the lock when it is called, and a view of its place in line for
    /// other threads.
    ///
    /// # Errors
    /// The call fails as [`Lock::acquire`] does.
    ///
    /// # Examples
    /// ```
    /// use std::thread;
    /// use std::time::Duration;
    ///
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let holder = locks.lock("import").label_for("nightly").acquire()?;
    /// let (acquire, in_line) = locks.lock("import").acquire_in_line();
    /// let waiter = thread::spawn(acquire);
    /// let place = loop {
    ///     match in_line.place() {
    ///         Some(place) => break place,
    ///         None => thread::sleep(Duration::from_millis(5)),
    ///     }
    /// };
    /// assert_eq!((place.ahead, place.holder.as_deref()), (0, Some("nightly")));
    /// holder.release()?;
    /// let guard = waiter.join().expect("it does not panic")?;
    /// assert!(guard.is_valid());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_in_line(
        &self,
    ) -> (impl FnOnce() -> Result<Guard, Error<AcquireError>> + Send + 'static + use<>, InLine) {
        let (acquire, in_line) = self.0.acquire_in_line();
        (move || block_on(acquire).map(Guard), in_line)
    }

    /// Asks for the lock once. `Ok(None)` means that another client has it.
    ///
    /// # Errors
    /// As [`crate::Lock::try_acquire`], and [`Error::InsideRuntime`].
    pub fn try_acquire(&self) -> Result<Option<Guard>, Error<AcquireError>> {
        Ok(block_on(self.0.try_acquire())?.map(Guard))
    }

    /// Runs `work` under the lock, on this thread: acquires it, renews it while the work runs, and
    /// releases it however the work ends, including by a panic. Returns what the work returns.
    ///
    /// If the lock is lost, the work is not interrupted, and its result is dropped. Check
    /// [`is_valid`](crate::Guard::is_valid) before each step that must not happen twice.
    ///
    /// # Errors
    /// [`WithError::Acquire`] if the lock was not acquired, [`WithError::Outlived`] if it was lost
    /// before the work ended, and [`Error::InsideRuntime`].
    ///
    /// # Examples
    /// ```
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let rows = locks.lock("import").with(|guard| {
    ///     println!("importing with fence {}", guard.fence());
    ///     42
    /// })?;
    /// assert_eq!(rows, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T, Error<WithError>> {
        let guard = self.acquire().map_err(|error| error.map(WithError::from))?;
        work_under(guard, work)
    }

    /// Like [`Lock::with`], but asks for the lock once: `Ok(None)` means that another client has
    /// it, and the work was not started.
    ///
    /// # Errors
    /// As [`Lock::with`], but never [`AcquireError::Contended`].
    ///
    /// # Examples
    /// ```
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let report = locks.lock("nightly-report");
    /// assert_eq!(report.try_with(|_guard| "written")?, Some("written"));
    /// let _held = report.acquire()?;
    /// assert_eq!(report.try_with(|_guard| "written")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_with<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<Option<T>, Error<WithError>> {
        match self.try_acquire().map_err(|error| error.map(WithError::from))? {
            Some(guard) => work_under(guard, work).map(Some),
            None => Ok(None),
        }
    }
}

fn work_under<T>(guard: Guard, work: impl FnOnce(&Guard) -> T) -> Result<T, Error<WithError>> {
    let value = Scope::entered(&guard.0).inside(|| work(&guard));
    if guard.state() == HoldState::Lost {
        return Err(Error::Operation(WithError::Outlived { name: guard.name().to_owned() }));
    }
    // The work is done; whether the nodes confirm is told in events, and frees itself if not.
    let _ = guard.release();
    Ok(value)
}
