//! Locks that one owner may hold several times, from several clients. Some who hold one wait for
//! another of their owner before they give it up, as an outer call waits for an inner one.

use tenure_core::{HoldState, Mode, OwnerId, Terms};

use crate::dice::Dice;
use crate::trace::Mark;
use crate::world::client::{Act, Inner, id};
use crate::world::stage::Stage;
use crate::world::{ClientEvent, Event, World};

/// An outer hold is lengthened so often for an inner one while there are faults.
const PATIENCE: u32 = 6;

/// An inner hold is asked for so long after the outer one, at most.
const INNER_NS: u64 = 2_000_000;

/// The owners of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    /// How many there are: few, so that clients often have the same.
    pub(crate) ids: usize,
    /// So many names, the first ones, are reentrant locks. The others are plain or shared.
    pub(crate) names: usize,
    /// How often somebody asks for a name as the other kind of lock.
    pub(crate) mistaken_per_mille: u64,
    /// How many who hold a lock wait for an inner hold.
    pub(crate) nested_per_mille: u64,
}

impl Owners {
    pub(crate) fn draw(dice: &mut Dice, names: usize) -> Self {
        let all = names == 1 || dice.chance(500);
        Self {
            ids: dice.pick(&[2, 2, 3]),
            names: if all { names } else { names - 1 },
            mistaken_per_mille: if dice.chance(150) { 100 } else { 0 },
            nested_per_mille: dice.pick(&[0, 200, 500]),
        }
    }
}

impl World {
    /// The terms with which this name is asked for: a name is one kind of lock.
    pub(crate) fn terms_for(&mut self, name: usize, mut terms: Terms) -> Terms {
        let Owners { ids, names, mistaken_per_mille, .. } = self.options.owners;
        if ids == 0 {
            return terms;
        }
        let mistaken = self.dice.chance(mistaken_per_mille);
        if (name < names) != mistaken {
            terms.mode = Mode::Owned(owner(self.dice.index(ids)));
        }
        terms
    }

    /// An owner has a lock: another client may be asked to hold it, too.
    pub(super) fn plan_inner(&mut self, client: usize, lease: u32) {
        let per_mille = self.options.owners.nested_per_mille;
        let owned = self.mode(client, lease).owner().is_some();
        if per_mille == 0 || !owned || !self.dice.chance(per_mille) {
            return;
        }
        let (other, delay_ns) =
            (self.dice.index(self.options.clients), self.dice.of_any_size(1_000, INNER_NS));
        let queued = self.dice.chance(700);
        let outer = self.holder(client, lease);
        let patient = self.patient_terms();
        let Some(slot) = self.clients[client].slot(lease).filter(|slot| !slot.is_inner) else { return };
        let terms = Terms { queued, mode: slot.terms.mode.clone(), ..patient };
        let act = Act::Enter { name: slot.name, terms: Box::new(terms), outer };
        let generation = self.clients[other].generation;
        let event = ClientEvent::Act(act);
        self.at(self.now_ns + delay_ns, Event::Client { client: other, generation, event });
    }

    /// Asks for a lock that another one of the same owner holds, which waits for it.
    pub(super) fn enter(&mut self, client: usize, name: usize, terms: Terms, outer: crate::checker::Holder) {
        let waits = self.clients[outer.client].generation == outer.generation
            && self.clients[outer.client].standing(outer.lease).is_some();
        if !waits || !matches!(self.stage, Stage::Safety | Stage::Live { .. }) {
            return;
        }
        self.marks.see(Mark::Entered);
        let lease = self.begin_lease(client, name, terms);
        let inner = self.holder(client, lease);
        if let Some(slot) = self.clients[client].slot(lease) {
            slot.is_inner = true;
        }
        if let Some(slot) = self.clients[outer.client].slot(outer.lease) {
            slot.inner = Some(Inner { holder: inner, patience: PATIENCE });
        }
        if let Stage::Live { .. } = self.stage {
            self.liveness.wants(name, inner);
        }
    }

    /// Whether a hold goes on because an inner one is not served yet. While there are faults that
    /// may take too long.
    pub(super) fn holds_on(&mut self, client: usize, lease: u32) -> bool {
        let (now, live) = (self.time(client), matches!(self.stage, Stage::Live { .. }));
        let held =
            self.clients[client].standing(lease).is_some_and(|held| held.state(now) == HoldState::Held);
        let Some(slot) = self.clients[client].slot(lease) else { return false };
        let Some(Inner { holder, patience }) = slot.inner.filter(|_| held) else { return false };
        let term = slot.terms.term;
        let other = &mut self.clients[holder.client];
        let waits = other.generation == holder.generation
            && other.slot(holder.lease).is_some()
            && other.standing(holder.lease).is_none();
        if !waits || patience == 0 && !live {
            return false;
        }
        if let Some(slot) = self.clients[client].slot(lease) {
            slot.inner = Some(Inner { holder, patience: patience.saturating_sub(1) });
            slot.asked = true;
        }
        self.note(|| format!("client {client} lease {lease}: holds on for {holder}"));
        self.ask(client, tenure_core::client::Request::Extend { id: id(lease), term });
        true
    }

    /// A caller heard that the name is another kind of lock. When all faults are over it asks again
    /// later: whoever was mistaken is done by then.
    pub(crate) fn handle_other_kind(&mut self, client: usize, lease: u32) {
        self.marks.see(Mark::OtherKind);
        let waiter = self.holder(client, lease);
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let (name, terms) = (slot.name, slot.terms.clone());
        if matches!(self.stage, Stage::Live { .. }) && self.liveness.is_awaited(waiter) {
            self.liveness.gave_up(waiter);
            let within_ns = self.options.max_ttl_ms * 100_000;
            self.act_later(client, within_ns, Act::AskAgain { name, terms: Box::new(terms) });
        }
    }

    pub(super) fn ask_again(&mut self, client: usize, name: usize, terms: Terms) {
        if let Stage::Live { .. } = self.stage {
            let lease = self.begin_lease(client, name, terms);
            let waiter = self.holder(client, lease);
            self.liveness.wants(name, waiter);
        }
    }
}

/// One of the owners.
pub(crate) fn owner(number: usize) -> OwnerId {
    OwnerId::new(&format!("owner-{number}")).expect("a short id")
}
