//! What a client hears of its connections, and the answers that come over them.

use std::sync::Arc;

use tenure_core::client::{Addressee, Input, Renewals, Tag};
use tenure_core::{Answer, Command, Facts, Fault, LockKey, NodeIndex, NodeTime, Refusal, Reply};

use super::number;
use crate::checker::leftovers;
use crate::mutant::{Mutant, forget_distrust};
use crate::trace::Mark;
use crate::world::World;
use crate::world::links::Link;

impl World {
    pub(super) fn handle_welcome(&mut self, client: usize, link: usize, facts: Facts) {
        let Link { broken, noticed, node, .. } = self.links[link];
        if noticed || broken.is_some() {
            return;
        }
        self.clients[client].greeting[node.get()] = None;
        self.note(|| format!("client {client} is connected to node {}", node.get()));
        self.clients[client].links[node.get()] = Some(link);
        let (owed, endings) = (self.owed(client, node), self.clients[client].endings);
        self.tell(client, Input::Connected { node, facts });
        let violation = leftovers::back(client, node.get(), owed, self.clients[client].endings - endings);
        self.judge(violation);
        self.note_tried(client, node);
    }

    /// How many clean-ups a node has not confirmed.
    fn owed(&self, client: usize, node: NodeIndex) -> u64 {
        let releases = self.clients[client].core.releases();
        releases.filter(|release| release.owed().contains(node)).count() as u64
    }

    pub(super) fn handle_surveyed(&mut self, client: usize, link: usize, facts: Facts) {
        if self.is_up(client, link) {
            self.tell(client, Input::Surveyed { node: self.links[link].node, facts });
        }
    }

    pub(super) fn handle_broken(&mut self, client: usize, link: usize) {
        let node = self.links[link].node;
        self.links[link].noticed = true;
        if self.clients[client].greeting[node.get()] == Some(link) {
            self.clients[client].greeting[node.get()] = None;
            self.handle_unreachable(client, node);
        }
        if self.clients[client].links[node.get()] == Some(link) {
            self.note(|| format!("client {client} sees the connection to node {} break", node.get()));
            self.clients[client].links[node.get()] = None;
            self.tell(client, Input::Disconnected { node, fault: Fault::Disconnected });
            for tag in self.links[link].take_unanswered() {
                self.handle_no_answer(client, node, tag, Fault::Disconnected);
            }
        }
        self.connect_later(client, node, self.options.max_ttl_ms * 500_000);
    }

    /// A try to connect has failed.
    pub(crate) fn handle_unreachable(&mut self, client: usize, node: NodeIndex) {
        if self.clients[client].links[node.get()].is_none() {
            let fault = Fault::Unreachable("no connection".into());
            self.tell(client, Input::Unreachable { node, fault });
            self.note_tried(client, node);
        }
    }

    fn note_tried(&mut self, client: usize, node: NodeIndex) {
        let state = &mut self.clients[client];
        state.tried.insert(node);
        if state.core.awaits_nodes() {
            let nodes = state.tried;
            self.tell(client, Input::Tried { nodes });
        }
    }

    pub(crate) fn handle_changed(&mut self, client: usize, link: usize) {
        if self.is_up(client, link) {
            self.tell(client, Input::Changed { node: self.links[link].node });
        }
    }

    pub(super) fn handle_woken(&mut self, client: usize, link: usize, number: u64, key: &LockKey) {
        let Link { noticed, node, .. } = self.links[link];
        if noticed {
            return;
        }
        let in_vain = self.marks.count(Mark::WokenInVain);
        self.tell(client, Input::Woken { node, number, key: key.as_str().into() });
        if self.marks.count(Mark::WokenInVain) == in_vain {
            self.marks.see(Mark::Woken);
        }
    }

    /// Whether an answer that comes over a connection reaches the client. It is awaited no longer
    /// then.
    pub(super) fn takes_answer(&mut self, link: usize) -> bool {
        let state = &mut self.links[link];
        let comes = !state.noticed && state.broken.is_none_or(|broken| broken.answers);
        if comes {
            state.unanswered.pop_front();
        }
        comes
    }

    pub(super) fn handle_reply(
        &mut self,
        client: usize,
        node: NodeIndex,
        tag: Tag,
        reply: Reply,
        asked: Option<Box<Command>>,
    ) {
        self.clients[client].watched.insert(node);
        self.note_kind(client, node, tag, &reply);
        if self.options.mutant.is_none() {
            self.note_grant(client, tag, &reply);
            return self.tell(client, Input::Answer { node, tag, answer: Ok(reply) });
        }
        // The same in two steps, so that the answer can be bent when the fleet has seen it.
        let now = self.time(client);
        self.clients[client].core.observe(now, node, tag.sent, &reply);
        self.drain(client);
        if let Some((tag, reply)) = self.bend_reply(client, node, tag, reply, asked) {
            self.note_grant(client, tag, &reply);
            let bent = self.options.mutant == Some(Mutant::DiscardedSetCounts) && tag.to == Addressee::Fleet;
            let core = &mut self.clients[client].core;
            if bent {
                forget_distrust(core, now, node, |core| core.deliver(now, node, tag, Ok(reply)));
            } else {
                core.deliver(now, node, tag, Ok(reply));
            }
            self.drain(client);
        }
    }

    /// A command was not sent, or its answer will not come any more.
    pub(super) fn handle_no_answer(&mut self, client: usize, node: NodeIndex, tag: Tag, fault: Fault) {
        self.tell(client, Input::Answer { node, tag, answer: Err(fault) });
    }

    pub(super) fn handle_renewed(
        &mut self,
        client: usize,
        node: NodeIndex,
        renewals: Arc<Renewals>,
        time: Option<NodeTime>,
    ) {
        self.clients[client].watched.insert(node);
        if !self.forgets_renewals(client, &renewals) {
            self.tell(client, Input::Renewed { node, renewals, time });
        }
    }

    pub(super) fn handle_split(
        &mut self,
        client: usize,
        node: NodeIndex,
        renewals: &Renewals,
        replies: Vec<Reply>,
    ) {
        self.marks.see(Mark::Split);
        self.tell(client, Input::Split { batch: renewals.batch });
        for (tag, reply) in renewals.tags().zip(replies) {
            self.handle_reply(client, node, tag, reply, None);
        }
    }

    /// Takes note of a grant of the present attempt, or of one that comes too late for it.
    fn note_grant(&mut self, client: usize, tag: Tag, reply: &Reply) {
        if let (Addressee::Lease { lease, round }, Answer::Granted) = (tag.to, &reply.answer)
            && let Some(slot) = self.clients[client].slot(number(lease))
        {
            slot.grants += 1;
            if slot.ended.is_some_and(|(ended, _)| ended == round) {
                self.marks.see(Mark::LateGrant);
            }
        }
    }

    /// Takes note of a node where the name is another kind of lock, while that can still end the
    /// present attempt.
    fn note_kind(&mut self, client: usize, node: NodeIndex, tag: Tag, reply: &Reply) {
        if let (Addressee::Lease { lease, round }, Answer::Refused(refusal)) = (tag.to, &reply.answer)
            && let Some(slot) = self.clients[client].slot(number(lease))
            && slot.bent.round == Some(round)
            && !slot.pauses
        {
            match refusal {
                Refusal::OtherKind { .. } => slot.other_kind.insert(node),
                Refusal::Rejoin { .. } => self.marks.see(Mark::Rejoined),
                _ => {}
            }
        }
    }

    /// Whether a connection is the one that the client takes for up.
    fn is_up(&self, client: usize, link: usize) -> bool {
        let Link { noticed, node, .. } = self.links[link];
        !noticed && self.clients[client].links[node.get()] == Some(link)
    }
}
