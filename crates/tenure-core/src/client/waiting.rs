//! Waiters that are woken, and locks that were passed on to one that did not come.

use super::tag::Addressee;
use super::{Client, LeaseCell};
use crate::command::Command;
use crate::lease;
use crate::names::LockKey;
use crate::queue::Ticket;
use crate::quorum::NodeIndex;
use crate::time::Time;

impl<L: LeaseCell> Client<L> {
    pub(super) fn handle_woken(&mut self, now: Time, node: NodeIndex, number: u64, key: &str) {
        if let Some(id) = self.waiters.find(number) {
            self.advance_lease(now, id, lease::Input::Woken { node });
        } else if let Some(name) = key.strip_prefix(self.fleet.prefix().as_str())
            && let Ok(key) = LockKey::new(self.fleet.prefix(), name)
        {
            // It waits no longer, and must not keep the lock from others.
            let ticket = Ticket { number, client: self.fleet.client() };
            self.outbox.send(now, Addressee::Nobody, node, Command::Leave { key, ticket });
        }
    }

    /// Locks that were passed on to a waiter that did not come go to the next in line.
    pub(super) fn nudge(&mut self, now: Time) {
        while let Some(key) = self.waiters.poll_nudge(now) {
            for node in self.quorum().indexes() {
                self.outbox.send(now, Addressee::Nobody, node, Command::Nudge { key: key.clone() });
            }
        }
    }
}
