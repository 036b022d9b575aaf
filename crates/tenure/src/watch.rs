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
/// Dropping it ends the watch; when the last one of a manager is dropped, nobody looks any more.
pub struct FleetWatch {
    manager: Arc<Inner>,
    wish: Wish,
    seen: Seen,
    news: watch::Receiver<u64>,
    /// The locks as this watcher knows them.
    known: BTreeMap<Arc<str>, Arc<LockView>>,
}

/// What is new to a watcher. What is not new is left out.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FleetNews {
    /// What became of locks, at most 1,000 at a time. A lock that changed more than once since the
    /// watcher last asked is told once, as it is now.
    pub locks: Vec<LockChange>,
    /// Whether more of them can be had at once.
    pub more: bool,
    /// How the nodes are, as [`Locks::nodes`] tells.
    pub nodes: Option<Arc<[NodeReport]>>,
    /// How far the looker is.
    pub progress: Option<Arc<WatchProgress>>,
    /// The lock that is watched in particular ([`FleetWatch::lock`]), as [`Locks::inspect`] tells.
    pub lock: Option<Arc<LockReport>>,
}

/// What became of a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockChange {
    /// Its name: what follows the prefix in its key.
    pub name: Arc<str>,
    /// As this watcher knew it; `None` if nobody had it.
    pub before: Option<Arc<LockView>>,
    /// As it is now; `None` if nobody has it.
    pub now: Option<Arc<LockView>>,
    /// Whether it was found by looking. What this process did itself is not.
    pub seen: bool,
    /// It happened at most so long before it was seen.
    pub within: Duration,
    /// The time from the release by the previous holder to the grant, as in
    /// [`Event::Acquired`](crate::Event::Acquired). Only for locks that this process got.
    pub passed_on_after: Option<Duration>,
}

/// A lock that somebody has, as the nodes say.
#[derive(Debug)]
pub struct LockView {
    name: Arc<str>,
    row: Row,
    clock: Clock,
    /// When it was last seen so, in nanoseconds of the clock.
    seen: AtomicU64,
}

/// How far the looker is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchProgress {
    /// Whether every node that answers has been walked through since the watch began. Until then,
    /// a lock that was not told of may be held.
    pub complete: bool,
    /// How far it is on each node, in the order of the node list.
    pub nodes: Vec<WalkProgress>,
}

/// How far the looker is on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WalkProgress {
    /// The node's address.
    pub node: Arc<str>,
    /// Whether it has been walked through since the watch began.
    pub complete: bool,
    /// How many of its keys, of any kind, were looked at on this walk, roughly.
    pub looked_at: Option<u64>,
    /// How many keys it has.
    pub of: Option<u64>,
    /// Why it did not answer the last time. It is asked again.
    pub error: Option<String>,
}

impl Locks {
    /// Follows all locks and nodes of this manager.
    ///
    /// One looker serves all who watch, and takes at most 2 % of a node's time. It looks about once
    /// a second; through a node that remembers a million fences a walk takes a minute or two, but
    /// locks that are known are looked at more often.
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
    /// About how often is looked.
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

    /// The largest part of a node's time that looking takes.
    #[must_use]
    pub fn share_max() -> f64 {
        Share::WATCHING.get()
    }

    /// Follows only locks whose names begin so.
    #[must_use]
    pub fn prefix(self, begins: impl Into<String>) -> Self {
        Self::begin(&self.manager, Wish::Begins(begins.into()))
    }

    /// Follows one lock, in full: each node's own word, and who waits. There is no walk for that;
    /// the lock is asked for directly.
    #[must_use]
    pub fn lock(self, name: impl Into<String>) -> Self {
        Self::begin(&self.manager, Wish::Lock(name.into()))
    }

    /// Whether it follows all locks under a prefix, and not one of them.
    #[must_use]
    pub const fn is_list(&self) -> bool {
        matches!(self.wish, Wish::Begins(_))
    }

    /// What the names begin with that it follows.
    #[must_use]
    pub fn begins(&self) -> &str {
        match &self.wish {
            Wish::Begins(text) | Wish::Lock(text) => text,
        }
    }

    /// The locks, as far as this watcher was told of them.
    pub fn locks(&self) -> impl Iterator<Item = &Arc<LockView>> {
        self.known.values()
    }

    /// Waits for something new. The first news come at once, and tell how far the looker is.
    ///
    /// `None` when the manager is gone: nothing more will come.
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
    /// Whether the lock was only extended: its holder has it for longer, and nothing else changed.
    #[must_use]
    pub fn is_extension(&self) -> bool {
        let (Some(before), Some(now)) = (&self.before, &self.now) else { return false };
        now.row.ends > before.row.ends && now.row.differs_in_its_end_only(&before.row)
    }

    /// Whether another has it now than before, or nobody has or had it.
    #[must_use]
    pub fn changes_hands(&self) -> bool {
        let owner = |view: &Option<Arc<LockView>>| view.as_ref()?.row.state.owner().cloned();
        owner(&self.before) != owner(&self.now)
    }

    /// Whether the term had run out by then, of a lock that nobody has any more.
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

    /// Its name: what follows the prefix in its key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a majority of nodes said. For what is left of its term, see [`LockView::left`].
    #[must_use]
    pub const fn state(&self) -> &LockState {
        &self.row.state
    }

    /// The time until it is free, from now, unless it is extended; `None` if it never ends, or that
    /// is not known.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        Some(self.row.ends?.since(self.clock.now()))
    }

    /// For how long its holder has it.
    #[must_use]
    pub fn held_for(&self) -> Duration {
        self.clock.now().since(self.row.since)
    }

    /// Whether that is known; else it may be longer.
    #[must_use]
    pub const fn held_for_is_known(&self) -> bool {
        self.row.since_known
    }

    /// How long ago the nodes were asked about it.
    #[must_use]
    pub fn seen_ago(&self) -> Duration {
        self.clock.now().since(Time::from_nanos(self.seen.load(Ordering::Relaxed)))
    }

    /// How many wait in line, those that were killed among them.
    #[must_use]
    pub const fn waiters(&self) -> Option<u64> {
        self.row.waiters
    }

    /// How many nodes may forget it before somebody else can get it, if it is held.
    #[must_use]
    pub const fn margin(&self) -> Option<usize> {
        self.row.margin
    }

    /// How many nodes say so.
    #[must_use]
    pub const fn agree(&self) -> usize {
        self.row.agree.len()
    }

    /// How many nodes say otherwise.
    #[must_use]
    pub const fn disagree(&self) -> usize {
        self.row.disagree.len()
    }

    /// How many of these name another holder.
    #[must_use]
    pub const fn others(&self) -> usize {
        self.row.others.len()
    }
}
