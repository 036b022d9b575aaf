//! One leader among many candidates: a lock that every candidate wants for as long as it lives.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tenure_core::{Fence, LockState, MaxHold, Mode};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::driver::draw_entropy;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::{Lock, Locks};

/// The pause after a lost term, and the longest one: it doubles while terms are short. Nodes that
/// cannot be reached are asked by every candidate, so none of them hurries.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);

/// How often [`Incumbents`] asks the nodes who leads.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A leader election. Made by [`Locks::leader`].
///
/// Candidates wait in line; the first is elected and leads until it resigns, dies, or loses its
/// lock. When a leader dies, the next one leads within the ttl plus the guard band; each paused or
/// disconnected candidate ahead of it adds 250 ms. Work is cancelled, at
/// its next `.await`, before the next candidate can be elected, so two never lead at once. What
/// cancelling cannot stop, such as a write in flight, a thread that blocks or a process that is
/// paused, needs [`Term::epoch`] at the resource (`docs/how-to/fencing.md`). So do tasks that the
/// work has spawned: end them with the work (a `JoinSet` does), or by
/// [`Guard::cancellation_token`] of [`Term::guard`].
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tenure::AcquireError> {
/// let locks = tenure::Locks::memory();
/// let turns = locks.leader("scheduler").run(async |term| {
///     println!("elected, epoch {}", term.epoch());
///     3 // Work that never ends is cancelled when the term does; this one resigns.
/// }).await?;
/// assert_eq!(turns, 3);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a candidate does nothing until it runs"]
pub struct Leader {
    locks: Locks,
    name: String,
    lock: Lock,
}

/// The time for which a candidate leads. The work gets it by value so that it can be spawned; the
/// candidate leads for as long as it is kept, unless it resigns.
#[derive(Debug)]
pub struct Term(Arc<Office>);

#[derive(Debug)]
struct Office {
    guard: Guard,
    resigned: Notify,
    has_resigned: AtomicBool,
    /// Nobody serves it any more: something that the work has begun may still have the term.
    is_left: AtomicBool,
}

/// A candidate that leads, or its future was dropped.
struct Serving(Arc<Office>);

/// The current leader, as the nodes say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incumbent {
    /// The leader's label: [`Leader::label`].
    pub label: Option<Arc<str>>,
    /// The fence of its lock. It grows with every election.
    pub epoch: Fence,
}

/// The leaders, one after the other. Made by [`Leader::observe`].
#[derive(Debug)]
pub struct Incumbents {
    leader: Leader,
    told: Option<Option<Incumbent>>,
}

/// How long a candidate pauses after a lost term.
pub(crate) struct BackOff(Duration);

/// How a term ended.
enum End<T> {
    Done(T),
    Resigned,
    Lost,
}

impl Locks {
    /// The election called `name`, for candidates and observers. No node is asked yet. On the nodes
    /// it is the lock of that name.
    pub fn leader(&self, name: impl Into<String>) -> Leader {
        let name = name.into();
        let mut lock = self.lock(name.clone()).wait_forever().max_hold(MaxHold::Unlimited);
        // Whatever the defaults of the manager say: there is one leader, with an epoch and for as
        // long as it can, the next one is elected as soon as it resigns, and no candidate gives up.
        let options = lock.options_mut();
        (options.mode, options.at_least, options.fenced) = (Mode::Exclusive, Duration::ZERO, true);
        (options.retry.tries_max, options.renewals_max) = (None, None);
        Leader { locks: self.clone(), name, lock }
    }
}

impl Leader {
    /// How long a dead leader still counts as the leader. Default 30 s. See [`Lock::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lock = self.lock.ttl(ttl);
        self
    }

    /// A note for observers, stored with process id and host name. See [`Lock::label`].
    pub fn label(mut self, note: impl AsRef<str>) -> Self {
        self.lock = self.lock.label(note);
        self
    }

    /// Waits until elected, runs `work`, and resigns when it is done. If the lock is lost before
    /// that, the work is cancelled at its next `.await`, in time, and the candidate campaigns
    /// again: `work` is called once per election.
    ///
    /// If nodes are unreachable, the candidate waits for them. After a lost term it pauses, 100 ms
    /// at first and 10 s at most.
    ///
    /// # Errors
    /// As [`Lock::acquire`], but never because another candidate leads or nodes are down: only for
    /// an invalid name or option, a name of another kind of lock, or a manager that was shut down.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and resigns in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tenure::AcquireError> {
    /// let locks = tenure::Locks::memory();
    /// let mut epochs = vec![];
    /// locks.leader("scheduler").run(|term| {
    ///     epochs.push(term.epoch());
    ///     let terms = epochs.len();
    ///     async move {
    ///         if terms < 3 {
    ///             term.resign().await; // and stand again
    ///         }
    ///     }
    /// }).await?;
    /// assert!(epochs.is_sorted() && epochs.len() == 3);
    /// # Ok(()) }
    /// ```
    pub async fn run<W: Future>(self, mut work: impl FnMut(Term) -> W) -> Result<W::Output, AcquireError> {
        let mut back_off = BackOff::default();
        loop {
            let guard = match self.campaign().await {
                Ok(guard) => guard,
                // It was over before we looked: this program or its machine was held up.
                Err(AcquireError::TooLate { .. }) => {
                    sleep(back_off.after(Duration::ZERO, Duration::ZERO)).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let (elected, ttl) = (Instant::now(), guard.ttl());
            let serving = Serving(Arc::new(Office::of(guard)));
            let office = &serving.0;
            let end = office.serve(work(Term(Arc::clone(office)))).await;
            match end {
                End::Lost => {
                    drop(serving);
                    sleep(back_off.after(elected.elapsed(), ttl)).await;
                }
                End::Resigned => office.guard.release_for_all().await,
                End::Done(value) => {
                    serving.leave().await;
                    return Ok(value);
                }
            }
        }
    }

    /// Waits until it is elected.
    pub(crate) async fn campaign(&self) -> Result<Guard, AcquireError> {
        self.lock.acquire().await
    }

    /// The current leader and its successors, as the nodes say: for candidates and observers.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tenure::AcquireError> {
    /// let locks = tenure::Locks::memory();
    /// let leader = locks.leader("scheduler").label("eu-1");
    /// let mut incumbents = leader.observe();
    /// assert_eq!(incumbents.next().await?, None, "nobody leads yet");
    /// let leading = tokio::spawn(leader.run(async |_term| std::future::pending::<()>().await));
    /// let incumbent = incumbents.next().await?.expect("somebody leads");
    /// assert!(incumbent.label.is_some_and(|label| label.ends_with("eu-1")));
    /// leading.abort();
    /// assert_eq!(incumbents.next().await?, None, "it has resigned");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn observe(&self) -> Incumbents {
        Incumbents { leader: self.clone(), told: None }
    }
}

impl Term {
    /// The number of this election: the fence of the lock. Send it with every write, so that the
    /// resource refuses late writes of earlier leaders.
    #[must_use]
    pub fn epoch(&self) -> Fence {
        self.0.guard.fence()
    }

    /// The lock behind it, with its validity, margin and loss.
    pub fn guard(&self) -> &Guard {
        &self.0.guard
    }

    /// Resigns: the work is cancelled here, the next candidate is elected at once, and this one
    /// campaigns again, last in line. To leave for good, return from the work.
    ///
    /// In a task that the work has spawned this resigns as well, and never returns.
    pub async fn resign(&self) -> Infallible {
        self.0.has_resigned.store(true, Ordering::SeqCst);
        self.0.resigned.notify_one();
        if self.0.is_left.load(Ordering::SeqCst) {
            self.0.guard.give_up_for_all();
        }
        pending().await
    }
}

impl Office {
    fn of(guard: Guard) -> Self {
        let (has_resigned, is_left) = Default::default();
        Self { guard, resigned: Notify::new(), has_resigned, is_left }
    }

    /// Does the work, until it is done or the term is over.
    async fn serve<T>(&self, work: impl Future<Output = T>) -> End<T> {
        let (mut lost, mut resigned) = (pin!(self.guard.lost()), pin!(self.resigned.notified()));
        let mut work = pin!(work);
        // The loss is looked at first: work must not go on when it could be noticed.
        poll_fn(|cx| {
            if lost.as_mut().poll(cx).is_ready() {
                return Poll::Ready(End::Lost);
            }
            if let Poll::Ready(value) = work.as_mut().poll(cx) {
                return Poll::Ready(End::Done(value));
            }
            resigned.as_mut().poll(cx).map(|()| End::Resigned)
        })
        .await
    }
}

impl Serving {
    /// The work is done: the lock is released when nobody has the term any more.
    async fn leave(self) {
        let office = Arc::clone(&self.0);
        drop(self);
        if let Some(Office { guard, .. }) = Arc::into_inner(office) {
            // Whether the nodes confirm is told in events; if not, the lock frees itself.
            let _ = guard.release().await;
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let Office { guard, has_resigned, is_left, .. } = &*self.0;
        is_left.store(true, Ordering::SeqCst);
        if has_resigned.load(Ordering::SeqCst) {
            guard.give_up_for_all();
        }
    }
}

impl Incumbents {
    /// The leader, or `None` if there is none: at once the first time, then after every change. The
    /// nodes are asked twice a second, so a shorter term may be missed. While no majority of nodes
    /// answers, it keeps waiting.
    ///
    /// # Errors
    /// As [`Locks::inspect`].
    ///
    /// # Cancel safety
    /// The future may be dropped; no change is lost.
    pub async fn next(&mut self) -> Result<Option<Incumbent>, AcquireError> {
        loop {
            if let Some(incumbent) = self.look().await? {
                return Ok(incumbent);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Looks once; `None` if that tells nothing new.
    pub(crate) async fn look(&mut self) -> Result<Option<Option<Incumbent>>, AcquireError> {
        let report = self.leader.locks.inspect(&self.leader.name).await?;
        let known = match report.state {
            LockState::Held { label, fence, .. } => {
                Some(Some(Incumbent { label, epoch: fence.unwrap_or(Fence::NONE) }))
            }
            LockState::Free | LockState::Reserved { .. } | LockState::Kept { .. } => Some(None),
            _ => None,
        };
        let news = known.filter(|known| self.told.as_ref() != Some(known));
        if let Some(incumbent) = &news {
            self.told = Some(incumbent.clone());
        }
        Ok(news)
    }
}

impl Default for BackOff {
    fn default() -> Self {
        Self(BACK_OFF_MIN)
    }
}

impl BackOff {
    /// The pause after a term that lasted so long: it doubles while terms are shorter than the ttl.
    pub(crate) fn after(&mut self, led: Duration, ttl: Duration) -> Duration {
        if led > ttl {
            self.0 = BACK_OFF_MIN;
        }
        let pause = spread(self.0);
        self.0 = (self.0 * 2).min(BACK_OFF_MAX);
        pause
    }
}

/// Three quarters of a pause to all of it, at random: candidates that lost their nodes together do
/// not come back together.
fn spread(pause: Duration) -> Duration {
    let dice = draw_entropy().map_or(0, |entropy| entropy.dice);
    let part = u32::try_from(dice >> 48).unwrap_or(0);
    pause * 3 / 4 + pause / 4 * part / (1 << 16)
}
