//! Why a node may not vote, and how that is told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::time::Rounded;

/// Why a node may not vote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Distrust {
    /// Its record is not known yet, or has just changed.
    Unknown,
    /// It may have forgotten locks.
    Quarantined {
        /// How much longer it does not vote.
        left: Duration,
    },
    /// Its clock jumped.
    ClockJumped {
        /// By how many microseconds, at least.
        by_us: i64,
        /// How much longer it does not vote.
        left: Duration,
    },
    /// Its clock was far from those of the others when it was first seen.
    ClockApart {
        /// By how many microseconds.
        by_us: i64,
        /// How much longer it does not vote.
        left: Duration,
    },
    /// Its clock is so far behind the others that it accepts no current fence.
    ClockBehind,
    /// The fences it may have forgotten are larger than current ones.
    FencesAhead,
    /// Its clock was ahead and has been set back: it has granted fences from the future, and grants
    /// no smaller ones.
    ClockSetBack {
        /// When its clock will have passed them.
        left: Duration,
    },
    /// It is new, and another node of the list belongs to another fleet: that fleet may hold locks
    /// that this node would grant again.
    Barred,
    /// It had lost this lock, and the lock was put back: another client may rely on what it granted
    /// in between.
    PutBack {
        /// How much longer it does not count for this lock.
        left: Duration,
    },
    /// The node list is being changed, or was changed, to another one.
    Changing {
        /// The new list.
        to: Arc<str>,
    },
    /// It waits until its list takes over from the previous one.
    Prepared,
    /// It must not be a node, for this reason.
    Unfit(Arc<str>),
}

impl Distrust {
    /// Whether the node cannot be used until somebody fixes it.
    #[must_use]
    pub const fn is_misconfigured(&self) -> bool {
        matches!(self, Self::Unfit(_) | Self::Barred | Self::Changing { .. })
    }

    /// When it ends, if that is known.
    #[must_use]
    pub const fn left(&self) -> Option<Duration> {
        match self {
            Self::Quarantined { left }
            | Self::ClockJumped { left, .. }
            | Self::ClockApart { left, .. }
            | Self::ClockSetBack { left }
            | Self::PutBack { left } => Some(*left),
            _ => None,
        }
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |by_us: &i64| Duration::from_micros(by_us.unsigned_abs());
        match self {
            Self::Unknown => f.write_str("its record has not been read yet"),
            Self::Quarantined { left } => {
                write!(f, "new or restarted, may have forgotten locks; votes again in {}", Rounded(*left))
            }
            Self::ClockJumped { by_us, left } => {
                let direction = if *by_us < 0 { "back" } else { "ahead" };
                write!(
                    f,
                    "its clock jumped {direction} by {:.2?}; votes again in {}",
                    seconds(by_us),
                    Rounded(*left)
                )
            }
            Self::ClockApart { by_us, left } => {
                let direction = if *by_us < 0 { "behind" } else { "ahead of" };
                write!(
                    f,
                    "its clock is {:.2?} {direction} the other nodes; votes in {} unless it jumps",
                    seconds(by_us),
                    Rounded(*left)
                )
            }
            Self::ClockBehind => f.write_str("its clock is too far behind the other nodes"),
            Self::FencesAhead => f.write_str("it may have forgotten fences larger than its current ones"),
            Self::ClockSetBack { left } => write!(
                f,
                "its clock was set back, and its fences are {} ahead of it; it grants no fence until its \
                 clock catches up",
                Rounded(*left)
            ),
            Self::Barred => f.write_str(
                "new, and cannot vote while another node in the list belongs to a different \
                             fleet",
            ),
            Self::PutBack { left } => {
                write!(f, "it lost this lock and had it restored; counts again in {}", Rounded(*left))
            }
            Self::Changing { to } => {
                write!(f, "the node list has changed to {to}; update this client")
            }
            Self::Prepared => f.write_str(
                "the change to this node list is not finished; finish it with `tenure fleet \
                             change`",
            ),
            Self::Unfit(reason) => f.write_str(reason),
        }
    }
}
