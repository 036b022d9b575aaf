//! Locks that are shared wrongly.

use std::sync::Arc;

use tenure_core::{
    Answer, Beside, Command, Entry, Hold, LockKey, Mode, Owner, OwnerToken, PlaceRequest, RESERVATION,
    Refusal, Reply, Seeks, Ticket,
};

use super::queue::ticket_of;
use super::{Asked, Mutant};
use crate::world::World;

impl World {
    pub(super) fn bend_sharing(&mut self, mutant: Mutant, asked: &Asked<'_>) -> Option<Reply> {
        let &Asked { server, now, command, .. } = asked;
        let key = command.key()?;
        let holds = self.nodes[server].holds(self.now_ns, key);
        let entry = self.nodes[server].entry(self.now_ns, key);
        let table = &mut self.nodes[server].table;
        match (mutant, command) {
            (Mutant::ReadersAside, Command::Acquire { beside, .. })
                if beside.as_ref().is_none_or(|beside| !beside.mode.is_shared()) =>
            {
                // They are kept where nobody looks who does not share it.
                for hold in holds {
                    table.execute(now, &undo(key, hold.owner));
                }
                Some(table.execute(now, command))
            }
            (Mutant::MarkerOfLast, Command::Acquire { token, node_ttl_ms, .. })
            | (Mutant::MarkerOfLast, Command::Extend { token, node_ttl_ms, .. }) => {
                let reply = table.execute(now, command);
                let ends_ms = now.as_millis() + node_ttl_ms;
                let granted = reply.answer == Answer::Granted;
                // Others live no longer than whoever came last.
                let longer = |hold: &&Hold| hold.owner != *token && hold.ends_ms > ends_ms && granted;
                for hold in holds.iter().filter(longer) {
                    table.execute(now, &undo(key, hold.owner));
                    table.execute(now, &share(key, hold.owner, *node_ttl_ms));
                }
                Some(reply)
            }
            (
                Mutant::ReaderFenceUnrecorded,
                Command::Acquire { token, node_ttl_ms, beside: Some(beside), .. },
            ) if beside.mode.is_shared() => {
                let reply = table.execute(now, command);
                if reply.answer == Answer::Granted {
                    return Some(reply);
                }
                // Larger than none, it is never too small.
                let behind = reply.answer == Answer::Refused(Refusal::Behind);
                Some(if behind { table.execute(now, &share(key, *token, *node_ttl_ms)) } else { reply })
            }
            (Mutant::RenewsEverybody, Command::Extend { node_ttl_ms, mode: Mode::Shared, .. }) => {
                let reply = table.execute(now, command);
                if reply.answer == Answer::Granted {
                    for Hold { owner: token, .. } in holds {
                        let (key, node_ttl_ms) = (key.clone(), *node_ttl_ms);
                        table.execute(now, &Command::Extend { key, token, node_ttl_ms, mode: Mode::Shared });
                    }
                }
                Some(reply)
            }
            (Mutant::DowngradeGap, Command::Extend { token, node_ttl_ms, mode: Mode::Shared, .. }) => {
                if entry.is_some_and(|entry| entry.owner == Owner::Token(*token)) {
                    // It is released now, and acquired by the next message.
                    table.execute(now, &undo(key, *token));
                    return Some(Reply::new(Some(now), Answer::Granted));
                }
                let reply = table.execute(now, command);
                let gone = reply.answer == Answer::Refused(Refusal::NotHeld);
                Some(if gone { table.execute(now, &share(key, *token, *node_ttl_ms)) } else { reply })
            }
            (Mutant::ReadersNeverGiveWay, Command::Acquire { beside: Some(beside), .. }) => {
                let mut bent = command.clone();
                if let Command::Acquire { beside: asked, .. } = &mut bent {
                    *asked = Some(Arc::new(Beside { gives_way: false, ..(**beside).clone() }));
                }
                Some(table.execute(now, &bent))
            }
            (Mutant::HoldsWithoutMarker, _) => self.trust_unmarked(asked, &holds),
            (Mutant::WriterInLineRefuses, _) => self.refuse_behind_writers(asked, entry, holds.is_empty()),
            _ => None,
        }
    }

    /// Holds that outlive their key are lengthened and removed as if it was there, and the next one
    /// to share the lock brings them back.
    fn trust_unmarked(&mut self, asked: &Asked<'_>, holds: &[Hold]) -> Option<Reply> {
        let &Asked { server, now, command, .. } = asked;
        let state = &mut self.nodes[server];
        let unmarked = state.bent.unmarked.get_mut(command.key()?)?;
        unmarked.retain(|hold| hold.ends_ms >= now.as_millis());
        match command {
            Command::Extend { token, node_ttl_ms, .. } if holds.iter().all(|hold| hold.owner != *token) => {
                let hold = unmarked.iter_mut().find(|hold| hold.owner == *token)?;
                hold.ends_ms = hold.ends_ms.max(now.as_millis() + node_ttl_ms);
                Some(Reply::new(Some(now), Answer::Granted))
            }
            Command::Undo { token, .. } | Command::Release { token, .. } => {
                unmarked.retain(|hold| hold.owner != *token);
                None
            }
            Command::Acquire { key, beside: Some(beside), .. } if beside.mode.is_shared() => {
                let reply = state.table.execute(now, command);
                if reply.answer == Answer::Granted {
                    for Hold { owner, ends_ms, .. } in std::mem::take(unmarked) {
                        state.table.execute(now, &share(key, owner, ends_ms - now.as_millis()));
                    }
                }
                Some(reply)
            }
            _ => None,
        }
    }

    /// Refuses whoever would share a lock while a writer is in line, unless it is set aside for
    /// those who share it.
    fn refuse_behind_writers(
        &mut self,
        asked: &Asked<'_>,
        entry: Option<Entry>,
        unheld: bool,
    ) -> Option<Reply> {
        let &Asked { server, now, command, .. } = asked;
        let state = &mut self.nodes[server];
        state.bent.tickets.extend(ticket_of(command));
        let Command::Acquire { key, beside: Some(beside), .. } = command else { return None };
        let aside = unheld && entry.is_some_and(|entry| entry.owner == Owner::Shared);
        let writer = |ticket: &Ticket| ticket.seeks == Seeks::Alone && state.table.is_in_line(key, *ticket);
        if !beside.mode.is_shared() || aside || !state.bent.tickets.iter().any(writer) {
            return None;
        }
        if let Some(PlaceRequest { ticket, .. }) = beside.place {
            state.table.execute(now, &Command::Enqueue { key: key.clone(), ticket });
        }
        Some(Reply::new(Some(now), Answer::Refused(Refusal::Reserved { left: RESERVATION })))
    }
}

fn undo(key: &LockKey, token: OwnerToken) -> Command {
    Command::Undo { key: key.clone(), token, requeue: None }
}

/// Joins whoever shares a lock, without a fence.
fn share(key: &LockKey, token: OwnerToken, node_ttl_ms: u64) -> Command {
    let beside = Some(Arc::new(Beside { mode: Mode::Shared, ..Beside::default() }));
    Command::Acquire { key: key.clone(), token, node_ttl_ms, nonce: None, fence: None, beside }
}
