//! The fleet on a terminal: what is shown, and what keys do. Nothing here touches the terminal.
//!
//! ```text
//!   news ──► App ──► draw.rs ──► a picture
//!   keys ──► keys.rs ─┘ └──► what to do: ask about a lock, take it from its holder, end
//! ```

mod draw;
mod keys;

use std::collections::BTreeMap;
use std::time::Instant;

pub(crate) use self::draw::draw;
pub(crate) use self::keys::{Do, Key};
use crate::report::Report;
use crate::sight::{Lock, News, Node, Progress};

/// What is shown.
#[derive(Debug)]
pub(crate) struct App {
    locks: BTreeMap<String, Lock>,
    nodes: Vec<Node>,
    nodes_told: Instant,
    progress: Progress,
    /// Why what is shown is old, and since when.
    stale: Option<(String, Instant)>,
    sort: Sort,
    backwards: bool,
    filter: String,
    view: View,
    /// The name of the line that the cursor is on.
    cursor: Option<String>,
    may_force: bool,
    /// What came of the last thing that was done.
    note: Option<String>,
}

/// What fills the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum View {
    List,
    /// Letters go to the filter.
    Filter,
    Nodes,
    Help,
    Lock {
        name: String,
        report: Option<Box<Told>>,
    },
    /// Asks whether a lock is to be taken from its holder.
    Force {
        name: String,
        holder: Option<String>,
        label: Option<String>,
    },
}

/// What the nodes say about one lock.
#[derive(Clone, Debug)]
struct Told(Report);

impl PartialEq for Told {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Told {}

/// By what the locks are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Name,
    Left,
    Age,
    Waiters,
    Margin,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Name, Self::Left, Self::Age, Self::Waiters, Self::Margin];

    const fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Left => "time left",
            Self::Age => "age",
            Self::Waiters => "waiters",
            Self::Margin => "margin",
        }
    }

    fn next(self) -> Self {
        let place = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }
}

impl App {
    /// Nothing is known yet. Locks whose names do not begin with `filter` are not shown.
    pub(crate) fn new(may_force: bool) -> Self {
        Self {
            locks: BTreeMap::new(),
            nodes: vec![],
            nodes_told: Instant::now(),
            progress: Progress::default(),
            stale: None,
            sort: Sort::Name,
            backwards: false,
            filter: String::new(),
            view: View::List,
            cursor: None,
            may_force,
            note: None,
        }
    }

    /// Something has changed. Returns a lock to ask about, if it is the one that is shown.
    pub(crate) fn take(&mut self, news: News) -> Option<String> {
        match news {
            News::Locks(changes) => {
                let mut asked = None;
                for change in changes {
                    if matches!(&self.view, View::Lock { name, .. } if *name == change.name) {
                        asked = Some(change.name.clone());
                    }
                    match change.now {
                        Some(lock) => self.locks.insert(change.name, lock),
                        None => self.locks.remove(&change.name),
                    };
                }
                return asked;
            }
            News::Nodes(nodes) => (self.nodes, self.nodes_told) = (nodes, Instant::now()),
            News::Progress(progress) => self.progress = progress,
            News::Stale(reason) => self.stale = Some((reason, Instant::now())),
            News::Fresh => self.stale = None,
        }
        None
    }

    /// What the nodes say about the lock that is shown.
    pub(crate) fn tell(&mut self, told: Report) {
        if let View::Lock { name, report } = &mut self.view
            && *name == told.name
        {
            *report = Some(Box::new(Told(told)));
        }
    }

    /// What came of something that was done.
    pub(crate) fn note(&mut self, note: String) {
        self.note = Some(note);
    }

    /// Whether there is something to see.
    pub(crate) fn is_ready(&self) -> bool {
        self.progress.complete && !self.nodes.is_empty()
    }

    /// The lock that is shown in full.
    pub(crate) fn shown(&self) -> Option<&str> {
        if let View::Lock { name, .. } = &self.view { Some(name) } else { None }
    }

    /// The locks that are shown, in order.
    fn rows(&self) -> Vec<&Lock> {
        let wanted = |lock: &&Lock| {
            let label = lock.label.as_deref().unwrap_or_default();
            lock.name.contains(&self.filter) || label.contains(&self.filter)
        };
        let mut rows: Vec<&Lock> = self.locks.values().filter(wanted).collect();
        match self.sort {
            Sort::Name => {}
            Sort::Left => rows.sort_by_key(|lock| lock.left()),
            Sort::Age => rows.sort_by_key(|lock| std::cmp::Reverse(lock.age())),
            Sort::Waiters => rows.sort_by_key(|lock| std::cmp::Reverse(lock.waiters)),
            Sort::Margin => rows.sort_by_key(|lock| lock.margin),
        }
        if self.backwards {
            rows.reverse();
        }
        rows
    }

    /// Where the cursor is among the rows.
    fn place(&self, rows: &[&Lock]) -> Option<usize> {
        let cursor = self.cursor.as_deref();
        let place = cursor.and_then(|name| rows.iter().position(|lock| lock.name == name));
        place.or(if rows.is_empty() { None } else { Some(0) })
    }
}

#[cfg(test)]
mod tests;
