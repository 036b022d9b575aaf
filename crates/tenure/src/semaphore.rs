//! At most so many at a time: as many locks as there are permits.

use std::time::Duration;

use tenure_core::{LockKey, NAMES_MAX, OptionError, Retry, SLOTS_MAX, Wait};
use tokio::time::{Instant, sleep};

use crate::driver::draw_entropy;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::{InLine, Lock, Locks};

/// How many slots that are said to be free are tried before a caller waits.
const HOPS_MAX: usize = 4;

/// A caller waits in the line of one slot for so long, and then picks another one: lines that are
/// longer than others even out.
const PICKS_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Whether whoever waits for a permit goes on waiting after this.
const fn may_pass(error: &AcquireError) -> bool {
    matches!(
        error,
        AcquireError::Contended { .. }
            | AcquireError::Unavailable { .. }
            | AcquireError::TooLate { .. }
            | AcquireError::ClocksSetBack { .. }
    )
}

/// How many attempts ended like this; what does not say counts as one. `before`: how many were made
/// for other slots, which its caller wants to know, too.
fn count(error: &mut AcquireError, before: u32) -> u32 {
    match error {
        AcquireError::Contended { attempts, .. } | AcquireError::Unavailable { attempts, .. } => {
            let made = *attempts;
            *attempts += before;
            made
        }
        _ => 1,
    }
}

/// At most `permits` holders at a time. Made by [`Locks::semaphore`].
///
/// A semaphore of *k* is *k* locks, its **slots**: `name#0` to `name#k-1`. A holder has one of
/// them, with everything that locks have: a term, renewal, loss, a fence. [`Guard::slot`] says
/// which, in case there are *k* resources.
///
/// Why not a majority of nodes that each count to *k*? With three nodes and *k* = 2, A is granted
/// by 1 and 2, B by 2 and 3, C by 1 and 3. Each node has counted to 2, each holder has a majority,
/// and there are three. Slots are locks, and a lock has one holder.
///
/// Each caller names *k*; if callers disagree, the largest *k* limits the holders. A caller with a
/// smaller *k* lets the holders of higher slots finish. A fence orders the holders of one slot, not
/// of different slots.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = tenure::Locks::memory();
/// let exports = locks.semaphore("exports", 2);
/// let (one, other) = (exports.acquire().await?, exports.acquire().await?);
/// assert_ne!(one.slot(), other.slot());
/// assert!(exports.try_acquire().await?.is_none(), "two at a time");
/// one.release().await?;
/// assert!(exports.try_acquire().await?.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    /// What every slot is asked for with; its name is the semaphore's.
    lock: Lock,
    permits: usize,
}

impl Locks {
    /// The semaphore called `name`, for at most `permits` holders at a time: 1 to
    /// [`SLOTS_MAX`](crate::SLOTS_MAX). No node is asked yet. It is independent of the lock called
    /// `name`.
    pub fn semaphore(&self, name: impl Into<String>, permits: usize) -> Semaphore {
        Semaphore { lock: self.lock(name), permits }
    }
}

impl Semaphore {
    /// The term of a permit. See [`Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|lock| lock.ttl(ttl))
    }

    /// How long to wait for a permit. See [`Lock::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|lock| lock.wait(wait))
    }

    /// Waits for a permit as long as it takes.
    pub fn wait_forever(self) -> Self {
        self.with(Lock::wait_forever)
    }

    /// A note for others who ask who holds a permit. See [`Lock::label`].
    pub fn label(self, note: impl AsRef<str>) -> Self {
        self.with(|lock| lock.label(note))
    }

    /// Any other option of a [`Lock`].
    ///
    /// ```
    /// let locks = tenure::Locks::builder().node(tenure::MemoryNode::new("0"));
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let locks = locks.build().unwrap();
    /// let exports = locks.semaphore("exports", 4).with(|slot| slot.unfenced());
    /// # let _ = exports;
    /// # });
    /// ```
    pub fn with(mut self, options: impl FnOnce(Lock) -> Lock) -> Self {
        self.lock = options(self.lock);
        self
    }

    /// Acquires a permit, waiting up to [`Semaphore::wait`].
    ///
    /// A waiting caller queues for one slot and switches to another now and then, so permits are
    /// granted roughly, not strictly, in order.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; [`AcquireError::InvalidOption`] if `permits` is out of range, or for
    /// [`Lock::shared`] and [`Lock::owner`].
    ///
    /// # Cancel safety
    /// What was acquired when the future is dropped is released.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.wait_for_any(&InLine::default()).await
    }

    /// As [`Semaphore::acquire`], with a view of the place in line: that of the slot which it waits
    /// for at the moment. See [`Lock::acquire_in_line`].
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// let locks = tenure::Locks::memory();
    /// let holder = locks.semaphore("exports", 1).acquire().await?;
    /// let (acquire, in_line) = locks.semaphore("exports", 1).acquire_in_line();
    /// let waiter = tokio::spawn(acquire);
    /// while in_line.place().is_none() {
    ///     tokio::time::sleep(Duration::from_millis(5)).await;
    /// }
    /// holder.release().await?;
    /// assert!(waiter.await??.is_valid());
    /// # Ok(()) }
    /// ```
    pub fn acquire_in_line(
        &self,
    ) -> (impl Future<Output = Result<Guard, AcquireError>> + Send + use<>, InLine) {
        let (semaphore, in_line) = (self.clone(), InLine::default());
        let view = in_line.clone();
        (async move { semaphore.wait_for_any(&view).await }, in_line)
    }

    async fn wait_for_any(&self, view: &InLine) -> Result<Guard, AcquireError> {
        let (begun, mut attempts) = (Instant::now(), 0);
        loop {
            match self.try_acquire().await {
                Ok(Some(guard)) => return Ok(guard),
                Err(error) if !may_pass(&error) => return Err(error),
                // Nodes that cannot be asked are waited for, too.
                Ok(None) | Err(_) => {}
            }
            let (left, is_last) = match self.lock.waits() {
                Wait::No => (Duration::ZERO, true),
                Wait::AtMost(wait) => {
                    let left = wait.saturating_sub(begun.elapsed());
                    (left, left <= PICKS_AGAIN_AFTER)
                }
                _ => (PICKS_AGAIN_AFTER, false),
            };
            let slot = self.any_slot();
            let mut lock = self.slot(slot).wait(left.min(PICKS_AGAIN_AFTER));
            let Retry { tries_max, delay, .. } = &mut lock.options_mut().retry;
            if let Some(tries_max) = tries_max {
                *tries_max = tries_max.saturating_sub(attempts).max(1);
            }
            let (pause, tries_left) = (*delay, *tries_max);
            match lock.acquire_watched(view).await {
                Ok(guard) => return Ok(guard),
                Err(mut error) => {
                    let made = count(&mut error, attempts);
                    let is_out_of_tries = tries_left.is_some_and(|tries_max| made >= tries_max);
                    if is_last || is_out_of_tries || !may_pass(&error) {
                        return Err(error);
                    }
                    attempts += made;
                    if let AcquireError::TooLate { .. } = error {
                        // It was granted, and over before we looked: somebody is held up.
                        sleep(pause).await;
                    }
                }
            }
        }
    }

    /// Acquires a permit if one is free right now. In rare cases it returns `None` although one is
    /// free, when others acquire and release permits at the same time.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`], but never [`AcquireError::Contended`].
    ///
    /// # Cancel safety
    /// What was acquired when the future is dropped is released.
    pub async fn try_acquire(&self) -> Result<Option<Guard>, AcquireError> {
        // An empty name would be a slot's good one.
        self.lock.key()?;
        let invalid = |error| AcquireError::InvalidOption { name: self.lock.name().to_owned(), error };
        if self.permits == 0 || self.permits > SLOTS_MAX {
            return Err(invalid(OptionError::Permits { permits: self.permits }));
        }
        if !self.lock.keeps_everyone_out() {
            // Several would have one slot, and be more than there are permits.
            return Err(invalid(OptionError::SharedPermit));
        }
        let first = self.any_slot();
        if let Some(guard) = self.slot(first).try_acquire().await? {
            return Ok(Some(guard));
        }
        let others: Vec<usize> = (1..self.permits).map(|next| (first + next) % self.permits).collect();
        let mut hops = 0;
        // No more than nodes look at together. A second look is worth it: of so many permits the
        // last free one may be anywhere.
        for slots in others.chunks(NAMES_MAX) {
            for slot in self.free_of(slots).await? {
                if hops == HOPS_MAX {
                    return Ok(None);
                }
                hops += 1;
                if let Some(guard) = self.slot(slot).try_acquire().await? {
                    return Ok(Some(guard));
                }
            }
        }
        Ok(None)
    }

    /// Which of these slots most nodes say are free.
    async fn free_of(&self, slots: &[usize]) -> Result<Vec<usize>, AcquireError> {
        let keys = slots.iter().map(|slot| self.slot(*slot).key()).collect::<Result<Vec<LockKey>, _>>()?;
        let held = self.lock.manager().held_of(&keys).await;
        let free = slots.iter().zip(held).filter(|(_, is_held)| !is_held);
        Ok(free.map(|(slot, _)| *slot).collect())
    }

    /// Callers that begin anywhere do not meet.
    fn any_slot(&self) -> usize {
        let dice = draw_entropy().map_or(0, |entropy| entropy.dice) >> 32;
        usize::try_from(dice % self.permits.max(1) as u64).unwrap_or(0)
    }

    fn slot(&self, slot: usize) -> Lock {
        let number = u8::try_from(slot).expect("there are fewer slots");
        self.lock.clone().slot(format!("{}#{slot}", self.lock.name()), number)
    }
}
