//! What can be wrong with options, and what to do about it.

use std::fmt;
use std::time::Duration;

use super::{MAX_TTL_CEILING, SLOTS_MAX, TTL_MIN};
use crate::line::LABEL_BYTES_MAX;
use crate::mode::OwnerIdError;

/// Why an option is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionError {
    /// The ttl is below 50 ms or above `max_ttl`.
    Ttl {
        /// What was asked for.
        ttl: Duration,
        /// The largest that is allowed here.
        max_ttl: Duration,
    },
    /// `max_ttl` is below 50 ms or above 24 h.
    MaxTtl {
        /// What was asked for.
        max_ttl: Duration,
    },
    /// The node timeout is zero or more than half of the ttl.
    NodeTimeout {
        /// What was asked for.
        node_timeout: Duration,
        /// The ttl it must be small against.
        ttl: Duration,
    },
    /// The drift allowance leaves less than half of the ttl.
    Drift {
        /// The allowance for this ttl.
        drift: Duration,
        /// The ttl it is taken from.
        ttl: Duration,
    },
    /// The guard band would make a node keep a key for longer than it is quarantined after a
    /// restart.
    GuardBand {
        /// What was asked for.
        guard_band: Duration,
        /// The largest that is allowed with this ttl.
        guard_band_max: Duration,
    },
    /// The owner is not allowed.
    Owner(OwnerIdError),
    /// The lock is to be kept from others for longer than `max_ttl`.
    AtLeast {
        /// What was asked for.
        at_least: Duration,
        /// The largest that is allowed here.
        max_ttl: Duration,
    },
    /// A lock that others may hold, too, is to be kept from others.
    AtLeastShared,
    /// A semaphore has no permits, or more than [`SLOTS_MAX`].
    Permits {
        /// What was asked for.
        permits: usize,
    },
    /// A permit of a semaphore was to be shared or held by an owner.
    SharedPermit,
    /// Several names are locked together, and were to be shared or held by an owner.
    SeveralNames,
    /// `max_hold` is shorter than the ttl.
    MaxHold {
        /// What was asked for.
        max_hold: Duration,
        /// The ttl that does not fit in.
        ttl: Duration,
    },
    /// The time from one renewal to the next is shorter than the node timeout or longer than half
    /// of the ttl.
    Renewal {
        /// What was asked for.
        interval: Duration,
        /// The shortest that is allowed with this node timeout.
        interval_min: Duration,
        /// The longest that is allowed with this ttl.
        interval_max: Duration,
    },
    /// The label is too long.
    Label {
        /// How long it is.
        bytes: usize,
    },
    /// `tries_max` is zero.
    NoTries,
    /// `min_margin` is more than the nodes can give.
    MinMargin {
        /// What was asked for.
        min_margin: usize,
        /// The margin when all nodes grant.
        margin_max: usize,
    },
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ttl { ttl, max_ttl } if ttl < &TTL_MIN => {
                write!(f, "a ttl of {ttl:?} is too short; expected {TTL_MIN:?} to {max_ttl:?}")
            }
            Self::Ttl { ttl, max_ttl } => write!(
                f,
                "a ttl of {ttl:?} is too long; expected {TTL_MIN:?} to {max_ttl:?}. To hold the lock \
                 longer, extend it, or raise max_ttl for every client of these nodes"
            ),
            Self::MaxTtl { max_ttl } => {
                write!(
                    f,
                    "a max_ttl of {max_ttl:?} is out of range; expected {TTL_MIN:?} to {MAX_TTL_CEILING:?}"
                )
            }
            Self::NodeTimeout { node_timeout, ttl } => write!(
                f,
                "a node timeout of {node_timeout:?} does not fit a ttl of {ttl:?}; expected more than zero \
                 and at most half the ttl, ideally a hundredth"
            ),
            Self::Drift { drift, ttl } => write!(
                f,
                "a drift allowance of {drift:?} leaves too little of a ttl of {ttl:?}; expected at most \
                 half of it"
            ),
            Self::GuardBand { guard_band, guard_band_max } => write!(
                f,
                "a guard band of {guard_band:?} is too long; with this ttl and max_ttl, expected at most \
                 {guard_band_max:?}"
            ),
            Self::MinMargin { min_margin, margin_max } => write!(
                f,
                "a min_margin of {min_margin} cannot be reached; with all of these nodes, the margin is \
                 {margin_max}"
            ),
            Self::Owner(error) => error.fmt(f),
            Self::AtLeast { at_least, max_ttl } => write!(
                f,
                "a lock cannot be kept from others for {at_least:?}: nodes keep locks no longer than the \
                 fleet's max_ttl of {max_ttl:?}. Raise max_ttl for every client of these nodes, or run \
                 more often and store the time of the last run with the work itself"
            ),
            Self::AtLeastShared => {
                write!(f, "a lock with at_least can only be held exclusively; remove `shared` or `owner`")
            }
            Self::Permits { permits } => {
                write!(f, "a semaphore of {permits} is out of range; expected 1 to {SLOTS_MAX} slots")
            }
            Self::SharedPermit => {
                write!(f, "a permit can only be held exclusively; remove `shared` or `owner`")
            }
            Self::SeveralNames => {
                write!(f, "several names can only be locked exclusively; remove `shared` or `owner`")
            }
            Self::MaxHold { max_hold, ttl } => write!(
                f,
                "a max_hold of {max_hold:?} is shorter than the ttl of {ttl:?}; raise it or shorten the ttl"
            ),
            Self::Renewal { interval, interval_min, interval_max } => write!(
                f,
                "a renewal interval of {interval:?} is out of range; with this ttl and node timeout, \
                 expected {interval_min:?} to {interval_max:?}"
            ),
            Self::Label { bytes } => {
                write!(f, "a label of {bytes} bytes is too long; expected at most {LABEL_BYTES_MAX}")
            }
            Self::NoTries => {
                write!(f, "tries_max is 0, so the lock would never be tried; use at least 1")
            }
        }
    }
}

impl std::error::Error for OptionError {}
