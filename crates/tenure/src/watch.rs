//! One view of the fleet, kept up to date: its locks, its nodes, and what changes.
//!
//! What this process does is known when it happens. What others do is found by looking, within a
//! second or two, and a little later on nodes that remember many fences. One looker serves all who
//! watch a manager, and takes at most a fiftieth of a node's time; there is none while nobody
//! watches.
//!
//! ```text
//!   nodes ◄── looker.rs ──► board.rs ◄── FleetWatch (as many as there are)
//!                 ▲
//!   driver ── tap.rs: what this process did
//! ```

mod board;
mod looker;
mod tap;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::{LockState, Row, Share, Time};
use tokio::sync::watch;

pub(crate) use self::board::Board;
use self::board::{Fresh, Seen, Told, Wish};
pub(crate) use self::tap::Tap;
use crate::Locks;
use crate::diagnostics::NodeReport;
use crate::inspect::LockReport;
use crate::locks::Inner;
use crate::machine::clock::Clock;

/// Follows the locks and nodes of a fleet. Made by [`Locks::watch`].
///
/// Dropping it ends the watch; polling stops with the last watch of a manager.
pub struct FleetWatch {
    manager: Arc<Inner>,
    wish: Wish,
    seen: Seen,
    news: watch::Receiver<u64>,
    /// The locks as this watcher knows them.
    known: BTreeMap<Arc<str>, Arc<LockView>>,
}

/// What is new since the last call. What has not changed is left out.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FleetNews {
    /// Locks that changed, at most 1,000 at a time. A lock that changed several times appears once,
    /// as it is now.
    pub locks: Vec<LockChange>,
    /// Whether more changes are ready.
    pub more: bool,
    /// The nodes, as in [`Locks::nodes`].
    pub nodes: Option<Arc<[NodeReport]>>,
    /// The progress of the scan.
    pub progress: Option<Arc<WatchProgress>>,
    /// The watched lock ([`FleetWatch::lock`]), as in [`Locks::inspect`].
    pub lock: Option<Arc<LockReport>>,
}

/// A lock that changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockChange {
    /// Its name: the part of its key after the prefix.
    pub name: Arc<str>,
    /// As it was; `None` if nobody held it.
    pub before: Option<Arc<LockView>>,
    /// As it is now; `None` if nobody holds it.
    pub now: Option<Arc<LockView>>,
    /// Whether the change was found by polling. What this process did itself is known at once.
    pub seen: bool,
    /// The change happened at most this long before it was seen.
    pub within: Duration,
    /// The time from the release by the previous holder to the grant, as in
    /// [`Event::Acquired`](crate::Event::Acquired). Only for locks that this process got.
    pub passed_on_after: Option<Duration>,
}

/// A held lock, as the nodes say.
#[derive(Debug)]
pub struct LockView {
    name: Arc<str>,
    row: Row,
    clock: Clock,
    /// When it was last seen so, in nanoseconds of the clock.
    seen: AtomicU64,
}

/// The progress of the scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchProgress {
    /// Whether every node that answers has been scanned since the watch began. Until then, there
    /// may be held locks that were not reported yet.
    pub complete: bool,
    /// The progress on each node, in the order of the node list.
    pub nodes: Vec<WalkProgress>,
}

/// The progress of the scan on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WalkProgress {
    /// The node's address.
    pub node: Arc<str>,
    /// Whether it has been scanned since the watch began.
    pub complete: bool,
    /// Roughly how many of its keys, of any kind, this scan has covered.
    pub looked_at: Option<u64>,
    /// How many keys it has.
    pub of: Option<u64>,
    /// Why it did not answer the last time. It is retried.
    pub error: Option<String>,
}

impl Locks {
    /// Follows all locks and nodes of this manager.
    ///
    /// What this process does is reported at once; what others do is found by polling, about once a
    /// second. One poller serves all watches and takes at most 2 % of a node's time. On a node that
    /// remembers a million fences a scan takes a minute or two, but known locks are polled more
    /// often.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let mut watch = locks.watch().prefix("invoice:");
    /// let _guard = locks.lock("invoice:42").acquire().await?;
    /// 'watch: while let Some(news) = watch.next().await {
    ///     for change in news.locks {
    ///         println!("{}: {:?}", change.name, change.now.map(|lock| lock.state().clone()));
    ///         break 'watch;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn watch(&self) -> FleetWatch {
        FleetWatch::begin(&self.inner, Wish::Begins(String::new()))
    }
}

impl FleetWatch {
    /// The approximate polling interval.
    pub const LOOK_EVERY: Duration = looker::LOOK_EVERY;

    fn begin(manager: &Arc<Inner>, wish: Wish) -> Self {
        let news = manager.board.news();
        if manager.board.enter(&wish) {
            let (manager, board) = (Arc::clone(manager), Arc::clone(&manager.board));
            let started = Arc::clone(&manager).start(looker::look(manager));
            if !started {
                board.close();
            }
        }
        Self { manager: Arc::clone(manager), wish, seen: Seen::default(), news, known: BTreeMap::new() }
    }

    /// The largest share of a node's time that polling takes.
    #[must_use]
    pub fn share_max() -> f64 {
        Share::WATCHING.get()
    }

    /// Follows only locks whose names begin with this.
    #[must_use]
    pub fn prefix(self, begins: impl Into<String>) -> Self {
        Self::begin(&self.manager, Wish::Begins(begins.into()))
    }

    /// Follows one lock in detail: what each node says, and who waits. It needs no scan.
    #[must_use]
    pub fn lock(self, name: impl Into<String>) -> Self {
        Self::begin(&self.manager, Wish::Lock(name.into()))
    }

    /// Whether it follows all locks under a prefix rather than a single one.
    #[must_use]
    pub const fn is_list(&self) -> bool {
        matches!(self.wish, Wish::Begins(_))
    }

    /// The prefix or the name that it follows.
    #[must_use]
    pub fn begins(&self) -> &str {
        match &self.wish {
            Wish::Begins(text) | Wish::Lock(text) => text,
        }
    }

    /// The locks that this watch has reported so far.
    pub fn locks(&self) -> impl Iterator<Item = &Arc<LockView>> {
        self.known.values()
    }

    /// Waits for news. The first come at once, with the progress of the scan.
    ///
    /// `None` when the manager is gone and nothing more will come.
    ///
    /// # Cancel safety
    /// Nothing is lost if it is dropped; call it again.
    pub async fn next(&mut self) -> Option<FleetNews> {
        loop {
            self.news.mark_unchanged();
            let fresh = self.manager.board.after(&mut self.seen, &self.wish);
            let closed = fresh.closed;
            if let Some(news) = self.take(fresh) {
                return Some(news);
            }
            if closed {
                return None;
            }
            // The sender lives as long as the manager, which we have.
            let _ = self.news.changed().await;
        }
    }

    /// What of it this watcher wants to know.
    fn take(&mut self, fresh: Fresh) -> Option<FleetNews> {
        let Fresh { locks, all, more, nodes, progress, report, .. } = fresh;
        let mut changes = vec![];
        if let Some(all) = all {
            let gone: Vec<Arc<str>> =
                self.known.keys().filter(|key| !all.contains_key(*key)).cloned().collect();
            changes.extend(gone.into_iter().filter_map(|key| self.change(&key, Told::default())));
            changes.extend(all.into_iter().filter_map(|(key, told)| self.change(&key, told)));
        }
        changes.extend(locks.into_iter().filter_map(|(key, told)| self.change(&key, told)));
        let news = FleetNews { locks: changes, more, nodes, progress, lock: report };
        let is_empty =
            news.locks.is_empty() && news.nodes.is_none() && news.progress.is_none() && news.lock.is_none();
        (!is_empty || more).then_some(news)
    }

    fn change(&mut self, key: &Arc<str>, told: Told) -> Option<LockChange> {
        let Told { now, ours, within, passed_on_after } = told;
        let Wish::Begins(begins) = &self.wish else { return None };
        let name = key.strip_prefix(self.manager.prefix.as_str()).unwrap_or(key);
        if !name.starts_with(begins.as_str()) {
            return None;
        }
        let before = match &now {
            Some(view) => self.known.insert(Arc::clone(key), Arc::clone(view)),
            None => self.known.remove(key),
        };
        if before.is_none() && now.is_none() {
            return None;
        }
        Some(LockChange { name: name.into(), before, now, seen: !ours, within, passed_on_after })
    }
}

impl fmt::Debug for FleetWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.len();
        f.debug_struct("FleetWatch").field("wish", &self.wish).field("known", &known).finish_non_exhaustive()
    }
}

impl Drop for FleetWatch {
    fn drop(&mut self) {
        self.manager.board.leave(&self.wish);
    }
}

impl LockChange {
    /// Whether the lock was only extended and nothing else changed.
    #[must_use]
    pub fn is_extension(&self) -> bool {
        let (Some(before), Some(now)) = (&self.before, &self.now) else { return false };
        now.row.ends > before.row.ends && now.row.differs_in_its_end_only(&before.row)
    }

    /// Whether the holder changed, or the lock became held or free.
    #[must_use]
    pub fn changes_hands(&self) -> bool {
        let owner = |view: &Option<Arc<LockView>>| view.as_ref()?.row.state.owner().cloned();
        owner(&self.before) != owner(&self.now)
    }

    /// Whether the lock is free because its term ran out.
    #[must_use]
    pub fn expired(&self) -> bool {
        let ends = self.before.as_ref().and_then(|before| Some((before.row.ends?, before.clock)));
        self.now.is_none() && ends.is_some_and(|(ends, clock)| clock.now() >= ends)
    }
}

impl LockView {
    fn new(name: Arc<str>, row: Row, clock: Clock) -> Self {
        let seen = AtomicU64::new(row.seen.as_nanos());
        Self { name, row, clock, seen }
    }

    /// It was seen again, and nothing has changed.
    fn is_seen_again(&self, at: Time) {
        self.seen.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// Its name: the part of its key after the prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a majority of nodes said. For the rest of its term, see [`LockView::left`].
    #[must_use]
    pub const fn state(&self) -> &LockState {
        &self.row.state
    }

    /// When it frees unless it is extended, from now; `None` if it never expires, or that is
    /// unknown.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        Some(self.row.ends?.since(self.clock.now()))
    }

    /// How long its holder has had it.
    #[must_use]
    pub fn held_for(&self) -> Duration {
        self.clock.now().since(self.row.since)
    }

    /// Whether [`LockView::held_for`] is exact; otherwise it is a lower bound.
    #[must_use]
    pub const fn held_for_is_known(&self) -> bool {
        self.row.since_known
    }

    /// How long ago the nodes were asked about it.
    #[must_use]
    pub fn seen_ago(&self) -> Duration {
        self.clock.now().since(Time::from_nanos(self.seen.load(Ordering::Relaxed)))
    }

    /// How many wait in line, dead waiters included.
    #[must_use]
    pub const fn waiters(&self) -> Option<u64> {
        self.row.waiters
    }

    /// How many nodes may forget it before another client can get it, if it is held.
    #[must_use]
    pub const fn margin(&self) -> Option<usize> {
        self.row.margin
    }

    /// How many nodes agree.
    #[must_use]
    pub const fn agree(&self) -> usize {
        self.row.agree.len()
    }

    /// How many nodes disagree.
    #[must_use]
    pub const fn disagree(&self) -> usize {
        self.row.disagree.len()
    }

    /// How many of those name another holder.
    #[must_use]
    pub const fn others(&self) -> usize {
        self.row.others.len()
    }
}
