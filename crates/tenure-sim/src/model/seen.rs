//! What a search came across: a search that never sees a thing says nothing about it.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use tenure_core::{Answer, Command, Refusal};

/// Something worth seeing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sight {
    /// The lock was acquired.
    Acquired,
    /// The lock was acquired again, by another client or a second time.
    ChangedHands,
    /// A hold was extended.
    Extended,
    /// A holder was told of the loss.
    Lost,
    /// A node that had lost the lock got it back.
    Healed,
    /// A node in another life refused.
    Stranger,
    /// A node was not asked because it was quarantined.
    Quarantined,
    /// A node was not asked because its clock had jumped.
    ClockJumped,
    /// A node was not asked because its clock was apart from the others.
    ClockApart,
    /// A fence was too small for a node.
    Behind,
    /// Somebody waited in line.
    Waiting,
    /// A lock was set aside for the first in line.
    PassedOn,
    /// A command of a connection that was gone was executed.
    Stray,
    /// The resource refused a fence.
    Refused,
    /// Commands for two locks were sent together.
    Together,
    /// A lock was passed on inside a client.
    PassedWithin,
    /// Several held the lock at once.
    HeldTogether,
    /// A lock was shared that was had alone before.
    SharedSince,
    /// A node named the fence of the owner's other holds.
    Rejoined,
}

/// The sights of one search.
#[derive(Debug, Default)]
pub(super) struct Seen(AtomicU32);

impl Sight {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Acquired,
        Self::ChangedHands,
        Self::Extended,
        Self::Lost,
        Self::Healed,
        Self::Stranger,
        Self::Quarantined,
        Self::ClockJumped,
        Self::ClockApart,
        Self::Behind,
        Self::Waiting,
        Self::PassedOn,
        Self::Stray,
        Self::Refused,
        Self::Together,
        Self::PassedWithin,
        Self::HeldTogether,
        Self::SharedSince,
        Self::Rejoined,
    ];
}

impl Seen {
    pub(super) fn see(&self, sight: Sight) {
        let bit = 1 << sight as u32;
        // Most of the time it was seen before, and a plain read is cheaper.
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn reply(&self, command: &Command, answer: &Answer) {
        match (command, answer) {
            (Command::Heal { .. }, Answer::Granted) => self.see(Sight::Healed),
            (_, Answer::Refused(Refusal::Stranger)) => self.see(Sight::Stranger),
            (_, Answer::Refused(Refusal::Behind)) => self.see(Sight::Behind),
            (_, Answer::Refused(Refusal::Rejoin { .. })) => self.see(Sight::Rejoined),
            _ => {}
        }
    }

    pub(super) fn all(&self) -> Vec<Sight> {
        let bits = self.0.load(Ordering::Relaxed);
        Sight::ALL.into_iter().filter(|sight| bits & (1 << *sight as u32) != 0).collect()
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
