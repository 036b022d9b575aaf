//! What happens to a client.

use std::sync::Arc;

use super::renewals::Renewals;
use super::tag::{Id, Tag};
use crate::command::{Fault, Reply};
use crate::round::{NodeIndex, NodeSet};
use crate::time::{NodeTime, Time};
use crate::token::Entropy;
use crate::trust::{Facts, NodeMemory, Proposal};

/// What happens to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Randomness was drawn for an attempt: the answer to [`Output::Draw`](super::Output::Draw).
    Attempt {
        /// The lease.
        lease: Id,
        /// Fresh randomness.
        entropy: Entropy,
        /// What was to be proposed.
        proposal: Proposal,
    },
    /// A command was answered, or cannot be any more: [`Client::observe`](super::Client::observe)
    /// and [`Client::deliver`](super::Client::deliver).
    Answer {
        /// Which node.
        node: NodeIndex,
        /// What the command was sent with.
        tag: Tag,
        /// What the node said, or why it did not.
        answer: Result<Reply, Fault>,
    },
    /// A node granted all renewals of a batch.
    Renewed {
        /// Which node.
        node: NodeIndex,
        /// The batch.
        renewals: Arc<Renewals>,
        /// The node's clock, if it told.
        time: Option<NodeTime>,
    },
    /// A node answers the renewals of this batch one by one.
    Split {
        /// [`Renewals::batch`].
        batch: u64,
    },
    /// A connection is up, and the server said this about itself.
    Connected {
        /// Which node.
        node: NodeIndex,
        /// What it said.
        facts: Facts,
    },
    /// The server said this about itself when it was asked again.
    Surveyed {
        /// Which node.
        node: NodeIndex,
        /// What it said.
        facts: Facts,
    },
    /// A connection broke.
    Disconnected {
        /// Which node.
        node: NodeIndex,
        /// Why.
        fault: Fault,
    },
    /// A try to connect failed.
    Unreachable {
        /// Which node.
        node: NodeIndex,
        /// Why.
        fault: Fault,
    },
    /// A node's record was changed by another, or is gone.
    Changed {
        /// Which node.
        node: NodeIndex,
    },
    /// A node has set a lock aside for a waiter of ours.
    Woken {
        /// Which node.
        node: NodeIndex,
        /// The number of its ticket.
        number: u64,
        /// The whole key of the lock.
        key: String,
    },
    /// The first try to connect to these nodes has ended, well or not, and its outcome was told.
    /// Asked for while [`Client::awaits_nodes`](super::Client::awaits_nodes).
    Tried {
        /// All such nodes.
        nodes: NodeSet,
    },
    /// What was known of the nodes before has been read, if there was anything: before anything
    /// else comes from the nodes.
    Recalled {
        /// One entry a node; `None` if nothing is written down.
        memory: Option<Vec<NodeMemory>>,
    },
    /// What [`Output::Remember`](super::Output::Remember) told is written down, and this is all
    /// that is known of our nodes now.
    Remembered {
        /// One entry a node.
        memory: Vec<NodeMemory>,
    },
    /// Nothing can be written down: the client goes on without a memory that outlives it.
    Forgetful,
    /// The client was not called when it should have been: what has come meanwhile says little
    /// about the nodes.
    Paused {
        /// When it should have been.
        meant: Time,
    },
    /// The time of [`Client::poll_timeout`](super::Client::poll_timeout) has come, or other inputs
    /// were taken: what they make possible is begun.
    Wake,
}
