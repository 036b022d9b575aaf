//! What is to be done and told, in order.

use std::collections::VecDeque;

use super::output::Output;
use super::tag::{Addressee, Tag};
use crate::command::Command;
use crate::round::NodeIndex;
use crate::time::Time;

/// What is to be done and told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Outbox<L>(pub(super) VecDeque<Output<L>>);

impl<L> Outbox<L> {
    #[inline]
    pub(super) fn say(&mut self, output: Output<L>) {
        self.0.push_back(output);
    }

    #[inline]
    pub(super) fn send(&mut self, now: Time, to: Addressee, node: NodeIndex, command: Command) {
        self.0.push_back(Output::Send { node, tag: Tag { to, sent: now }, command });
    }
}
