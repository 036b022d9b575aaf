//! What a client knows of its nodes from before: a memory that outlives it, so that programs that
//! start, lock and end are witnesses, too.
//!
//! The client is given what is on disk when it begins, and has every life that it meets written
//! down before a grant in that life counts. What it finds there besides its own is what others on
//! the same machine have seen. It is read again between the two readings of a first start: somebody
//! may have seen the nodes in use meanwhile.
//!
//! A memory that is old, or was copied from another machine, costs at most a quarantine.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::record::Nonce;
use super::{Fleet, Output};
use crate::round::NodeIndex;
use crate::time::{NodeTime, Time};

/// The most lives of one node that are kept: more restarts than anybody has within one quarantine.
pub const LIVES_MAX: usize = 32;

/// A life of a node's memory that was seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KnownLife {
    /// When it began, by the node's clock.
    pub created: NodeTime,
    /// Its nonce.
    pub nonce: Nonce,
    /// The server process, if it was seen.
    pub process: Option<Arc<str>>,
}

/// What is known of one node from before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeMemory {
    /// The lives of its memory in which it was ours.
    pub lives: BTreeSet<KnownLife>,
    /// The record of another fleet that refused us there, if the last one did.
    pub foreign: Option<Arc<str>>,
    /// It is seen to be ours at this moment: a foreign record that is written down is over.
    pub ours: bool,
}

/// Where the lives that a client meets are written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum DiaryState {
    /// Nowhere: they are forgotten with the client.
    #[default]
    None,
    /// All that is to be written has been.
    Idle,
    /// Something is being written.
    Writing,
}

impl Fleet {
    /// With what is known of the nodes from before, one entry a node. From now on
    /// [`Output::Remember`] asks for what is new to be kept, and no life counts that is not.
    #[must_use]
    pub fn remembering(mut self, memory: Vec<NodeMemory>) -> Self {
        self.begin_with(memory);
        self
    }

    /// The same, for a fleet that has just been made.
    pub(crate) fn begin_with(&mut self, memory: Vec<NodeMemory>) {
        self.diary = DiaryState::Idle;
        self.recall(memory);
    }

    /// Takes what the memory says, and tells which nodes there is news of.
    fn recall(&mut self, memory: Vec<NodeMemory>) -> Vec<NodeIndex> {
        let mut news = vec![];
        for (node, NodeMemory { lives, foreign, .. }) in self.quorum.indexes().zip(memory) {
            let member = &mut self.members[node.get()];
            let is_news = lives.iter().any(|life| !member.lives.contains(life));
            member.kept = lives.iter().map(|life| life.nonce).collect();
            member.lives.extend(lives);
            member.forget_lives(member.record.as_ref().map(|known| known.record.nonce));
            if is_news {
                news.push(node);
            }
            if member.foreign.is_none() && member.record.is_none() {
                member.foreign = foreign;
            }
        }
        news
    }

    pub(super) fn handle_remembered(&mut self, now: Time, memory: Vec<NodeMemory>) {
        if self.diary != DiaryState::Writing {
            return;
        }
        self.diary = DiaryState::Idle;
        if let Some(check) = &mut self.fresh_check {
            check.recalled |= check.recalling;
        }
        for node in self.recall(memory) {
            // Somebody has seen it in another life: the record is judged once more.
            if self.members[node.get()].record.is_some() {
                self.ask(now, node, None);
            }
        }
    }

    pub(super) fn handle_forgetful(&mut self) {
        self.diary = DiaryState::None;
    }

    /// Whether this life of the node's memory is written down, where lives are.
    pub(super) fn is_kept(&self, node: NodeIndex, nonce: Nonce) -> bool {
        self.diary == DiaryState::None || self.members[node.get()].kept.contains(&nonce)
    }

    /// Has written down what is not yet, and has the memory read again for a first start.
    pub(super) fn remember(&mut self) {
        if self.diary != DiaryState::Idle {
            return;
        }
        let recalls = self.fresh_check.as_ref().is_some_and(|check| !check.recalled);
        let unkept = self.members.iter().any(|member| {
            let nonce = member.record.as_ref().map(|known| known.record.nonce);
            nonce.is_some_and(|nonce| !member.kept.contains(&nonce)) || member.foreign_unkept
        });
        if !recalls && !unkept {
            return;
        }
        if let Some(check) = &mut self.fresh_check {
            check.recalling = true;
        }
        self.diary = DiaryState::Writing;
        let memory = self.members.iter_mut().map(|member| {
            member.foreign_unkept = false;
            let lives = member.lives.clone();
            NodeMemory { lives, foreign: member.foreign.clone(), ours: member.record.is_some() }
        });
        let memory = memory.collect();
        self.outputs.push_back(Output::Remember { memory });
    }

    /// Whether the first start that is being made sure of has looked into the memory again.
    pub(super) fn is_recalled(&self) -> bool {
        self.diary == DiaryState::None || self.fresh_check.as_ref().is_some_and(|check| check.recalled)
    }
}
