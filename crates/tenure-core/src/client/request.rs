//! What callers ask of a client.

use std::time::Duration;

use super::tag::Id;
use crate::config::{Term, Terms};
use crate::inspect::query::Query;
use crate::lease::{HandedOver, Lease};
use crate::names::LockKey;
use crate::round::{NodeSet, Quorum};
use crate::time::Time;
use crate::trust::Nonce;

/// What callers ask of a client. Each is known by an id that the caller gives, and that is never
/// used twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request<L> {
    /// Get this lock. Told by [`News::Acquired`](super::News::Acquired) and
    /// [`News::NotAcquired`](super::News::NotAcquired).
    Acquire {
        /// How the lease is called from now on.
        id: Id,
        /// A lease that has not begun.
        lease: L,
    },
    /// Extend a lock that is held. Told by [`News::Extended`](super::News::Extended) and
    /// [`News::NotExtended`](super::News::NotExtended).
    Extend {
        /// The lease.
        id: Id,
        /// For how long.
        term: Term,
    },
    /// Share a lock from now on that is held alone. Told as an extension is.
    Share {
        /// The lease.
        id: Id,
    },
    /// Go on with a lock that another process held. Told as an extension is.
    Resume {
        /// How the lease is called from now on.
        id: Id,
        /// A lease that has not begun; the one that goes on takes its place.
        lease: L,
        /// The lock.
        resuming: Box<Resuming>,
    },
    /// Another process goes on with the lock: leave everything as it is.
    HandOver {
        /// The lease.
        id: Id,
    },
    /// Give the lock up, and tell what the nodes say
    /// ([`Output::Released`](super::Output::Released)).
    Release {
        /// The lease.
        id: Id,
    },
    /// Release a lock that another process held.
    ReleaseResumed {
        /// How the lease is called from now on.
        id: Id,
        /// A lease that goes on with the lock ([`Resuming::begin`]).
        lease: L,
        /// Told when all nodes had a moment to answer.
        hears_all: bool,
    },
    /// The caller is gone: give up whatever there is.
    Abandon {
        /// The lease.
        id: Id,
    },
    /// Ask all nodes something. Told by [`Output::Found`](super::Output::Found).
    Query {
        /// How the question is called.
        id: Id,
        /// The question.
        query: Box<Query>,
    },
    /// Tell when enough nodes are known to begin with
    /// ([`Output::Started`](super::Output::Started)).
    Start {
        /// Who asks.
        id: Id,
    },
    /// Tell when every node has been tried ([`Output::Settled`](super::Output::Settled)).
    Settle {
        /// Who asks.
        id: Id,
    },
    /// Give no more locks, and tell when the clean-up is done
    /// ([`Output::ShutDown`](super::Output::ShutDown)).
    Shutdown {
        /// Who asks.
        id: Id,
        /// How long that may take.
        limit: Duration,
        /// Whether nodes that do not answer are waited for until then, too.
        silent_too: bool,
    },
}

impl<L> Request<L> {
    /// Whether this asks for the lock of that lease.
    pub(super) fn begins(&self, lease: Id) -> bool {
        matches!(self, Self::Acquire { id, .. } | Self::Resume { id, .. } if *id == lease)
    }
}

/// A lock to go on with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resuming {
    /// The lock.
    pub key: LockKey,
    /// How it is held from now on.
    pub terms: Terms,
    /// What the other process said. Its members are the nodes that are in these lives when it
    /// begins.
    pub handover: HandedOver,
    /// The lives of the nodes that counted there.
    pub lives: Vec<Nonce>,
}

impl Resuming {
    /// The lease that counts these nodes, and was held for so long.
    #[must_use]
    pub fn begin(&self, quorum: Quorum, members: NodeSet, held: Duration, now: Time) -> Lease {
        let handover = HandedOver { members, held, ..self.handover.clone() };
        Lease::resume(self.key.clone(), self.terms.clone(), quorum, &handover, now)
    }
}
