//! A line that is kept too strictly.

use tenure_core::{Answer, Command, LineReport, Next, Owner, RESERVATION, Refusal, Reply, Ticket};

use super::{Asked, Mutant};
use crate::world::World;

impl World {
    /// Refuses whoever is behind a smaller ticket, or has none.
    pub(super) fn bend_line(&mut self, mutant: Mutant, asked: &Asked<'_>) -> Option<Reply> {
        let &Asked { server, now, command, .. } = asked;
        if mutant != Mutant::RefusesBehind {
            return None;
        }
        let state = &mut self.nodes[server];
        state.bent.tickets.extend(ticket_of(command));
        let Command::Acquire { key, beside, .. } = command else { return None };
        let ours = beside.as_ref().and_then(|beside| beside.place).map(|place| place.ticket);
        let owner = state.table.keys(now).find(|(held, _)| *held == key).map(|(_, entry)| entry.owner);
        if owner
            .is_some_and(|owner| ours.map(Owner::Reserved) == Some(owner) || matches!(owner, Owner::Token(_)))
        {
            return None;
        }
        let ahead = |ticket: &&Ticket| {
            ours.is_none_or(|ours| **ticket < ours) && state.table.is_in_line(key, **ticket)
        };
        let ahead = state.bent.tickets.iter().filter(ahead).count() as u64;
        if ahead == 0 {
            return None;
        }
        if let Some(ticket) = ours {
            state.table.execute(now, &Command::Enqueue { key: key.clone(), ticket });
        }
        let place = ours.map(|_| (ahead, state.table.waiters(key) as u64));
        let mut reply = Reply::new(Some(now), Answer::Refused(Refusal::Reserved { left: RESERVATION }));
        reply.line = Some(Box::new(LineReport { place, ..LineReport::default() }));
        Some(reply)
    }
}

/// The ticket that a command puts in line, or may.
pub(super) fn ticket_of(command: &Command) -> Option<Ticket> {
    match command {
        Command::Acquire { beside, .. } => Some(beside.as_ref()?.place?.ticket),
        Command::Enqueue { ticket, .. }
        | Command::Undo { requeue: Some(ticket), .. }
        | Command::Release { next: Next::InLineWith(ticket), .. } => Some(*ticket),
        _ => None,
    }
}
