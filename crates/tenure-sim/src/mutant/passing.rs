//! Locks that are passed on inside a client when they must not be, or with the wrong fence.

use tenure_core::{Command, HandedOver, OwnerToken, ProposedFence, Reply, Time};

use super::fences::with_fence;
use super::{Asked, Mutant};
use crate::world::World;
use crate::world::client::{SimClient, Slot, id};

impl World {
    /// A node keeps the smallest fence of a range.
    pub(super) fn bend_range(&mut self, mutant: Mutant, asked: &Asked<'_>) -> Option<Reply> {
        let &Asked { server, now, command, .. } = asked;
        let Command::Acquire { fence: Some(proposed), .. } = command else { return None };
        if mutant != Mutant::FenceRangeOverlap || proposed.span == 0 {
            return None;
        }
        let alone = ProposedFence::new(proposed.fence, proposed.bounds);
        Some(self.nodes[server].table.execute(now, &with_fence(command, Some(alone))))
    }

    /// Whoever comes last is served first: it changes places with one who waits in the same client.
    pub(crate) fn bend_place(&mut self, client: usize, lease: u32) {
        if self.options.mutant != Some(Mutant::RangeServesLate) {
            return;
        }
        let SimClient { core, slots, .. } = &mut self.clients[client];
        let Some(newest) = slots.iter().position(|slot| slot.id == lease) else { return };
        let waits = |slot: &Slot| {
            let asked = core.lease(id(slot.id)).map(tenure_core::Lease::attempts);
            slot.terms.cohort && slot.name == slots[newest].name && asked == Some(0)
        };
        if let Some(oldest) = slots[..newest].iter().position(waits) {
            let called_ns = slots[oldest].called_ns;
            slots[oldest].called_ns = std::mem::replace(&mut slots[newest].called_ns, called_ns);
        }
    }

    /// A client looks at the clock when it acquires a lock, and not when it passes it on.
    pub(crate) fn bend_release_time(&self, client: usize, acquired: Option<Time>) -> Time {
        let now = self.time(client);
        match (self.options.mutant, acquired) {
            (Some(Mutant::PassedAfterEnd | Mutant::PassedForLong), Some(acquired)) => acquired.min(now),
            _ => now,
        }
    }

    /// What a holder tells its child. It forgets that it did.
    pub(crate) fn copied_token(&mut self, client: usize, lease: u32) -> Option<OwnerToken> {
        if self.options.mutant == Some(Mutant::PassedAfterCopy) {
            return self.clients[client].standing(lease).map(tenure_core::Standing::token);
        }
        let now_ns = self.now_ns;
        let handover: Option<HandedOver> = self.clients[client].handover(lease, now_ns);
        handover.map(|handover| handover.token)
    }

    /// The fence of one that was passed the lock: that of whoever acquired it.
    pub(super) fn acquired_fence(&self, fence: u64, client: usize, lease: u32) -> u64 {
        match self.clients[client]
            .standing(lease)
            .and_then(|standing| self.passing.first_fence(standing.token()))
        {
            Some(first) if self.options.mutant == Some(Mutant::PassedSameFence) => first,
            _ => fence,
        }
    }
}
