//! What a client does when it has a lock, extends it and loses it; the checkers hear of it.

use tenure_core::{HoldState, NotExtended, Standing};

use crate::trace::Mark;
use crate::world::client::Act;
use crate::world::{ClientEvent, Event, World};

/// A long hold is extended so often: more than any history has time for.
const ROLLING: u32 = 1_000_000;

impl World {
    pub(crate) fn handle_acquired(&mut self, client: usize, lease: u32) {
        self.marks.see(Mark::Acquired);
        let Some(fence) = self.clients[client].standing(lease).map(Standing::fence) else { return };
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let (name, begun_ns) = (slot.name, slot.begun_ns);
        let fence = self.shown_fence(client, lease, fence);
        self.note(|| format!("client {client} lease {lease}: ACQUIRED lock {name}, fence {fence:?}"));
        let holder = self.holder(client, lease);
        if client == 0 {
            self.first_to_hold.get_or_insert(holder);
        }
        self.check_period(client, lease);
        if let Some((token, fence)) = self.clients[client].standing(lease).map(Standing::token).zip(fence) {
            self.passing.acquired(token, self.time(client), begun_ns, holder, fence);
        }
        self.check_order(client, lease);
        self.begin_hold(client, lease, fence);
    }

    /// A caller has the lock, from the nodes or from another one of its client.
    pub(super) fn begin_hold(&mut self, client: usize, lease: u32, fence: Option<u64>) {
        self.plan_extensions(client, lease);
        if !self.copy_for_child(client, lease) {
            self.copy_handover(client, lease);
        }
        let holder = self.holder(client, lease);
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let (name, begun_ns) = (slot.name, slot.begun_ns);
        let mode = self.mode(client, lease);
        self.extension.acquired(name, holder, &mode);
        self.liveness.served(self.now_ns, name, holder);
        if let Some(fence) = fence {
            let violation = self.fencing.acquired(self.now_ns, begun_ns, name, holder, fence, &mode);
            self.judge(violation);
            self.check_group(client, lease, fence);
        }
        self.hold(client, lease);
        self.plan_next(client, lease);
        self.plan_inner(client, lease);
    }

    /// Keeps what the lock could be handed over with at this moment.
    fn copy_handover(&mut self, client: usize, lease: u32) {
        let now_ns = self.now_ns;
        let state = &mut self.clients[client];
        let handover = state.handover(lease, now_ns);
        let copy = handover.map(|handover| {
            let lives = state.core.fleet().lives(handover.members);
            (handover, lives)
        });
        if let Some(slot) = state.slot(lease) {
            slot.copy = copy;
        }
    }

    fn plan_extensions(&mut self, client: usize, lease: u32) {
        let extensions = self.dice.below(4);
        let rolling = self.options.scenario.has_long_hold() && client == 0;
        if let Some(slot) = self.clients[client].slot(lease) {
            slot.extensions_left =
                Some(if rolling { ROLLING } else { u32::try_from(extensions).unwrap_or(0) });
        }
    }

    pub(crate) fn handle_extended(&mut self, client: usize, lease: u32) {
        self.marks.see(Mark::Extended);
        self.note(|| format!("client {client} lease {lease}: extended"));
        let members = self.clients[client].standing(lease).map(Standing::members);
        let Some(slot) = self.clients[client].slot(lease) else { return };
        slot.renewing = false;
        let asked = std::mem::take(&mut slot.asked);
        let proved = std::mem::take(&mut slot.unproved);
        if let Some(members) = members {
            let counted: Vec<_> = slot.healed.iter().filter(|node| members.contains(*node)).collect();
            counted.iter().for_each(|node| slot.healed.remove(*node));
            if !counted.is_empty() {
                self.marks.see(Mark::HealedCounted);
            }
        }
        if proved {
            self.marks.see(Mark::Resumed);
            let fence = self.clients[client].standing(lease).and_then(Standing::fence);
            if let Some(fence) = fence {
                self.check_group(client, lease, fence.get());
            }
            self.plan_extensions(client, lease);
        }
        self.check_extension(client, lease);
        self.hold(client, lease);
        if asked {
            self.plan_next(client, lease);
        }
    }

    pub(crate) fn handle_not_extended(&mut self, client: usize, lease: u32, reason: &NotExtended) {
        self.marks.see(Mark::NotExtended);
        self.note(|| format!("client {client} lease {lease}: not extended, {reason:?}"));
        let holder = self.holder(client, lease);
        let (generation, lost) = (
            self.clients[client].generation,
            self.clients[client].standing(lease).is_some_and(Standing::is_lost),
        );
        let Some(slot) = self.clients[client].slot(lease) else { return };
        slot.renewing = false;
        let (name, asked) = (slot.name, std::mem::take(&mut slot.asked));
        if slot.unproved {
            // Nothing is known about the lock, and it is left as it is.
            let event = ClientEvent::Act(Act::Forget { lease });
            return self.at(self.now_ns, Event::Client { client, generation, event });
        }
        if lost {
            self.marks.see(Mark::Lost);
            self.exclusion.end(name, holder);
        }
        self.bend_not_extended(client, lease);
        if asked {
            self.plan_next(client, lease);
        }
    }

    /// A holder hears how its lock stands.
    pub(crate) fn handle_state(&mut self, client: usize, lease: u32, state: HoldState) {
        if self.tells_later(client, lease, state) {
            return;
        }
        self.note(|| format!("client {client} lease {lease}: {state:?}"));
        match state {
            HoldState::Held => self.marks.see(Mark::SafeAgain),
            HoldState::AtRisk => self.marks.see(Mark::AtRisk),
            HoldState::Lost => {
                self.marks.see(Mark::LossTold);
                let (holder, resumed_ns) = (self.holder(client, lease), self.clients[client].resumed_ns);
                let violation = self.loss.told(self.now_ns, holder, resumed_ns);
                self.judge(violation);
            }
        }
    }

    /// Tells the checkers until when the client counts on the lock.
    fn hold(&mut self, client: usize, lease: u32) {
        let (clock, holder) = (self.clients[client].clock, self.holder(client, lease));
        let Some(validity) = self.clients[client].standing(lease).map(Standing::validity) else { return };
        let Some(name) = self.clients[client].slot(lease).map(|slot| slot.name) else { return };
        let (due_ns, end_ns) = (clock.when(validity.loss()), clock.when(validity.end()));
        let until_ns = clock.when(self.bend_end(client, lease, validity.end()));
        let mode = self.mode(client, lease);
        let violation = self.exclusion.hold(self.now_ns, name, holder, until_ns, &mode);
        self.judge(violation);
        if mode.is_shared() && self.exclusion.holders(self.now_ns, name) > 1 {
            self.marks.see(Mark::Shared);
        }
        if mode.owner().is_some() && self.exclusion.holders(self.now_ns, name) > 1 {
            self.marks.see(Mark::Reentered);
        }
        let violation = self.loss.hold(name, holder, due_ns, end_ns);
        self.judge(violation);
        self.evict_soon();
    }
}
