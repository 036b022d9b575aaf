//! What can go wrong, one enum per operation.
//!
//! *Contended* (others have the lock) and *unavailable* (the nodes cannot be asked) are never
//! confused: the first means wait, the second means look at the nodes. Every message names the
//! lock, and says what each node answered and what to do.

pub(crate) mod votes;

use std::time::Duration;

use tenure_core::{Kind, NameError, OptionError, Place, QuorumError, Rounded};

use crate::circle::Circle;
use crate::error::votes::Votes;

/// A reader cannot become a writer: of two readers that try, each would wait for the other to
/// release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a reader cannot become a writer: two readers that try would wait for each other forever. Release the \
     lock, acquire it with write(), and check again what you have read"
)]
pub struct UpgradeError;

/// Why a lock was not acquired. Nothing is held, and what the attempts left on the nodes is being
/// removed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Another client has it: a majority of nodes answered, and too few of them were free.
    #[error(
        "lock {name:?} is held by {}{}: {} of {} nodes granted it, {} needed{} ({votes}). {}",
        if *held_here { "this process" } else { "another client" },
        who(place), votes.granted(), votes.nodes(), votes.majority(), tries(*attempts, *elapsed), advice(retry_after)
    )]
    #[non_exhaustive]
    Contended {
        /// The lock.
        name: String,
        /// The votes of the last attempt.
        votes: Votes,
        /// When a majority of nodes will be free unless the holder extends.
        retry_after: Option<Duration>,
        /// How many attempts were made.
        attempts: u32,
        /// How long it took.
        elapsed: Duration,
        /// Our place in line and the holder's label, if known.
        place: Option<Box<Place>>,
        /// Whether this process itself holds it, through this [`Locks`](crate::Locks) or another
        /// one. Judged by the owner token, never by the label.
        held_here: bool,
    },
    /// No majority of nodes answered.
    #[error(
        "lock {name:?} is unavailable{}: {}. {}",
        tries(*attempts, *elapsed), votes.outage(), votes.remedy()
    )]
    #[non_exhaustive]
    Unavailable {
        /// The lock.
        name: String,
        /// The votes of the last attempt. [`Votes::is_misconfigured`] says whether retrying is
        /// pointless.
        votes: Votes,
        /// When a majority of nodes votes again, if that is known: nodes that restarted, or whose
        /// clocks jumped, do so after a while.
        retry_after: Option<Duration>,
        /// How many attempts were made.
        attempts: u32,
        /// How long it all took.
        elapsed: Duration,
    },
    /// The clocks of the nodes were ahead and have been set back. Nobody holds the lock and no node
    /// is down, but its last fence is in the future, and no node grants a smaller one.
    #[error(
        "lock {name:?} cannot be acquired with a fence for {}: the clocks of its nodes were set back \
         ({votes}). Nobody else holds it. Wait that long, acquire it without a fence, or reset the fences: \
         docs/how-to/run-nodes.md, Clocks that were set back",
        Rounded(*retry_after)
    )]
    #[non_exhaustive]
    ClocksSetBack {
        /// The lock.
        name: String,
        /// The votes of the last attempt.
        votes: Votes,
        /// When the clocks will have passed the fences.
        retry_after: Duration,
    },
    /// A majority granted it, but the ttl had passed by then, so it does not count.
    #[error(
        "lock {name:?} was granted too late: its ttl of {ttl:?} had run out when a majority had answered \
         ({votes}). Use a longer ttl, or find out what delayed this process or the nodes"
    )]
    #[non_exhaustive]
    TooLate {
        /// The lock.
        name: String,
        /// The votes of the last attempt.
        votes: Votes,
        /// The ttl asked for.
        ttl: Duration,
    },
    /// The name is used for another kind of lock, or for something else. Nothing was changed.
    #[error(
        "lock {name:?} was requested as {asked}, but the nodes have {found} under that name ({votes}). \
         Rename one of them"
    )]
    #[non_exhaustive]
    OtherKind {
        /// The lock.
        name: String,
        /// The votes of the last attempt.
        votes: Votes,
        /// What was asked for.
        asked: Kind,
        /// What is there.
        found: Kind,
    },
    /// Waiting would be a deadlock: the caller holds a lock that another call of this manager waits
    /// for, whose caller holds this one, perhaps through others. Found before any node was asked;
    /// see [`Lock::while_holding`](crate::Lock::while_holding).
    #[error(
        "waiting for lock {name:?} would be a deadlock: {circle}. Acquire the locks together with \
         lock_all, or always in the same order"
    )]
    #[non_exhaustive]
    Circle {
        /// The lock.
        name: String,
        /// Who waits for whom, starting with this call.
        circle: Box<Circle>,
    },
    /// The name is invalid.
    #[error("lock {name:?} cannot be acquired: {error}")]
    #[non_exhaustive]
    InvalidName {
        /// The name.
        name: String,
        /// What is wrong with it.
        #[source]
        error: NameError,
    },
    /// An option is invalid.
    #[error("lock {name:?} cannot be acquired: {error}")]
    #[non_exhaustive]
    InvalidOption {
        /// The lock.
        name: String,
        /// What is wrong with them.
        #[source]
        error: OptionError,
    },
    /// The operating system returned no random numbers, so no owner token could be made.
    #[error("lock {name:?} cannot be acquired: the operating system provides no random numbers ({error})")]
    #[non_exhaustive]
    NoRandomness {
        /// The lock.
        name: String,
        /// What the system said.
        error: String,
    },
    /// The manager was shut down, or its runtime has ended.
    #[error("lock {name:?} was not acquired: its `Locks` was shut down. Create a new one")]
    #[non_exhaustive]
    ShutDown {
        /// The lock.
        name: String,
    },
}

impl AcquireError {
    /// One word for it, as metrics and spans have it.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Contended { .. } => "contended",
            Self::Unavailable { .. } => "unavailable",
            Self::ClocksSetBack { .. } => "clocks_set_back",
            Self::TooLate { .. } => "too_late",
            Self::OtherKind { .. } => "other_kind",
            Self::Circle { .. } => "deadlock",
            Self::InvalidName { .. } | Self::InvalidOption { .. } => "invalid",
            Self::NoRandomness { .. } => "no_randomness",
            Self::ShutDown { .. } => "shut_down",
        }
    }
}

impl ExtendError {
    /// One word for it, for spans.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Lost { .. } => "lost",
            Self::Refused { .. } => "refused",
            Self::Unavailable { .. } => "unavailable",
            Self::Outdated { .. } => "outdated",
            Self::Expired { .. } => "expired",
            Self::MaxHold { .. } => "max_hold",
            Self::RenewalsMax { .. } => "renewals_max",
            Self::InvalidName { .. } | Self::InvalidOption { .. } => "invalid",
            Self::ShutDown { .. } => "shut_down",
        }
    }
}

impl ReleaseError {
    /// One word for it, for spans.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::NotHeld { .. } => "not_held",
            Self::Unavailable { .. } => "unavailable",
            Self::Foreign { .. } => "foreign",
            Self::InvalidName { .. } | Self::InvalidOption { .. } => "invalid",
            Self::ShutDown { .. } => "shut_down",
        }
    }
}

/// Why work under a lock did not finish.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WithError {
    /// The lock was not acquired; the work was not started.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost while the work ran. The work was cancelled before another client could get
    /// the lock.
    #[error(
        "lock {name:?} was lost during the work it protects; the work was cancelled. Find out why it could \
         not be renewed: its nodes may be down, or its max_hold too short"
    )]
    #[non_exhaustive]
    Lost {
        /// The lock.
        name: String,
    },
    /// The lock was lost before the work ended. The work could not be cancelled, so it may have run
    /// while another client had the lock. Only [`blocking::Lock::with`] returns this.
    ///
    /// [`blocking::Lock::with`]: https://docs.rs/tenure/latest/tenure/blocking/struct.Lock.html
    #[error(
        "lock {name:?} was lost before the work it protects ended; another process may have run at the \
         same time. Check is_valid() before each step, and find out why the lock could not be renewed"
    )]
    #[non_exhaustive]
    Outlived {
        /// The lock.
        name: String,
    },
}

/// Why a lock was not extended. The old validity stands; nothing was released or shortened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// A majority of nodes no longer has it for us: the lock is lost. Stop the work it protects.
    #[error(
        "lock {name:?} is lost: {} of {} nodes no longer hold it for us ({votes}). Stop the work it protects",
        votes.refused(), votes.nodes()
    )]
    #[non_exhaustive]
    Lost {
        /// The lock.
        name: String,
        /// The votes.
        votes: Votes,
    },
    /// A majority answered, but too few nodes still have it; the state of the others is unknown.
    #[error(
        "lock {name:?} was not extended: fewer than the {} nodes it needs extended it ({votes}). {}Retry, \
         or acquire it again",
        votes.majority(), still_valid(*valid_for)
    )]
    #[non_exhaustive]
    Refused {
        /// The lock.
        name: String,
        /// The votes.
        votes: Votes,
        /// What is left of the old validity.
        valid_for: Duration,
    },
    /// No majority of nodes answered.
    #[error(
        "lock {name:?} was not extended: {}. {}{}",
        votes.lacking("did not answer", "answers"), still_valid(*valid_for), votes.remedy()
    )]
    #[non_exhaustive]
    Unavailable {
        /// The lock.
        name: String,
        /// The votes.
        votes: Votes,
        /// What is left of the old validity.
        valid_for: Duration,
    },
    /// The handover or lease token is older than a restart or memory loss of a majority of nodes,
    /// or than a change of the node list. It proves nothing any more.
    #[error(
        "lock {name:?} was not extended: its token or handover is out of date. Only {left} of {nodes} \
         nodes still have the memory it refers to, {majority} needed; the others restarted or lost their \
         memory since, or the node list was changed, which ends all locks. Use the one from the last \
         extension, or acquire the lock again"
    )]
    #[non_exhaustive]
    Outdated {
        /// The lock.
        name: String,
        /// How many nodes are, or may be, as they were.
        left: usize,
        /// How many nodes there are.
        nodes: usize,
        /// How many are needed.
        majority: usize,
    },
    /// It expired, or was about to, before the extension was decided.
    #[error(
        "lock {name:?} has expired and cannot be extended. Stop the work it protects, then acquire it again"
    )]
    #[non_exhaustive]
    Expired {
        /// The lock.
        name: String,
    },
    /// It would be held for longer than `max_hold`.
    #[error(
        "lock {name:?} cannot be extended: that would exceed its max_hold. {}Release it and acquire it again, \
         or use a larger max_hold", still_valid(*valid_for)
    )]
    #[non_exhaustive]
    MaxHold {
        /// The lock.
        name: String,
        /// What is left of the old validity.
        valid_for: Duration,
    },
    /// It was renewed as often as `renewals_max` allows.
    #[error(
        "lock {name:?} cannot be extended: it has reached its renewals_max. {}Release it and acquire it \
         again, or use a larger renewals_max", still_valid(*valid_for)
    )]
    #[non_exhaustive]
    RenewalsMax {
        /// The lock.
        name: String,
        /// What is left of the old validity.
        valid_for: Duration,
    },
    /// The name is invalid.
    #[error("lock {name:?} cannot be resumed: {error}")]
    #[non_exhaustive]
    InvalidName {
        /// The name.
        name: String,
        /// What is wrong with it.
        #[source]
        error: NameError,
    },
    /// The new ttl is invalid.
    #[error("lock {name:?} cannot be extended: {error}")]
    #[non_exhaustive]
    InvalidOption {
        /// The lock.
        name: String,
        /// What is wrong with it.
        #[source]
        error: OptionError,
    },
    /// The manager's runtime has ended.
    #[error("lock {name:?} cannot be extended: its `Locks` is gone. {}", still_valid(*valid_for))]
    #[non_exhaustive]
    ShutDown {
        /// The lock.
        name: String,
        /// What is left of the old validity.
        valid_for: Duration,
    },
}

/// Why a release is not known to have freed the lock. It expires at the end of its term in any
/// case.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// A majority of nodes did not have it for us: it had expired or was taken by force.
    #[error(
        "lock {name:?} is not held: it expired, was already released, was ended by a change of the node \
         list, or the token belongs to another lock. Someone else may have held it since; use a longer ttl \
         or extend it in time ({votes})"
    )]
    #[non_exhaustive]
    NotHeld {
        /// The lock.
        name: String,
        /// The votes.
        votes: Votes,
    },
    /// No majority of nodes answered. The release continues in the background.
    #[error(
        "lock {name:?} may still be held: {}. It expires within {}. {}",
        votes.lacking("did not answer", "answers"), Rounded(*frees_within), votes.remedy()
    )]
    #[non_exhaustive]
    Unavailable {
        /// The lock.
        name: String,
        /// The votes.
        votes: Votes,
        /// When the last of the keys expires.
        frees_within: Duration,
    },
    /// A client of another library has it, so there is no owner token to release it with.
    #[error(
        "lock {name:?} is held through another library, which Tenure does not release; delete its key on \
         the nodes by hand"
    )]
    #[non_exhaustive]
    Foreign {
        /// The lock.
        name: String,
    },
    /// The name is invalid.
    #[error("lock {name:?} cannot be released: {error}")]
    #[non_exhaustive]
    InvalidName {
        /// The name.
        name: String,
        /// What is wrong with it.
        #[source]
        error: NameError,
    },
    /// Its ttl is invalid.
    #[error("lock {name:?} cannot be released: {error}")]
    #[non_exhaustive]
    InvalidOption {
        /// The lock.
        name: String,
        /// What is wrong with it.
        #[source]
        error: OptionError,
    },
    /// The manager's runtime has ended.
    #[error("lock {name:?} could not be released: its `Locks` is gone. It expires at the end of its ttl")]
    #[non_exhaustive]
    ShutDown {
        /// The lock.
        name: String,
    },
}

/// Why a [`Locks`](crate::Locks) could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There are no nodes, or too many.
    #[error("cannot manage locks: {0}")]
    Nodes(#[from] QuorumError),
    /// The same node is listed twice, so a majority of the list would not be one of the nodes.
    #[error("cannot manage locks: node {address} is listed twice; every node must be an independent store")]
    #[non_exhaustive]
    DuplicateNode {
        /// The node.
        address: String,
    },
    /// The prefix is invalid.
    #[error("cannot manage locks: {0}")]
    Prefix(#[from] NameError),
    /// `max_ttl` is invalid.
    #[error("cannot manage locks: {0}")]
    MaxTtl(#[from] OptionError),
    /// A node's URL is invalid.
    #[error("cannot manage locks: {0}")]
    Url(#[from] crate::UrlError),
    /// The worker thread could not be started.
    #[error("cannot manage locks: cannot start the worker thread ({0})")]
    Thread(#[from] std::io::Error),
}

/// Clean-up that was unfinished when a shutdown ended.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{} did not answer: {keys} {} may remain there and {} within {}",
    nodes.join(", "),
    if *keys == 1 { "lock" } else { "locks" },
    if *keys == 1 { "expires" } else { "expire" },
    Rounded(*frees_within)
)]
#[non_exhaustive]
pub struct ShutdownError {
    /// How many keys may be left, counted per node.
    pub keys: usize,
    /// The nodes that did not confirm.
    pub nodes: Vec<String>,
    /// When the last of the keys expires.
    pub frees_within: Duration,
}

/// How often it was tried, if that was more than once.
fn tries(attempts: u32, elapsed: Duration) -> String {
    if attempts > 1 { format!(" after {attempts} attempts in {}", Rounded(elapsed)) } else { String::new() }
}

/// What is left of a lock that was not extended, if that is known.
fn still_valid(valid_for: Duration) -> String {
    if valid_for.is_zero() {
        String::new()
    } else {
        format!("It is still valid for {}. ", Rounded(valid_for))
    }
}

/// Who holds the lock and who waits, as far as the nodes said.
fn who(place: &Option<Box<Place>>) -> String {
    let Some(Place { ahead, waiters, holder, .. }) = place.as_deref() else { return String::new() };
    // Written by others, so nothing in it may move the cursor.
    let holder = holder.as_ref().map(|holder| format!("{holder:?}"));
    let line = (*waiters > 0).then(|| match ahead {
        0 => format!("we are first of {waiters} in line"),
        ahead => format!("{ahead} ahead of us, {waiters} in line"),
    });
    let known: Vec<String> = holder.into_iter().chain(line).collect();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
}

fn advice(retry_after: &Option<Duration>) -> String {
    match retry_after {
        Some(left) => {
            format!("Wait longer, or retry in {}, when it is free unless renewed", Rounded(*left))
        }
        None => "Wait longer, or retry".to_owned(),
    }
}
