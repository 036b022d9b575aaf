//! The waiters of a client: who is woken, who is ahead of whom, and what is nudged.

use tenure_core::{Command, LockKey, Ticket, lease};

use crate::links::To;
use crate::trace::Mark;
use crate::world::World;

impl World {
    pub(super) fn handle_woken(&mut self, client: usize, link: usize, number: u64, key: LockKey) {
        let (now, node) = (self.time(client), self.links[link].node);
        if self.links[link].noticed {
            return;
        }
        match self.clients[client].waiters.find(number) {
            Some(lease) => {
                self.marks.see(Mark::Woken);
                if let Some(slot) = self.clients[client].slot(lease) {
                    slot.lease.handle(now, lease::Input::Woken { node });
                    self.drain_lease(client, lease);
                }
            }
            None => {
                self.marks.see(Mark::WokenInVain);
                let ticket = Ticket { number, client: self.clients[client].fleet.client() };
                self.send(client, To::Nobody, node, Command::Leave { key, ticket });
            }
        }
    }

    /// Locks that were passed on to somebody who did not come go to the next in line.
    pub(super) fn nudge(&mut self, client: usize) {
        let now = self.time(client);
        while let Some(key) = self.clients[client].waiters.poll_nudge(now) {
            self.marks.see(Mark::Nudged);
            for node in self.clients[client].fleet.quorum().indexes() {
                self.send(client, To::Nobody, node, Command::Nudge { key: key.clone() });
            }
        }
    }

    /// Keeps the list of those who wait, and tells them who is ahead of whom.
    pub(crate) fn note_ticket(&mut self, client: usize, lease: u32, key: &LockKey, after: Option<Ticket>) {
        let now = self.time(client);
        let before = self.clients[client].tickets.get(&lease).copied();
        if before == after {
            return;
        }
        match after {
            Some(ticket) => self.clients[client].tickets.insert(lease, ticket),
            None => self.clients[client].tickets.remove(&lease),
        };
        let told: Vec<(u32, bool)> = self.clients[client].waiters.change(key, lease, before, after).collect();
        for (other, behind) in told {
            if let Some(slot) = self.clients[client].slot(other) {
                slot.lease.handle(now, lease::Input::BehindOwn(behind));
            }
        }
    }
}
