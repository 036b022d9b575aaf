//! What a node keeps for one name, beside those in line.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::command::{Answer, Holding, Refusal};
use crate::fence::Fence;
use crate::line::Ticket;
use crate::mode::{Kind, Mode, OwnerId};
use crate::token::OwnerToken;

/// What the value of a key begins with that is set aside for a waiter.
pub const RESERVED_LEAD: &str = "rsv:";

/// What the value of a key begins with that its holder has released, but that nobody is to have
/// yet.
pub const KEPT_LEAD: &str = "kept:";

/// The value of a key that is shared.
pub const SHARED: &str = "shared";

/// What a key is called that an owner may hold again.
pub const OWNED: &str = "owned";

/// What a node keeps for one name. The fence and the line outlive the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Name {
    /// The key, if it is not free.
    pub entry: Option<Entry>,
    /// The holds of a group, by their tokens; none, unless the key says that there is one.
    pub holds: Vec<Hold>,
    /// Whose group it is, if it is one owner's.
    pub group: Option<Group>,
    /// The last fence: no smaller one is granted after it.
    pub fence: Option<LastFence>,
    /// What a holder wrote beside the lock.
    pub label: Option<Label>,
    /// The last millisecond of the line, unless somebody gets in; 0 if nobody ever did.
    pub line_ends_ms: u64,
    /// The last millisecond at which nobody in line is given the lock; 0 if they are.
    pub open_ends_ms: u64,
}

/// One key on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Who has it.
    pub owner: Owner,
    /// The last millisecond of its life, by the node's clock.
    pub ends_ms: u64,
    /// The key was away and has been put back: the first millisecond at which it counts, by the
    /// node's clock.
    pub counts_from_ms: Option<u64>,
}

/// Who has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A lock of this owner.
    Token(OwnerToken),
    /// This owner has released it, but nobody is to have it yet.
    Kept(OwnerToken),
    /// It is set aside for this waiter.
    Reserved(Ticket),
    /// Several: [`Name::holds`] says who. Nobody yet, if it is set aside for those who share it.
    Shared,
    /// One owner, perhaps several times: [`Name::group`] says which.
    Owned,
}

/// The holds of one owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The owner.
    pub owner: OwnerId,
    /// The fence that all of them have. Kept here, because the last fence is forgotten while they
    /// may go on.
    pub fence: Option<Fence>,
}

/// One hold of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The owner.
    pub owner: OwnerToken,
    /// The last millisecond of its life, by the node's clock.
    pub ends_ms: u64,
    /// As [`Entry::counts_from_ms`].
    pub counts_from_ms: Option<u64>,
}

/// The last fence of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LastFence {
    /// The fence; [`Fence::NONE`] if only the mark is kept.
    pub fence: Fence,
    /// Whose it is, if an owner got it that may hold the lock again.
    pub owner: Option<OwnerId>,
    /// The largest fence of a rival: of another owner than that, or of one who did not share the
    /// lock. Those who share it need a larger one than this, and have no order among themselves.
    pub alone: Fence,
    /// The last millisecond at which it is remembered.
    pub ends_ms: u64,
    /// A mark that somebody may be in line: whoever is granted the lock is told so. Kept here
    /// because this is looked at anyway.
    pub queued: bool,
}

/// What the owner of a lock wrote beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// The owner. What an earlier one wrote does not count.
    pub owner: OwnerToken,
    /// What it wrote.
    pub text: Arc<str>,
    /// The last millisecond at which it is kept.
    pub ends_ms: u64,
}

impl Name {
    /// Forgets what is over. The line is left to whoever can clear it.
    pub(super) fn expire(&mut self, now_ms: u64) {
        self.entry.take_if(|entry| entry.ends_ms < now_ms);
        self.expire_holds(now_ms);
        self.fence.take_if(|fence| fence.ends_ms < now_ms);
        self.label.take_if(|label| label.ends_ms < now_ms);
        if self.open_ends_ms < now_ms {
            self.open_ends_ms = 0;
        }
    }

    /// The last milliseconds of all that is kept.
    pub fn ends_ms(&self) -> impl Iterator<Item = u64> {
        let entry = self.entry.map(|entry| entry.ends_ms);
        let fence = self.fence.as_ref().map(|fence| fence.ends_ms);
        let label = self.label.as_ref().map(|label| label.ends_ms);
        let others = [self.line_ends_ms, self.open_ends_ms].into_iter().filter(|ends_ms| *ends_ms != 0);
        entry.into_iter().chain(fence).chain(label).chain(others)
    }

    pub(super) fn is_line_over(&self, now_ms: u64) -> bool {
        self.line_ends_ms != 0 && self.line_ends_ms < now_ms
    }

    pub(super) fn is_held_by(&self, token: OwnerToken) -> bool {
        self.entry.is_some_and(|entry| entry.owner == Owner::Token(token))
    }

    pub(super) fn is_kept_by(&self, token: OwnerToken) -> bool {
        self.entry.is_some_and(|entry| entry.owner == Owner::Kept(token))
    }

    pub(super) fn is_reserved_for(&self, ticket: Ticket) -> bool {
        self.entry.is_some_and(|entry| entry.owner == Owner::Reserved(ticket))
    }

    /// The last fence, whether it was granted or only stands beside the mark of a line.
    pub(super) fn last_fence(&self) -> Option<Fence> {
        self.fence.as_ref().map(|last| last.fence)
    }

    /// The last fence of anybody whose hold excludes one of this mode.
    pub(super) fn last_of_rivals(&self, mode: &Mode) -> Option<Fence> {
        let last = self.fence.as_ref()?;
        let alone = !mode.is_exclusive() && last.owner.as_ref() == mode.owner();
        Some(if alone { last.alone } else { last.fence })
    }

    pub(super) fn is_marked(&self) -> bool {
        self.fence.as_ref().is_some_and(|last| last.queued)
    }

    /// What the holder wrote beside the lock.
    pub(super) fn label(&self) -> Option<Arc<str>> {
        let is_holder =
            |owner| self.is_held_by(owner) || self.is_kept_by(owner) || self.hold(owner).is_some();
        let label = self.label.as_ref().filter(|label| is_holder(label.owner))?;
        Some(Arc::clone(&label.text))
    }

    /// For how much longer nobody in line is given the lock.
    pub(super) fn open_for(&self, now_ms: u64) -> Option<Duration> {
        let open = self.open_ends_ms != 0;
        open.then(|| Duration::from_millis(self.open_ends_ms.saturating_sub(now_ms)))
    }

    /// What one command may make of a name: a lock never goes from one owner to another by itself,
    /// and the last fence never gets smaller.
    pub(super) fn may_follow(&self, before: &Self) -> bool {
        let owner = |name: &Self| match name.entry {
            Some(Entry { owner: Owner::Token(token), .. }) => Some(token),
            _ => None,
        };
        let exclusive = match (owner(before), owner(self)) {
            (Some(before), Some(after)) => before == after,
            // Whoever had it alone is one of those who share it now.
            (Some(before), None) => self.holds.is_empty() || self.hold(before).is_some(),
            (None, Some(_)) => before.holds.is_empty(),
            (None, None) => true,
        };
        let same_group = match (&before.group, &self.group) {
            (Some(before), Some(after)) => before == after,
            _ => true,
        };
        let alone = |name: &Self| name.fence.as_ref().map(|last| last.alone);
        exclusive && same_group && self.last_fence() >= before.last_fence() && alone(self) >= alone(before)
    }
}

/// What an owner is told who has extended what counts from then on.
pub(super) fn vote(counts_from_ms: Option<u64>, now_ms: u64) -> Answer {
    match counts_from_ms.and_then(|from_ms| from_ms.checked_sub(now_ms)).filter(|left| *left > 0) {
        Some(left_ms) => Answer::PutBack { left: Duration::from_millis(left_ms) },
        None => Answer::Granted,
    }
}

impl Entry {
    /// The key of this owner, as an acquire sets it.
    #[must_use]
    pub const fn acquired(now_ms: u64, token: OwnerToken, node_ttl_ms: u64) -> Self {
        let ends_ms = now_ms.saturating_add(node_ttl_ms);
        Self { owner: Owner::Token(token), ends_ms, counts_from_ms: None }
    }

    /// What its owner is told who has extended it.
    pub(super) fn vote(&self, now_ms: u64) -> Answer {
        vote(self.counts_from_ms, now_ms)
    }

    /// What others are told who want it.
    pub(super) const fn refusal(&self, now_ms: u64) -> Refusal {
        let left = self.left(now_ms);
        match self.owner {
            Owner::Token(_) | Owner::Kept(_) => Refusal::Held { left },
            Owner::Reserved(_) => Refusal::Reserved { left },
            Owner::Shared | Owner::Owned => Refusal::Held { left },
        }
    }

    pub(super) const fn left(&self, now_ms: u64) -> Duration {
        Duration::from_millis(self.ends_ms.saturating_sub(now_ms))
    }

    /// What is told about this key in a list, and whose group it is.
    #[must_use]
    pub fn holding(&self, now_ms: u64, key: &str, group: Option<&Group>) -> Holding {
        let owner = group.map_or_else(|| self.owner.to_string(), |group| group.owner.to_string()).into();
        Holding {
            key: key.into(),
            owner,
            left: Some(self.left(now_ms)),
            fence: None,
            label: None,
            sharers: None,
            kind: self.owner.kind(),
            count: None,
        }
    }
}

impl Owner {
    /// The kind of lock that it has.
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Token(_) | Self::Kept(_) | Self::Shared => Kind::Plain,
            Self::Owned => Kind::Reentrant,
            Self::Reserved(ticket) => ticket.kind(),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(token) => token.fmt(f),
            Self::Kept(token) => write!(f, "{KEPT_LEAD}{token}"),
            Self::Reserved(ticket) => write!(f, "{RESERVED_LEAD}{ticket}"),
            Self::Shared => f.write_str(SHARED),
            Self::Owned => f.write_str(OWNED),
        }
    }
}
