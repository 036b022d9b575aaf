//! Extensions that do too much.

use std::time::Duration;

use tenure_core::{Answer, Command, Handover, Lease, NodeSet, Nonce, Reply, Standing, Term};

use super::{Asked, Mutant};
use crate::client::Act;
use crate::links::To;
use crate::world::{ClientEvent, Event, World};

impl World {
    pub(super) fn bend_extension(&mut self, mutant: Mutant, asked: &Asked<'_>) -> Option<Reply> {
        let &Asked { server, now, command, .. } = asked;
        let Command::Extend { key, token, node_ttl_ms } = command else { return None };
        let set = Command::plain_acquire(key.clone(), *token, *node_ttl_ms);
        let table = &mut self.nodes[server].table;
        let reply = table.execute(now, command);
        let granted = reply.answer == Answer::Granted;
        Some(match mutant {
            Mutant::ExtendShortens if granted => {
                table.execute(now, &Command::Release { key: key.clone(), token: *token });
                table.execute(now, &set)
            }
            Mutant::LateExtend if !granted => table.execute(now, &set),
            Mutant::HealCounts if !granted => {
                let holder = self.clients.iter().flat_map(|client| &client.leases);
                let mut standings = holder.filter_map(|slot| slot.lease.standing());
                let fence = standings.find(|held| held.token() == *token).and_then(Standing::fence);
                let (key, token, node_ttl_ms) = (key.clone(), *token, *node_ttl_ms);
                // It counts at once.
                let heal = Command::Heal { key, token, node_ttl_ms, fence, quarantine_ms: 0 };
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

    /// The nodes that a handover means to this client.
    pub(crate) fn members_of(&self, client: usize, handover: &Handover, lives: &[Nonce]) -> NodeSet {
        if self.options.mutant == Some(Mutant::EarlierCopy) {
            return handover.members;
        }
        self.clients[client].fleet.nodes_in(lives)
    }

    /// Whether a lease only drops the vote of a node that lost its memory, and not that the node
    /// cannot count for a while.
    pub(crate) fn forgets_distrust(&self, forgot: bool) -> bool {
        forgot && self.options.mutant == Some(Mutant::DiscardedSetCounts)
    }

    /// An extension has failed, and the holder's library releases the lock.
    pub(crate) fn bend_not_extended(&mut self, client: usize, lease: u32) {
        let now = self.time(client);
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let Some(standing) = slot.lease.standing() else { return };
        let (key, token) = (slot.lease.key().clone(), standing.token());
        let ours = !standing.is_lost() && !standing.validity().is_over(now);
        if self.options.mutant != Some(Mutant::ReleaseOnFailedExtend) || !ours {
            return;
        }
        self.note(|| format!("client {client} lease {lease}: releases, because it was not extended"));
        for node in self.options.quorum().indexes() {
            self.send(client, To::Nobody, node, Command::Release { key: key.clone(), token });
        }
    }

    /// A renewal is granted, and what was sent together is forgotten by now.
    pub(crate) fn forgets_renewal(&mut self, client: usize, to: To, took: Duration) -> bool {
        let To::Lease { lease, round } = to else { return false };
        self.options.mutant == Some(Mutant::RenewalForgotten)
            && took > Duration::from_millis(20)
            && self.clients[client].slot(lease).is_some_and(|slot| slot.together == Some(round))
    }

    /// For how long a holder extends: now and then for less than before.
    pub(crate) fn extension_term(&mut self, term: Term) -> Term {
        if !self.options.extra.shorter_extends || !self.dice.chance(500) {
            return term;
        }
        let ttl = (term.ttl() / 8).max(Duration::from_millis(50));
        tenure_core::Options::default().term(ttl, self.options.max_ttl()).unwrap_or(term)
    }

    /// Leaves a lock that is not released to another process, which goes on with it at any time. `false` if nobody does.
    pub(crate) fn hands_over(&mut self, client: usize, lease: u32) -> bool {
        let life = self.clients[client].life;
        let Some(slot) = self.clients[client].slot(lease).filter(|slot| slot.lease.standing().is_some())
        else {
            return false;
        };
        let ttl_ns = u64::try_from(slot.terms.term.ttl().as_nanos()).unwrap_or(u64::MAX);
        if !self.options.extra.resumes {
            return false;
        }
        let pause_ns = self.dice.between(ttl_ns / 2, ttl_ns * 3);
        let event = ClientEvent::Act(Act::Extend { lease });
        self.at(self.now_ns + pause_ns, Event::Client { client, life, event });
        true
    }

    /// Goes on with a lock that was handed over and may be over: an extension proves whether it is.
    pub(crate) fn resume_if_late(&mut self, client: usize, lease: u32) {
        let (now, quorum) = (self.time(client), self.options.quorum());
        let resumes = self.options.extra.resumes;
        let Some(slot) = self.clients[client].slot(lease).filter(|_| resumes) else { return };
        let late = slot.lease.standing().is_some_and(|standing| standing.validity().is_lost(now));
        if let Some(handover) = slot.lease.handover(now).filter(|_| late) {
            let key = slot.lease.key().clone();
            slot.lease = Lease::resume(key, slot.terms, quorum, &handover, now);
            // Whoever goes on with it is another one than who was told of the loss.
            let holder = self.holder(client, lease);
            self.loss.end(holder);
            self.note(|| format!("client {client} lease {lease}: goes on with the lock"));
        }
    }
}
