//! One leader among many candidates, for programs without a runtime.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Error, Guard, block_on};
use crate::error::AcquireError;
use crate::leader::{BackOff, LOOK_EVERY};
use crate::{Fence, HoldState, Incumbent};

/// A leader election. Made by [`Locks::leader`](super::Locks::leader); see [`crate::Leader`].
///
/// ```
/// let locks = tenure::blocking::Locks::memory()?;
/// let turns = locks.leader("scheduler").run(|term| {
///     let mut turns = 0;
///     while term.guard().is_valid() && turns < 3 {
///         turns += 1; // one piece of work
///     }
///     turns
/// })?;
/// assert_eq!(turns, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a candidate does nothing until it runs"]
pub struct Leader(pub(super) crate::Leader);

/// The time for which a candidate leads.
#[derive(Debug)]
pub struct Term {
    guard: Guard,
    resigned: AtomicBool,
}

/// The leaders, one after the other. Made by [`Leader::observe`].
#[derive(Debug)]
pub struct Incumbents(crate::Incumbents);

impl Leader {
    /// How long a dead leader still counts as the leader. See [`crate::Leader::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// A note for observers, stored with process id and host name. See [`crate::Leader::label`].
    pub fn label(self, note: impl AsRef<str>) -> Self {
        Self(self.0.label(note))
    }

    /// Waits until elected, runs `work` on this thread, and resigns when it is done.
    ///
    /// Nothing interrupts the work when the lock is lost: it must check [`Term::guard`] before each
    /// step, and return if the lock is lost. Its result is then dropped, and the candidate
    /// campaigns again: `work` is called once per election.
    ///
    /// # Errors
    /// As [`crate::Leader::run`], and [`Error::InsideRuntime`].
    pub fn run<T>(self, mut work: impl FnMut(&Term) -> T) -> Result<T, Error<AcquireError>> {
        let mut back_off = BackOff::default();
        loop {
            let guard = match block_on(self.0.campaign()) {
                Ok(guard) => Guard(guard),
                // It was over before we looked: this program or its machine was held up.
                Err(Error::Operation(AcquireError::TooLate { .. })) => {
                    sleep(back_off.after(Duration::ZERO, Duration::ZERO));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let elected = Instant::now();
            let term = Term { guard, resigned: AtomicBool::new(false) };
            let value = work(&term);
            let Term { guard, resigned } = term;
            if guard.state() == HoldState::Lost {
                let ttl = guard.ttl();
                drop(guard);
                sleep(back_off.after(elected.elapsed(), ttl));
                continue;
            }
            // Whether the nodes confirm is told in events; if not, the lock frees itself.
            let _ = guard.release();
            if !resigned.into_inner() {
                return Ok(value);
            }
        }
    }

    /// The current leader and its successors, as the nodes say.
    ///
    /// ```
    /// let locks = tenure::blocking::Locks::memory()?;
    /// let mut incumbents = locks.leader("scheduler").observe();
    /// assert_eq!(incumbents.next()?, None, "nobody leads yet");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn observe(&self) -> Incumbents {
        Incumbents(self.0.observe())
    }
}

impl Term {
    /// The number of this election: the fence of the lock. See [`crate::Term::epoch`].
    #[must_use]
    pub fn epoch(&self) -> Fence {
        self.guard.fence()
    }

    /// The lock behind it, with its validity, margin and loss.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Resigns when the work returns: its result is dropped, and this candidate campaigns again,
    /// last in line. To leave for good, just return.
    pub fn resign(&self) {
        self.resigned.store(true, Ordering::Relaxed);
    }
}

impl Incumbents {
    /// The leader, or `None` if there is none: at once the first time, then after every change.
    ///
    /// # Errors
    /// As [`crate::Incumbents::next`], and [`Error::InsideRuntime`].
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot fail inside a runtime")]
    pub fn next(&mut self) -> Result<Option<Incumbent>, Error<AcquireError>> {
        loop {
            if let Some(incumbent) = block_on(self.0.look())? {
                return Ok(incumbent);
            }
            sleep(LOOK_EVERY);
        }
    }
}
