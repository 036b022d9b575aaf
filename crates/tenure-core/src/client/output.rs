//! What a client asks for and tells.

use std::sync::Arc;
use std::time::Duration;

use super::renewals::Renewals;
use super::tag::{Id, Tag};
use crate::command::Command;
use crate::fence::Fence;
use crate::inspect::query::NodeAnswer;
use crate::lease::release::ReleaseOutcome;
use crate::lease::{Cause, HoldState, NotAcquired, NotExtended};
use crate::names::LockKey;
use crate::round::{Ballot, NodeIndex, NodeSet};
use crate::time::Time;
use crate::trust::{Distrust, NodeMemory, Nonce, Proposal};

/// What a client asks for and tells, in the order in which it has to happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output<L> {
    /// Send this command to this node, and bring the answer back with the same tag.
    Send {
        /// Which node.
        node: NodeIndex,
        /// What the answer is known by.
        tag: Tag,
        /// What to send.
        command: Command,
    },
    /// Send these renewals to every node: together where the connection can do that, else one by
    /// one ([`Renewals::commands`]), which is told by [`Input::Split`](super::Input::Split).
    Renew(Arc<Renewals>),
    /// Ask this node's server about itself again: [`Input::Surveyed`](super::Input::Surveyed).
    Survey {
        /// Which node.
        node: NodeIndex,
    },
    /// Draw randomness for an attempt, and hand it in with this proposal at once:
    /// [`Input::Attempt`](super::Input::Attempt). If there is none, the lease is abandoned.
    Draw {
        /// The lease.
        lease: Id,
        /// What it will propose.
        proposal: Proposal,
    },
    /// Tell whoever wants to know about this lease.
    Tell {
        /// The lease.
        lease: Id,
        /// What happened.
        news: News,
    },
    /// A lease was not begun.
    Refused {
        /// The lease.
        id: Id,
        /// As it was handed in.
        lease: L,
        /// Why not.
        reason: NotBegun,
    },
    /// Nothing more will come of this lease. It can be looked at until the next output is taken.
    Ended {
        /// The lease.
        id: Id,
    },
    /// What the nodes said to a release that was asked for. Comes once.
    Released {
        /// The lease.
        lease: Id,
        /// What became of the lock.
        outcome: ReleaseOutcome,
        /// The votes, in the order of the node list.
        ballots: Vec<Option<Ballot>>,
        /// The time until the key has freed itself on every node, whatever happens.
        frees_within: Duration,
    },
    /// There was nothing to release.
    NotReleased {
        /// The lease.
        lease: Id,
    },
    /// A clean-up is done.
    CleanedUp {
        /// The lock.
        key: LockKey,
        /// Nodes that may have had it and never confirmed; it has freed itself there by now.
        unconfirmed: NodeSet,
    },
    /// The answer to a question.
    Found {
        /// Which question.
        id: Id,
        /// What was found.
        found: Found,
    },
    /// Enough nodes are known to begin with.
    Started {
        /// Who asked.
        id: Id,
    },
    /// Every node has been tried.
    Settled {
        /// Who asked.
        id: Id,
    },
    /// A shutdown is over.
    ShutDown {
        /// Who asked.
        id: Id,
        /// The clean-up that it did not wait for.
        unfinished: Option<Unfinished>,
    },
    /// This is the life of the node's memory from now on.
    Life {
        /// Which node.
        node: NodeIndex,
        /// Its nonce.
        nonce: Nonce,
    },
    /// Write this down, beside what is known already; the answer is
    /// [`Input::Remembered`](super::Input::Remembered).
    Remember {
        /// One entry a node.
        memory: Vec<NodeMemory>,
    },
    /// Something that people will want to know. `None`: the node may vote from now on.
    Notice {
        /// Which node.
        node: NodeIndex,
        /// Why it may not vote.
        distrust: Option<Distrust>,
    },
    /// A node showed a fence that it cannot have granted.
    Poisoned {
        /// Which node.
        node: NodeIndex,
        /// The fence.
        fence: Fence,
    },
}

/// What becomes of a lease. What else there is to say about it can be read from
/// [`Client::lease`](super::Client::lease).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// The lock is held.
    Acquired,
    /// The lock is held: another caller of this client has passed it on to us.
    PassedOn,
    /// The lock could not be had.
    NotAcquired(NotAcquired),
    /// The lock is held by another, and we wait in line.
    Waiting {
        /// When the next attempt begins at the latest.
        at: Time,
        /// When a majority of nodes would be free if no holder extends.
        free_after: Option<Duration>,
    },
    /// An attempt failed; the next begins after a pause.
    Retrying {
        /// Why it failed.
        cause: Cause,
        /// When the next one begins.
        at: Time,
        /// The votes, in the order of the node list.
        ballots: Vec<Option<Ballot>>,
    },
    /// Every node has answered the last round that won. Comes if
    /// [`Lease::await_votes`](crate::Lease::await_votes) asked for it.
    AllVoted,
    /// The lock is held for longer.
    Extended,
    /// The extension failed; the old validity stands.
    NotExtended(NotExtended),
    /// The lock stands otherwise than was told before.
    State(HoldState),
    /// The lock, or the wish for it, was given up.
    GivenUp {
        /// The fence, if the lock was held with one.
        fence: Option<Fence>,
    },
    /// The lock will not be had, because the client is shut down.
    ShutDown,
}

/// Why a lease was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotBegun {
    /// The client is being shut down.
    ShutDown,
    /// Too few of the nodes that counted for the lock are still in the life of their memory in
    /// which they did.
    Outdated {
        /// How many still are, or may be.
        left: usize,
    },
}

/// What every node answered, which of them may vote, and why the others may not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// What the nodes answered, in the order of the node list.
    pub answers: Vec<NodeAnswer>,
    /// Those that may vote.
    pub voters: NodeSet,
    /// Why the others may not, in the order of the node list.
    pub distrust: Vec<Option<Distrust>>,
}

/// Clean-up that a shutdown did not wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Unfinished {
    /// How many keys.
    pub keys: usize,
    /// On which nodes.
    pub nodes: NodeSet,
    /// When all of them have freed themselves.
    pub frees_within: Duration,
}
