//! What clients do with the lock.

use tenure_core::{
    Distrust, Entropy, Fault, Fence, HoldState, Lease, OwnerToken, Standing, Ticket, lease, release,
};

use super::{Step, key};
use crate::model::config::Writes;
use crate::model::seen::Sight;
use crate::model::world::{Cleaning, EPOCH_US, To};

impl Step<'_> {
    pub(super) fn begin(&mut self, client: usize) {
        let (terms, quorum) = (self.config.terms(client), self.config.quorum());
        let state = self.client(client);
        state.begun += 1;
        state.extended = 0;
        let lease = Lease::new(key(), terms, quorum);
        let wanted = lease.waits() && state.waiters.is_wanted(lease.key());
        state.lease = Some(lease);
        self.note(|| format!("client {client} asks for the lock"));
        self.attempt(client, terms.fenced, wanted);
        self.drain_lease(client);
        self.sweep(client);
    }

    pub(super) fn attempt(&mut self, client: usize, fenced: bool, ticket: bool) {
        let now = self.world.time(client);
        let floor = self.world.fences.last().copied().unwrap_or(0);
        let state = self.client(client);
        state.attempts += 1;
        state.floor = floor;
        let mut bytes = [0; 20];
        bytes[0] = u8::try_from(client).expect("a few clients");
        bytes[1] = state.attempts;
        let entropy = Entropy { token: OwnerToken::from_bytes(bytes), dice: 0 };
        let mut proposal = state.fleet.propose(now, fenced);
        proposal.ticket = ticket.then(|| state.fleet.draw_ticket(now));
        for voter in proposal.nodes.iter() {
            match voter {
                Err(Fault::Untrusted(Distrust::Quarantined { .. })) => self.seen.see(Sight::Quarantined),
                Err(Fault::Untrusted(Distrust::ClockJumped { .. })) => self.seen.see(Sight::ClockJumped),
                Err(Fault::Untrusted(Distrust::ClockApart { .. })) => self.seen.see(Sight::ClockApart),
                _ => {}
            }
        }
        let fence = proposal.fence.map(|claim| claim.fence.get());
        let voters: Vec<usize> =
            (0..proposal.nodes.len()).filter(|node| proposal.nodes[*node].is_ok()).collect();
        self.note(|| format!("client {client}: attempt with fence {} at nodes {voters:?}", shown(fence)));
        if let Some(lease) = &mut self.client(client).lease {
            lease.handle(now, lease::Input::Attempt { entropy, proposal });
        }
    }

    /// Tells the lease of a client something, and does what it asks for.
    pub(super) fn tell_lease(&mut self, client: usize, input: lease::Input) {
        let now = self.world.time(client);
        if let Some(lease) = &mut self.client(client).lease {
            lease.handle(now, input);
            self.drain_lease(client);
        }
        self.sweep(client);
    }

    pub(super) fn drain_lease(&mut self, client: usize) {
        while let Some(output) = self.client(client).lease.as_mut().and_then(Lease::poll_output) {
            match output {
                lease::Output::Send { round, node, command } => {
                    let begun = self.world.clients[client].begun;
                    self.send(client, To::Lease { begun, round }, node, command);
                }
                lease::Output::CleanUp(release) => {
                    let state = self.client(client);
                    let id = state.cleanings;
                    state.cleanings += 1;
                    state.releases.push(Cleaning { id, begun: state.begun, release: *release });
                    let index = state.releases.len() - 1;
                    self.drain_release(client, index);
                }
                lease::Output::Propose { fenced, ticket } => self.attempt(client, fenced, ticket),
                lease::Output::Acquired => self.acquired(client),
                lease::Output::Extended => {
                    self.seen.see(Sight::Extended);
                    self.world.extension_broken |= self.world.clients[client].interrupted;
                    self.note(|| format!("client {client} HOLDS the lock for longer"));
                }
                lease::Output::NotExtended(reason) => {
                    self.note(|| format!("client {client}: not extended, {reason:?}"));
                }
                lease::Output::NotAcquired(not) => {
                    self.note(|| format!("client {client}: not acquired, {:?}", not.cause));
                }
                lease::Output::State(state) => {
                    if state == HoldState::Lost {
                        self.seen.see(Sight::Lost);
                    }
                    self.note(|| format!("client {client}: the lock is {state:?}"));
                }
                lease::Output::Waiting { .. } => {
                    self.seen.see(Sight::Waiting);
                    self.note(|| format!("client {client} waits in line"));
                }
                lease::Output::Retrying { .. } | lease::Output::Widened => {}
            }
        }
        let now = self.world.time(client);
        let state = self.client(client);
        let ticket = state.lease.as_ref().and_then(Lease::ticket);
        if state.ticket != ticket {
            let before: Option<Ticket> = std::mem::replace(&mut state.ticket, ticket);
            let told = state.waiters.change(&key(), u32::from(state.begun), before, ticket);
            for (_, behind) in told {
                if let Some(lease) = &mut state.lease {
                    lease.handle(now, lease::Input::BehindOwn(behind));
                }
            }
        }
    }

    pub(super) fn acquired(&mut self, client: usize) {
        let state = &self.world.clients[client];
        let floor = state.floor;
        let fence = state.lease.as_ref().and_then(Lease::standing).and_then(Standing::fence);
        self.note(|| format!("client {client} HOLDS the lock, fence {}", shown(fence.map(Fence::get))));
        self.seen.see(Sight::Acquired);
        for other in 0..self.world.clients.len() {
            // Only of those who have it is this a matter.
            let holds =
                self.world.clients[other].lease.as_ref().is_some_and(|lease| lease.standing().is_some());
            if self.world.clients[other].interrupted != (other != client && holds) {
                self.client(other).interrupted = other != client && holds;
            }
        }
        if !self.world.fences.is_empty() {
            self.seen.see(Sight::ChangedHands);
        }
        if let Some(fence) = fence.map(Fence::get) {
            let fences = &mut self.world.fences;
            match fences.binary_search(&fence) {
                Err(place) => {
                    self.world.fence_broken |= fence <= floor;
                    fences.insert(place, fence);
                }
                Ok(_) => self.world.fence_broken = true,
            }
            if self.config.writes == Writes::Fenced {
                self.world.resource.claimed = self.world.resource.claimed.max(fence);
            }
        }
    }

    pub(super) fn write(&mut self, client: usize) {
        self.client(client).about_to_write = false;
        let state = &self.world.clients[client];
        let fence = state.lease.as_ref().and_then(Lease::standing).and_then(Standing::fence);
        let fence = fence.map_or(0, Fence::get);
        if self.config.writes == Writes::Fenced && fence < self.world.resource.claimed {
            self.seen.see(Sight::Refused);
            return self
                .note(|| format!("client {client} writes with fence {}: REFUSED", shown(Some(fence))));
        }
        self.note(|| format!("client {client} writes with fence {}", shown(Some(fence))));
        let others = (0..self.world.clients.len()).filter(|other| *other != client);
        let overrun = others.into_iter().any(|other| self.world.is_valid(other));
        match self.config.writes {
            Writes::Unchecked => self.world.resource.overrun |= overrun,
            Writes::Fenced => self.world.resource.undercut |= overrun,
            Writes::None => {}
        }
    }

    pub(super) fn drain_release(&mut self, client: usize, index: usize) {
        let id = self.world.clients[client].releases[index].id;
        while let Some(output) = self.client(client).releases[index].release.poll_output() {
            match output {
                release::Output::Send { node, command } => {
                    self.send(client, To::Release { id }, node, command);
                }
                release::Output::Outcome { .. } => {
                    let now = self.world.time(client);
                    let state = self.client(client);
                    if state.releases[index].release.passed_on() {
                        let key = state.releases[index].release.key().clone();
                        let nudge_after = state.releases[index].release.nudge_after();
                        state.waiters.passed_on(now, &key, nudge_after);
                    }
                }
                release::Output::Done { .. } => {}
            }
        }
    }

    /// Drops what has come to its end.
    pub(super) fn sweep(&mut self, client: usize) {
        let state = self.client(client);
        if state.lease.as_ref().is_some_and(Lease::is_ended) {
            state.lease = None;
            state.about_to_write = false;
        }
        state.releases.retain(|cleaning| cleaning.release.poll_timeout().is_some());
    }
}

/// A fence, counted from the beginning of the world.
fn shown(fence: Option<u64>) -> String {
    fence.map_or_else(|| "none".to_owned(), |fence| format!("{}", fence.saturating_sub(EPOCH_US)))
}
