//! What goes wrong with nodes.

use tenure_core::{Command, Owner};

use super::Step;
use crate::model::action::Memory;
use crate::model::world::LOCK;

impl Step<'_> {
    pub(super) fn restart(&mut self, node: usize, memory: Memory) {
        self.note(|| format!("node {node} is restarted, its memory is {memory:?}"));
        let (jump_us, with_loss) = (self.config.jump_ms * 1_000, self.config.faults.jump_with_loss);
        let state = self.node(node);
        state.process += 1;
        state.strays.clear();
        match memory {
            Memory::Kept => {}
            Memory::Lost => state.table.forget(),
            Memory::Old => state.table = state.snapshot.as_deref().cloned().unwrap_or_default(),
        }
        state.table.hang_up();
        if with_loss {
            state.ahead_us += jump_us;
        }
        for client in 0..self.world.clients.len() {
            for index in self.config.quorum().indexes() {
                if self.config.server(client, index.get()) == node {
                    self.break_link(client, index);
                }
            }
        }
        self.node(node).strays.clear();
    }

    /// The lock is deleted; the record is not.
    pub(super) fn evict(&mut self, node: usize) {
        let now = self.world.node_time(self.config, node);
        if let Some((Owner::Token(token), _)) = self.world.nodes[node].owner(now) {
            self.note(|| format!("node {node} loses the lock, and nobody can see it"));
            self.node(node).table.execute(now, &Command::Undo { key: LOCK.clone(), token, requeue: None });
        }
    }

    pub(super) fn jump(&mut self, node: usize) {
        let by_ms = self.config.jump_ms;
        self.note(|| format!("node {node}: the clock jumps by {by_ms} ms"));
        self.node(node).ahead_us += by_ms * 1_000;
    }
}
