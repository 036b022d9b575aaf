//! Periods that end with the release, or that begin with it.

use tenure_core::{Answer, Command, HandedOver, Next, NodeTime, OwnerToken, Reply};

use super::{Asked, Mutant};
use crate::world::World;
use crate::world::client::Slot;

impl World {
    pub(super) fn bend_periods(&mut self, mutant: Mutant, asked: &Asked<'_>) -> Option<Reply> {
        let &Asked { server, now, command, .. } = asked;
        match (mutant, command) {
            (Mutant::PeriodEndsWithRelease, Command::Release { next: Next::Nobody { .. }, .. }) => {
                Some(self.nodes[server].table.execute(now, &released(command)))
            }
            (Mutant::PeriodSetByRelease, Command::Acquire { token, .. } | Command::Extend { token, .. }) => {
                let plain_ms = self.plain_ttl_ms(*token)?;
                let mut shorter = command.clone();
                if let Command::Acquire { node_ttl_ms, .. } | Command::Extend { node_ttl_ms, .. } =
                    &mut shorter
                {
                    *node_ttl_ms = plain_ms.min(*node_ttl_ms);
                }
                Some(self.nodes[server].table.execute(now, &shorter))
            }
            (
                Mutant::PeriodSetByRelease,
                Command::Release { key, token, next: Next::Nobody { for_ms }, .. },
            ) => {
                let table = &mut self.nodes[server].table;
                let reply = table.execute(now, &released(command));
                if reply.answer == Answer::Granted {
                    table.execute(now, &Command::plain_acquire(key.clone(), *token, *for_ms));
                }
                Some(reply)
            }
            _ => None,
        }
    }

    /// When a lock that is handed over is said to have been acquired.
    pub(crate) fn bend_period(&self, handover: &mut HandedOver) {
        if self.options.mutant == Some(Mutant::PeriodByFence) && handover.granted_by.is_some() {
            handover.granted_by = handover.fence.map(|fence| NodeTime::from_micros(fence.get()));
        }
    }

    /// How long nodes would keep what goes by this token if it had no period.
    fn plain_ttl_ms(&self, token: OwnerToken) -> Option<u64> {
        let mut slots = self.clients.iter().flat_map(|client| &client.slots);
        let of = |slot: &&Slot| slot.bent.token == Some(token);
        slots.find(of).map(|slot| slot.terms.term.node_ttl_ms())
    }
}

fn released(command: &Command) -> Command {
    let mut released = command.clone();
    if let Command::Release { next, .. } = &mut released {
        *next = Next::InLine;
    }
    released
}
