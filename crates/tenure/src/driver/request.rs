//! What callers ask of the driver, and what they hear back.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    Ballot, Entropy, Handover, Lease, LockKey, NodeSet, Nonce, NotAcquired, NotExtended, OwnerToken, Query,
    Quorum, ReleaseOutcome, Term, Terms, Time,
};
use tokio::sync::oneshot;

use super::queries::Found;
use super::survey::Surveyed;
use super::{MachineId, SharedLease};
use crate::watch::Watch;

/// What callers ask of the driver.
pub(crate) enum Request {
    Acquire {
        id: MachineId,
        lease: SharedLease,
        fenced: bool,
        entropy: Entropy,
        reply: oneshot::Sender<AcquireReply>,
    },
    Extend {
        id: MachineId,
        term: Term,
        reply: oneshot::Sender<Result<(), NotExtended>>,
    },
    /// Goes on with a lock that another process held, in the place of a lease that has not begun.
    Resume {
        id: MachineId,
        lease: SharedLease,
        resuming: Box<Resuming>,
        reply: oneshot::Sender<Result<(), NotExtended>>,
    },
    /// Asks to be told how a held lock stands.
    Watch {
        id: MachineId,
        watch: Arc<Watch>,
    },
    /// Another process goes on with the lock.
    HandOver {
        id: MachineId,
    },
    Release {
        id: MachineId,
        reply: oneshot::Sender<ReleaseReply>,
    },
    /// Releases a lock that another process held.
    ReleaseResumed {
        id: MachineId,
        lease: SharedLease,
        reply: oneshot::Sender<ReleaseReply>,
    },
    Abandon {
        id: MachineId,
    },
    Query {
        query: Query,
        reply: oneshot::Sender<Found>,
    },
    /// Asks how the nodes stand.
    Nodes {
        reply: oneshot::Sender<Vec<Surveyed>>,
    },
    /// Asks to be told when enough nodes are known to begin with.
    Start {
        reply: oneshot::Sender<()>,
    },
    /// Asks to be told when every node has been tried.
    Settle {
        reply: oneshot::Sender<()>,
    },
    Shutdown {
        limit: Duration,
        /// Whether nodes that do not answer are waited for until then, too.
        silent_too: bool,
        reply: oneshot::Sender<Option<Unfinished>>,
    },
}

impl Request {
    /// Whether this asks for the lock of that lease.
    pub(super) fn begins(&self, lease: MachineId) -> bool {
        matches!(self, Self::Acquire { id, .. } | Self::Resume { id, .. } if *id == lease)
    }
}

/// A lock to go on with.
pub(crate) struct Resuming {
    pub(crate) key: LockKey,
    pub(crate) terms: Terms,
    /// Its members are the nodes that are in these lives when it begins.
    pub(crate) handover: Handover,
    pub(crate) lives: Vec<Nonce>,
}

impl Resuming {
    /// The lease that counts these nodes.
    pub(crate) fn begin(&self, quorum: Quorum, members: NodeSet, now: Time) -> Lease {
        let handover = Handover { members, ..self.handover };
        Lease::resume(self.key.clone(), self.terms, quorum, &handover, now)
    }
}

pub(crate) type AcquireReply = Result<(), AcquireFailure>;

/// Why an acquire ended without the lock.
pub(crate) enum AcquireFailure {
    NotAcquired(NotAcquired),
    NoRandomness(getrandom::Error),
    ShutDown,
}

/// The outcome of a release, with its votes and the time until the keys have freed themselves.
pub(crate) struct ReleaseReply {
    pub(crate) outcome: ReleaseOutcome,
    pub(crate) ballots: Vec<Option<Ballot>>,
    pub(crate) frees_within: Duration,
}

/// Clean-up that a shutdown did not wait for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Unfinished {
    pub(crate) keys: usize,
    pub(crate) nodes: NodeSet,
    pub(crate) frees_within: Duration,
}

/// Draws the randomness of one attempt from the operating system.
pub(crate) fn draw_entropy() -> Result<Entropy, getrandom::Error> {
    let mut bytes = [0; 28];
    getrandom::fill(&mut bytes)?;
    let (token, dice) = bytes.split_at(20);
    Ok(Entropy {
        token: OwnerToken::from_bytes(token.try_into().expect("20 of 28 bytes")),
        dice: u64::from_ne_bytes(dice.try_into().expect("8 of 28 bytes")),
    })
}
