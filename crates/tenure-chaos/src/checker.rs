//! Whether a history kept the promises of `docs/guarantees.md`. It only looks at the history.

mod exclusion;
mod fencing;
mod loss;
mod resource;

use std::fmt;

use crate::history::{History, Hold, Ns};

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two holds of one lock at one moment; the second began while the first was still counted on.
    Overlap {
        /// The one that was there.
        first: Hold,
        /// The one that came in.
        second: Hold,
    },
    /// Two acquisitions of one lock had the same fence.
    SameFence {
        /// The one that came first.
        first: Hold,
        /// The other one.
        second: Hold,
    },
    /// An acquisition that began after another one had succeeded has a smaller fence.
    SmallerFence {
        /// The one that had succeeded.
        earlier: Hold,
        /// The one that began after that.
        later: Hold,
    },
    /// Two updates that the resource took made the same value: one of them is lost.
    LostUpdate {
        /// The lock that the resource belongs to.
        lock: usize,
        /// The value.
        value: i64,
        /// When the second one was taken.
        at: Ns,
    },
    /// The resource took an update with a smaller fence than one that it had taken before.
    StaleUpdate {
        /// The lock that the resource belongs to.
        lock: usize,
        /// The smaller fence.
        fence: i64,
        /// When it was taken.
        at: Ns,
    },
    /// The resource refused a holder whose lock was valid, and nobody shared it: a smaller fence
    /// came after a larger one.
    HolderRefused {
        /// What it held.
        hold: Hold,
        /// When it was refused.
        at: Ns,
    },
    /// A holder that ran all the time was not told that its lock is lost before its validity was
    /// over.
    LossToldLate {
        /// What it held.
        hold: Hold,
    },
}

/// Everything that was broken, in the order of time.
#[must_use]
pub fn check(history: &History) -> Vec<Violation> {
    let holds = history.holds();
    let mut violations = exclusion::check(&holds);
    violations.extend(fencing::check(&holds));
    violations.extend(resource::check(history));
    violations.extend(resource::check_refusals(history, &holds));
    violations.extend(loss::check(history, &holds));
    violations.sort_by_key(Violation::at);
    violations
}

impl Violation {
    /// When it happened.
    #[must_use]
    pub fn at(&self) -> Ns {
        match self {
            Self::Overlap { second, .. } | Self::SameFence { second, .. } => second.returned,
            Self::SmallerFence { later, .. } => later.returned,
            Self::LostUpdate { at, .. } | Self::StaleUpdate { at, .. } | Self::HolderRefused { at, .. } => {
                *at
            }
            Self::LossToldLate { hold } => hold.until,
        }
    }

    /// The lock it happened to.
    #[must_use]
    pub fn lock(&self) -> usize {
        match self {
            Self::Overlap { second, .. } | Self::SameFence { second, .. } => second.lock,
            Self::SmallerFence { later, .. } => later.lock,
            Self::LostUpdate { lock, .. } | Self::StaleUpdate { lock, .. } => *lock,
            Self::HolderRefused { hold, .. } | Self::LossToldLate { hold } => hold.lock,
        }
    }

    /// Whether it is about fences, or about what they protect.
    #[must_use]
    pub fn is_of_fencing(&self) -> bool {
        !matches!(self, Self::Overlap { .. } | Self::LossToldLate { .. })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lock = self.lock();
        match self {
            Self::Overlap { first, second } => {
                let ms = (first.end.min(second.end) - second.returned) / 1_000_000;
                write!(
                    f,
                    "lock {lock}: client {} got it with fence {} while client {} had it with fence {}, {ms} ms both",
                    second.client, second.fence, first.client, first.fence
                )
            }
            Self::SameFence { first, second } => {
                write!(
                    f,
                    "lock {lock}: clients {} and {} have fence {}",
                    first.client, second.client, first.fence
                )
            }
            Self::SmallerFence { earlier, later } => {
                write!(f, "lock {lock}: fence {} after {}", later.fence, earlier.fence)
            }
            Self::LostUpdate { value, .. } => write!(f, "lock {lock}: two updates to {value}"),
            Self::StaleUpdate { fence, .. } => write!(f, "lock {lock}: an update with a stale fence {fence}"),
            Self::HolderRefused { hold, .. } => {
                write!(f, "lock {lock}: client {} was refused with fence {}", hold.client, hold.fence)
            }
            Self::LossToldLate { hold } => {
                write!(f, "lock {lock}: client {} was not told of its loss in time", hold.client)
            }
        }
    }
}
