//! The guard: a held lock as a Rust value.

pub(crate) mod handover;
mod hold;
pub(crate) mod lease_token;
mod period;
pub(crate) mod watch;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    Fence, HoldState, Mode, NotExtended, OptionError, Options, ReleaseOutcome, Risk, Standing,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::circle::LocalHold;
use crate::driver::{Call, ReleaseReply};
use crate::error::votes::Votes;
use crate::error::{ExtendError, ReleaseError, UpgradeError};
pub(crate) use crate::guard::hold::Hold;
use crate::guard::watch::{GuardChanges, GuardStates};
use crate::locks::Inner;

/// A held lock.
///
/// Dropping it releases the lock in the background; that never blocks, needs no runtime, and works
/// while panicking. [`Guard::release`] does the same and returns the outcome.
///
/// While the guard lives, the lock is renewed. If renewals fail for too long, the lock is lost, and
/// [`Guard::lost`], [`Guard::states`] and [`Guard::cancellation_token`] report it while the lock is
/// still valid. A guard is *valid* as long as [`Guard::valid_for`] is above zero. Nothing stops a
/// program that keeps working after that, so listen for the loss, or check before every step that
/// must not happen twice; [`Lock::with`](crate::Lock::with) does it for you.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    /// Shared by all guards that [`Guard::reenter`] made of one.
    hold: Arc<Hold>,
    options: Arc<Options>,
}

/// The outcome of a successful release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
    /// Which node said what. Nodes that have not answered yet are still being asked.
    pub votes: Votes,
}

impl Guard {
    pub(crate) fn new(mut hold: Hold, options: Arc<Options>) -> Self {
        hold.is_known = true;
        Self { hold: Arc::new(hold), options }
    }

    pub(crate) fn parts(&self) -> (&Hold, &Options) {
        (&self.hold, &self.options)
    }

    /// The hold, for whoever waits while it lasts.
    pub(crate) fn to_local(&self) -> LocalHold {
        let Hold { manager, key, id, lease, .. } = &*self.hold;
        let hold = (key.clone(), *id, lease.clone());
        LocalHold::new(Arc::clone(manager), hold, Arc::downgrade(&self.hold))
    }

    /// The lock's name. For several names locked together, all of them as one text;
    /// [`Guard::names`] has them one by one.
    #[must_use]
    pub fn name(&self) -> &str {
        self.hold.key.name()
    }

    /// Which permit of a [`Semaphore`](crate::Semaphore) this is, counted from 0; `None` for other
    /// locks.
    #[must_use]
    pub fn slot(&self) -> Option<usize> {
        self.hold.slot.map(usize::from)
    }

    /// The ttl that it was acquired with.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.options.ttl
    }

    /// How long the lock is still valid, by this machine's clock: the ttl, minus the time since the
    /// round started, minus drift. Zero if it has expired, or if a majority of nodes said that it
    /// is lost.
    ///
    /// Computed on every call, so it is right even after the process was paused or suspended.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.hold.valid_for()
    }

    /// How long ago the round started that proved the current validity, and how long the validity
    /// lasts from then on: for another process that counts by its own clock. Both are zero if the
    /// lock is not valid.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let asked = std::time::Instant::now();
    /// let guard = locks.lock("import").acquire().await?;
    /// let (ago, lasts) = guard.validity();
    /// // Counted from before the question, so the lock lasts at least until then.
    /// let end = asked + asked.elapsed().saturating_sub(ago) + lasts;
    /// # let _ = end;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn validity(&self) -> (Duration, Duration) {
        self.hold.validity()
    }

    /// Whether the lock is valid right now.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.valid_for().is_zero()
    }

    /// The state of the lock right now, by this machine's clock: accurate even if the process was
    /// paused until now.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tenure::{HoldState, Locks};
    ///
    /// let locks = Locks::memory();
    /// let guard = locks.lock("import").acquire().await?;
    /// assert_eq!(guard.state(), HoldState::Held);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.hold.state()
    }

    /// Why the lock is at risk or was lost: extensions fail, no more are allowed, or a majority of
    /// nodes says that it is not ours. `None` if all is well, and if the lock expired before an
    /// extension was tried, as in a paused process.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let guard = locks.lock("import").acquire().await?;
    /// assert_eq!(guard.risk(), None);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn risk(&self) -> Option<Risk> {
        self.hold.standing(|standing| standing.and_then(Standing::risk))
    }

    /// The states of the lock as a stream: the current one, then every change.
    pub fn states(&self) -> GuardStates {
        self.hold.watch().states()
    }

    /// Reports every extension and every change of state from now on: for programs that hold locks
    /// on behalf of others and pass on how long they are valid.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let mut guard = locks.lock("import").acquire().await?;
    /// let mut changes = guard.changes();
    /// guard.extend().await?;
    /// assert!(changes.next().await);
    /// println!("valid for {:?} now", guard.valid_for());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn changes(&self) -> GuardChanges {
        self.hold.watch().changes()
    }

    /// Resolves when the lock is lost, before its validity ends, so that work can stop in time. A
    /// local timer fires it, whatever the network does. It also resolves when the guard is released
    /// or dropped.
    ///
    /// The lead is 5 % of the ttl, at least 50 ms; for a ttl below 200 ms a quarter of the ttl.
    ///
    /// # Cancel safety
    /// It may be dropped and called again at any time.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn work() {}
    /// let locks = tenure::Locks::memory();
    /// let guard = locks.lock("import").acquire().await?;
    /// tokio::select! {
    ///     () = guard.lost() => println!("stopped in time"),
    ///     () = work() => println!("done"),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn lost(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        let (mut states, lost) = (self.states(), self.state() == HoldState::Lost);
        async move { while !lost && states.next().await.is_some_and(|state| state != HoldState::Lost) {} }
    }

    /// A token that is cancelled when the lock is lost, released or dropped: for work that consists
    /// of many tasks.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let guard = locks.lock("import").acquire().await?;
    /// let token = guard.cancellation_token();
    /// let task = tokio::spawn(async move { token.cancelled().await });
    /// guard.release().await?;
    /// task.await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.hold.watch().token()
    }

    /// The fencing token of this acquisition: larger than that of every acquisition of this lock
    /// that succeeded before this one started. Send it with every write, and let the resource
    /// refuse smaller ones: then even a holder that was paused past its term does no harm.
    /// Extensions keep it.
    ///
    /// [`Fence::NONE`], smaller than all others, if the lock was acquired with
    /// [`Lock::unfenced`](crate::Lock::unfenced).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let first = locks.lock("import").acquire().await?;
    /// let fence = first.fence();
    /// first.release().await?;
    /// let second = locks.lock("import").acquire().await?;
    /// assert!(second.fence() > fence);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.hold.standing(|standing| standing.and_then(Standing::fence).unwrap_or(Fence::NONE))
    }

    /// How many of the nodes that granted the lock may forget it (crash, flush, clock jump) before
    /// another client could get it. It rises as late votes arrive, up to N - m for an odd N.
    #[must_use]
    pub fn margin(&self) -> usize {
        self.hold.standing(|standing| standing.map_or(0, Standing::margin))
    }

    /// The time of the hand-over: from the release by the previous holder, when a node passed the
    /// lock on to us, to the grant by the same node, by its clock. The longest time among the nodes
    /// of the majority, in whole milliseconds, and at most one off.
    ///
    /// `None` if no node had set the lock aside for us: it was free, had expired, is shared, or
    /// came from another caller of this manager or from another process.
    #[must_use]
    pub fn passed_on_after(&self) -> Option<Duration> {
        self.hold.passed_on_after()
    }

    /// Which node said what in the round that acquired or last extended the lock.
    #[must_use]
    pub fn votes(&self) -> Votes {
        self.hold.votes()
    }

    /// Waits until every node has answered the round that acquired or last extended the lock, at
    /// most this long.
    ///
    /// The lock is acquired as soon as a majority has granted it. Nodes that answer later raise the
    /// margin. A process that [resumes](Guard::hand_over) the lock counts only nodes that had
    /// answered before the hand-over, so wait for the late ones first.
    ///
    /// # Cancel safety
    /// It may be dropped at any time.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let nodes = ["a", "b", "c"].map(tenure::MemoryNode::new);
    /// let locks = tenure::Locks::builder().nodes(&nodes).build()?;
    /// let guard = locks.lock("import").acquire().await?;
    /// guard.late_votes(Duration::from_millis(60)).await;
    /// assert_eq!(guard.margin(), 1);
    /// # Ok(()) }
    /// ```
    pub async fn late_votes(&self, within: Duration) {
        let heard = poll_fn(|cx| self.hold.lease.poll_all_voted(cx));
        // Too late is all the same: who looks now sees who has answered.
        let _ = timeout(within, heard).await;
    }

    /// The same where the worker runs, for callers that have no runtime.
    #[cfg(feature = "blocking")]
    pub(crate) async fn late_votes_on_worker(&self, within: Duration) {
        let lease = self.hold.lease.clone();
        let heard = async move { timeout(within, poll_fn(|cx| lease.poll_all_voted(cx))).await };
        let _ = self.hold.manager.run(heard).await;
    }

    /// Extends the lock for another ttl from now.
    ///
    /// # Errors
    /// [`ExtendError`]. A failed extension neither releases nor shortens the lock; only
    /// [`ExtendError::Lost`] and [`ExtendError::Expired`] mean that it is gone.
    ///
    /// # Cancel safety
    /// The extension continues when the future is dropped, and the guard shows its outcome.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let mut guard = locks.lock("import").acquire().await?;
    /// for step in 0..3 {
    ///     // ... a part of the work ...
    ///     guard.extend().await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn extend(&mut self) -> Result<(), ExtendError> {
        self.extend_for(self.options.ttl).await
    }

    /// As [`Guard::extend`], with a different ttl. An extension shorter than what is left changes
    /// nothing.
    ///
    /// # Errors
    /// As [`Guard::extend`], and [`ExtendError::InvalidOption`] if the ttl is out of range.
    ///
    /// # Cancel safety
    /// As [`Guard::extend`].
    pub async fn extend_for(&mut self, ttl: Duration) -> Result<(), ExtendError> {
        let manager = &self.hold.manager;
        let term = self.options.term(ttl, manager.max_ttl);
        let invalid = |error| ExtendError::InvalidOption { name: self.name().to_owned(), error };
        let term = term.map_err(invalid)?;
        let (id, lock) = (self.hold.id, self.name());
        let span = tracing::debug_span!(
            target: "tenure", "tenure.extend", lock, fence = Empty, outcome = Empty
        );
        self.extend_in(&span, manager.call(|reply| Call::Extend { id, term, reply })).await
    }

    /// Does something that holds the lock for longer, in a span of the caller's trace.
    async fn extend_in(
        &self,
        span: &Span,
        call: impl Future<Output = Option<Result<(), NotExtended>>>,
    ) -> Result<(), ExtendError> {
        self.hold.manager.trace(self.hold.id, span);
        let extended = match call.instrument(span.clone()).await {
            Some(extended) => extended.map_err(|reason| self.hold.extend_error(reason, self.valid_for())),
            None => Err(ExtendError::ShutDown { name: self.name().to_owned(), valid_for: self.valid_for() }),
        };
        if !span.is_disabled() {
            span.record("fence", self.fence().get());
            span.record("outcome", extended.as_ref().map_or_else(ExtendError::outcome, |()| "extended"));
        }
        extended
    }

    /// Another guard of the same hold, for code that needs the lock and is called by code that has
    /// it. The nodes are not asked. The lock is released with the last of these guards.
    ///
    /// Works with every lock, inside one process; across processes use
    /// [`Lock::owner`](crate::Lock::owner).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let outer = locks.lock("import").acquire().await?;
    /// let inner = outer.reenter();
    /// assert_eq!(inner.fence(), outer.fence());
    /// outer.release().await?;
    /// assert!(locks.lock("import").try_acquire().await?.is_none(), "the inner one holds it");
    /// inner.release().await?;
    /// assert!(locks.lock("import").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn reenter(&self) -> Self {
        Self { hold: Arc::clone(&self.hold), options: Arc::clone(&self.options) }
    }

    /// Whom the lock keeps out: everyone, everyone but other readers, or everyone but its owner.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.hold.mode()
    }

    /// Turns a writer into a reader, without a gap in which another writer could get in. The fence
    /// stays. Waiting readers are let in unless a writer is in line.
    ///
    /// From this call on, others may read, even if the call fails. So the guard is a reader's in
    /// any case ([`Guard::mode`]), and stays one. Do not resume what [`Guard::to_handover`]
    /// returned before: it still says writer.
    ///
    /// # Errors
    /// [`ExtendError`], as [`Guard::extend`]: no majority of nodes confirmed it. The old term
    /// stands, and the next renewal tries again. [`ExtendError::InvalidOption`] if the guard is a
    /// permit, or has several names or [`Lock::at_least`](crate::Lock::at_least): then it stays a
    /// writer.
    ///
    /// # Cancel safety
    /// It continues when the future is dropped, and the guard shows its outcome.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let table = locks.rwlock("table");
    /// let mut guard = table.write().acquire().await?;
    /// // ... write ...
    /// guard.downgrade().await?;
    /// let reader = table.read().acquire().await?;
    /// assert!(guard.is_valid() && reader.is_valid());
    /// # Ok(()) }
    /// ```
    pub async fn downgrade(&mut self) -> Result<(), ExtendError> {
        let (manager, id) = (&self.hold.manager, self.hold.id);
        let lock = self.name();
        let may_share = match self.hold.slot {
            Some(_) => Err(OptionError::SharedPermit),
            None => self.options.check_mode(self.hold.key(), &Mode::Shared),
        };
        may_share.map_err(|error| ExtendError::InvalidOption { name: lock.to_owned(), error })?;
        let span = tracing::debug_span!(
            target: "tenure", "tenure.downgrade", lock, fence = Empty, outcome = Empty
        );
        self.extend_in(&span, manager.call(|reply| Call::Share { id, reply })).await
    }

    /// Always an error: a reader cannot become a writer.
    ///
    /// # Errors
    /// [`UpgradeError`] says why, and what to do instead.
    pub const fn upgrade(&mut self) -> Result<(), UpgradeError> {
        Err(UpgradeError)
    }

    /// Releases the lock, and returns as soon as a majority of nodes has answered; the rest are
    /// released in the background. If other guards of the same hold exist ([`Guard::reenter`]), the
    /// lock stays held, and this returns the votes that acquired it.
    ///
    /// # Errors
    /// [`ReleaseError::NotHeld`] if the lock was no longer ours, [`ReleaseError::Unavailable`] if
    /// no majority answered. In both cases the guard is gone, and there is nothing left to do.
    ///
    /// # Cancel safety
    /// The release continues when the future is dropped, even before it was first polled.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let guard = locks.lock("import").acquire().await?;
    /// let released = guard.release().await?;
    /// assert_eq!(released.votes.granted(), 1);
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<Released, ReleaseError> {
        let (name, votes) = (self.name().to_owned(), self.hold.votes());
        let span = Released::span(&name);
        if !span.is_disabled() {
            span.record("fence", self.fence().get());
        }
        let Some(hold) = Arc::into_inner(self.hold) else { return Ok(Released { votes }) };
        let (manager, id) = (Arc::clone(&hold.manager), hold.id);
        hold.forget();
        manager.trace(id, &span);
        let told = manager.call(|reply| Call::Release { id, reply }).instrument(span.clone());
        Released::of(&manager, name, told.await, &span)
    }

    /// Releases the lock although others may have this guard, too: for them it is lost.
    pub(crate) async fn release_for_all(&self) {
        self.hold.watch().tell(HoldState::Lost);
        let id = self.hold.id;
        // Whether the nodes confirm is told in events; if not, the lock frees itself.
        let _ = self.hold.manager.call(|reply| Call::Release { id, reply }).await;
    }

    /// The same, in the background.
    pub(crate) fn give_up_for_all(&self) {
        self.hold.watch().tell(HoldState::Lost);
        // A worker that is gone cannot be told anything.
        let _ = self.hold.manager.send(Call::Abandon { id: self.hold.id });
    }
}

impl Released {
    /// The span of a release, in the caller's trace.
    pub(crate) fn span(lock: &str) -> Span {
        tracing::debug_span!(target: "tenure", "tenure.release", lock, fence = Empty, outcome = Empty)
    }

    /// What the driver told about a release; `None` if it is gone.
    pub(crate) fn of(
        manager: &Inner,
        name: String,
        reply: Option<ReleaseReply>,
        span: &Span,
    ) -> Result<Self, ReleaseError> {
        let released = Self::told(manager, name, reply);
        span.record("outcome", released.as_ref().map_or_else(ReleaseError::outcome, |_| "released"));
        released
    }

    fn told(manager: &Inner, name: String, reply: Option<ReleaseReply>) -> Result<Self, ReleaseError> {
        let Some(ReleaseReply { outcome, ballots, frees_within }) = reply else {
            return Err(ReleaseError::ShutDown { name });
        };
        let votes = manager.votes(&ballots);
        match outcome {
            ReleaseOutcome::Released => Ok(Self { votes }),
            ReleaseOutcome::NotHeld => Err(ReleaseError::NotHeld { name, votes }),
            ReleaseOutcome::Unavailable => Err(ReleaseError::Unavailable { name, votes, frees_within }),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name())
            .field("fence", &self.fence())
            .field("valid_for", &self.valid_for())
            .field("margin", &self.margin())
            .finish_non_exhaustive()
    }
}
