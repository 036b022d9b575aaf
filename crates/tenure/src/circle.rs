//! Deadlocks: programs that each hold a lock which another of them waits for.
//!
//! A waiter says what it holds meanwhile (`held.rs`). Inside one manager that is enough: a wait
//! that would close a circle fails at once (`waits.rs`). Between programs, a waiter that holds
//! something looks for a circle now and then (`lookout.rs`): the walk is the core's, with reports
//! like those of [`Locks::inspect`](crate::Locks::inspect) (`search.rs`).

mod held;
mod lookout;
mod search;
mod waits;

use std::fmt;
use std::sync::Arc;

use tenure_core::{ClientId, Ticket, circle};

pub use self::held::{Held, HeldError};
pub(crate) use self::held::{LocalHold, Scope};
pub(crate) use self::lookout::{Lookout, Watched};
pub(crate) use self::waits::{Registered, Waits};

/// A deadlock: each member waits for a lock that the next one holds, and the last for one that the
/// first holds.
///
/// Reported by [`Event::Circle`](crate::Event::Circle),
/// [`AcquireError::Circle`](crate::AcquireError) and [`Locks::circles`](crate::Locks::circles).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Circle {
    /// The members. A single one waits for a lock that it holds itself.
    pub members: Vec<CircleMember>,
}

/// A member of a [`Circle`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CircleMember {
    /// Its label ([`Lock::label`](crate::Lock::label)), if any.
    pub label: Option<Arc<str>>,
    /// Its client; all callers of one manager share it. `None` inside one manager.
    pub client: Option<ClientId>,
    /// The lock that it holds.
    pub holds: Arc<str>,
    /// The lock that it waits for.
    pub waits_for: Arc<str>,
}

impl Circle {
    fn of(circle: &circle::Circle) -> Self {
        let member = |member: &circle::Member| {
            let Ticket { client, .. } = member.waiter.ticket;
            CircleMember {
                label: member.waiter.note.label.clone(),
                client: (client != waits::HERE).then_some(client),
                holds: Arc::clone(&member.keeps.name),
                waits_for: Arc::clone(&member.waits_for),
            }
        };
        Self { members: circle.members.iter().map(member).collect() }
    }

    /// The names of its locks, each held by one member and wanted by the one before.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| &*member.holds)
    }
}

impl FromIterator<CircleMember> for Circle {
    fn from_iter<I: IntoIterator<Item = CircleMember>>(members: I) -> Self {
        Self { members: members.into_iter().collect() }
    }
}

impl CircleMember {
    /// A member known from elsewhere, such as a service.
    pub fn new(label: Option<&str>, holds: &str, waits_for: &str) -> Self {
        Self { label: label.map(Into::into), client: None, holds: holds.into(), waits_for: waits_for.into() }
    }

    /// Who it is, in words.
    #[must_use]
    pub fn who(&self) -> String {
        match (&self.label, self.client) {
            (Some(label), _) => label.to_string(),
            (None, Some(client)) => format!("client {client}"),
            (None, None) => "somebody".to_owned(),
        }
    }
}

/// Who holds what and waits for what: `4711@web-1 holds "a" and waits for "b"; ...`.
impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, member) in self.members.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            let CircleMember { holds, waits_for, .. } = member;
            write!(f, "{separator}{} holds {holds:?} and waits for {waits_for:?}", member.who())?;
        }
        Ok(())
    }
}
