//! Whom a hold keeps out.
//!
//! A lock is held by one attempt alone, shared by many, or held again and again by one owner. What
//! a node keeps for the last two is a *group*: a set of holds, one for each attempt that was
//! granted, each with an end of its own (`node/holds.rs`). Adding or removing one twice changes
//! nothing, and one that nobody releases is in the way for its own term and no longer.
//!
//! Everything else is the same for all: rounds, votes, validity, renewal, loss, the line. Branches
//! on the mode are in the files that `ARCHITECTURE.md` names.

use std::fmt;
use std::sync::Arc;

use crate::node::RESERVED_LEAD;

/// The longest owner id, in bytes: it is stored on every node beside the lock.
pub const OWNER_ID_BYTES_MAX: usize = 128;

/// Whom a hold keeps out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Everybody else.
    #[default]
    Exclusive,
    /// Everybody who does not share it: readers hold it together.
    Shared,
    /// Everybody but this owner, who may hold it several times, from several processes.
    Owned(OwnerId),
}

impl Mode {
    /// Whether others may hold the lock beside this one.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Shared)
    }

    /// Whether nobody else may hold the lock, not even the same owner again.
    #[must_use]
    pub const fn is_exclusive(&self) -> bool {
        matches!(self, Self::Exclusive)
    }

    /// The owner that may hold it again, if it is such a lock.
    #[must_use]
    pub const fn owner(&self) -> Option<&OwnerId> {
        match self {
            Self::Owned(id) => Some(id),
            Self::Exclusive | Self::Shared => None,
        }
    }

    /// Whether a hold of this mode and one of the other can be there at the same time.
    #[must_use]
    pub fn is_compatible(&self, other: &Self) -> bool {
        !self.is_exclusive() && self == other
    }

    /// The kind of lock that it belongs to.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Exclusive | Self::Shared => Kind::Plain,
            Self::Owned(_) => Kind::Reentrant,
        }
    }
}

/// The kind of lock behind a key. Locks of one kind exclude each other; mixing kinds under one name
/// is a mistake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A lock, or one that readers share: a string.
    #[default]
    Plain,
    /// A reentrant lock: a hash, ours or Redisson's.
    Reentrant,
    /// No lock: a key of another type, which another program keeps there.
    Foreign,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "a plain or read-write lock",
            Self::Reentrant => "a reentrant lock",
            Self::Foreign => "a key that is not a lock",
        })
    }
}

/// The owner of a reentrant lock, the same in all its processes.
///
/// ```
/// use tenure_core::OwnerId;
///
/// let id = OwnerId::new("deploy-4711")?;
/// assert_eq!(id.as_str(), "deploy-4711");
/// assert!(OwnerId::new("two words").is_err());
/// # Ok::<(), tenure_core::OwnerIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(Arc<str>);

/// Why a text is not an owner id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnerIdError {
    /// It is empty or longer than [`OWNER_ID_BYTES_MAX`].
    Length {
        /// Its length in bytes.
        bytes: usize,
    },
    /// It has a space or a control character.
    Character,
    /// It begins with `rsv:`, which nodes use for reservations.
    Reserved,
}

impl OwnerId {
    /// Checks an owner id.
    ///
    /// # Errors
    /// [`OwnerIdError`] if it is empty or too long, or has a space or a control character.
    pub fn new(text: &str) -> Result<Self, OwnerIdError> {
        if text.is_empty() || text.len() > OWNER_ID_BYTES_MAX {
            return Err(OwnerIdError::Length { bytes: text.len() });
        }
        if text.chars().any(|character| character.is_whitespace() || character.is_control()) {
            return Err(OwnerIdError::Character);
        }
        if text.starts_with(RESERVED_LEAD) {
            return Err(OwnerIdError::Reserved);
        }
        Ok(Self(text.into()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for OwnerIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { bytes } => {
                write!(f, "an owner id of {bytes} bytes is invalid; expected 1 to {OWNER_ID_BYTES_MAX} bytes")
            }
            Self::Character => f.write_str("an owner id must not contain spaces or control characters"),
            Self::Reserved => write!(f, "an owner id must not start with {RESERVED_LEAD:?}"),
        }
    }
}

impl std::error::Error for OwnerIdError {}
