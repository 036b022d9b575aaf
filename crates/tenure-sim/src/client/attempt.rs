//! What leases and releases ask for. A clean-up goes out before the next attempt on the same connections.

use tenure_core::{Cause, Command, Entropy, OwnerToken, Release, lease, release};

use super::Cleaning;
use crate::links::To;
use crate::trace::Mark;
use crate::world::World;

impl World {
    pub(crate) fn drain_lease(&mut self, client: usize, lease: u32) {
        let mut cleaned_up = false;
        while let Some(output) = self.clients[client].slot(lease).and_then(|slot| slot.lease.poll_output()) {
            match output {
                lease::Output::Send { round, node, command } => {
                    if matches!(command, Command::Extend { .. })
                        && let Some(slot) = self.clients[client].slot(lease)
                    {
                        slot.renewing = true;
                    }
                    self.note_round(client, lease, round, &command);
                    self.send(client, To::Lease { lease, round }, node, command);
                }
                lease::Output::CleanUp(release) => {
                    cleaned_up = true;
                    self.clean_up(client, lease, *release);
                }
                lease::Output::Propose { fenced, ticket } => {
                    if cleaned_up && !ticket {
                        self.marks.see(Mark::Reproposed);
                    }
                    self.attempt(client, lease, fenced, ticket);
                }
                lease::Output::Waiting { .. } => self.marks.see(Mark::Waiting),
                lease::Output::Retrying { cause, .. } => self.mark_cause(cause),
                lease::Output::NotAcquired(not) => {
                    self.mark_cause(not.cause);
                    self.note(|| format!("client {client} lease {lease}: not acquired, {:?}", not.cause));
                }
                lease::Output::Acquired => self.handle_acquired(client, lease),
                lease::Output::Extended => self.handle_extended(client, lease),
                lease::Output::NotExtended(reason) => self.handle_not_extended(client, lease, &reason),
                lease::Output::State(state) => self.handle_state(client, lease, state),
                lease::Output::Widened => {}
            }
        }
        if let Some(slot) = self.clients[client].slot(lease) {
            let (key, ticket) = (slot.lease.key().clone(), slot.lease.ticket());
            self.note_ticket(client, lease, &key, ticket);
        }
    }

    pub(crate) fn attempt(&mut self, client: usize, lease: u32, fenced: bool, ticket: bool) {
        let now = self.time(client);
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.dice.next().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.dice.next().to_be_bytes());
        let token = OwnerToken::from_bytes(bytes);
        let mut entropy = Entropy { token, dice: self.dice.next() };
        let fleet = &mut self.clients[client].fleet;
        let mut proposal = fleet.propose(now, fenced);
        proposal.ticket = ticket.then(|| fleet.draw_ticket(now));
        self.bend_attempt(client, lease, &mut entropy, &mut proposal);
        self.ownership.draw(self.now_ns, entropy.token, client, self.clients[client].life);
        self.marks.see(Mark::Attempt);
        let (begun_ns, fence) = (self.now_ns, proposal.fence.map(|claim| claim.fence.get()));
        let voters = proposal.nodes.iter().filter(|voter| voter.is_ok()).count();
        self.note(|| {
            format!("client {client} lease {lease}: attempt with fence {fence:?} at {voters} nodes")
        });
        if let Some(slot) = self.clients[client].slot(lease) {
            (slot.begun_ns, slot.grants) = (begun_ns, 0);
            slot.lease.handle(now, lease::Input::Attempt { entropy, proposal });
        }
    }

    pub(super) fn clean_up(&mut self, client: usize, lease: u32, release: Release) {
        let held = self.clients[client].slot(lease).is_some_and(|slot| slot.extensions_left < u32::MAX);
        let grants = self.clients[client].slot(lease).map_or(0, |slot| slot.grants);
        if !held && grants > 0 {
            self.marks.see(Mark::PartialGrant);
            let name = self.clients[client].slot(lease).map_or(0, |slot| slot.name);
            if self.exclusion.holder(self.now_ns, name).is_none() {
                self.marks.see(Mark::SplitVote);
            }
        }
        if self.leaves_keys(client, lease, held) {
            return;
        }
        let state = &mut self.clients[client];
        state.releases_begun += 1;
        state.releases.push(Cleaning { id: state.releases_begun, lease, release });
        let index = state.releases.len() - 1;
        self.drain_release(client, index);
    }

    pub(super) fn drain_release(&mut self, client: usize, index: usize) {
        let id = self.clients[client].releases[index].id;
        while let Some(output) = self.clients[client].releases[index].release.poll_output() {
            match output {
                release::Output::Send { node, command } => {
                    if matches!(&command, Command::PassOn { requeue: Some(_), .. }) {
                        self.marks.see(Mark::Yielded);
                    }
                    self.send(client, To::Release { release: id }, node, command);
                }
                release::Output::Outcome { .. } => {
                    let now = self.time(client);
                    let state = &mut self.clients[client];
                    let release = &state.releases[index].release;
                    if release.passed_on() {
                        state.waiters.passed_on(now, release.key(), release.nudge_after());
                    }
                }
                release::Output::Done { .. } => {}
            }
        }
    }

    pub(super) fn mark_cause(&mut self, cause: Cause) {
        match cause {
            Cause::Contended { .. } => self.marks.see(Mark::Contended),
            Cause::TooLate => self.marks.see(Mark::TooLate),
            _ => {}
        }
    }
}
