//! Fences that are given, kept or counted wrongly.

use tenure_core::client::{Addressee, Tag};
use tenure_core::{Answer, Command, Fence, FenceBounds, NodeIndex, Proposal, ProposedFence, Refusal, Reply};

use super::{Asked, Mutant};
use crate::options::Options;
use crate::world::World;
use crate::world::client::number;

/// How far ahead of the nodes a client is that takes its own clock for theirs: an hour.
const AHEAD_US: u64 = 3_600_000_000;

/// For how long it is.
const WRONG_NS: u64 = 2_000_000_000;

/// What a client takes for the present whose clock is five hours behind, less what its clock shows.
const BEHIND_US: u64 = 1_700_000_000_000_000 - 18_000_000_000;

impl Options {
    /// Whether the client takes the largest number that it was shown for its fence.
    pub(crate) const fn counts_shown_fences(&self) -> bool {
        matches!(self.mutant, Some(Mutant::MaxOfCounters | Mutant::MixedFences))
    }
}

impl World {
    pub(super) fn bend_fence(&mut self, mutant: Mutant, asked: &Asked<'_>) -> Option<Reply> {
        let &Asked { client, server, now, command } = asked;
        let client_us = self.time(client).as_nanos() / 1_000;
        let ours = self.is_ours(server, command);
        let state = &mut self.nodes[server];
        let Command::Acquire { key, token, fence: Some(proposed), .. } = command else { return None };
        let with = |proposed| with_fence(command, proposed);
        Some(match mutant {
            Mutant::MaxOfCounters => {
                let mut reply = state.table.execute(now, &with(None));
                if reply.answer == Answer::Granted {
                    let counter = state.bent.numbers.entry(key.clone()).or_default();
                    *counter += 1;
                    reply.fence = Some(Fence::new(*counter));
                }
                reply
            }
            Mutant::SameOwnerAnyFence if ours => Reply::new(Some(now), Answer::Granted),
            Mutant::TrimByClient => {
                // What the client takes for the present, hours away from what the node does.
                let ends_us = client_us + BEHIND_US + proposed.bounds.retention_us;
                state.table.execute(now, &with(Some(ProposedFence { ends_ms: ends_us / 1_000, ..*proposed })))
            }
            Mutant::TrimUnchecked => {
                // It is forgotten when it should be; but nothing is too old.
                let bounds = FenceBounds { retention_us: u64::MAX, ..proposed.bounds };
                state.table.execute(now, &with(Some(ProposedFence { bounds, ..*proposed })))
            }
            Mutant::FollowsAhead => {
                // Nothing is too far ahead; doubles still hold it exactly.
                let bounds = FenceBounds { slack_us: u64::MAX, ..proposed.bounds };
                state.table.execute(now, &with(Some(ProposedFence { bounds, ..*proposed })))
            }
            Mutant::RefusedRaise => {
                let stored = state.bent.numbers.get(key).copied().unwrap_or(0);
                let mut reply = state.table.execute(now, command);
                if reply.answer == Answer::Granted && proposed.fence.get() <= stored {
                    state
                        .table
                        .execute(now, &Command::Undo { key: key.clone(), token: *token, requeue: None });
                    reply.answer = Answer::Refused(Refusal::Behind);
                    reply.fence = Some(Fence::new(stored));
                }
                state.bent.numbers.insert(key.clone(), stored.max(proposed.fence.get()));
                reply
            }
            _ => return None,
        })
    }

    /// A client that takes its own clock, far ahead, for that of the nodes, until it is put right;
    /// or one that was there while the clocks of the nodes were ahead, and those who follow its
    /// fences.
    pub(super) fn bend_proposed_fence(&self, client: usize, proposal: &mut Proposal) {
        if let (Some(Mutant::RefusedRaise | Mutant::FollowsAhead), 0, Some(proposed)) =
            (self.options.mutant, client, &mut proposal.fence)
            && self.now_ns < WRONG_NS
        {
            *proposed = ProposedFence::new(Fence::new(proposed.fence.get() + AHEAD_US), proposed.bounds);
        }
        if let (Some(Mutant::FollowsAhead), Some(proposed)) = (self.options.mutant, &mut proposal.fence) {
            let fence = proposed.fence.max(Fence::new(self.clients[client].bent.followed + 1));
            *proposed = ProposedFence::new(fence, proposed.bounds);
        }
    }

    /// Takes in the number of a grant; or asks again with a larger one only where the first was too
    /// small, and keeps the answer to itself: `false`.
    pub(super) fn counts_fence(
        &mut self,
        client: usize,
        node: NodeIndex,
        tag: Tag,
        reply: &Reply,
        asked: &Command,
    ) -> bool {
        let (Addressee::Lease { lease, .. }, Command::Acquire { fence: Some(proposed), .. }) =
            (tag.to, asked)
        else {
            return true;
        };
        let (now, lease) = (self.time(client), number(lease));
        if let (Some(Mutant::FollowsAhead), Some(fence)) = (self.options.mutant, reply.fence) {
            let followed = &mut self.clients[client].bent.followed;
            *followed = (*followed).max(fence.get());
        }
        let Some(slot) = self.clients[client].slot(lease) else { return true };
        match (self.options.mutant, &reply.answer) {
            (Some(Mutant::MaxOfCounters), Answer::Granted) => {
                slot.bent.shown = slot.bent.shown.max(reply.fence.map_or(0, Fence::get));
            }
            (Some(Mutant::MixedFences), Answer::Granted) => {
                slot.bent.shown = slot.bent.shown.max(proposed.fence.get());
            }
            (Some(Mutant::MixedFences), Answer::Refused(Refusal::Behind)) => {
                let Some(stored) = reply.fence else { return true };
                let larger = ProposedFence::new(Fence::new(stored.get() + 1), proposed.bounds);
                self.note(|| {
                    let (node, larger) = (node.get(), larger.fence);
                    format!("client {client} lease {lease}: asks node {node} alone with fence {larger}")
                });
                self.send(client, Tag { sent: now, ..tag }, node, with_fence(asked, Some(larger)));
                return false;
            }
            _ => {}
        }
        true
    }

    /// The fence that the client hands to its resource.
    pub(crate) fn shown_fence(&mut self, client: usize, lease: u32, fence: Option<Fence>) -> Option<u64> {
        let counted = self.options.counts_shown_fences();
        let shown = self.clients[client].slot(lease).map_or(0, |slot| slot.bent.shown);
        fence.map(|fence| if counted { shown } else { self.acquired_fence(fence.get(), client, lease) })
    }
}

/// The same acquire with another fence.
pub(super) fn with_fence(acquire: &Command, proposed: Option<ProposedFence>) -> Command {
    let mut bent = acquire.clone();
    if let Command::Acquire { fence, .. } = &mut bent {
        *fence = proposed;
    }
    bent
}
