//! Removing the locks of a node that is closed, page by page, until a walk finds none.

use super::{FleetChange, Output};
use crate::command::{Command, Holding};
use crate::names::LockKey;
use crate::time::Time;
use crate::token::OwnerToken;

/// What is being removed from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Clearing {
    /// Something was found on this walk: another one follows.
    pub(super) again: bool,
    pub(super) releasing: usize,
    pub(super) next: Option<u64>,
    pub(super) done: bool,
}

impl FleetChange {
    /// Takes a page of a node's locks and removes what is on it.
    pub(super) fn clear(&mut self, now: Time, index: usize, holdings: &[Holding], next: u64) {
        let Some(clearing) = &mut self.nodes[index].clearing else { return };
        clearing.next = (next != 0).then_some(next);
        let mut releases = vec![];
        for holding in holdings {
            let owner = holding.owner.split('~').next().unwrap_or_default();
            let name = holding.key.strip_prefix(self.prefix.as_str()).unwrap_or_default();
            // What other libraries hold is theirs, and what is only set aside is nobody's.
            if let (Ok(token), Ok(key)) = (OwnerToken::parse(owner), LockKey::new(&self.prefix, name)) {
                releases.push(Command::Release { key, token });
            }
        }
        clearing.releasing = releases.len();
        clearing.again |= !releases.is_empty();
        for command in releases {
            self.outputs.push_back(Output::Send { node: index, command });
        }
        self.go_on_clearing(now, index);
    }

    pub(super) fn go_on_clearing(&mut self, now: Time, index: usize) {
        let Some(clearing) = &mut self.nodes[index].clearing else { return };
        if clearing.releasing > 0 {
            return;
        }
        let cursor = match clearing.next.take() {
            Some(cursor) => cursor,
            // Once more, until nothing is found.
            None if std::mem::take(&mut clearing.again) => 0,
            None => {
                clearing.done = true;
                return self.ask(now, index, None);
            }
        };
        let (prefix, node) = (self.prefix.clone(), index);
        self.outputs.push_back(Output::Send { node, command: Command::List { prefix, cursor } });
    }
}
