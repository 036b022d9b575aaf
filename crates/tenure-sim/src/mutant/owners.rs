//! Owners that are used twice, or not compared.

use tenure_core::client::Tag;
use tenure_core::{Answer, Command, Entropy, NodeIndex, Owner, OwnerToken, Reply, RoundNumber};

use super::{Asked, Mutant};
use crate::world::{ClientEvent, Event, World};

impl World {
    pub(super) fn bend_owner(&mut self, mutant: Mutant, asked: &Asked<'_>) -> Option<Reply> {
        let &Asked { server, now, command, .. } = asked;
        let mut bent = command.clone();
        match (mutant, &mut bent) {
            (Mutant::ReleaseAnybodys, _) => {}
            (
                Mutant::NoGuardBand,
                Command::Acquire { node_ttl_ms, .. }
                | Command::Extend { node_ttl_ms, .. }
                | Command::Heal { node_ttl_ms, .. },
            ) => {
                // A tenth of the ttl, and a tenth of a second at least.
                *node_ttl_ms = (*node_ttl_ms * 10 / 11).min(node_ttl_ms.saturating_sub(100));
                return Some(self.nodes[server].table.execute(now, &bent));
            }
            _ => return None,
        }
        let (Command::Undo { key, token, .. } | Command::Release { key, token, .. }) = &mut bent else {
            return None;
        };
        let table = &self.nodes[server].table;
        let entry = table.keys(now).find(|(held, _)| *held == key).map(|(_, entry)| entry.owner);
        let Some(Owner::Token(owner)) = entry else { return None };
        let others = owner != *token;
        *token = owner;
        if others {
            self.note(|| format!("node {server}: a release of another owner deletes the key of {owner}"));
        }
        Some(self.nodes[server].table.execute(now, &bent))
    }

    /// Whether the owner of this acquire has the key.
    pub(super) fn is_ours(&self, server: usize, acquire: &Command) -> bool {
        let Command::Acquire { key, token, .. } = acquire else { return false };
        let now = self.nodes[server].clock.read(self.now_ns);
        let mut keys = self.nodes[server].table.keys(now);
        keys.any(|(held, entry)| held == key && entry.owner == Owner::Token(*token))
    }

    /// One owner for all attempts of a lease.
    pub(super) fn bend_token(&self, client: usize, lease: u32, entropy: &mut Entropy) {
        if let Some(Mutant::OneOwner | Mutant::SameOwnerAnyFence) = self.options.mutant {
            let generation = self.clients[client].generation;
            let number = (client as u64) << 48 | u64::from(generation) << 32 | u64::from(lease);
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            entropy.token = OwnerToken::from_bytes(bytes);
        }
        if let Some(Mutant::OwnerIsToken) = self.options.mutant
            && let Some(token) = self.owner_as_token(client, lease)
        {
            entropy.token = token;
        }
    }

    /// An attempt that was lost is being undone.
    pub(crate) fn bend_undo(&mut self, client: usize, lease: u32, round: RoundNumber) {
        let state = &mut self.clients[client];
        if let Some(slot) = state.slot(lease) {
            // What is granted from now on is released again, and nobody believes in it.
            slot.bent.token = None;
        }
        // What it has set stays: the next one asks with the same owner, or nobody cares.
        if let Some(Mutant::SameOwnerAnyFence | Mutant::NoCleanUp) = self.options.mutant {
            state.bent.left.push((lease, round));
        }
    }

    /// Whether nothing that would undo this round is sent.
    pub(crate) fn leaves_key(&self, client: usize, lease: u32, round: RoundNumber) -> bool {
        self.clients[client].bent.left.contains(&(lease, round))
    }

    /// A command gets lost on its way, and its client believes that it was executed.
    pub(crate) fn pretend(&mut self, client: usize, node: NodeIndex, tag: Tag) {
        let (generation, reply) = (self.clients[client].generation, Reply::new(None, Answer::Granted));
        let event = ClientEvent::Pretended { node, tag, reply };
        self.at(self.now_ns, Event::Client { client, generation, event });
    }

    pub(crate) fn handle_pretended(&mut self, client: usize, node: NodeIndex, tag: Tag, reply: Reply) {
        let now = self.time(client);
        self.clients[client].core.deliver(now, node, tag, Ok(reply));
        self.drain(client);
    }
}
