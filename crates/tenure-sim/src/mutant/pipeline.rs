//! Commands that are not executed as a whole, and several that are not each executed by itself.

use tenure_core::client::Tag;
use tenure_core::{Answer, Command, Fence, FenceBounds, LockKey, ProposedFence, Refusal, Reply};

use super::Mutant;
use super::fences::with_fence;
use crate::world::{Event, World};

/// How often the second of two writes of a script fails, of a thousand times.
const ERRORS_PER_MILLE: u64 = 200;

/// A part of a command that is executed later than the part before.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    SetKey { command: Command },
    RaiseFence { key: LockKey, proposed: Option<ProposedFence>, granted: Reply },
    AskAgain { command: Command },
}

impl World {
    /// Whether acquires are not executed as a whole: such ones are not sent together.
    pub(crate) const fn in_parts(&self) -> bool {
        matches!(self.options.mutant, Some(Mutant::NativePipeline | Mutant::KeyBeforeFence))
    }

    /// The answer to the first of several commands is taken for all of them.
    pub(crate) fn bend_batch(&self, answers: &mut [(Tag, Reply, Option<Box<Command>>)]) {
        if let Some(Mutant::BatchAsOne) = self.options.mutant
            && let Some((_, first, _)) = answers.first()
        {
            let first = first.answer.clone();
            answers.iter_mut().for_each(|(_, reply, _)| reply.answer = first.clone());
        }
    }

    /// Begins a command that is not executed as a whole. `false` if it is.
    pub(crate) fn begin_effects(&mut self, link: usize, tag: Tag, command: &Command) -> bool {
        if !matches!(command, Command::Acquire { .. }) {
            return false;
        }
        match self.options.mutant {
            Some(Mutant::NativePipeline) => self.begin_pipeline(link, tag, command),
            Some(Mutant::KeyBeforeFence) => return self.fail_before_fence(link, tag, command),
            _ => return false,
        }
        true
    }

    fn begin_pipeline(&mut self, link: usize, tag: Tag, command: &Command) {
        // The record is looked at by an acquire that sets nothing: one that is too far ahead of
        // every clock.
        let bounds = FenceBounds { slack_us: 0, retention_us: 1 };
        let probe = with_fence(command, Some(ProposedFence::new(Fence::new(u64::MAX), bounds)));
        let reply = self.execute(link, &probe);
        if reply.answer == Answer::Refused(Refusal::Stranger) {
            self.reply(link, tag, reply, None);
        } else {
            self.effect_later(link, tag, Effect::SetKey { command: command.clone() });
        }
    }

    /// The script sets the key, and then cannot write the fence; nothing is rolled back. Its client
    /// asks again, as libraries do after an error, and the node finds the key of this owner.
    fn fail_before_fence(&mut self, link: usize, tag: Tag, command: &Command) -> bool {
        let (node, now) = (self.links[link].node.get(), self.now_ns);
        let state = &self.nodes[node];
        let allowed = state.table.clone().execute(state.clock.read(now), command).answer == Answer::Granted;
        if !allowed || !self.dice.chance(ERRORS_PER_MILLE) {
            return false;
        }
        self.execute(link, &with_fence(command, None));
        self.note(|| format!("node {node}: the key is set, the fence is not; the client asks again"));
        self.effect_later(link, tag, Effect::AskAgain { command: command.clone() });
        true
    }

    pub(crate) fn handle_effect(&mut self, link: usize, tag: Tag, effect: Effect) {
        let node = self.links[link].node.get();
        match effect {
            Effect::SetKey { command: Command::Acquire { key, token, node_ttl_ms, fence, .. } } => {
                let reply = self.execute(link, &Command::plain_acquire(key.clone(), token, node_ttl_ms));
                if reply.answer == Answer::Granted {
                    let raise = Effect::RaiseFence { key, proposed: fence, granted: reply };
                    self.effect_later(link, tag, raise);
                } else {
                    self.reply(link, tag, reply, None);
                }
            }
            Effect::SetKey { .. } => {}
            Effect::RaiseFence { key, proposed, mut granted } => {
                let stored = self.nodes[node].bent.numbers.entry(key).or_default();
                if let Some(ProposedFence { fence, .. }) = proposed {
                    if fence.get() > *stored {
                        *stored = fence.get();
                    } else {
                        granted.fence = Some(Fence::new(*stored));
                        granted.answer = Answer::Refused(Refusal::Behind);
                    }
                }
                granted.time = Some(self.nodes[node].clock.read(self.now_ns));
                self.reply(link, tag, granted, None);
            }
            Effect::AskAgain { command } => {
                let reply = match self.is_ours(node, &command) {
                    true => Reply::new(Some(self.nodes[node].clock.read(self.now_ns)), Answer::Granted),
                    false => self.execute(link, &command),
                };
                self.reply(link, tag, reply, Some(command));
            }
        }
    }

    fn effect_later(&mut self, link: usize, tag: Tag, effect: Effect) {
        let delay_ns = self.dice.between(1_000, self.options.delay_us * 5_000);
        self.at(self.now_ns + delay_ns, Event::Effect { link, tag, effect });
    }
}
