//! What a client asks for and tells, in its order: commands leave, randomness is drawn, and the
//! checkers hear of the rest.

use std::sync::Arc;

use tenure_core::client::{Addressee, Input, News, Output, Renewals, Request, Tag};
use tenure_core::{
    Cause, Command, Distrust, Entropy, Lease, Next, NodeIndex, NodeSet, OwnerToken, Proposal, RoundNumber,
};

use super::{SimClient, number};
use crate::trace::Mark;
use crate::world::World;

impl World {
    /// Asks a client for something, as its callers do.
    pub(crate) fn ask(&mut self, client: usize, request: Request<Lease>) {
        let now = self.time(client);
        self.clients[client].core.request(now, request);
        self.drain(client);
    }

    /// Tells a client what happened.
    pub(crate) fn tell(&mut self, client: usize, input: Input) {
        let now = self.time(client);
        self.clients[client].core.handle(now, input);
        self.drain(client);
    }

    /// Does what a client says, in its order.
    pub(crate) fn drain(&mut self, client: usize) {
        while let Some(output) = self.clients[client].core.poll_output() {
            match output {
                Output::Send { node, tag, command } => self.hand_out(client, node, tag, command),
                Output::Renew(renewals) => self.renew(client, &renewals),
                Output::Survey { node } => self.survey(client, node),
                Output::Draw { lease, proposal } => self.attempt(client, number(lease), proposal),
                Output::Tell { lease, news } => self.hear(client, number(lease), news),
                Output::Ended { id, .. } => self.drop_slot(client, number(id)),
                Output::Refused { id, reason, .. } => {
                    self.note(|| format!("client {client} lease {}: refused, {reason:?}", id.0));
                    self.drop_slot(client, number(id));
                }
                Output::Notice { node, distrust } => {
                    match distrust {
                        Some(Distrust::Quarantined { .. }) => self.marks.see(Mark::Quarantined),
                        Some(Distrust::ClockJumped { .. }) => self.marks.see(Mark::ClockJumped),
                        Some(Distrust::ClockApart { .. }) => self.marks.see(Mark::ClockApart),
                        Some(Distrust::Unfit(_)) => {
                            self.clients[client].refused.insert(node);
                            self.marks.see(Mark::Unfit);
                        }
                        _ => {}
                    }
                    self.note(|| format!("client {client} on node {}: {distrust:?}", node.get()));
                }
                Output::Poisoned { .. } => self.marks.see(Mark::Poisoned),
                Output::Released { lease, .. } | Output::NotReleased { lease } => {
                    self.handle_answered(client, number(lease));
                }
                Output::ShutDown { id, unfinished } => {
                    self.note(|| format!("client {client} is shut down, unfinished: {unfinished:?}"));
                    self.handle_answered(client, number(id));
                }
                // Simulated clients keep no memory that outlives them, and nobody asks for the
                // rest.
                Output::Remember { .. }
                | Output::Life { .. }
                | Output::CleanedUp { .. }
                | Output::Found { .. }
                | Output::Started { .. }
                | Output::Settled { .. } => {}
            }
        }
    }

    fn hand_out(&mut self, client: usize, node: NodeIndex, tag: Tag, command: Command) {
        match (tag.to, &command) {
            (Addressee::Lease { lease, .. }, Command::Extend { .. }) => {
                if let Some(slot) = self.clients[client].present_slot(lease) {
                    slot.renewing = true;
                }
            }
            (Addressee::Lease { lease, round }, Command::Acquire { .. }) => {
                self.note_round(client, number(lease), round);
            }
            (Addressee::Release { lease, round }, _) => {
                if matches!(&command, Command::Release { next: Next::InLineWith(_), .. }) {
                    self.marks.see(Mark::Yielded);
                }
                self.clients[client].endings += 1;
                self.note_ending(client, number(lease), round);
                if self.leaves_key(client, number(lease), round) {
                    return self.pretend(client, node, tag);
                }
            }
            (Addressee::Nobody, Command::Leave { .. }) => self.marks.see(Mark::WokenInVain),
            (Addressee::Nobody, Command::Nudge { .. }) if node.get() == 0 => self.marks.see(Mark::Nudged),
            _ => {}
        }
        self.send(client, tag, node, command);
    }

    /// Sends renewals to all nodes, together where the connection can do that.
    fn renew(&mut self, client: usize, renewals: &Arc<Renewals>) {
        for (lease, _) in &renewals.locks {
            self.marks.see(Mark::RenewedByTimer);
            if let Some(slot) = self.clients[client].present_slot(*lease) {
                slot.renewing = true;
            }
        }
        if renewals.locks.len() > 1 {
            self.marks.see(Mark::RenewedTogether);
        }
        let mut split = false;
        for node in self.clients[client].core.quorum().indexes() {
            if !self.send_renewals(client, node, renewals) {
                split = true;
                for (tag, command) in renewals.commands() {
                    self.send(client, tag, node, command);
                }
            }
        }
        if split {
            let now = self.time(client);
            self.clients[client].core.handle(now, Input::Split { batch: renewals.batch });
        }
    }

    fn attempt(&mut self, client: usize, lease: u32, mut proposal: Proposal) {
        let now = self.time(client);
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.dice.next().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.dice.next().to_be_bytes());
        let token = OwnerToken::from_bytes(bytes);
        let mut entropy = Entropy { token, dice: self.dice.next() };
        self.bend_attempt(client, lease, &mut entropy, &mut proposal);
        self.ownership.draw(self.now_ns, entropy.token, client, self.clients[client].generation);
        self.marks.see(Mark::Attempt);
        let (begun_ns, fence) = (self.now_ns, proposal.fence.map(|proposed| proposed.fence.get()));
        let voters = proposal.nodes.iter().filter(|voter| voter.is_ok()).count();
        self.check_beginning(client);
        self.note(|| {
            format!("client {client} lease {lease}: attempt with fence {fence:?} at {voters} nodes")
        });
        let events = self.events;
        self.check_kind(client, lease);
        if let Some(slot) = self.clients[client].slot(lease) {
            (slot.begun_ns, slot.grants) = (begun_ns, 0);
            (slot.other_kind, slot.pauses) = (NodeSet::default(), false);
            if slot.ended.is_some_and(|(_, ended)| ended == events) && proposal.ticket.is_none() {
                self.marks.see(Mark::Reproposed);
            }
        }
        let lease = super::id(lease);
        self.clients[client].core.handle(now, Input::Attempt { lease, entropy, proposal });
    }

    fn hear(&mut self, client: usize, lease: u32, news: News) {
        match news {
            News::Waiting { .. } => {
                self.marks.see(Mark::Waiting);
                self.check_kind(client, lease);
                self.keep_one_node(client);
            }
            News::Retrying { cause, .. } => {
                self.mark_cause(cause);
                self.check_kind(client, lease);
            }
            News::NotAcquired(not) => {
                self.mark_cause(not.cause);
                if let Cause::OtherKind { .. } = not.cause {
                    self.handle_other_kind(client, lease);
                }
                self.note(|| format!("client {client} lease {lease}: not acquired, {:?}", not.cause));
            }
            News::Acquired => self.handle_acquired(client, lease),
            News::PassedOn => self.handle_passed_on(client, lease),
            News::Extended => self.handle_extended(client, lease),
            News::NotExtended(reason) => self.handle_not_extended(client, lease, &reason),
            News::State(state) => self.handle_state(client, lease, state),
            News::GivenUp { .. } | News::AllVoted | News::ShutDown => {}
        }
    }

    /// Takes note that a round ends: with the first command that says so.
    fn note_ending(&mut self, client: usize, lease: u32, round: RoundNumber) {
        let events = self.events;
        let Some(slot) = self.clients[client].slot(lease) else { return };
        if slot.ended.is_some_and(|(ended, _)| ended == round) {
            return;
        }
        slot.ended = Some((round, events));
        let (held, grants, name) = (slot.extensions_left.is_some(), slot.grants, slot.name);
        if held {
            return;
        }
        self.bend_undo(client, lease, round);
        if grants > 0 {
            self.marks.see(Mark::PartialGrant);
            if self.exclusion.holder(self.now_ns, name).is_none() {
                self.marks.see(Mark::SplitVote);
            }
        }
    }

    fn mark_cause(&mut self, cause: Cause) {
        match cause {
            Cause::Contended { .. } => self.marks.see(Mark::Contended),
            Cause::TooLate => self.marks.see(Mark::TooLate),
            _ => {}
        }
    }

    pub(crate) fn drop_slot(&mut self, client: usize, lease: u32) {
        let SimClient { slots, ended, .. } = &mut self.clients[client];
        if let Some(place) = slots.iter().position(|slot| slot.id == lease) {
            *ended = Some(slots.remove(place));
        }
    }
}
