//! Those who wait in line for a lock: who gets in, who gets out, and whose turn it is.

use super::rules::Visit;
use super::{Entry, LastFence, Owner, Shelf};
use crate::command::{Answer, Refusal};
use crate::fence::Fence;
use crate::line::{
    Beside, DEAD_MAX, LINE_RETENTION, LineReport, OPENING, PlaceRequest, RESERVATION, Ticket, WAITERS_MAX,
};
use crate::names::LockKey;

impl<S: Shelf> Visit<'_, S> {
    /// Whoever is granted a lock waits for it no longer, and hears who is first in line. One who
    /// did not wait hears only that somebody may be, because the line is not looked at.
    pub(super) fn step_out(
        &mut self,
        key: &LockKey,
        ticket: Option<Ticket>,
        aside: bool,
        fenced: bool,
    ) -> Result<Option<Ticket>, S::Trouble> {
        if aside {
            // It left the line when the lock was set aside for it. Who is next does not matter: it
            // was its turn.
            if fenced {
                self.mark();
            }
            return Ok(None);
        }
        let Some(ticket) = ticket else {
            if !fenced || !self.name.is_marked() {
                return Ok(None);
            }
            self.mark();
            return Ok(Some(Ticket::SOMEBODY));
        };
        self.look_at_line(key)?;
        self.shelf.remove(key, ticket)?;
        let first = self.shelf.first(key)?;
        if fenced && first.is_some() {
            self.mark();
        } else if fenced && let Some(last) = &mut self.name.fence {
            last.queued = false;
        }
        Ok(first)
    }

    /// Puts a waiter in line whose acquire was refused, and tells it where it stands.
    pub(super) fn line_up(
        &mut self,
        key: &LockKey,
        PlaceRequest { ticket, fresh }: PlaceRequest,
        beside: &Beside,
        refusal: Refusal,
    ) -> Result<Answer, S::Trouble> {
        self.look_at_line(key)?;
        if fresh
            && let Some(last) = self.shelf.last(key)?.filter(|last| last.number >= ticket.number)
            && !self.shelf.contains(key, ticket)?
        {
            self.fence = Some(Fence::new(last.number));
            return Ok(Answer::Refused(Refusal::Overtaken));
        }
        let waiters = self.get_in_line(key, ticket)?;
        if beside.label.is_some() || beside.holding.is_some() {
            self.shelf.note(key, ticket, &beside.note())?;
        }
        let place = Some((self.shelf.ahead_of(key, ticket)?, waiters));
        self.line = Some(Box::new(LineReport { place, holder: self.name.label(), ..LineReport::default() }));
        Ok(Answer::Refused(refusal))
    }

    pub(super) fn enqueue(&mut self, key: &LockKey, ticket: Ticket) -> Result<Answer, S::Trouble> {
        self.get_in_line(key, ticket)?;
        Ok(Answer::Granted)
    }

    pub(super) fn leave(&mut self, key: &LockKey, ticket: Ticket) -> Result<Answer, S::Trouble> {
        self.look_at_line(key)?;
        self.shelf.remove(key, ticket)?;
        if self.name.is_reserved_for(ticket) {
            self.name.entry = None;
            self.pass_on(key, true)?;
        }
        Ok(Answer::Granted)
    }

    pub(super) fn nudge(&mut self, key: &LockKey) -> Result<Answer, S::Trouble> {
        if self.name.entry.is_none() {
            self.pass_on(key, false)?;
        } else if self.name.is_shared() && !self.is_awaited_alone(key)? {
            // Somebody who had it alone shares it since.
            self.look_at_line(key)?;
            self.admit(key)?;
        }
        Ok(Answer::Granted)
    }

    pub(super) fn reserve(&mut self, ticket: Ticket) {
        let ends_ms = self.end_of(RESERVATION);
        self.name.entry = Some(Entry { owner: Owner::Reserved(ticket), ends_ms, counts_from_ms: None });
    }

    pub(super) fn tell_ahead(&mut self, ahead: Option<Ticket>) {
        let report = |ahead| Box::new(LineReport { ahead: Some(ahead), ..LineReport::default() });
        self.line = ahead.map(report);
    }

    /// Whether this waiter is in line.
    pub(super) fn is_in_line(&mut self, key: &LockKey, ticket: Ticket) -> Result<bool, S::Trouble> {
        self.look_at_line(key)?;
        self.shelf.contains(key, ticket)
    }

    /// Puts a waiter in line, if there is room. How many are there then.
    pub(super) fn get_in_line(&mut self, key: &LockKey, ticket: Ticket) -> Result<u64, S::Trouble> {
        self.look_at_line(key)?;
        let mut waiters = self.shelf.in_line(key)?;
        if waiters < WAITERS_MAX as u64 {
            waiters += u64::from(self.shelf.insert(key, ticket)?);
        }
        self.name.line_ends_ms = self.end_of(LINE_RETENTION);
        self.mark();
        Ok(waiters)
    }

    /// Sets a free lock aside for the next, and wakes them: those who share it, if the one before
    /// did not, and else the first who does not. So neither keeps the other waiting for more than
    /// one turn. Whoever does not listen is gone, and leaves the line.
    pub(super) fn pass_on(&mut self, key: &LockKey, was_shared: bool) -> Result<Option<Ticket>, S::Trouble> {
        self.look_at_line(key)?;
        if self.name.open_for(self.now_ms).is_some() {
            return Ok(None);
        }
        let next = if was_shared { self.pass_on_to_one(key)? } else { self.admit(key)? };
        match (next, was_shared) {
            (Some(_), _) => Ok(next),
            (None, false) => self.pass_on_to_one(key),
            (None, true) => self.admit(key),
        }
    }

    /// Sets it aside for the first who wants it alone.
    fn pass_on_to_one(&mut self, key: &LockKey) -> Result<Option<Ticket>, S::Trouble> {
        for _ in 0..DEAD_MAX {
            let Some(ticket) = self.shelf.first_of(key, false)? else { break };
            self.shelf.remove(key, ticket)?;
            if self.shelf.listens(ticket) {
                self.reserve(ticket);
                self.shelf.wake(key, ticket);
                return Ok(Some(ticket));
            }
        }
        Ok(None)
    }

    /// Leaves a free lock to those outside the line for a moment, if somebody is in it.
    pub(super) fn open(&mut self, key: &LockKey) -> Result<Option<Ticket>, S::Trouble> {
        self.look_at_line(key)?;
        if self.shelf.first(key)?.is_none() {
            return Ok(None);
        }
        self.name.open_ends_ms = self.end_of(OPENING);
        Ok(Some(Ticket::SOMEBODY))
    }

    /// A line that nobody has got into for long is none.
    pub(super) fn look_at_line(&mut self, key: &LockKey) -> Result<(), S::Trouble> {
        if self.name.is_line_over(self.now_ms) {
            self.shelf.clear(key)?;
            self.name.line_ends_ms = 0;
        }
        Ok(())
    }

    /// Leaves a mark beside the fence that somebody may be in line. It lives as long as the line
    /// does.
    fn mark(&mut self) {
        let ends_ms = self.end_of(LINE_RETENTION);
        let last = self.name.fence.get_or_insert(LastFence {
            fence: Fence::NONE,
            owner: None,
            alone: Fence::NONE,
            ends_ms,
            queued: true,
        });
        last.queued = true;
        last.ends_ms = last.ends_ms.max(ends_ms);
    }
}
