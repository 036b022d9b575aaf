//! Keys that vanish without a trace: a server that evicts, an operator who deletes. Nobody can see
//! it; the margin of a lock says on how many nodes it does no harm.

use tenure_core::{Command, NodeIndex};

use super::client::{SimClient, Slot};
use super::node::NodeFault;
use super::{Event, World};
use crate::mutant::Mutant;
use crate::options::Scenario;
use crate::trace::Mark;
use crate::workload::{each, key};

impl World {
    /// A lock was got or extended: that is when a key that vanishes matters.
    pub(crate) fn evict_soon(&mut self) {
        if std::mem::take(&mut self.evict_armed) {
            let (node, after_ns) =
                (self.dice.index(self.nodes.len()), self.dice.of_any_size(1_000, 100_000_000));
            self.at(self.now_ns + after_ns, Event::Fault(NodeFault::Evict { node }));
        }
    }

    /// Takes the key of a held lock off a node, if its margin allows for one more.
    pub(crate) fn evict(&mut self, node: usize) {
        let Some(index) = self.options.quorum().indexes().nth(node) else { return };
        let beyond = self.options.scenario == Scenario::EvictedBeyondMargin;
        let now_ns = self.now_ns;
        let found = self.clients.iter().enumerate().find_map(|(client, state)| {
            let slot = state.slots.iter().find(|slot| may_lose(state, slot, index, now_ns, beyond))?;
            Some((client, slot.id))
        });
        let Some((client, lease)) = found else {
            self.evict_armed = true;
            return;
        };
        let Some(standing) = self.clients[client].standing(lease) else { return };
        let token = standing.token();
        let Some(name) = self.clients[client].slot(lease).map(|slot| slot.name) else { return };
        // Of several that are locked together one is enough.
        let names: Vec<usize> = each(name).collect();
        let name = if names.len() > 1 { names[self.dice.index(names.len())] } else { name };
        let Some(slot) = self.clients[client].slot(lease) else { return };
        slot.evicted_ns.push(now_ns);
        let lock = key(name);
        if self.options.mutant == Some(Mutant::HoldsWithoutMarker) {
            let hold = self.nodes[node].holds(now_ns, &lock).into_iter().find(|hold| hold.owner == token);
            self.nodes[node].bent.unmarked.entry(lock.clone()).or_default().extend(hold);
        }
        let command = Command::Undo { key: lock, token, requeue: None };
        let now = self.nodes[node].clock.read(now_ns);
        self.nodes[node].table.execute(now, &command);
        self.marks.see(Mark::Evicted);
        self.note(|| format!("node {node}: the key of client {client} lease {lease} vanishes"));
    }
}

/// Whether a lock that is held counts on this node, and may be forgotten there. What vanished
/// before the round began that it counts on was seen in that round. While it is being extended
/// nobody knows yet on how many nodes it counts: those that have granted the extension may be just
/// enough.
fn may_lose(client: &SimClient, slot: &Slot, node: NodeIndex, now_ns: u64, beyond: bool) -> bool {
    let Some(standing) = client.standing(slot.id).filter(|_| !slot.unproved) else { return false };
    let valid = !standing.is_lost() && now_ns < client.clock.when(standing.validity().end());
    let begun_ns = client.clock.when(standing.round().started());
    let evicted = slot.evicted_ns.iter().filter(|at_ns| **at_ns >= begun_ns).count();
    let spare = !slot.renewing && evicted < standing.margin();
    valid && standing.round().granted().contains(node) && (beyond || spare)
}
