//! Whom an answer belongs to.

use crate::round::RoundNumber;
use crate::time::Time;

/// Names what a caller has asked for: a lease, a question. Never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

/// Goes with a command, and comes back with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Whom the answer belongs to.
    pub to: Addressee,
    /// When the command was handed out.
    pub sent: Time,
}

/// Whom an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addressee {
    /// A lease, and the release that ends this round of it.
    Lease {
        /// The lease.
        lease: Id,
        /// Its round.
        round: RoundNumber,
    },
    /// The release that ends this round of a lease.
    Release {
        /// The lease.
        lease: Id,
        /// The round that acquired, or tried to.
        round: RoundNumber,
    },
    /// A question.
    Query(Id),
    /// The fleet, which asked for a record.
    Fleet,
    /// The fleet, which asked for fences to be forgotten. A user may not be allowed to, and that is
    /// no harm.
    Trim,
    /// A waiter that has left the line. Only a shutdown waits for that.
    Leaving,
    /// Nobody waits for it.
    Nobody,
}
