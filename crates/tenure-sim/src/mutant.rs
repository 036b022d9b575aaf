//! Known-bad variants of the algorithm. Each must be caught, or the checkers see too little.
//!
//! They bend what nodes do and what clients make of answers, around the production structs; none is in the core.

use tenure_core::{
    Answer, Command, Fence, FenceBounds, FenceClaim, LockKey, NodeIndex, Owner, Prefix, Refusal, Reply, Time,
};

use crate::links::To;
use crate::options::Options;
use crate::trace::Mark;
use crate::world::{Event, World};

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutant {
    /// Each node counts for itself, and the client takes the largest number.
    MaxOfCounters,
    /// A larger fence is proposed only where the first was too small, and the old grants count all the same.
    MixedFences,
    /// Separate commands in place of one script: look at the record, set the key, raise the fence. A key stays where
    /// the fence is refused.
    NativePipeline,
    /// A retry has the same owner, and a node grants to whoever has the key, whatever the fence.
    SameOwner,
    /// Fences are forgotten by the clock of a client.
    TrimByClient,
    /// A majority of new nodes is taken for the first start of a fleet.
    FreshByMajority,
}

/// A part of a command that is executed later than the part before.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    SetKey { command: Command },
    RaiseFence { key: LockKey, claim: Option<FenceClaim>, granted: Reply },
}

impl Mutant {
    /// All of them, each with the checker that catches it.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::MaxOfCounters, "fencing"),
        (Self::MixedFences, "fencing"),
        (Self::NativePipeline, "exclusion"),
        (Self::SameOwner, "fencing"),
        (Self::TrimByClient, "fencing"),
        (Self::FreshByMajority, "exclusion"),
    ];
}

impl Options {
    /// Whether the client takes the largest number that it was shown for its fence.
    pub(crate) const fn counts_shown_fences(&self) -> bool {
        matches!(self.mutant, Some(Mutant::MaxOfCounters | Mutant::MixedFences))
    }
}

impl World {
    /// Executes a command, and notes if the node forgot fences on the way.
    pub(crate) fn execute(&mut self, link: usize, command: &Command) -> Reply {
        let node = self.links[link].node.get();
        let fences = self.nodes[node].table.fences(&Prefix::default());
        let reply = self.execute_bent(link, command);
        if self.nodes[node].table.fences(&Prefix::default()) < fences {
            self.marks.see(Mark::Trimmed);
        }
        reply
    }

    /// What a node does with a command: what the production struct does, bent by the mutant.
    fn execute_bent(&mut self, link: usize, command: &Command) -> Reply {
        let node = self.links[link].node.get();
        let client = self.links[link].client;
        let client_us = self.time(client).as_nanos() / 1_000;
        let now_ns = self.now_ns;
        let state = &mut self.nodes[node];
        let now = state.clock.read(now_ns);
        match (self.options.mutant, command) {
            (Some(Mutant::MaxOfCounters), Command::Acquire { key, token, node_ttl_ms, nonce, .. }) => {
                let plain = Command::Acquire {
                    key: key.clone(),
                    token: *token,
                    node_ttl_ms: *node_ttl_ms,
                    nonce: *nonce,
                    fence: None,
                    beside: None,
                };
                let mut reply = state.table.execute(now, &plain);
                if reply.answer == Answer::Granted {
                    let counter = state.beside.entry(key.clone()).or_default();
                    *counter += 1;
                    reply.fence = Some(Fence::new(*counter));
                }
                reply
            }
            (Some(Mutant::SameOwner), Command::Acquire { key, token, .. }) => {
                let theirs = state
                    .table
                    .keys(now)
                    .any(|(held, entry)| held == key && entry.owner == Owner::Token(*token));
                if theirs {
                    Reply::new(Some(now), Answer::Granted)
                } else {
                    state.table.execute(now, command)
                }
            }
            (
                Some(Mutant::TrimByClient),
                Command::Acquire { key, token, node_ttl_ms, nonce, fence: Some(claim), beside },
            ) => {
                // What a client takes for the present, hours away from what the node does.
                let present_us = client_us.saturating_add(1_700_000_000_000_000 - 18_000_000_000);
                let ends_ms = present_us.saturating_add(claim.bounds.retention_us) / 1_000;
                let bent = Command::Acquire {
                    key: key.clone(),
                    token: *token,
                    node_ttl_ms: *node_ttl_ms,
                    nonce: *nonce,
                    fence: Some(FenceClaim { ends_ms, ..*claim }),
                    beside: beside.clone(),
                };
                state.table.execute(now, &bent)
            }
            _ => state.table.execute(now, command),
        }
    }

    /// Begins a command that is not executed as a whole. `false` if it is.
    pub(crate) fn begin_effects(&mut self, link: usize, to: To, sent: Time, command: &Command) -> bool {
        let (Some(Mutant::NativePipeline), Command::Acquire { key, token, node_ttl_ms, nonce, fence, .. }) =
            (self.options.mutant, command)
        else {
            return false;
        };
        // The record is looked at by an acquire that sets nothing: one that is too far ahead of every clock.
        let bounds = FenceBounds { slack_us: 0, retention_us: 1 };
        let probe = Command::Acquire {
            key: key.clone(),
            token: *token,
            node_ttl_ms: 0,
            nonce: *nonce,
            fence: Some(FenceClaim::new(Fence::new(u64::MAX), bounds)),
            beside: None,
        };
        let reply = self.execute(link, &probe);
        if reply.answer == Answer::Refused(Refusal::Stranger) {
            self.reply(link, to, sent, reply, None);
        } else {
            let command = Command::Acquire {
                key: key.clone(),
                token: *token,
                node_ttl_ms: *node_ttl_ms,
                nonce: None,
                fence: *fence,
                beside: None,
            };
            self.effect_later(link, to, sent, Effect::SetKey { command });
        }
        true
    }

    pub(crate) fn handle_effect(&mut self, link: usize, to: To, sent: Time, effect: Effect) {
        let node = self.links[link].node.get();
        match effect {
            Effect::SetKey { command: Command::Acquire { key, token, node_ttl_ms, fence, .. } } => {
                let reply = self.execute(link, &Command::plain_acquire(key.clone(), token, node_ttl_ms));
                if reply.answer == Answer::Granted {
                    self.effect_later(
                        link,
                        to,
                        sent,
                        Effect::RaiseFence { key, claim: fence, granted: reply },
                    );
                } else {
                    self.reply(link, to, sent, reply, None);
                }
            }
            Effect::SetKey { .. } => {}
            Effect::RaiseFence { key, claim, mut granted } => {
                let stored = self.nodes[node].beside.entry(key).or_default();
                if let Some(FenceClaim { fence, .. }) = claim {
                    if fence.get() > *stored {
                        *stored = fence.get();
                    } else {
                        granted.fence = Some(Fence::new(*stored));
                        granted.answer = Answer::Refused(Refusal::Behind);
                    }
                }
                granted.time = Some(self.nodes[node].clock.read(self.now_ns));
                self.reply(link, to, sent, granted, None);
            }
        }
    }

    fn effect_later(&mut self, link: usize, to: To, sent: Time, effect: Effect) {
        let delay_ns = self.dice.between(1_000, self.options.delay_us * 5_000);
        self.at(self.now_ns + delay_ns, Event::Effect { link, to, sent, effect });
    }

    /// What a client makes of a reply. `None` if it keeps it to itself.
    pub(crate) fn bend_reply(
        &mut self,
        client: usize,
        node: NodeIndex,
        to: To,
        reply: Reply,
        asked: Option<Box<Command>>,
    ) -> Option<Reply> {
        let To::Lease { lease, .. } = to else { return Some(reply) };
        let Some(Command::Acquire { key, token, node_ttl_ms, nonce, fence: Some(claim), beside }) =
            asked.map(|asked| *asked)
        else {
            return Some(reply);
        };
        let granted = reply.answer == Answer::Granted;
        let number = match self.options.mutant {
            Some(Mutant::MaxOfCounters) => reply.fence.map_or(0, Fence::get),
            _ => claim.fence.get(),
        };
        if granted && let Some(slot) = self.clients[client].slot(lease) {
            slot.shown = slot.shown.max(number);
        }
        if let (Some(Mutant::MixedFences), Answer::Refused(Refusal::Behind), Some(stored)) =
            (self.options.mutant, &reply.answer, reply.fence)
            && self.clients[client].slot(lease).is_some()
        {
            let fence = Some(FenceClaim::new(Fence::new(stored.get() + 1), claim.bounds));
            self.send(client, to, node, Command::Acquire { key, token, node_ttl_ms, nonce, fence, beside });
            return None;
        }
        Some(reply)
    }

    pub(crate) fn mark_reply(&mut self, reply: &Reply, asked: Option<&Command>) {
        match (&reply.answer, asked) {
            (Answer::Granted, Some(Command::Heal { .. })) => self.marks.see(Mark::Healed),
            (Answer::Refused(Refusal::Behind), Some(Command::Heal { .. })) => {
                self.marks.see(Mark::HealRefused);
            }
            (Answer::Refused(Refusal::Stranger), _) => self.marks.see(Mark::Stranger),
            (Answer::Refused(Refusal::Ahead), _) => self.marks.see(Mark::Ahead),
            (Answer::Record(Some(text)), Some(Command::Record { swap: Some(swap), .. })) => {
                if !text.starts_with(&*swap.text) {
                    return;
                }
                if text.contains(" fresh=") {
                    self.marks.see(Mark::FreshStart);
                } else if text.contains(" waited ") {
                    self.marks.see(Mark::Waited);
                } else if text.contains(" returned=1 ") {
                    self.marks.see(Mark::Returned);
                }
            }
            _ => {}
        }
    }
}
