//! The holds of a group: a set, one for each attempt that was granted, beside a key that says so
//! and lives as long as the last of them. Many share the lock, or one owner holds it again.
//!
//! They count only beside that key. Whoever sets it where it was not begins with none, so a hold
//! that outlives its key never comes back.

use super::Shelf;
use super::name::{Entry, Group, Hold, Name, Owner, vote};
use super::rules::Visit;
use crate::command::{Answer, Refusal};
use crate::fence::Fence;
use crate::line::{ADMITTED_MAX, RESERVATION, Ticket};
use crate::mode::Mode;
use crate::names::LockKey;
use crate::token::OwnerToken;

impl Name {
    /// Whether the key says that it is shared.
    pub(super) fn is_shared(&self) -> bool {
        self.entry.is_some_and(|entry| entry.owner == Owner::Shared)
    }

    /// Whether the key is a group's.
    pub(super) fn is_group(&self) -> bool {
        self.entry.is_some_and(|entry| matches!(entry.owner, Owner::Shared | Owner::Owned))
    }

    /// Whether the key is that of a group which a hold of this mode belongs to.
    pub(super) fn is_joined_by(&self, mode: &Mode) -> bool {
        match mode {
            Mode::Exclusive => false,
            Mode::Shared => self.is_shared(),
            Mode::Owned(id) => self.group.as_ref().is_some_and(|group| group.owner == *id),
        }
    }

    /// The hold of this token.
    pub(super) fn hold(&self, owner: OwnerToken) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.owner == owner)
    }

    /// Forgets holds that are over, and those whose key is.
    pub(super) fn expire_holds(&mut self, now_ms: u64) {
        let is_group = self.is_group();
        self.holds.retain(|hold| is_group && hold.ends_ms >= now_ms);
        self.group.take_if(|_| !is_group);
    }

    /// A group without holds, unless there is one of this kind. All holds of an owner have one
    /// fence.
    pub(super) fn begin_group(&mut self, mode: &Mode, fence: Option<Fence>) {
        if !self.is_group() {
            self.holds.clear();
            self.group = mode.owner().map(|owner| Group { owner: owner.clone(), fence });
        }
    }

    /// Adds a hold to the group, or lengthens it.
    pub(super) fn lengthen(&mut self, hold: Hold) {
        match self.holds.binary_search_by_key(&hold.owner, |hold| hold.owner) {
            Ok(place) => self.holds[place].ends_ms = self.holds[place].ends_ms.max(hold.ends_ms),
            Err(place) => self.holds.insert(place, hold),
        }
        self.follow_holds();
    }

    /// Takes a hold away. The key goes with the last one.
    pub(super) fn stop_holding(&mut self, owner: OwnerToken) {
        self.holds.retain(|hold| hold.owner != owner);
        self.follow_holds();
    }

    /// The key lives as long as the last hold.
    fn follow_holds(&mut self) {
        let owner = if self.group.is_some() { Owner::Owned } else { Owner::Shared };
        let ends_ms = self.holds.iter().map(|hold| hold.ends_ms).max();
        self.entry = ends_ms.map(|ends_ms| Entry { owner, ends_ms, counts_from_ms: None });
        self.group.take_if(|_| ends_ms.is_none());
    }
}

impl<S: Shelf> Visit<'_, S> {
    /// Whether somebody is in line who wants the lock alone.
    pub(super) fn is_awaited_alone(&self, key: &LockKey) -> Result<bool, S::Trouble> {
        Ok(!self.name.is_line_over(self.now_ms) && self.shelf.first_of(key, false)?.is_some())
    }

    /// Puts back a hold of a group. Its fence is no smaller than what rivals were granted: after it
    /// had the lock alone that is its own fence.
    pub(super) fn heal_in_group(&mut self, mode: &Mode, healed: Hold, fence: Option<Fence>) -> Answer {
        let other_fence = self.name.group.as_ref().is_some_and(|group| group.fence != fence);
        match self.name.entry {
            Some(_) if self.name.is_joined_by(mode) && self.name.hold(healed.owner).is_some() => {
                Answer::Granted
            }
            Some(entry) if entry.owner == Owner::Token(healed.owner) => Answer::Granted,
            Some(entry) if !self.name.is_joined_by(mode) || other_fence => {
                Answer::Refused(Refusal::Held { left: entry.left(self.now_ms) })
            }
            _ if fence.is_some() && self.name.last_of_rivals(mode) > fence => {
                Answer::Refused(Refusal::Behind)
            }
            _ => {
                self.name.begin_group(mode, fence);
                self.name.lengthen(healed);
                Answer::Granted
            }
        }
    }

    /// Lengthens a hold of a group. One that had the lock alone shares it from now on.
    pub(super) fn extend_in_group(&mut self, mode: &Mode, owner: OwnerToken, ends_ms: u64) -> Answer {
        let had_alone = |entry: &Entry| mode.is_shared() && entry.owner == Owner::Token(owner);
        let before = self.name.entry.filter(had_alone);
        let before =
            before.map(|Entry { ends_ms, counts_from_ms, .. }| Hold { owner, ends_ms, counts_from_ms });
        let is_its_kind = if mode.is_shared() { self.name.is_shared() } else { self.name.group.is_some() };
        let held = self.name.hold(owner).filter(|_| is_its_kind);
        match (before.or(held.copied()), self.name.entry) {
            (Some(hold), _) => {
                self.name.begin_group(mode, None);
                self.name.lengthen(Hold { ends_ms: hold.ends_ms.max(ends_ms), ..hold });
                vote(hold.counts_from_ms, self.now_ms)
            }
            // It is not in anybody's way: it may be put back beside the others.
            (None, Some(_)) if is_its_kind => Answer::Refused(Refusal::NotHeld),
            (None, Some(entry)) => Answer::Refused(Refusal::Held { left: entry.left(self.now_ms) }),
            (None, None) => Answer::Refused(Refusal::NotHeld),
        }
    }

    /// Lets in those at the front of the line who share the lock, as far as they listen: it is set
    /// aside for all of them, and each is woken. The first of them, if there is one.
    pub(super) fn admit(&mut self, key: &LockKey) -> Result<Option<Ticket>, S::Trouble> {
        let mut first = None;
        for _ in 0..ADMITTED_MAX {
            let Some(ticket) = self.shelf.first_of(key, true)? else { break };
            self.shelf.remove(key, ticket)?;
            if self.shelf.listens(ticket) {
                self.shelf.wake(key, ticket);
                first = first.or(Some(ticket));
            }
        }
        if first.is_some() && self.name.entry.is_none() {
            let ends_ms = self.end_of(RESERVATION);
            self.name.entry = Some(Entry { owner: Owner::Shared, ends_ms, counts_from_ms: None });
        }
        Ok(first)
    }
}
