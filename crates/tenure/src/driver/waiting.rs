//! Acquires that wait in line, and hand-overs that must not be held up.

use tenure_core::{Command, LockKey, NodeIndex, RoundNumber, Ticket, lease};

use super::caller::LeaseEntry;
use super::{Driver, POLITE, Request, UNHEARD, look};

impl Driver {
    pub(super) fn handle_woken(&mut self, node: NodeIndex, number: u64, key: &str) {
        if let Some(id) = self.waiters.find(number) {
            self.advance_lease(id, lease::Input::Woken { node });
        } else if let Some(name) = key.strip_prefix(self.fleet.prefix().as_str())
            && let Ok(key) = LockKey::new(self.fleet.prefix(), name)
        {
            // It waits no longer, and must not keep the lock from others.
            let ticket = Ticket { number, client: self.fleet.client() };
            self.send(UNHEARD, RoundNumber::default(), node, Command::Leave { key, ticket });
        }
    }

    /// Begins an acquire; `late`, if it has let others go first.
    pub(super) fn begin_acquire(&mut self, request: Request, late: bool) {
        let Request::Acquire { id, lease, fenced, entropy, reply } = request else { return };
        if let Some(early) = &mut self.early {
            return early.push(Request::Acquire { id, lease, fenced, entropy, reply });
        }
        let (wanted, crowded) = {
            let lease = look(&lease);
            let (waits, key) = (lease.waits(), lease.key());
            (waits && self.waiters.is_wanted(key), waits && !late && self.waiters.is_crowded(key))
        };
        if crowded {
            let request = Request::Acquire { id, lease, fenced, entropy, reply };
            return self.polite.push_back((self.now + POLITE, request));
        }
        let mut entry = LeaseEntry::of(lease);
        entry.acquire = Some(reply);
        self.leases.insert(id, entry);
        let mut proposal = self.fleet.propose(self.now, fenced);
        proposal.ticket = wanted.then(|| self.fleet.draw_ticket(self.now));
        self.set_fleet_timer();
        self.advance_lease(id, lease::Input::Attempt { entropy, proposal });
    }

    pub(super) fn begin_polite(&mut self) {
        while self.polite.front().is_some_and(|(due, _)| *due <= self.now) {
            if let Some((_, request)) = self.polite.pop_front() {
                self.begin_acquire(request, true);
            }
        }
    }

    /// Locks that were passed on to somebody who did not come go to the next in line.
    pub(super) fn nudge(&mut self) {
        while let Some(key) = self.waiters.poll_nudge(self.now) {
            for node in self.quorum.indexes() {
                self.send(UNHEARD, RoundNumber::default(), node, Command::Nudge { key: key.clone() });
            }
        }
    }
}
