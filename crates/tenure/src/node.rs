//! A node: one independent store that votes.

#[cfg(all(test, feature = "redis", feature = "embedded"))]
mod conformance;
mod memory;
#[cfg(feature = "redis")]
mod redis;
mod server;
#[cfg(feature = "embedded")]
mod sqlite;
mod url;

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tenure_core::client;
pub(crate) use tenure_core::client::{Addressee, Tag};
use tenure_core::{ClientId, Command, Fault, FenceBounds, NodeTime, Prefix, Reply};

pub use memory::{Faults, MemoryNode};
#[cfg(feature = "redis")]
pub use redis::RedisNode;
#[cfg(all(any(test, fuzzing), feature = "config", feature = "redis"))]
pub(crate) use redis::fuzzing;
pub(crate) use server::Server;
pub use server::{Persistence, Role};
#[cfg(feature = "embedded")]
pub use sqlite::SqliteNode;
pub use url::UrlError;

/// One node of a [`Locks`](crate::Locks), of any kind.
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
    #[cfg(feature = "redis")]
    Redis(RedisNode),
    #[cfg(feature = "embedded")]
    Sqlite(SqliteNode),
}

impl Node {
    /// The node's name in votes, errors and logs. Unique within a list.
    #[must_use]
    pub fn address(&self) -> &str {
        match &self.0 {
            Kind::Memory(node) => node.address(),
            #[cfg(feature = "redis")]
            Kind::Redis(node) => node.address(),
            #[cfg(feature = "embedded")]
            Kind::Sqlite(node) => node.address(),
        }
    }

    /// What must not be listed twice.
    pub(crate) fn identity(&self) -> String {
        match &self.0 {
            Kind::Memory(node) => node.address().to_owned(),
            #[cfg(feature = "redis")]
            Kind::Redis(node) => node.identity(),
            #[cfg(feature = "embedded")]
            Kind::Sqlite(node) => node.address().to_owned(),
        }
    }

    /// What all clients that share the address call it.
    pub(crate) fn place(&self) -> String {
        self.identity() + &self.part()
    }

    /// What clients can say of it under whichever address they reach it: its database.
    pub(crate) fn part(&self) -> String {
        match &self.0 {
            #[cfg(feature = "redis")]
            Kind::Redis(node) => format!("/{}", node.database()),
            Kind::Memory(_) => String::new(),
            #[cfg(feature = "embedded")]
            Kind::Sqlite(_) => String::new(),
        }
    }

    /// Whether it is a file on this machine.
    pub(crate) fn is_on_disk(&self) -> bool {
        match &self.0 {
            #[cfg(feature = "embedded")]
            Kind::Sqlite(_) => true,
            Kind::Memory(_) => false,
            #[cfg(feature = "redis")]
            Kind::Redis(_) => false,
        }
    }

    pub(crate) fn shared_address(&self) -> Arc<str> {
        match &self.0 {
            Kind::Memory(node) => node.shared_address(),
            #[cfg(feature = "redis")]
            Kind::Redis(node) => node.shared_address(),
            #[cfg(feature = "embedded")]
            Kind::Sqlite(node) => node.shared_address(),
        }
    }

    #[cfg_attr(not(feature = "redis"), expect(unused_variables, reason = "other nodes need to know less"))]
    pub(crate) fn connect(
        self,
        prefix: &Prefix,
        bounds: FenceBounds,
        client: ClientId,
    ) -> Box<dyn Connection> {
        match self.0 {
            Kind::Memory(node) => Box::new(node.connect(client)),
            #[cfg(feature = "redis")]
            Kind::Redis(node) => Box::new(node.connect(prefix, bounds, client)),
            #[cfg(feature = "embedded")]
            Kind::Sqlite(node) => Box::new(node.connect(client)),
        }
    }
}

/// The first node that is in a list already. A majority of such a list is none.
pub(crate) fn listed_twice(nodes: &[Node]) -> Option<&Node> {
    let identities: Vec<String> = nodes.iter().map(Node::identity).collect();
    let twice = (1..nodes.len()).find(|index| identities[..*index].contains(&identities[*index]));
    twice.map(|index| &nodes[index])
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

#[cfg(feature = "redis")]
impl From<RedisNode> for Node {
    fn from(node: RedisNode) -> Self {
        Self(Kind::Redis(node))
    }
}

#[cfg(feature = "redis")]
impl From<&RedisNode> for Node {
    fn from(node: &RedisNode) -> Self {
        Self(Kind::Redis(node.clone()))
    }
}

#[cfg(feature = "embedded")]
impl From<SqliteNode> for Node {
    fn from(node: SqliteNode) -> Self {
        Self(Kind::Sqlite(node))
    }
}

#[cfg(feature = "embedded")]
impl From<&SqliteNode> for Node {
    fn from(node: &SqliteNode) -> Self {
        Self(Kind::Sqlite(node.clone()))
    }
}

/// A manager's connection to one node.
///
/// It keeps the order of commands, executes each at most once, and never blocks: a command that
/// cannot be sent is answered with a fault.
pub(crate) trait Connection: Send {
    /// Takes a command; its answer comes from [`Connection::poll_event`] with the same tag, or
    /// never.
    fn send(&mut self, tag: Tag, command: Command);

    /// The next thing that happened.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<NodeEvent>;

    /// Whether the first try to connect has come to an end, good or bad.
    fn is_settled(&self) -> bool;

    /// Takes a batch of renewals: [`NodeEvent::Renewed`] tells that all were granted; otherwise
    /// [`NodeEvent::Split`], and then the answers one by one. `false` if they have to be sent one
    /// by one.
    fn renew(&mut self, renewals: &Arc<EncodedRenewals>) -> bool {
        let _ = renewals;
        false
    }

    /// Asks the server about itself again; [`NodeEvent::Surveyed`] brings the answer. `false` if
    /// there is nobody to ask.
    fn survey(&mut self) -> bool;
}

/// What happens on a connection.
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "memory nodes are always there"))]
pub(crate) enum NodeEvent {
    /// A command was answered, or cannot be any more.
    Answer(Tag, Result<Reply, Fault>),
    /// The node can be reached, and its server said this about itself.
    Connected(Box<Server>),
    /// The server said this about itself when it was asked again.
    Surveyed(Box<Server>),
    /// The connection broke, for this reason. The answers to what was under way come as faults.
    Disconnected(Fault),
    /// A try to connect failed.
    Unreachable(Fault),
    /// All renewals of a batch were granted.
    Renewed(Arc<EncodedRenewals>, Option<NodeTime>),
    /// The renewals of this batch are answered one by one.
    Split(u64),
    /// The node's record was changed by another, or is gone.
    Changed,
    /// The node has set a lock aside for a waiter of ours.
    Woken {
        /// The number of its ticket.
        number: u64,
        /// The whole key of the lock.
        key: String,
    },
}

/// Renewals that are sent together, encoded once for all nodes that are to be sent the very same.
#[derive(Debug)]
pub(crate) struct EncodedRenewals {
    pub(crate) shared: Arc<client::Renewals>,
    /// What was sent to the first node, for others that are to be sent the very same.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "memory nodes are asked one by one"))]
    pub(crate) encoded: OnceLock<Vec<u8>>,
}

impl Deref for EncodedRenewals {
    type Target = client::Renewals;

    fn deref(&self) -> &client::Renewals {
        &self.shared
    }
}
