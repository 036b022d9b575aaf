//! What callers ask of the driver, and what they hear back.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::client::{Found, Id, Resuming, Unfinished};
use tenure_core::{
    Ballot, Entropy, LockKey, NotAcquired, NotExtended, OwnerToken, Query, ReleaseOutcome, Term,
};
use tokio::sync::oneshot;
use tracing::Span;

use super::SharedLease;
use super::survey::Surveyed;
use crate::circle::{Circle, Lookout};
use crate::guard::watch::Watch;

/// What callers ask of the driver.
pub(crate) enum Call {
    Acquire {
        id: Id,
        lease: SharedLease,
        entropy: Entropy,
        reply: oneshot::Sender<AcquireReply>,
    },
    Extend {
        id: Id,
        term: Term,
        reply: oneshot::Sender<Result<(), NotExtended>>,
    },
    /// Shares a lock from now on.
    Share {
        id: Id,
        reply: oneshot::Sender<Result<(), NotExtended>>,
    },
    /// Goes on with a lock that another process held, in the place of a lease that has not begun.
    Resume {
        id: Id,
        lease: SharedLease,
        resuming: Box<Resuming>,
        reply: oneshot::Sender<Result<(), NotExtended>>,
    },
    /// Asks to be told how a held lock stands.
    Watch {
        id: Id,
        watch: Arc<Watch>,
    },
    /// Another process goes on with the lock.
    HandOver {
        id: Id,
    },
    Release {
        id: Id,
        reply: oneshot::Sender<ReleaseReply>,
    },
    /// Releases a lock that another process held.
    ReleaseResumed {
        id: Id,
        lease: SharedLease,
        hears_all: bool,
        reply: oneshot::Sender<ReleaseReply>,
    },
    Abandon {
        id: Id,
    },
    /// What is asked about this lease next belongs to this span.
    Trace {
        id: Id,
        span: Span,
    },
    /// Runs this beside an acquire that is asked for next, once it waits.
    LookOut {
        id: Id,
        lookout: Lookout,
    },
    /// Runs this on the worker's runtime.
    Run(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// A deadlock was found.
    Circle {
        /// The lock that is waited for.
        name: Arc<str>,
        circle: Box<Circle>,
    },
    Query {
        query: Query,
        reply: oneshot::Sender<Found>,
    },
    /// Asks for the owner tokens with which this manager holds a lock, or one of several.
    Tokens {
        key: LockKey,
        reply: oneshot::Sender<Vec<OwnerToken>>,
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
