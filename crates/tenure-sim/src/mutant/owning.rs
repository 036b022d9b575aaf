//! Reentrant locks whose holds are counted, named or fenced wrongly.

use std::time::Duration;

use tenure_core::{Answer, Command, Mode, OwnerToken, ProposedFence, Refusal, Reply};

use super::fences::with_fence;
use super::{Asked, Mutant};
use crate::world::World;

impl World {
    pub(super) fn bend_owning(&mut self, mutant: Mutant, asked: &Asked<'_>) -> Option<Reply> {
        let &Asked { client, server, now, command } = asked;
        let key = command.key()?;
        let holds = self.nodes[server].holds(self.now_ns, key);
        let group = self.nodes[server].table.group(now, key)?;
        let drawn_by = |token: OwnerToken| self.ownership.drawn_by(token);
        match (mutant, command) {
            (Mutant::CountsIncremented, Command::Undo { token, .. } | Command::Release { token, .. })
                if self.owner_ids.get(token) == Some(&group.owner) =>
            {
                // One less of this owner, whether this one was counted here or not.
                let present = holds.iter().find(|hold| hold.owner == *token).or(holds.first())?.owner;
                Some(self.nodes[server].table.execute(now, &instead(command, present)))
            }
            (Mutant::CountsAbsolute, Command::Undo { token, .. } | Command::Release { token, .. })
                if holds.iter().any(|hold| hold.owner == *token) =>
            {
                // A process knows how often it holds the lock itself, and writes that down.
                let own = |other: OwnerToken| other != *token && drawn_by(other) == Some(client);
                let still = holds.iter().any(|hold| own(hold.owner));
                let others = holds.iter().filter(|hold| hold.owner != *token && !still);
                let table = &mut self.nodes[server].table;
                for hold in others {
                    table.execute(now, &instead(command, hold.owner));
                }
                Some(table.execute(now, command))
            }
            (Mutant::JoinOwnFence, Command::Acquire { fence: Some(proposed), .. }) => {
                let table = &mut self.nodes[server].table;
                let reply = table.execute(now, command);
                let Answer::Refused(Refusal::Rejoin { fence }) = reply.answer else { return Some(reply) };
                // It is let in, and takes the fence that it has proposed for its own.
                let joined = ProposedFence::new(fence, proposed.bounds);
                Some(table.execute(now, &with_fence(command, Some(joined))))
            }
            (Mutant::JoinerYields, Command::Acquire { token, beside: Some(beside), .. })
                if beside.mode == Mode::Owned(group.owner)
                    && holds.iter().all(|hold| hold.owner != *token) =>
            {
                let ours = beside.place.map(|place| place.ticket);
                let ends_ms = self.nodes[server].entry(self.now_ns, key)?.ends_ms;
                let left = Duration::from_millis(ends_ms.saturating_sub(now.as_millis()));
                let table = &mut self.nodes[server].table;
                let others =
                    table.waiters(key) - usize::from(ours.is_some_and(|it| table.is_in_line(key, it)));
                if others == 0 {
                    return None;
                }
                if let Some(ticket) = ours {
                    table.execute(now, &Command::Enqueue { key: key.clone(), ticket });
                }
                Some(Reply::new(Some(now), Answer::Refused(Refusal::Held { left })))
            }
            _ => None,
        }
    }

    /// The owner's id in place of a token for every attempt.
    pub(super) fn owner_as_token(&self, client: usize, lease: u32) -> Option<OwnerToken> {
        let state = &self.clients[client];
        let slot = state.slots.iter().find(|slot| slot.id == lease)?;
        let mut bytes = [0; 20];
        for (byte, of_id) in bytes.iter_mut().zip(slot.terms.mode.owner()?.as_str().bytes()) {
            *byte = of_id;
        }
        Some(OwnerToken::from_bytes(bytes))
    }
}

/// The same end of a hold for another token.
fn instead(command: &Command, other: OwnerToken) -> Command {
    let mut command = command.clone();
    if let Command::Undo { token, .. } | Command::Release { token, .. } = &mut command {
        *token = other;
    }
    command
}
