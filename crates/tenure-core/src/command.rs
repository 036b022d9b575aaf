//! What a client asks of a node, and what comes back.

mod gathered;
mod listing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::gathered::{Batch, Gathered};
pub use self::listing::{Listed, Listing, Part, Sighting};
use crate::fence::{Fence, ProposedFence};
use crate::line::{Beside, LineReport, Ticket};
use crate::mode::{Kind, Mode};
use crate::names::{LockKey, Prefix};
use crate::node::{KEPT_LEAD, RESERVED_LEAD, SHARED};
use crate::note::Waiter;
use crate::time::NodeTime;
use crate::token::OwnerToken;
use crate::trust::{Distrust, Nonce};

/// A command to one node. Each is atomic there, and idempotent for the same owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Set the key to the owner if it is free: `SET key token NX PX node_ttl_ms`, after these
    /// checks.
    Acquire {
        /// The lock.
        key: LockKey,
        /// The owner.
        token: OwnerToken,
        /// How long the node keeps the key.
        node_ttl_ms: u64,
        /// The life of the node's memory that the client knows; in another one nothing is granted.
        /// `None` asks as any other Redlock client does.
        nonce: Option<Nonce>,
        /// The fence to promise, if the lock has one.
        fence: Option<ProposedFence>,
        /// What is asked for besides, if anything: to wait in line, to keep a label.
        beside: Option<Arc<Beside>>,
    },
    /// Set the key to the owner again, if it is free and nobody with a larger fence was granted it
    /// since. No vote: it only keeps others out. From when on it counts is kept with the key, so
    /// that everybody who has the token is told the same.
    Heal {
        /// The lock.
        key: LockKey,
        /// The owner.
        token: OwnerToken,
        /// How long the node keeps the key.
        node_ttl_ms: u64,
        /// The fence that the owner holds, if the lock has one: the largest of a range.
        fence: Option<Fence>,
        /// For how long, by its clock, the node answers extensions with [`Answer::PutBack`].
        quarantine_ms: u64,
        /// Whom the hold keeps out.
        mode: Mode,
    },
    /// Lengthen the key's life if it is ours; never shorten it.
    Extend {
        /// The lock.
        key: LockKey,
        /// The owner.
        token: OwnerToken,
        /// How long the node keeps the key from now on, unless it already lives longer.
        node_ttl_ms: u64,
        /// Whom the hold keeps out from now on. One that kept everybody out becomes one of several.
        mode: Mode,
    },
    /// Give back what a lost attempt may have set: delete the key if it is ours, as the acquire set
    /// it. Nobody is woken. A key that was put back is not touched: it belongs to a lock that was
    /// held, which is released.
    Undo {
        /// The lock.
        key: LockKey,
        /// The owner.
        token: OwnerToken,
        /// Get in line again with this ticket, if the key was ours.
        requeue: Option<Ticket>,
    },
    /// End a held lock: delete the key if it is ours, and give the lock to whoever is next.
    Release {
        /// The lock.
        key: LockKey,
        /// The owner.
        token: OwnerToken,
        /// Whether the owner's label is to be removed, too.
        labelled: bool,
        /// Who is next.
        next: Next,
    },
    /// Get in line, if not there already: after the connection was lost, and with it perhaps the
    /// place.
    Enqueue {
        /// The lock.
        key: LockKey,
        /// The place in line.
        ticket: Ticket,
    },
    /// Get out of the line; and if the key was set aside for this waiter, pass it on.
    Leave {
        /// The lock.
        key: LockKey,
        /// The place in line.
        ticket: Ticket,
    },
    /// If the key is free and somebody is in line, set it aside for the first waiter that listens,
    /// and wake that one.
    Nudge {
        /// The lock.
        key: LockKey,
    },
    /// Tell the node's record, and change it if it is what the client thinks.
    Record {
        /// The prefix that the record is kept for.
        prefix: Prefix,
        /// The change.
        swap: Option<Swap>,
    },
    /// Free the memory of fences that are forgotten, as far as the node has not done so by itself.
    Trim {
        /// The prefix whose fences they are.
        prefix: Prefix,
    },
    /// Delete the locks under a prefix, a page at a time, also those that were put back; but only
    /// in the life of the node's memory that the client knows. What other libraries hold is theirs,
    /// and what is only set aside is nobody's. The answer is [`Answer::Holdings`] with what was
    /// deleted.
    Clear {
        /// The prefix.
        prefix: Prefix,
        /// Where to go on: 0 at first, then what the last page said.
        cursor: u64,
        /// The life.
        nonce: Nonce,
    },
    /// Tell who has the key, and how many wait for it.
    Inspect {
        /// The lock.
        key: LockKey,
    },
    /// Tell who has which keys. The answer is [`Answer::Listed`].
    List(Arc<Listing>),
}

impl Command {
    /// The lock that it is about, if it is about one.
    #[must_use]
    pub const fn key(&self) -> Option<&LockKey> {
        match self {
            Self::Acquire { key, .. }
            | Self::Heal { key, .. }
            | Self::Extend { key, .. }
            | Self::Undo { key, .. }
            | Self::Release { key, .. }
            | Self::Enqueue { key, .. }
            | Self::Leave { key, .. }
            | Self::Nudge { key }
            | Self::Inspect { key } => Some(key),
            Self::Record { .. } | Self::Trim { .. } | Self::Clear { .. } | Self::List(_) => None,
        }
    }

    /// The same about another lock; about none, if it is not about one.
    #[must_use]
    pub fn about(&self, lock: &LockKey) -> Self {
        let mut command = self.clone();
        match &mut command {
            Self::Acquire { key, .. }
            | Self::Heal { key, .. }
            | Self::Extend { key, .. }
            | Self::Undo { key, .. }
            | Self::Release { key, .. }
            | Self::Enqueue { key, .. }
            | Self::Leave { key, .. }
            | Self::Nudge { key }
            | Self::Inspect { key } => *key = lock.clone(),
            Self::Record { .. } | Self::Trim { .. } | Self::Clear { .. } | Self::List(_) => {}
        }
        command
    }

    /// The owner that it names, if it names one.
    #[must_use]
    pub const fn owner(&self) -> Option<OwnerToken> {
        match self {
            Self::Acquire { token, .. }
            | Self::Heal { token, .. }
            | Self::Extend { token, .. }
            | Self::Undo { token, .. }
            | Self::Release { token, .. } => Some(*token),
            Self::Enqueue { .. }
            | Self::Leave { .. }
            | Self::Nudge { .. }
            | Self::Record { .. }
            | Self::Trim { .. }
            | Self::Clear { .. }
            | Self::Inspect { .. }
            | Self::List(_) => None,
        }
    }

    /// Whether it leaves the node as it is.
    #[must_use]
    pub const fn only_reads(&self) -> bool {
        matches!(self, Self::Inspect { .. } | Self::List(_) | Self::Record { swap: None, .. })
    }

    /// An acquire without fence or record: what any other Redlock client does.
    #[must_use]
    pub const fn plain_acquire(key: LockKey, token: OwnerToken, node_ttl_ms: u64) -> Self {
        Self::Acquire { key, token, node_ttl_ms, nonce: None, fence: None, beside: None }
    }
}

/// Who is next when a lock is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// The first waiter that listens: the key is set aside for that one, which is woken. If there
    /// is none, the lock is free.
    InLine,
    /// The same, but we get in line first: the lock comes back to us where nobody is ahead.
    InLineWith(Ticket),
    /// Anybody who is not in line: if somebody waits, the key is set aside for nobody, and no
    /// waiter gets it for a moment ([`OPENING`](crate::OPENING)).
    OutsideLine,
    /// Nobody for so long: the key stays, for no longer than it would have lived, and nobody's
    /// token extends it.
    Nobody {
        /// For how long at most.
        for_ms: u64,
    },
}

/// A change of a node's record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Swap {
    /// The record as it must be now; `None` if there must be none.
    pub expected: Option<Arc<str>>,
    /// The record as it shall be. An empty one gives the prefix up: the node has none then, and
    /// forgets the prefix's fences with it.
    pub text: Arc<str>,
    /// Whether the node adds its time to the text: when this life of its memory began.
    pub stamp: bool,
}

/// A node's reply: its answer, and its clock when it gave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// The node's clock, where the command that was used can tell it.
    pub time: Option<NodeTime>,
    /// The highest fence that the node knows for the lock, when that is why it refused.
    pub fence: Option<Fence>,
    /// What the node says about those who wait, where that matters.
    pub line: Option<Box<LineReport>>,
    /// What the node did.
    pub answer: Answer,
}

impl Reply {
    /// A reply that tells nothing but its answer and the node's time.
    #[must_use]
    pub const fn new(time: Option<NodeTime>, answer: Answer) -> Self {
        Self { time, fence: None, line: None, answer }
    }
}

/// What a node did with a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It did what was asked.
    Granted,
    /// It did what was asked, but the key was away and has been put back: it keeps others out and
    /// does not count yet.
    PutBack {
        /// How much longer it does not count, by the node's clock.
        left: Duration,
    },
    /// It changed nothing.
    Refused(Refusal),
    /// This is its record now, changed or not.
    Record(Option<Arc<str>>),
    /// It freed the memory of fences.
    Trimmed {
        /// How many it looked at: [`TRIM_FENCES`](crate::TRIM_FENCES) if there may be more.
        seen: u64,
        /// How many are left.
        left: u64,
        /// The largest fence among the last names, as far as it was looked for.
        latest: Option<Fence>,
    },
    /// It told of its locks.
    Listed(Box<Listed>),
    /// It told what it has (inspect), or had (clear).
    Holdings(Box<Holdings>),
}

/// What a node has, or had, of the locks it was asked about. Boxed in an answer, because votes are
/// far more and far smaller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holdings {
    /// The keys.
    pub found: Vec<Holding>,
    /// How many are in line for the lock; `None` if it was asked about several.
    pub waiters: Option<u64>,
    /// The first of them in order, at most [`WAITERS_TOLD_MAX`](crate::WAITERS_TOLD_MAX), without
    /// those that are gone. Empty if it was asked about several.
    pub line: Vec<Waiter>,
    /// Where the next page begins; 0 if this is the last.
    pub next: u64,
}

impl From<Holdings> for Answer {
    fn from(holdings: Holdings) -> Self {
        Self::Holdings(Box::new(holdings))
    }
}

/// A key on a node and its owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holding {
    /// The whole key, prefix and name.
    pub key: Arc<str>,
    /// The owner: an owner token, or what a client of another library wrote.
    pub owner: Arc<str>,
    /// When it expires unless extended; `None` if never.
    pub left: Option<Duration>,
    /// The largest fence that the node has granted for the lock: the holder's, if it has one; for a
    /// cohort, the last one reserved. `None` in a list without details.
    pub fence: Option<Fence>,
    /// The owner's label. `None` in a list without details.
    pub label: Option<Arc<str>>,
    /// The tokens of those who share it, or of its owner's holds, in order: at most
    /// [`SHARERS_MAX`](crate::SHARERS_MAX). `None` if there is but one, if they are another
    /// library's, and in every list.
    pub sharers: Option<Vec<Arc<str>>>,
    /// What kind of lock it is.
    pub kind: Kind,
    /// How often its owner holds it, if it is reentrant; in a list with details, how many share it.
    pub count: Option<u64>,
}

impl Holding {
    /// Whether the lock is only reserved for the next waiter, and held by nobody.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.owner.starts_with(RESERVED_LEAD)
    }

    /// Whether its holder has released it, but it is kept from others for a while.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.owner.starts_with(KEPT_LEAD)
    }

    /// Whether several may hold the lock.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.kind == Kind::Plain && &*self.owner == SHARED
    }
}

/// Why a node changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Another owner has the key.
    Held {
        /// When the key expires unless extended; [`Duration::MAX`] if never.
        left: Duration,
    },
    /// The key is reserved for the next waiter.
    Reserved {
        /// When it is free if that waiter does not come.
        left: Duration,
    },
    /// The key is taken, and later arrivals are already in line: a larger ticket is needed.
    Overtaken,
    /// This owner does not have the key (extend and release).
    NotHeld,
    /// The key is free, but a larger fence was granted before.
    Behind,
    /// The proposed fence is too far ahead of the node's clock.
    Ahead,
    /// The node's memory is not the one the client knows: it was restarted, flushed or replaced.
    Stranger,
    /// The key is of another kind than the lock that was asked for.
    OtherKind {
        /// What it is.
        found: Kind,
    },
    /// The owner already holds the lock with this fence, and must ask with the same one.
    Rejoin {
        /// The fence.
        fence: Fence,
    },
}

/// Why a node gave no answer that counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// It did not answer within the node timeout.
    Timeout,
    /// The connection broke after the command was sent.
    Disconnected,
    /// There is no connection, for this reason; the command was not sent.
    Unreachable(Arc<str>),
    /// It cannot be used as configured, for this reason: a wrong password, a server that is too
    /// old. The command was not sent, and retrying does not help.
    Misconfigured(Arc<str>),
    /// Too many commands were in flight; the command was not sent.
    Busy,
    /// It answered with an error.
    Error(Arc<str>),
    /// The store in a file on this machine cannot be read or written.
    Store {
        /// Why, and what to do about it.
        reason: Arc<str>,
        /// Whether the command may have been executed all the same.
        may_have_run: bool,
        /// Whether it stays so until somebody fixes it, as with a folder that this user may not
        /// write to. A disk that is full or busy may be well again.
        needs_fixing: bool,
    },
    /// It may not vote now. The command was not sent, or its answer does not count.
    Untrusted(Distrust),
}

/// One node's vote in a round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The node did what was asked.
    Granted,
    /// The node said no.
    Refused(Refusal),
    /// The outcome is unknown, or the node could not answer.
    Unknown(Fault),
}

impl Fault {
    /// The fault of a command that was not sent because of this one.
    pub(crate) fn not_sent(self) -> Self {
        match self {
            Self::Timeout => Self::Unreachable("no answer".into()),
            Self::Disconnected => Self::Unreachable("connection lost".into()),
            Self::Error(message) => Self::Unreachable(message),
            Self::Store { reason, needs_fixing, .. } => {
                Self::Store { reason, may_have_run: false, needs_fixing }
            }
            other => other,
        }
    }

    /// Whether the node cannot be used until somebody fixes it: retrying does not help.
    #[must_use]
    pub fn is_misconfigured(&self) -> bool {
        match self {
            Self::Misconfigured(_) => true,
            Self::Error(message) => message.starts_with("NOPERM"),
            Self::Store { needs_fixing, .. } => *needs_fixing,
            Self::Untrusted(distrust) => distrust.is_misconfigured(),
            _ => false,
        }
    }

    /// Whether the node may have executed the command all the same.
    #[must_use]
    pub const fn may_have_run(&self) -> bool {
        match self {
            Self::Timeout | Self::Disconnected | Self::Error(_) => true,
            Self::Store { may_have_run, .. } => *may_have_run,
            Self::Unreachable(_) | Self::Misconfigured(_) | Self::Busy | Self::Untrusted(_) => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("no answer in time"),
            Self::Disconnected => f.write_str("connection lost"),
            Self::Unreachable(reason) => write!(f, "unreachable: {reason}"),
            Self::Misconfigured(reason) | Self::Store { reason, .. } => f.write_str(reason),
            Self::Busy => f.write_str("too many commands in flight"),
            Self::Error(message) => write!(f, "error {message:?}"),
            Self::Untrusted(distrust) => distrust.fmt(f),
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
            Ok(Reply { answer: Answer::PutBack { left }, .. }) => {
                Self::Unknown(Fault::Untrusted(Distrust::PutBack { left }))
            }
            Ok(Reply { answer: Answer::Refused(Refusal::Ahead), .. }) => {
                Self::Unknown(Fault::Untrusted(Distrust::ClockBehind))
            }
            Ok(Reply { answer: Answer::Refused(Refusal::Stranger), .. }) => {
                Self::Unknown(Fault::Untrusted(Distrust::Unknown))
            }
            Ok(Reply { answer: Answer::Refused(refusal), .. }) => Self::Refused(refusal),
            Ok(Reply {
                answer: Answer::Listed(_) | Answer::Holdings(_) | Answer::Record(_) | Answer::Trimmed { .. },
                ..
            }) => Self::Unknown(Fault::Error("not a vote".into())),
            Err(fault) => Self::Unknown(fault),
        }
    }
}
