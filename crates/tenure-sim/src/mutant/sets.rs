//! Several names at once that are locked or extended in parts; and slots that are counted instead
//! of locked.

use tenure_core::{Answer, Command, LockKey, Refusal, Reply};

use super::{Asked, Mutant};
use crate::workload::key;
use crate::world::World;

impl World {
    pub(super) fn bend_sets(&mut self, mutant: Mutant, asked: &Asked<'_>) -> Option<Reply> {
        let &Asked { server, now, command, .. } = asked;
        let names = command.key()?.each();
        let is_set = command.key()?.is_set();
        let slots: Vec<LockKey> = (0..self.options.names).map(key).collect();
        let table = &mut self.nodes[server].table;
        match (mutant, command) {
            (Mutant::SetExtendsPart, Command::Extend { .. })
            | (Mutant::SetAcquiresPart, Command::Acquire { .. })
                if is_set =>
            {
                // What is there, or free, will do.
                let each = names.iter().map(|name| table.execute(now, &command.about(name)));
                let said: Vec<Reply> = each.collect();
                let granted = said.iter().find(|reply| reply.answer == Answer::Granted);
                granted.or(said.first()).cloned()
            }
            (Mutant::SetPassesBack, Command::Acquire { beside: Some(beside), .. }) if is_set => {
                let ticket = beside.place?.ticket;
                let reply = table.execute(now, command);
                if reply.answer == Answer::Granted {
                    return Some(reply);
                }
                // What was set aside for it goes to the next, because the rest is not free.
                let in_line: Vec<&LockKey> =
                    names.iter().filter(|name| table.is_in_line(name, ticket)).collect();
                for name in names.iter().filter(|name| !in_line.contains(name)) {
                    table.execute(now, &Command::Leave { key: name.clone(), ticket });
                }
                Some(reply)
            }
            (Mutant::SlotsMixed, Command::Acquire { .. }) if !is_set => {
                // Any slot will do, and whoever is granted takes it for the one that it asked for.
                let own = names.iter().chain(slots.iter().filter(|slot| !names.contains(slot)));
                let mut said = own.map(|slot| table.execute(now, &command.about(slot)));
                let first = said.next()?;
                match first.answer {
                    Answer::Refused(Refusal::Held { .. }) => {
                        Some(said.find(|reply| reply.answer == Answer::Granted).unwrap_or(first))
                    }
                    _ => Some(first),
                }
            }
            (Mutant::CountingSet, Command::Acquire { .. }) if !is_set => {
                let reply = table.execute(now, command);
                let held = table.keys(now).count();
                // A node counts how many there are, and not who has which.
                let is_full =
                    held >= slots.len() || !matches!(reply.answer, Answer::Refused(Refusal::Held { .. }));
                Some(if is_full { reply } else { Reply::new(Some(now), Answer::Granted) })
            }
            _ => None,
        }
    }
}
