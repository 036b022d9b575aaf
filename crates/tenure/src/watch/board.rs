//! What the looker has seen, for all who watch.
//!
//! The looker writes, and whoever watches reads at its own pace: every change has a number, and a
//! watcher knows the last one that it has seen. Of a lock that changes often only the last state is
//! kept, so a watcher that is slow misses what happened in between and costs nobody anything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::Time;
use tokio::sync::watch;

use super::tap::Tap;
use super::{LockView, WatchProgress};
use crate::diagnostics::NodeReport;
use crate::inspect::LockReport;

/// So many locks that are gone are remembered. A watcher that is further behind compares all.
const GONE_MAX: usize = 10_000;

/// How much one watcher is told at a time.
const BATCH: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) tap: Arc<Tap>,
    state: Mutex<State>,
    /// The number of the last change; goes up when there is something new.
    news: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the last change of anything.
    last: u64,
    rows: BTreeMap<Arc<str>, Entry>,
    /// The locks by the number of their last change.
    log: BTreeMap<u64, Arc<str>>,
    /// How many rows stand for locks that are gone.
    gone: usize,
    /// Changes up to this number may be about locks of which nothing is kept.
    forgotten: u64,
    nodes: (u64, Option<Arc<[NodeReport]>>),
    progress: (u64, Arc<WatchProgress>),
    /// Single locks that somebody looks at.
    focus: BTreeMap<String, Focus>,
    /// What the names begin with that somebody wants to see, and how many do.
    begins: BTreeMap<String, usize>,
    /// Whether there is a looker.
    looked_at: bool,
    /// The manager is gone.
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    told: Told,
}

/// What is known of a lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// As it is now; `None` if nobody has it.
    pub(super) now: Option<Arc<LockView>>,
    /// It was this process's doing.
    pub(super) ours: bool,
    /// The last change happened at most so long before it was seen.
    pub(super) within: Duration,
    /// The time from the release by the previous holder to the grant, if this process got it.
    pub(super) passed_on_after: Option<Duration>,
}

#[derive(Debug, Default)]
struct Focus {
    watchers: usize,
    number: u64,
    report: Option<Arc<LockReport>>,
}

/// What a watcher asks for.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    /// Locks whose names begin so.
    Begins(String),
    /// This one.
    Lock(String),
}

/// What is new for a watcher.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    pub(super) locks: Vec<(Arc<str>, Told)>,
    /// Nothing is known of the changes before these: compare.
    pub(super) all: Option<BTreeMap<Arc<str>, Told>>,
    pub(super) more: bool,
    pub(super) nodes: Option<Arc<[NodeReport]>>,
    pub(super) progress: Option<Arc<WatchProgress>>,
    pub(super) report: Option<Arc<LockReport>>,
    pub(super) closed: bool,
}

/// What the looker has to look at.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// What all names begin with that somebody wants to see; `None` if nobody wants a list.
    pub(super) begins: Option<String>,
    pub(super) focus: Vec<String>,
}

impl Board {
    pub(crate) fn new() -> Self {
        let (tap, state, news) = (Arc::default(), Mutex::default(), watch::Sender::new(0));
        Self { tap, state, news }
    }

    /// Somebody watches from now on. Whether a looker has to be started.
    pub(super) fn enter(&self, wish: &Wish) -> bool {
        let mut state = self.state();
        match wish {
            Wish::Begins(begins) => *state.begins.entry(begins.clone()).or_default() += 1,
            Wish::Lock(name) => state.focus.entry(name.clone()).or_default().watchers += 1,
        }
        let starts = !std::mem::replace(&mut state.looked_at, true);
        if starts {
            // What was seen the last time is old.
            let (begins, focus) = (std::mem::take(&mut state.begins), std::mem::take(&mut state.focus));
            *state = State { begins, focus, looked_at: true, last: state.last, ..State::default() };
            self.tap.set_open(true);
        }
        drop(state);
        self.tap.nudge();
        starts
    }

    pub(super) fn leave(&self, wish: &Wish) {
        let mut state = self.state();
        match wish {
            Wish::Begins(begins) => {
                if let Some(count) = state.begins.get_mut(begins) {
                    *count -= 1;
                }
                state.begins.retain(|_, count| *count > 0);
            }
            Wish::Lock(name) => {
                if let Some(focus) = state.focus.get_mut(name) {
                    focus.watchers -= 1;
                }
                state.focus.retain(|_, focus| focus.watchers > 0);
            }
        }
        drop(state);
        self.tap.nudge();
    }

    /// What is to be looked at; `None`, and the looker ends, if nobody watches any more.
    pub(super) fn wanted(&self) -> Option<Wanted> {
        let mut state = self.state();
        if state.begins.is_empty() && state.focus.is_empty() {
            state.looked_at = false;
            self.tap.set_open(false);
            return None;
        }
        let focus = state.focus.keys().cloned().collect();
        Some(Wanted { begins: common_lead(state.begins.keys()), focus })
    }

    /// The manager is gone, and nobody looks any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        (state.closed, state.looked_at) = (true, false);
        self.tell(&mut state);
    }

    /// What the looker has seen.
    pub(super) fn put(
        &self,
        changes: impl IntoIterator<Item = (Arc<str>, Told)>,
        progress: Option<WatchProgress>,
    ) {
        let mut state = self.state();
        let before = state.last;
        for (key, told) in changes {
            state.last += 1;
            let number = state.last;
            state.gone += usize::from(told.now.is_none());
            if let Some(old) = state.rows.insert(Arc::clone(&key), Entry { number, told }) {
                state.log.remove(&old.number);
                state.gone -= usize::from(old.told.now.is_none());
            }
            state.log.insert(number, key);
        }
        if state.gone > GONE_MAX {
            state.forget_gone();
        }
        if let Some(progress) = progress.filter(|progress| *progress != *state.progress.1) {
            state.last += 1;
            state.progress = (state.last, Arc::new(progress));
        }
        if state.last > before {
            self.tell(&mut state);
        }
    }

    /// These were seen again, and nothing about them has changed.
    pub(super) fn touch<'a>(&self, rows: impl Iterator<Item = (&'a Arc<str>, Time)>) {
        let state = self.state();
        for (key, seen) in rows {
            if let Some(view) = state.rows.get(key).and_then(|row| row.told.now.as_ref()) {
                view.is_seen_again(seen);
            }
        }
    }

    /// Forgets all locks: the view begins again.
    pub(super) fn clear(&self) {
        let mut state = self.state();
        state.rows.clear();
        state.log.clear();
        state.gone = 0;
        state.last += 1;
        state.forgotten = state.last;
        self.tell(&mut state);
    }

    pub(super) fn put_nodes(&self, nodes: Vec<NodeReport>) {
        let mut state = self.state();
        state.last += 1;
        state.nodes = (state.last, Some(nodes.into()));
        self.tell(&mut state);
    }

    pub(super) fn put_report(&self, name: &str, report: LockReport) {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        if let Some(focus) = state.focus.get_mut(name) {
            (focus.number, focus.report) = (number, Some(Arc::new(report)));
            self.tell(&mut state);
        }
    }

    /// Tells when there is something new.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// What came after the `seen`-th change, which is counted on.
    pub(super) fn after(&self, seen: &mut Seen, wish: &Wish) -> Fresh {
        let state = self.state();
        let mut fresh = Fresh { closed: state.closed, ..Fresh::default() };
        if let Wish::Begins(_) = wish {
            if seen.locks < state.forgotten {
                let rows = state.rows.iter();
                let there = rows.filter(|(_, row)| row.told.now.is_some());
                fresh.all = Some(there.map(|(key, row)| (Arc::clone(key), row.told.clone())).collect());
                seen.locks = state.last;
            } else {
                let mut newer = state.log.range(seen.locks + 1..);
                for (number, key) in newer.by_ref().take(BATCH) {
                    fresh.locks.push((Arc::clone(key), state.rows[key].told.clone()));
                    seen.locks = *number;
                }
                fresh.more = newer.next().is_some();
            }
        }
        if state.nodes.0 > seen.nodes {
            (seen.nodes, fresh.nodes) = state.nodes.clone();
        }
        if state.progress.0 > seen.progress {
            seen.progress = state.progress.0;
            fresh.progress = Some(Arc::clone(&state.progress.1));
        }
        if let Wish::Lock(name) = wish
            && let Some(focus) = state.focus.get(name).filter(|focus| focus.number > seen.report)
        {
            (seen.report, fresh.report) = (focus.number, focus.report.clone());
        }
        fresh
    }

    fn tell(&self, state: &mut State) {
        self.news.send_replace(state.last);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last changes that a watcher has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    locks: u64,
    nodes: u64,
    progress: u64,
    report: u64,
}

impl State {
    fn forget_gone(&mut self) {
        let (log, forgotten) = (&mut self.log, &mut self.forgotten);
        self.rows.retain(|_, row| {
            let is_there = row.told.now.is_some();
            if !is_there {
                log.remove(&row.number);
                *forgotten = row.number.max(*forgotten);
            }
            is_there
        });
        self.gone = 0;
    }
}

/// What all of them begin with.
fn common_lead<'a>(mut texts: impl Iterator<Item = &'a String>) -> Option<String> {
    let mut lead = texts.next()?.as_str();
    for text in texts {
        let same = lead.char_indices().zip(text.chars()).take_while(|((_, a), b)| a == b);
        let end = same.last().map_or(0, |((at, character), _)| at + character.len_utf8());
        lead = &lead[..end];
    }
    Some(lead.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_looks_for_what_all_watchers_want_to_see() {
        let lead = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
            common_lead(texts.iter())
        };
        assert_eq!(lead(&[]), None);
        assert_eq!(lead(&["job/a", "job/b", "job/"]).as_deref(), Some("job/"));
        assert_eq!(lead(&["job/ä", "job/ö"]).as_deref(), Some("job/"));
        assert_eq!(lead(&["job/", "x"]).as_deref(), Some(""));
    }

    #[test]
    fn whoever_is_far_behind_compares_all() {
        let board = Board::new();
        let wish = Wish::Begins(String::new());
        assert!(board.enter(&wish) && !board.enter(&wish));
        let mut seen = Seen::default();
        let gone = |number: usize| (Arc::from(number.to_string()), Told::default());
        board.put((0..10).map(gone), None);
        assert_eq!(board.after(&mut seen, &wish).locks.len(), 10);
        board.put((0..=GONE_MAX).map(gone), None);
        let fresh = board.after(&mut seen, &wish);
        assert_eq!((fresh.locks.len(), fresh.all.map(|all| all.len())), (0, Some(0)));
        board.leave(&wish);
        assert!(board.wanted().is_some());
        board.leave(&wish);
        assert_eq!(board.wanted(), None);
        assert!(board.enter(&wish), "the next one starts a looker again");
    }
}
