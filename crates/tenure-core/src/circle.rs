//! Finding circles: those who each keep a lock that another of them waits for. None of them goes
//! on before one gives up.
//!
//! A waiter says which locks it keeps ([`Note`](crate::Note)), and nodes say who holds a lock and
//! who waits for it ([`Agreement`]). From a waiter the walk goes backwards: who waits for a lock
//! that it keeps; who waits for what these keep; until one of them keeps what the first waits for.
//!
//! ```text
//!   me ──waits for──► b      me keeps a ◄──waits for── W      W keeps b: a circle of two
//! ```
//! - **Every link is confirmed** by what a majority of nodes says now: the hold that a waiter names
//!   is a present hold of that lock, and the waiter is in line. A note that was left behind, or a
//!   guard that was released since, is no link.
//! - **Readers** who wait behind a writer do not wait for other readers, who keep out no reader.
//! - **Twice.** The reports of different locks come from different moments, so somebody may have
//!   been passing by. [`Circle::stands`] looks at the same links again; only a circle that stands
//!   then, too, with the same tickets and holds, is told to anybody.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::inspect::{Agreement, LockState};
use crate::line::{Seeks, Ticket};
use crate::mode::Kind;
use crate::node::SHARED;
use crate::note::{HeldLock, HoldId, Waiter};

/// The most members of a circle that is looked for.
pub const CIRCLE_MEMBERS_MAX: usize = 16;

/// The most locks that one search asks about: what it may cost the nodes.
pub const CIRCLE_LOCKS_MAX: usize = 64;

/// What a majority of nodes says about one lock, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Presence {
    /// Those who hold it.
    pub holds: Vec<HoldId>,
    /// Whether they share it with whoever wants to.
    pub is_shared: bool,
    /// Those who wait for it, in order.
    pub line: Vec<Waiter>,
}

/// Somebody who waits, and for what: for one lock, or for several together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// Who waits, and what it keeps meanwhile.
    pub waiter: Waiter,
    /// The names of the locks.
    pub names: Vec<Arc<str>>,
}

/// One member of a circle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Who it is.
    pub waiter: Waiter,
    /// The lock that it keeps, and that the member before it waits for.
    pub keeps: HeldLock,
    /// The lock that it waits for.
    pub waits_for: Arc<str>,
}

/// Members that each wait for what the next one keeps, and the last for what the first keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Circle {
    /// The members, beginning with the one that was asked about. At least one: it waits for what it
    /// keeps itself.
    pub members: Vec<Member>,
}

/// A search for a circle that begins with one waiter.
///
/// ```
/// use tenure_core::circle::{Search, Step, Wait};
/// use tenure_core::{ClientId, Note, Ticket, Waiter};
///
/// let waiter = Waiter { ticket: Ticket::exclusive(1, ClientId::new(1)), note: Note::default() };
/// let mut search = Search::new(Wait { waiter, names: vec!["b".into()] });
/// assert_eq!(search.step(), Step::NotFound, "it keeps nothing");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Search {
    start: Wait,
    seen: BTreeMap<Arc<str>, Presence>,
    /// How many locks were asked about, known or not.
    asked: BTreeSet<Arc<str>>,
    /// What to follow next: from the first waiter backwards, each waits for what the one before it
    /// keeps.
    paths: VecDeque<Vec<Member>>,
    reached: BTreeSet<HeldLock>,
}

/// What a search needs, or has come to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Ask about these locks, call [`Search::learn`] for each that is known, and go on.
    Ask(Vec<Arc<str>>),
    /// There is one, as far as one look can tell.
    Found(Circle),
    /// There is none, or it is too long.
    NotFound,
}

impl Search {
    /// Begins with this waiter.
    #[must_use]
    pub fn new(start: Wait) -> Self {
        let member = |keeps: &HeldLock| {
            let waits_for = start.names.first().cloned().unwrap_or_else(|| "".into());
            vec![Member { waiter: start.waiter.clone(), keeps: keeps.clone(), waits_for }]
        };
        let paths = start.waiter.note.holds.iter().map(member).collect();
        let reached = start.waiter.note.holds.iter().cloned().collect();
        Self { start, seen: BTreeMap::new(), asked: BTreeSet::new(), paths, reached }
    }

    /// Goes on as far as it can.
    pub fn step(&mut self) -> Step {
        while !self.paths.is_empty() {
            let unknown = self.unknown();
            if !unknown.is_empty() {
                return Step::Ask(unknown);
            }
            for path in std::mem::take(&mut self.paths) {
                if let Some(circle) = self.follow(&path) {
                    return Step::Found(circle);
                }
            }
        }
        Step::NotFound
    }

    /// What a majority says about a lock.
    pub fn learn(&mut self, name: &Arc<str>, presence: Presence) {
        self.seen.insert(Arc::clone(name), presence);
    }

    /// The locks that were not asked about yet and matter next, as far as there may be more.
    fn unknown(&mut self) -> Vec<Arc<str>> {
        let kept = self.paths.iter().filter_map(|path| Some(&path.last()?.keeps.name));
        let names: BTreeSet<_> = self.start.names.iter().chain(kept).cloned().collect();
        let names = names.into_iter().filter(|name| !self.asked.contains(name));
        let names: Vec<_> = names.take(CIRCLE_LOCKS_MAX.saturating_sub(self.asked.len())).collect();
        self.asked.extend(names.iter().cloned());
        names
    }

    /// Follows one path by a link, or closes it to a circle.
    fn follow(&mut self, path: &[Member]) -> Option<Circle> {
        let last = path.last()?;
        // A lock that nobody told of has no holds.
        let presence = self.seen.get(&last.keeps.name)?;
        if !presence.holds.contains(&last.keeps.hold) {
            return None;
        }
        let start = self.start.waiter.ticket;
        if self.start.names.contains(&last.keeps.name) && presence.keeps_waiting(start) {
            let (first, others) = path.split_first()?;
            let first = Member { waits_for: Arc::clone(&last.keeps.name), ..first.clone() };
            return Some(Circle {
                members: [first].into_iter().chain(others.iter().rev().cloned()).collect(),
            });
        }
        if path.len() == CIRCLE_MEMBERS_MAX {
            return None;
        }
        for waiter in presence.line.iter().filter(|waiter| presence.keeps_waiting(waiter.ticket)) {
            if path.iter().any(|member| member.waiter.ticket == waiter.ticket) {
                continue;
            }
            for keeps in &waiter.note.holds {
                if self.reached.insert(keeps.clone()) {
                    let (keeps, waits_for) = (keeps.clone(), Arc::clone(&last.keeps.name));
                    let member = Member { waiter: waiter.clone(), keeps, waits_for };
                    self.paths.push_back(path.iter().cloned().chain([member]).collect());
                }
            }
        }
        None
    }
}

impl Circle {
    /// The names of its locks.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.members.iter().map(|member| &member.keeps.name)
    }

    /// Whether this waiter is in it.
    #[must_use]
    pub fn has(&self, ticket: Ticket) -> bool {
        self.members.iter().any(|member| member.waiter.ticket == ticket)
    }

    /// Whether every link of it is there, by what a majority says about each lock now.
    #[must_use]
    pub fn stands(&self, seen: &BTreeMap<Arc<str>, Presence>) -> bool {
        self.members.iter().all(|Member { waiter, keeps, waits_for }| {
            seen.get(&keeps.name).is_some_and(|presence| presence.holds.contains(&keeps.hold))
                && seen.get(waits_for).is_some_and(|presence| presence.keeps_waiting(waiter.ticket))
        })
    }

    /// Whether the two are the same waits for the same holds, wherever they begin.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let links = |circle: &Self| -> BTreeSet<(Ticket, HoldId)> {
            circle.members.iter().map(|member| (member.waiter.ticket, member.keeps.hold)).collect()
        };
        links(self) == links(other)
    }
}

impl Presence {
    /// Whether this one is in line, and those who hold the lock keep it out.
    fn keeps_waiting(&self, ticket: Ticket) -> bool {
        let is_kept_out = !(self.is_shared && ticket.seeks == Seeks::Shared);
        is_kept_out && self.line.iter().any(|waiter| waiter.ticket == ticket)
    }
}

impl From<&Agreement> for Presence {
    fn from(Agreement { state, line, holds, .. }: &Agreement) -> Self {
        let is_shared = matches!(state, LockState::Held { owner, kind, .. } if **owner == *SHARED && *kind == Kind::Plain);
        Self { holds: holds.clone(), is_shared, line: line.clone() }
    }
}

#[cfg(test)]
mod tests;
