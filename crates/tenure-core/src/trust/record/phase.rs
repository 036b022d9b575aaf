//! How far a node's memory is trusted, and whether the node serves its fleet.

use std::fmt;
use std::sync::Arc;

use super::Nonce;

/// How far a node's memory is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::trust) enum State {
    New,
    /// It has waited out its quarantine.
    Waited,
    /// All nodes were new together: the first start of a fleet, whose nonces these are.
    Fresh(Vec<Nonce>),
}

/// Whether the node serves its fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::trust) enum Phase {
    /// It does.
    Open,
    /// Clients of two fleets believe that it is theirs. Nobody counts it until a person has
    /// decided.
    Disputed,
    /// It belongs to nobody: a person has taken it out of its fleet.
    Vacant,
    /// Its fleet is being changed to this list: it grants nothing more. The change may still be
    /// given up.
    Closing(Arc<str>),
    /// And its locks are gone. There is no way back.
    Closed(Arc<str>),
    /// Its locks are being removed, or its memory has begun anew since they were: there is no way
    /// back.
    Reclosing(Arc<str>),
    /// It waits until its fleet takes over from the one before, which had this list.
    Prepared(Arc<str>),
}

impl State {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "new" => Some(Self::New),
            "waited" => Some(Self::Waited),
            _ => {
                let nonces = text.strip_prefix("fresh=")?.split(',').map(Nonce::parse);
                Some(Self::Fresh(nonces.collect::<Option<_>>()?))
            }
        }
    }
}

impl Phase {
    /// Whether the node is taken out of its fleet for this list.
    pub(in crate::trust) fn changes_to(&self, list: &str) -> bool {
        matches!(self, Self::Closing(to) | Self::Closed(to) | Self::Reclosing(to) if **to == *list)
    }

    /// What goes on when the node's memory begins anew: its locks are not known to be gone in that
    /// life.
    pub(in crate::trust) fn in_new_life(self) -> Self {
        match self {
            Self::Closed(to) => Self::Reclosing(to),
            phase => phase,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "open" => return Some(Self::Open),
            "disputed" => return Some(Self::Disputed),
            "vacant" => return Some(Self::Vacant),
            _ => {}
        }
        let (name, to) = text.split_once(':')?;
        match name {
            "closing" => Some(Self::Closing(to.into())),
            "closed" => Some(Self::Closed(to.into())),
            "reclosing" => Some(Self::Reclosing(to.into())),
            "prepared" => Some(Self::Prepared(to.into())),
            _ => None,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("new"),
            Self::Waited => f.write_str("waited"),
            Self::Fresh(nonces) => {
                f.write_str("fresh=")?;
                for (index, nonce) in nonces.iter().enumerate() {
                    write!(f, "{}{nonce}", if index == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Disputed => f.write_str("disputed"),
            Self::Vacant => f.write_str("vacant"),
            Self::Closing(to) => write!(f, "closing:{to}"),
            Self::Closed(to) => write!(f, "closed:{to}"),
            Self::Reclosing(to) => write!(f, "reclosing:{to}"),
            Self::Prepared(from) => write!(f, "prepared:{from}"),
        }
    }
}
