//! The one timer of a client.

use tenure_core::lease::Renewing;
use tenure_core::trust;
use tenure_core::{Command, Time, lease, release};

use crate::links::To;
use crate::trace::Mark;
use crate::world::{Event, World};

impl World {
    pub(super) fn handle_wake(&mut self, client: usize) {
        let now = self.time(client);
        self.clients[client].wake_ns = None;
        let due = |timeout: Option<Time>| timeout.is_some_and(|timeout| timeout <= now);
        self.nudge(client);
        if due(self.clients[client].fleet.poll_timeout()) {
            self.clients[client].fleet.handle(now, trust::Input::Timeout);
            self.drain_fleet(client);
        }
        let leases: Vec<u32> = self.clients[client].leases.iter().map(|slot| slot.id).collect();
        for lease in leases {
            if self.clients[client].slot(lease).is_some_and(|slot| due(slot.lease.poll_timeout()))
                && !self.begin_renewal(client, lease)
            {
                self.handle_lease_timeout(client, lease);
            }
        }
        for index in 0..self.clients[client].releases.len() {
            let release = &mut self.clients[client].releases[index].release;
            if due(release.poll_timeout()) {
                release.handle(now, release::Input::Timeout);
                self.drain_release(client, index);
            }
        }
    }

    /// Renewals of many leases are sent and counted together, so that they do not go through the outputs of each.
    fn begin_renewal(&mut self, client: usize, lease: u32) -> bool {
        let (now, together) = (self.time(client), self.dice.chance(700));
        let Some(slot) = self.clients[client].slot(lease).filter(|_| together) else { return false };
        let Some(Renewing { round, key, token, node_ttl_ms }) = slot.lease.begin_renewal(now) else {
            return false;
        };
        (slot.renewing, slot.together) = (true, Some(round));
        self.marks.see(Mark::RenewedByTimer);
        for node in self.clients[client].fleet.quorum().indexes() {
            let command = Command::Extend { key: key.clone(), token, node_ttl_ms };
            self.send(client, To::Lease { lease, round }, node, command);
        }
        true
    }

    fn handle_lease_timeout(&mut self, client: usize, lease: u32) {
        let now = self.time(client);
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let renewing = slot.renewing;
        slot.lease.handle(now, lease::Input::Timeout);
        self.drain_lease(client, lease);
        if self.clients[client].slot(lease).is_some_and(|slot| slot.renewing && !renewing) {
            self.marks.see(Mark::RenewedByTimer);
        }
    }

    /// Whether a timer that rings was set anew meanwhile, so that nothing happens.
    pub(crate) fn is_stale(&self, event: &Event) -> bool {
        matches!(*event, Event::Timer { client, life, at_ns }
            if self.clients[client].life != life || self.clients[client].wake_ns != Some(at_ns))
    }

    pub(crate) fn plan_wake(&mut self, client: usize) {
        let state = &self.clients[client];
        let leases = state.leases.iter().filter_map(|slot| slot.lease.poll_timeout());
        let releases = state.releases.iter().filter_map(|cleaning| cleaning.release.poll_timeout());
        let releases = releases.chain(state.waiters.poll_timeout());
        let Some(next) = leases.chain(releases).chain(state.fleet.poll_timeout()).min() else { return };
        let life = state.life;
        let late_ns = if self.dice.chance(100) { self.dice.below(2_000_000) } else { 0 };
        let next_ns = (self.clients[client].clock.when(next) + late_ns).max(self.now_ns + 1_000);
        if self.clients[client].wake_ns.is_none_or(|wake_ns| next_ns < wake_ns) {
            self.clients[client].wake_ns = Some(next_ns);
            self.at(next_ns, Event::Timer { client, life, at_ns: next_ns });
        }
    }
}
