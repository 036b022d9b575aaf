//! Everything that can happen in the world.

use std::cmp::Ordering;
use std::sync::Arc;

use tenure_core::client::{Renewals, Tag};
use tenure_core::{
    ClientId, Command, Facts, Fault, HandedOver, LockKey, NodeIndex, NodeTime, Nonce, Reply, Terms,
};

use super::client::Act;
use super::epoch::Plan;
use super::links::Message;
use super::node::NodeFault;
use super::stage::StageEvent;
use crate::mutant::Effect;

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A message reaches a node.
    Request {
        link: usize,
        message: Message,
        late: bool,
    },
    /// A message reaches a node once more.
    Duplicate {
        link: usize,
        message: Message,
    },
    /// A part of a command that a known-bad variant does not execute at once.
    Effect {
        link: usize,
        tag: Tag,
        effect: Effect,
    },
    /// A new connection reaches a node.
    Hello {
        link: usize,
    },
    /// A question about the server reaches a node.
    Survey {
        link: usize,
    },
    /// A server sees that a connection is gone.
    HangUp {
        link: usize,
        listener: ClientId,
    },
    CutLink {
        link: usize,
    },
    Fault(NodeFault),
    /// The history comes to its next stage.
    Stage(StageEvent),
    Planned {
        epoch: u32,
        plan: Plan,
    },
    Start {
        client: usize,
    },
    Resume {
        client: usize,
        generation: u32,
    },
    /// A client's timer rings, unless it was set anew.
    Timer {
        client: usize,
        generation: u32,
        at_ns: u64,
    },
    /// Something reaches a client.
    Client {
        client: usize,
        generation: u32,
        event: ClientEvent,
    },
}

/// What reaches a client. While it is paused, it waits.
#[derive(Clone, Debug)]
pub(crate) enum ClientEvent {
    Reply {
        link: usize,
        tag: Tag,
        reply: Reply,
        asked: Option<Box<Command>>,
    },
    /// The answers to commands that were sent together.
    Replies {
        link: usize,
        answers: Vec<(Tag, Reply, Option<Box<Command>>)>,
    },
    /// A node has granted all renewals of a batch.
    Renewed {
        link: usize,
        renewals: Arc<Renewals>,
        time: Option<NodeTime>,
    },
    /// A node has not granted all renewals of a batch.
    Split {
        link: usize,
        renewals: Arc<Renewals>,
        replies: Vec<Reply>,
    },
    /// It writes to a connection what waits for that.
    Write {
        link: usize,
    },
    /// The command was not sent.
    Unsent {
        node: NodeIndex,
        tag: Tag,
        fault: Fault,
    },
    /// A known-bad variant makes the answer up.
    Pretended {
        node: NodeIndex,
        tag: Tag,
        reply: Reply,
    },
    /// A try to connect has failed.
    Unreachable {
        node: NodeIndex,
    },
    Welcome {
        link: usize,
        facts: Facts,
    },
    Surveyed {
        link: usize,
        facts: Facts,
    },
    Broken {
        link: usize,
    },
    /// A lock was set aside for a waiter.
    Woken {
        link: usize,
        number: u64,
        key: LockKey,
    },
    /// The server says that its data was replaced.
    Changed {
        link: usize,
    },
    Reconnect {
        node: NodeIndex,
        dial: u32,
    },
    /// Another client leaves a lock to this one.
    TakeOver {
        name: usize,
        terms: Box<Terms>,
        handover: HandedOver,
        /// The lives of the nodes that count for it.
        lives: Vec<Nonce>,
    },
    /// Something may be due.
    Wake,
    Act(Act),
}

/// An event and its moment. Of two at one moment the one that was planned first comes first.
pub(crate) struct Scheduled {
    pub(crate) time_ns: u64,
    pub(crate) sequence: u64,
    pub(crate) event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time_ns, self.sequence).cmp(&(other.time_ns, other.sequence))
    }
}
