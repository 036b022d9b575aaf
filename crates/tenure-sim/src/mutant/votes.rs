//! Attempts that are begun, counted or believed in wrongly.

use tenure_core::client::{Addressee, Tag};
use tenure_core::{
    Answer, Command, Entropy, HoldState, Mode, NodeIndex, Proposal, Reply, RoundNumber, Time, Validity,
};

use super::{BentLease, Mutant};
use crate::world::client::{Act, id, number};
use crate::world::{ClientEvent, Event, World};

impl World {
    pub(crate) fn bend_attempt(
        &mut self,
        client: usize,
        lease: u32,
        entropy: &mut Entropy,
        proposal: &mut Proposal,
    ) {
        if self.options.mutant.is_none() {
            return;
        }
        self.bend_token(client, lease, entropy);
        self.bend_proposed_fence(client, proposal);
        self.bend_voters(client, proposal);
        if let Some(slot) = self.clients[client].slot(lease) {
            if let Some(owner) = slot.terms.mode.owner() {
                self.owner_ids.insert(entropy.token, owner.clone());
            }
            slot.bent = BentLease { token: Some(entropy.token), ..BentLease::default() };
        }
    }

    /// Takes note of the round of an attempt.
    pub(crate) fn note_round(&mut self, client: usize, lease: u32, round: RoundNumber) {
        if let Some(slot) = self.clients[client].slot(lease) {
            slot.bent.round = Some(round);
        }
    }

    /// What a client makes of a reply. `None` if it keeps it to itself.
    pub(crate) fn bend_reply(
        &mut self,
        client: usize,
        node: NodeIndex,
        tag: Tag,
        reply: Reply,
        asked: Option<Box<Command>>,
    ) -> Option<(Tag, Reply)> {
        let (Some(mutant), Some(asked)) = (self.options.mutant, asked) else { return Some((tag, reply)) };
        let granted = reply.answer == Answer::Granted;
        if !self.counts_fence(client, node, tag, &reply, &asked) {
            return None;
        }
        let lease = if let Addressee::Lease { lease, .. } = tag.to { Some(number(lease)) } else { None };
        match (mutant, lease, *asked) {
            (Mutant::HalfIsEnough, Some(lease), Command::Acquire { token, .. }) if granted => {
                let half = self.options.nodes / 2;
                let slot = self.clients[client].slot(lease).filter(|slot| slot.bent.token == Some(token));
                if let Some(slot) = slot {
                    slot.bent.grants += 1;
                    if slot.bent.grants == half {
                        self.believe(client, lease);
                        return None;
                    }
                }
            }
            (Mutant::OlderRound, Some(lease), Command::Acquire { token, .. }) if granted => {
                let bent = self.clients[client].slot(lease).map(|slot| slot.bent);
                if let Some(BentLease { round: Some(round), token: Some(present), .. }) = bent
                    && present != token
                {
                    self.note(|| {
                        let node = node.get();
                        format!("client {client} lease {lease}: counts an old grant of node {node}")
                    });
                    let to = Addressee::Lease { lease: id(lease), round };
                    return Some((Tag { to, ..tag }, reply));
                }
            }
            (Mutant::NoYield, ..) => return Some((tag, unaware_of_others(reply))),
            _ => {}
        }
        Some((tag, reply))
    }

    /// A client takes the lock for its own, uses it to the end and leaves the keys to their time.
    fn believe(&mut self, client: usize, lease: u32) {
        let (holder, clock) = (self.holder(client, lease), self.clients[client].clock);
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let end = Validity::of(clock.read(slot.begun_ns), &slot.terms.term).end();
        let (name, until_ns) = (slot.name, clock.when(end));
        self.forget_lease(client, lease);
        self.note(|| {
            format!("client {client} lease {lease}: half of the nodes granted lock {name}, ACQUIRED")
        });
        if until_ns > self.now_ns {
            let violation = self.exclusion.hold(self.now_ns, name, holder, until_ns, &Mode::Exclusive);
            self.judge(violation);
        }
    }

    /// Until when a client counts on the lock whose round was won just now.
    pub(crate) fn bend_end(&mut self, client: usize, lease: u32, end: Time) -> Time {
        let now = self.time(client);
        match self.clients[client].slot(lease) {
            Some(slot) if self.options.mutant == Some(Mutant::LateStart) => {
                end.max(Validity::of(now, &slot.terms.term).end())
            }
            _ => end,
        }
    }

    /// Tells a holder of the loss when the lock ends. `false` if it is to be told now.
    pub(crate) fn tells_later(&mut self, client: usize, lease: u32, state: HoldState) -> bool {
        let (now, clock, generation) =
            (self.time(client), self.clients[client].clock, self.clients[client].generation);
        let standing = self.clients[client].standing(lease);
        let Some(standing) = standing.filter(|standing| !standing.is_lost()) else { return false };
        let end = standing.validity().end();
        if standing.validity().loss() == end {
            // It was gone on with, and never proved: nobody counts on it.
            return true;
        }
        let later = self.options.mutant == Some(Mutant::LossAtEnd) && state == HoldState::Lost && now < end;
        if later {
            let event = ClientEvent::Act(Act::TellLoss { lease });
            self.at(clock.when(end), Event::Client { client, generation, event });
        }
        later
    }
}

/// The same reply without a word about who is ahead.
fn unaware_of_others(mut reply: Reply) -> Reply {
    if reply.answer == Answer::Granted {
        reply.line = None;
    }
    reply
}
