//! Owners that are used twice, or not compared.

use tenure_core::{Command, Entropy, Owner, OwnerToken, Reply};

use super::{Asked, Mutant};
use crate::world::World;

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
        let (Command::Release { key, token }
        | Command::PassOn { key, token, .. }
        | Command::Open { key, token, .. }
        | Command::Requeue { key, token, .. }) = &mut bent
        else {
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
            let life = self.clients[client].life;
            let number = (client as u64) << 48 | u64::from(life) << 32 | u64::from(lease);
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            entropy.token = OwnerToken::from_bytes(bytes);
        }
    }

    /// Whether what a lost attempt has set stays: the next one asks with the same owner, or nobody cares.
    pub(crate) fn leaves_keys(&mut self, client: usize, lease: u32, held: bool) -> bool {
        if let Some(slot) = self.clients[client].slot(lease).filter(|_| !held) {
            // What is granted from now on is released again, and nobody believes in it.
            slot.bent.token = None;
        }
        matches!(self.options.mutant, Some(Mutant::SameOwnerAnyFence | Mutant::NoCleanUp)) && !held
    }
}
