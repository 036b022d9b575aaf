//! Extensions that do too much.

use std::time::Duration;

use tenure_core::client::{Addressee, Id, Renewals, Tag};
use tenure_core::{
    Answer, Client, Command, HandedOver, Lease, Mode, NodeIndex, Nonce, Reply, Standing, Term, Time, lease,
};

use super::{Asked, Mutant};
use crate::world::client::{Act, id};
use crate::world::{ClientEvent, Event, World};

/// Tells a client what a node said about its record. Leases only drop the vote of a node that lost
/// its memory, and not that the node cannot count for a while.
pub(crate) fn forget_distrust(core: &mut Client, now: Time, node: NodeIndex, tell: impl FnOnce(&mut Client)) {
    let before = core.leases().into_iter().filter_map(|id| Some((id, core.lease(id)?.clone())));
    let before: Vec<(Id, Lease)> = before.collect();
    tell(core);
    for (id, mut lease) in before {
        let Some(after) = core.lease_mut(id).filter(|after| **after != lease) else { continue };
        lease.handle(now, lease::Input::Disconnected { node });
        // It was told already.
        while lease.poll_output().is_some() {}
        *after = lease;
    }
}

impl World {
    pub(super) fn bend_extension(&mut self, mutant: Mutant, asked: &Asked<'_>) -> Option<Reply> {
        let &Asked { server, now, command, .. } = asked;
        let Command::Extend { key, token, node_ttl_ms, .. } = command else { return None };
        let set = Command::plain_acquire(key.clone(), *token, *node_ttl_ms);
        let table = &mut self.nodes[server].table;
        let reply = table.execute(now, command);
        let granted = reply.answer == Answer::Granted;
        Some(match mutant {
            Mutant::ExtendShortens if granted => {
                table.execute(now, &Command::Undo { key: key.clone(), token: *token, requeue: None });
                table.execute(now, &set)
            }
            Mutant::LateExtend if !granted => table.execute(now, &set),
            Mutant::HealCounts if !granted => {
                let mut standings = self
                    .clients
                    .iter()
                    .flat_map(|client| client.slots.iter().filter_map(|slot| client.standing(slot.id)));
                let fence = standings.find(|held| held.token() == *token).and_then(Standing::fence);
                let (key, token, node_ttl_ms) = (key.clone(), *token, *node_ttl_ms);
                // It counts at once.
                let heal =
                    Command::Heal { key, token, node_ttl_ms, fence, quarantine_ms: 0, mode: Mode::Exclusive };
                let reply = self.nodes[server].table.execute(now, &heal);
                if reply.answer == Answer::Granted {
                    self.note(|| format!("node {server}: the extension of {token} puts the key back"));
                }
                reply
            }
            Mutant::EarlierCopy => match reply.answer {
                Answer::PutBack { .. } => Reply { answer: Answer::Granted, ..reply },
                _ => reply,
            },
            _ => reply,
        })
    }

    /// The lives of the nodes that a handover means to this client.
    pub(crate) fn bend_lives(&self, client: usize, handover: &HandedOver, lives: Vec<Nonce>) -> Vec<Nonce> {
        if self.options.mutant == Some(Mutant::EarlierCopy) {
            // Whatever is in their places by now.
            return self.clients[client].core.fleet().lives(handover.members);
        }
        lives
    }

    /// An extension has failed, and the holder's library releases the lock.
    pub(crate) fn bend_not_extended(&mut self, client: usize, lease: u32) {
        let now = self.time(client);
        let Some(held) = self.clients[client].lease(lease) else { return };
        let Some(standing) = held.standing() else { return };
        let (key, token) = (held.key().clone(), standing.token());
        let ours = !standing.is_lost() && !standing.validity().is_over(now);
        if self.options.mutant != Some(Mutant::ReleaseOnFailedExtend) || !ours {
            return;
        }
        self.note(|| format!("client {client} lease {lease}: releases, because it was not extended"));
        // As libraries without a line do it: nobody is woken.
        for node in self.options.quorum().indexes() {
            let tag = Tag { to: Addressee::Nobody, sent: now };
            self.send(client, tag, node, Command::Undo { key: key.clone(), token, requeue: None });
        }
    }

    /// Renewals are granted that were sent together, and are forgotten by now.
    pub(crate) fn forgets_renewals(&self, client: usize, renewals: &Renewals) -> bool {
        self.options.mutant == Some(Mutant::RenewalForgotten)
            && self.time(client).since(renewals.sent) > Duration::from_millis(20)
    }

    /// For how long a holder extends: now and then for less than before.
    pub(crate) fn extension_term(&mut self, term: Term) -> Term {
        if !self.options.extra.shorter_extends || !self.dice.chance(500) {
            return term;
        }
        let ttl = (term.ttl() / 8).max(Duration::from_millis(50));
        tenure_core::Options::default().term(ttl, self.options.max_ttl()).unwrap_or(term)
    }

    /// Leaves a lock that is not released to another process, which goes on with it at any time.
    /// `false` if nobody does.
    pub(crate) fn hands_over(&mut self, client: usize, lease: u32) -> bool {
        let (generation, held) =
            (self.clients[client].generation, self.clients[client].standing(lease).is_some());
        let Some(slot) = self.clients[client].slot(lease).filter(|_| held) else { return false };
        let ttl_ns = u64::try_from(slot.terms.term.ttl().as_nanos()).unwrap_or(u64::MAX);
        if !self.options.extra.resumes {
            return false;
        }
        let pause_ns = self.dice.between(ttl_ns / 2, ttl_ns * 3);
        let event = ClientEvent::Act(Act::Extend { lease });
        self.at(self.now_ns + pause_ns, Event::Client { client, generation, event });
        true
    }

    /// Goes on with a lock that was handed over and may be over: an extension proves whether it is.
    pub(crate) fn resume_if_late(&mut self, client: usize, lease: u32) {
        let (now, quorum) = (self.time(client), self.options.quorum());
        let resumes = self.options.extra.resumes;
        let state = &mut self.clients[client];
        let Some(terms) = state.slot(lease).filter(|_| resumes).map(|slot| slot.terms.clone()) else {
            return;
        };
        let Some(held) = state.core.lease_mut(id(lease)) else { return };
        let late = held.standing().is_some_and(|standing| standing.validity().is_lost(now));
        if let Some(handover) = held.handover(now).filter(|_| late) {
            *held = Lease::resume(held.key().clone(), terms, quorum, &handover, now);
            // Whoever goes on with it is another one than who was told of the loss.
            let holder = self.holder(client, lease);
            self.loss.end(holder);
            self.note(|| format!("client {client} lease {lease}: goes on with the lock"));
        }
    }
}
