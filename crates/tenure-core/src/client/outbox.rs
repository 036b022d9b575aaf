//! What is to be done and told, in order.

use std::collections::VecDeque;

use super::output::Output;
use super::tag::{Addressee, Id, Tag};
use crate::command::Command;
use crate::quorum::NodeIndex;
use crate::time::Time;

/// What is to be done and told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Outbox<L>(pub(super) VecDeque<Queued<L>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Queued<L> {
    Output(Output<L>),
    /// A lease has ended. It stays where it is until this is told.
    Ended(Id),
}

impl<L> Outbox<L> {
    pub(super) fn say(&mut self, output: Output<L>) {
        self.0.push_back(Queued::Output(output));
    }

    pub(super) fn send(&mut self, now: Time, to: Addressee, node: NodeIndex, command: Command) {
        self.say(Output::Send { node, tag: Tag { to, sent: now }, command });
    }

    pub(super) fn end(&mut self, lease: Id) {
        self.0.push_back(Queued::Ended(lease));
    }
}
