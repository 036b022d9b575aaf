//! What must never happen, judged by true time.

pub(crate) mod beginning;
pub(crate) mod continuity;
pub(crate) mod exclusion;
pub(crate) mod extension;
pub(crate) mod fencing;
pub(crate) mod healing;
pub(crate) mod kinds;
pub(crate) mod leftovers;
pub(crate) mod liveness;
pub(crate) mod loss;
pub(crate) mod order;
pub(crate) mod ownership;
pub(crate) mod passing;
pub(crate) mod period;

use std::fmt;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two clients could count on one lock at one moment.
    TwoHolders {
        /// The lock.
        name: usize,
        /// Who held it, until when (true nanoseconds).
        first: (Holder, u64),
        /// Who got it meanwhile.
        second: Holder,
    },
    /// A later acquisition has a fence that is not larger.
    FenceNotLarger {
        /// The lock.
        name: usize,
        /// The acquisition that had succeeded before the other one began, and its fence.
        earlier: (Holder, u64),
        /// The other one.
        later: (Holder, u64),
    },
    /// Two acquisitions have the same fence.
    FenceNotUnique {
        /// The lock.
        name: usize,
        /// The fence.
        fence: u64,
        /// Who has it.
        holders: (Holder, Holder),
    },
    /// Two holds of one owner at one moment have different fences.
    FencesApart {
        /// The lock.
        name: usize,
        /// Who held it, with which fence.
        one: (Holder, u64),
        /// Who got it meanwhile.
        other: (Holder, u64),
    },
    /// Somebody waits for a lock although the name is another kind of lock on too many nodes.
    WaitsForOtherKind {
        /// The lock.
        name: usize,
        /// Who waits.
        waiter: Holder,
    },
    /// An extension succeeded although another client had acquired the lock meanwhile.
    Interrupted {
        /// The lock.
        name: usize,
        /// Who extended it.
        holder: Holder,
        /// Who had acquired it.
        by: Holder,
    },
    /// A node was counted too soon after the key was put back there.
    CountedEarly {
        /// The lock.
        name: usize,
        /// Who counted it.
        holder: Holder,
        /// Which node.
        node: usize,
        /// How long after (true nanoseconds).
        after_ns: u64,
    },
    /// A holder that did not stand still heard of the loss of its lock only after the end.
    LossToldLate {
        /// The lock.
        name: usize,
        /// Who held it.
        holder: Holder,
    },
    /// Somebody who asked later was served before a waiter that was in line on a majority of nodes.
    Overtaken {
        /// The lock.
        name: usize,
        /// Who waits.
        earlier: Holder,
        /// Who was served.
        later: Holder,
    },
    /// A lock was passed on inside a client to one who asked after the nodes were, for too long, or
    /// too often.
    PassedOnWrongly {
        /// The lock.
        name: usize,
        /// Whom it was passed on to.
        holder: Holder,
    },
    /// A lock was acquired within the period for which another client was to have it.
    PeriodCut {
        /// The lock.
        name: usize,
        /// For whom it was kept.
        keeper: Holder,
        /// Who got it.
        by: Holder,
    },
    /// A holder was told that its lock is lost, and counts on it again.
    LossTakenBack {
        /// The lock.
        name: usize,
        /// Who held it.
        holder: Holder,
    },
    /// A client sent a command with a token that it neither drew nor was handed.
    ForeignToken {
        /// Who sent it.
        client: usize,
        /// Who drew the token, if anybody did.
        owner: Option<usize>,
    },
    /// A command changed the key of another owner.
    TouchedForeign {
        /// On which node.
        node: usize,
        /// Whose command it was.
        client: usize,
        /// Who drew the token of the key.
        owner: Option<usize>,
    },
    /// All faults were over, and nobody got a lock in time.
    Unavailable {
        /// The lock.
        name: usize,
        /// How long it was asked for (true nanoseconds).
        waited_ns: u64,
    },
    /// Everybody has released and stopped, and a key is still there.
    LeftBehind {
        /// The lock.
        name: usize,
        /// On which node.
        node: usize,
        /// It is set aside for a waiter.
        reserved: bool,
    },
    /// A node came back, and was not told what to remove.
    NotToldAgain {
        /// Who did not tell.
        client: usize,
        /// Which node.
        node: usize,
    },
    /// A waiter that reaches a majority of nodes has waited for far too long.
    Stuck {
        /// The lock.
        name: usize,
        /// Who waits.
        waiter: Holder,
    },
    /// A client asked for its first lock before enough nodes may vote, and while more could still
    /// come.
    Hasty {
        /// Which client.
        client: usize,
    },
    /// A caller was never told what became of a release, or of the end of its client.
    Unanswered {
        /// Which client.
        client: usize,
        /// What was asked for.
        asked: u32,
    },
    /// A caller was told more than once.
    AnsweredTwice {
        /// Which client.
        client: usize,
        /// What was asked for.
        asked: u32,
    },
    /// A lock that was extended in time was lost, while nodes were restarted one after another or
    /// far away.
    Gap {
        /// The lock.
        name: usize,
        /// Who held it.
        holder: Holder,
    },
}

/// One hold of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The client's place.
    pub client: usize,
    /// Which process that was in this place.
    pub generation: u32,
    /// Which of its leases.
    pub lease: u32,
}

impl Violation {
    /// Which checker found it.
    #[must_use]
    pub const fn checker(&self) -> &'static str {
        match self {
            Self::TwoHolders { .. } => "exclusion",
            Self::FenceNotLarger { .. } | Self::FenceNotUnique { .. } | Self::FencesApart { .. } => "fencing",
            Self::WaitsForOtherKind { .. } => "kinds",
            Self::Interrupted { .. } => "extension",
            Self::CountedEarly { .. } => "healing",
            Self::LossToldLate { .. } | Self::LossTakenBack { .. } => "loss signal",
            Self::ForeignToken { .. } | Self::TouchedForeign { .. } => "ownership",
            Self::Overtaken { .. } => "order of the queue",
            Self::PassedOnWrongly { .. } => "passing",
            Self::PeriodCut { .. } => "period",
            Self::Unavailable { .. } | Self::Stuck { .. } => "liveness",
            Self::LeftBehind { .. } | Self::NotToldAgain { .. } => "no key left behind",
            Self::Gap { .. } => "continuity",
            Self::Hasty { .. } => "beginning",
            Self::Unanswered { .. } | Self::AnsweredTwice { .. } => "answers",
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}.{} lease {}", self.client, self.generation, self.lease)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoHolders { name, first: (first, until_ns), second } => write!(
                f,
                "two holders of lock {name}: {first} until {:.3} ms, and {second}",
                *until_ns as f64 / 1e6
            ),
            Self::FenceNotLarger { name, earlier: (earlier, smaller), later: (later, larger) } => write!(
                f,
                "lock {name}: {later} began after {earlier} had succeeded, but has fence {larger} after {smaller}"
            ),
            Self::FenceNotUnique { name, fence, holders: (one, other) } => {
                write!(f, "lock {name}: {one} and {other} both have fence {fence}")
            }
            Self::FencesApart { name, one: (one, fence), other: (other, apart) } => write!(
                f,
                "lock {name}: {one} and {other} hold it for one owner with fences {fence} and {apart}"
            ),
            Self::WaitsForOtherKind { name, waiter } => {
                write!(f, "lock {name}: {waiter} waits, but it is another kind of lock")
            }
            Self::Interrupted { name, holder, by } => {
                write!(f, "lock {name}: {holder} extended although {by} had acquired it since")
            }
            Self::CountedEarly { name, holder, node, after_ns } => write!(
                f,
                "lock {name}: {holder} counts node {node} {:.3} ms after the key was put back there",
                *after_ns as f64 / 1e6
            ),
            Self::LossToldLate { name, holder } => {
                write!(f, "lock {name}: {holder} heard of the loss only after the end")
            }
            Self::LossTakenBack { name, holder } => {
                write!(f, "lock {name}: {holder} was told that it is lost, and counts on it again")
            }
            Self::ForeignToken { client, owner } => {
                write!(f, "client {client} sent a token of {}", named(*owner))
            }
            Self::TouchedForeign { node, client, owner } => {
                write!(f, "a command of client {client} changed a key of {} on node {node}", named(*owner))
            }
            Self::Unavailable { name, waited_ns } => write!(
                f,
                "lock {name}: nobody got it within {:.3} ms after the last fault",
                *waited_ns as f64 / 1e6
            ),
            Self::LeftBehind { name, node, reserved } => {
                let what = if *reserved { "a reservation" } else { "a key" };
                write!(f, "lock {name}: {what} is left on node {node} though everybody has stopped")
            }
            Self::NotToldAgain { client, node } => {
                write!(f, "node {node} is back, and client {client} does not tell it what to remove")
            }
            Self::Overtaken { name, earlier, later } => {
                write!(f, "lock {name}: {later} was served although {earlier} was in line before it asked")
            }
            Self::PassedOnWrongly { name, holder } => {
                write!(
                    f,
                    "lock {name}: {holder} was passed it, late or though it had asked after the nodes were"
                )
            }
            Self::PeriodCut { name, keeper, by } => {
                write!(f, "lock {name}: {by} acquired it within the period of {keeper}")
            }
            Self::Stuck { name, waiter } => write!(f, "lock {name}: {waiter} waits and waits"),
            Self::Hasty { client } => {
                write!(f, "client {client} asks for a lock before it knows enough nodes")
            }
            Self::Unanswered { client, asked } => {
                write!(f, "client {client} has said nothing about what was asked for as {asked}")
            }
            Self::AnsweredTwice { client, asked } => {
                write!(f, "client {client} says more than once what became of {asked}")
            }
            Self::Gap { name, holder } => write!(f, "lock {name}: {holder} extended in time and lost it"),
        }
    }
}

fn named(owner: Option<usize>) -> String {
    owner.map_or_else(|| "nobody".into(), |owner| format!("client {owner}"))
}
