//! What a waiter holds: said by the caller, or known because the work of an outer lock goes on.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Weak};

use tenure_core::{HeldLock, HoldId, HoldState, LockKey, Mode, Note};

use crate::driver::{Id, SharedLease};
use crate::guard::handover::Handover;
use crate::guard::{Guard, Hold};
use crate::lock::Lock;
use crate::locks::Inner;

tokio::task_local! {
    static SCOPE: Scope;
}

/// A lock that a waiter holds while it waits for another one ([`Lock::while_holding`]).
///
/// Its text form can be passed to a program that waits on behalf of this one. It is no secret: it
/// identifies the hold, but cannot extend or release it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::{Held, Locks};
///
/// let locks = Locks::memory();
/// let guard = locks.lock("a").acquire().await?;
/// let text = Held::from(&guard).to_string();
/// let held: Held = text.parse()?;
/// assert_eq!(held.names(), ["a"]);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Held(Source);

#[derive(Clone)]
enum Source {
    /// A guard of this program, while it lives.
    Guard(LocalHold),
    /// What another program said.
    Told(Vec<HeldLock>),
}

/// A hold of this program.
#[derive(Clone)]
pub(crate) struct LocalHold {
    pub(super) manager: Arc<Inner>,
    pub(super) key: LockKey,
    pub(super) id: Id,
    lease: SharedLease,
    /// Its guards.
    guards: Weak<Hold>,
}

/// A text is not a list of held locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid list of held locks: expected the text exactly as it was written")]
pub struct HeldError;

/// The locks whose work goes on around a task ([`Lock::with`]).
#[derive(Clone)]
pub(crate) struct Scope(Arc<Level>);

struct Level {
    held: Held,
    outer: Option<Scope>,
}

impl Lock {
    /// Declares that the caller holds this lock while it waits, so that a deadlock is found. Call
    /// it once per held lock. It changes nothing else.
    ///
    /// A deadlock inside one manager fails at once with
    /// [`AcquireError::Circle`](crate::AcquireError::Circle). A deadlock with other programs is
    /// reported by [`Event::Circle`](crate::Event::Circle) after a second or two, while the call
    /// keeps waiting.
    ///
    /// Inside [`Lock::with`] its own lock is declared automatically.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tenure::{AcquireError, Locks};
    ///
    /// let locks = Locks::memory();
    /// let (a, b) = (locks.lock("a").acquire().await?, locks.lock("b").acquire().await?);
    /// let mut other = Box::pin(locks.lock("a").while_holding(&b).acquire());
    /// # tokio::time::timeout(std::time::Duration::from_millis(1), &mut other).await.unwrap_err();
    /// let error = locks.lock("b").while_holding(&a).acquire().await.unwrap_err();
    /// assert!(matches!(error, AcquireError::Circle { .. }));
    /// // The caller that gets the error gives way.
    /// a.release().await?;
    /// other.await?;
    /// # Ok(()) }
    /// ```
    pub fn while_holding(mut self, held: impl Into<Held>) -> Self {
        // Those who wait for others of this client are unknown to the nodes.
        self.options_mut().cohort = false;
        self.held.push(held.into());
        self
    }
}

impl Held {
    /// The names of the locks; several if they are held as one.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        match &self.0 {
            Source::Guard(hold) => hold.key.each().iter().map(|key| key.name().to_owned()).collect(),
            Source::Told(holds) => holds.iter().map(|held| held.name.to_string()).collect(),
        }
    }

    /// The hold, if it is one of this program.
    pub(super) const fn local(&self) -> Option<&LocalHold> {
        if let Source::Guard(hold) = &self.0 { Some(hold) } else { None }
    }

    /// How nodes are told of it; nothing if it has ended.
    pub(crate) fn holds(&self) -> Vec<HeldLock> {
        match &self.0 {
            Source::Guard(hold) => hold.holds(),
            Source::Told(holds) => holds.clone(),
        }
    }
}

impl LocalHold {
    pub(crate) fn new(
        manager: Arc<Inner>,
        (key, id, lease): (LockKey, Id, SharedLease),
        guards: Weak<Hold>,
    ) -> Self {
        Self { manager, key, id, lease, guards }
    }

    /// From now on the lock is not passed on inside its client: another holder would go by the same
    /// token.
    fn holds(&self) -> Vec<HeldLock> {
        if self.guards.strong_count() == 0 {
            return vec![];
        }
        let handed = self.lease.look().handover(self.manager.clock.now());
        let hold = handed.map(|handed| HoldId::of(&handed.token));
        let held = |key: &LockKey| Some(HeldLock { name: key.name().into(), hold: hold? });
        self.key.each().iter().filter_map(held).collect()
    }

    /// Whether it can be counted on, and then by whom else the lock could be held.
    pub(super) fn mode(&self) -> Option<Mode> {
        let (lease, now) = (self.lease.look(), self.manager.clock.now());
        let is_held = lease.standing().is_some_and(|standing| standing.state(now) != HoldState::Lost);
        // The last guard is dropped some time before the worker hears of it.
        (is_held && self.guards.strong_count() > 0).then(|| lease.mode())
    }
}

impl Scope {
    /// The work of this lock begins, inside that of others if there are any.
    pub(crate) fn entered(guard: &Guard) -> Self {
        Self(Arc::new(Level { held: guard.into(), outer: SCOPE.try_with(Self::clone).ok() }))
    }

    /// Does work in it.
    pub(crate) fn around<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        SCOPE.scope(self, work)
    }

    /// The same for work that does not await.
    #[cfg(feature = "blocking")]
    pub(crate) fn inside<T>(self, work: impl FnOnce() -> T) -> T {
        SCOPE.sync_scope(self, work)
    }

    /// The locks whose work this task does at this moment, the innermost first.
    pub(crate) fn present() -> Vec<Held> {
        let mut held = vec![];
        let mut scope = SCOPE.try_with(Self::clone).ok();
        while let Some(Self(level)) = scope {
            held.push(level.held.clone());
            scope = level.outer.clone();
        }
        held
    }
}

impl From<&Guard> for Held {
    fn from(guard: &Guard) -> Self {
        Self(Source::Guard(guard.to_local()))
    }
}

impl From<&Handover> for Held {
    fn from(handover: &Handover) -> Self {
        let hold = HoldId::of(&handover.token);
        let names = [&handover.name].into_iter().chain(&handover.others);
        Self(Source::Told(names.map(|name| HeldLock { name: name.as_str().into(), hold }).collect()))
    }
}

impl From<&Self> for Held {
    fn from(held: &Self) -> Self {
        held.clone()
    }
}

/// Several are one. A hold that comes again is the same, under whatever name.
impl FromIterator<Held> for Held {
    fn from_iter<I: IntoIterator<Item = Self>>(all: I) -> Self {
        let mut holds: Vec<HeldLock> = vec![];
        for held in all {
            let known: Vec<HoldId> = holds.iter().map(|held| held.hold).collect();
            holds.extend(held.holds().into_iter().filter(|held| !known.contains(&held.hold)));
        }
        Self(Source::Told(holds))
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Note::text_of_holds(&self.holds()))
    }
}

impl FromStr for Held {
    type Err = HeldError;

    fn from_str(text: &str) -> Result<Self, HeldError> {
        Note::parse_holds(text).map(|holds| Self(Source::Told(holds))).ok_or(HeldError)
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.names()).finish()
    }
}
