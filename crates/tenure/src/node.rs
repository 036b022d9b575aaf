//! A node: one independent store that votes.

mod memory;

use std::sync::Arc;
use std::task::{Context, Poll};

use tenure_core::{Command, Fault, Reply, RoundNumber};

pub use memory::{Faults, MemoryNode};

/// One store in the node list of a [`Locks`](crate::Locks), of whichever kind.
///
/// ```
/// use tenure::{Locks, MemoryNode, Node};
///
/// let nodes = ["a", "b", "c"].map(|label| Node::from(MemoryNode::new(label)));
/// assert_eq!(nodes[0].address(), "memory:a");
/// let locks = Locks::builder().nodes(nodes).build()?;
/// # Ok::<(), tenure::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Node(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Memory(MemoryNode),
}

impl Node {
    /// How the node is called in votes, errors and logs. No two nodes of a list may share it.
    #[must_use]
    pub fn address(&self) -> &str {
        match &self.0 {
            Kind::Memory(node) => node.address(),
        }
    }

    pub(crate) fn shared_address(&self) -> Arc<str> {
        match &self.0 {
            Kind::Memory(node) => node.shared_address(),
        }
    }

    pub(crate) fn connect(self) -> Box<dyn Connection> {
        match self.0 {
            Kind::Memory(node) => Box::new(node.connect()),
        }
    }
}

impl From<MemoryNode> for Node {
    fn from(node: MemoryNode) -> Self {
        Self(Kind::Memory(node))
    }
}

impl From<&MemoryNode> for Node {
    fn from(node: &MemoryNode) -> Self {
        Self(Kind::Memory(node.clone()))
    }
}

/// A manager's line to one node.
///
/// It keeps the order of commands, executes each at most once, and never blocks: a command that cannot be
/// sent is answered with a fault.
pub(crate) trait Connection: Send {
    /// Takes a command; its answer comes from [`Connection::poll_event`] with the same tag, or never.
    fn send(&mut self, tag: Tag, command: Command);

    /// The next thing that happened.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<NodeEvent>;

    /// Whether the first try to connect has come to an end, good or bad.
    fn is_settled(&self) -> bool;
}

/// What happens on a connection.
pub(crate) enum NodeEvent {
    /// A command was answered, or cannot be any more.
    Answer(Tag, Result<Reply, Fault>),
    /// The node can be reached again after it could not.
    Connected,
    /// The connection broke. The answers to what was under way come as faults.
    Disconnected,
}

/// Where an answer belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    pub(crate) machine: u64,
    pub(crate) round: RoundNumber,
}
