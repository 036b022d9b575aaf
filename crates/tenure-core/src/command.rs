//! What a client asks of a node, and what comes back.

use std::sync::Arc;
use std::time::Duration;

use crate::names::{LockKey, Prefix};
use crate::time::NodeTime;
use crate::token::OwnerToken;

/// A command to one node. Each is atomic there, and idempotent for the same owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Command {
    /// Set the key to the owner if it is free: `SET key token NX PX node_ttl_ms`.
    Acquire {
        /// The lock.
        key: LockKey,
        /// The owner.
        token: OwnerToken,
        /// How long the node keeps the key.
        node_ttl_ms: u64,
    },
    /// Lengthen the key's life if it is ours; never shorten it.
    Extend {
        /// The lock.
        key: LockKey,
        /// The owner.
        token: OwnerToken,
        /// How long the node keeps the key from now on, unless it already lives longer.
        node_ttl_ms: u64,
    },
    /// Delete the key if it is ours.
    Release {
        /// The lock.
        key: LockKey,
        /// The owner.
        token: OwnerToken,
    },
    /// Tell who has the key.
    Inspect {
        /// The lock.
        key: LockKey,
    },
    /// Tell who has which keys under a prefix, a page at a time.
    List {
        /// The prefix.
        prefix: Prefix,
        /// Where to go on: 0 at first, then what the last page said.
        cursor: u64,
    },
}

/// A node's reply: its answer, and its clock when it gave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// The node's clock, where the command that was used can tell it.
    pub time: Option<NodeTime>,
    /// What the node did.
    pub answer: Answer,
}

/// What a node did with a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It did what was asked.
    Granted,
    /// It changed nothing.
    Refused(Refusal),
    /// It told what it has (inspect and list).
    Told {
        /// The keys it was asked about that it has.
        holdings: Vec<Holding>,
        /// Where the next page begins; 0 if this is the last.
        next: u64,
    },
}

/// A key on a node and who has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holding {
    /// The whole key, prefix and name.
    pub key: Arc<str>,
    /// The owner: the token of one of our attempts, or whatever another client wrote.
    pub owner: Arc<str>,
    /// The time until it frees itself, if nobody extends it; `None` if it never does.
    pub left: Option<Duration>,
}

/// Why a node changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Another owner has the key.
    Held {
        /// The time until the key frees itself, if nobody extends it; [`Duration::MAX`] if it never does.
        left: Duration,
    },
    /// This owner does not have the key (extend and release).
    NotHeld,
}

/// Why a node gave no answer that counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// It did not answer within the node timeout.
    Timeout,
    /// The connection broke after the command was sent.
    Disconnected,
    /// There was no connection, for this reason; the command was not sent.
    Unreachable(Arc<str>),
    /// Too many commands were in flight; the command was not sent.
    Busy,
    /// It answered with an error.
    Error(Arc<str>),
}

/// One node's say in a round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The node did what was asked.
    Granted,
    /// The node said no.
    Refused(Refusal),
    /// Nobody knows, or the node could not say.
    Unknown(Fault),
}

impl Fault {
    /// Whether the node may have executed the command all the same.
    #[must_use]
    pub const fn may_have_run(&self) -> bool {
        match self {
            Self::Timeout | Self::Disconnected | Self::Error(_) => true,
            Self::Unreachable(_) | Self::Busy => false,
        }
    }
}

impl Vote {
    /// Whether the node may have executed the command: no, if it refused or never got it.
    #[must_use]
    pub const fn may_have_run(&self) -> bool {
        match self {
            Self::Granted => true,
            Self::Refused(_) => false,
            Self::Unknown(fault) => fault.may_have_run(),
        }
    }
}

impl From<Result<Reply, Fault>> for Vote {
    fn from(answer: Result<Reply, Fault>) -> Self {
        match answer {
            Ok(Reply { answer: Answer::Granted, .. }) => Self::Granted,
            Ok(Reply { answer: Answer::Refused(refusal), .. }) => Self::Refused(refusal),
            Ok(Reply { answer: Answer::Told { .. }, .. }) => Self::Unknown(Fault::Error("not a vote".into())),
            Err(fault) => Self::Unknown(fault),
        }
    }
}
