//! Removing the locks of a node that is closed, page by page, until a walk finds none.
//!
//! Whoever does so may have stood still, and the node may serve the new list by then. So the node
//! removes nothing unless it still has the nonce under which it was closing.

use super::{NodeListChange, Output};
use crate::command::Command;
use crate::time::Time;
use crate::trust::Nonce;

/// What is being removed from a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Clearing {
    /// The life of its memory in which that is right.
    pub(super) nonce: Nonce,
    /// Something was found on this walk: another one follows.
    pub(super) found: bool,
    pub(super) done: bool,
}

impl NodeListChange {
    /// Asks a node to remove its locks, from `cursor` on.
    pub(super) fn clear(&mut self, now: Time, index: usize, cursor: u64) {
        let node = &mut self.nodes[index];
        let Some(Clearing { nonce, .. }) = node.clearing else { return };
        node.asked = Some(now);
        let command = Command::Clear { prefix: self.prefix.clone(), cursor, nonce };
        self.outputs.push_back(Output::Send { node: index, command });
    }

    /// A page of locks is gone, and the next one begins there.
    pub(super) fn handle_cleared(&mut self, now: Time, index: usize, found: bool, next: u64) {
        let Some(clearing) = &mut self.nodes[index].clearing else { return };
        clearing.found |= found;
        if next == 0 && !std::mem::take(&mut clearing.found) {
            clearing.done = true;
            return self.ask(now, index, None);
        }
        self.clear(now, index, next);
    }
}
