//! One who waits for a lock, as the nodes tell it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_core::{Kind, Note, Seeks, Ticket, Waiter};

/// A waiter in line for a lock. Part of [`Locks::inspect`](crate::Locks::inspect).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaiterReport {
    /// Its place in line: smaller tickets are served first.
    pub ticket: Ticket,
    /// When it started to wait, by the clocks of the nodes.
    pub since: SystemTime,
    /// Its label ([`Lock::label`](crate::Lock::label)), if any.
    pub label: Option<Arc<str>>,
    /// Whether it would share the lock with others.
    pub shares: bool,
    /// The locks that it holds while it waits, as far as it says
    /// ([`Lock::while_holding`](crate::Lock::while_holding)).
    pub keeps: Vec<Arc<str>>,
}

impl WaiterReport {
    pub(super) fn of(Waiter { ticket, note: Note { label, holds } }: &Waiter) -> Self {
        Self {
            ticket: *ticket,
            since: UNIX_EPOCH.checked_add(Duration::from_micros(ticket.number)).unwrap_or(UNIX_EPOCH),
            label: label.clone(),
            shares: ticket.seeks == Seeks::Shared,
            keeps: holds.iter().map(|held| Arc::clone(&held.name)).collect(),
        }
    }

    /// What kind of lock it waits for.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.ticket.kind()
    }
}
