//! The commands: who is granted a key, who is refused and why. Those in line are the matter of
//! `line.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::{Entry, Hold, Label, LastFence, Name, Owner, PAGE_KEYS, SHARERS_MAX, Shelf, Slice, set};
use crate::command::{
    Answer, Command, Holding, Holdings, Listed, Listing, Next, Part, Refusal, Reply, Sighting, Swap,
};
use crate::fence::{Fence, ProposedFence};
use crate::line::{Beside, LABEL_RETENTION, LineReport, RESERVATION, Ticket};
use crate::mode::Mode;
use crate::names::{LockKey, Prefix};
use crate::time::NodeTime;
use crate::token::OwnerToken;
use crate::trust::Nonce;

/// Executes one command at the node's time `now`.
///
/// # Errors
/// The shelf's trouble. What the command has changed until then must be undone.
pub fn execute<S: Shelf>(shelf: &mut S, now: NodeTime, command: &Command) -> Result<Reply, S::Trouble> {
    match command.key().filter(|key| key.is_set()) {
        Some(keys) => set::execute_all(shelf, now, command, keys.each()),
        None => visit(shelf, now, command.key(), |visit| visit.answer(command)),
    }
}

/// Lets a command work on what is kept for one name.
pub(super) fn visit<S: Shelf>(
    shelf: &mut S,
    now: NodeTime,
    key: Option<&LockKey>,
    work: impl FnOnce(&mut Visit<'_, S>) -> Result<Answer, S::Trouble>,
) -> Result<Reply, S::Trouble> {
    let now_ms = now.as_millis();
    let mut name = key.map(|key| shelf.load(key)).transpose()?.unwrap_or_default();
    name.expire(now_ms);
    let before = name.clone();
    let mut visit = Visit { shelf, now, now_ms, name, fence: None, line: None };
    let answer = work(&mut visit)?;
    let Visit { shelf, name, fence, line, .. } = visit;
    if let Some(key) = key.filter(|_| name != before) {
        assert!(name.may_follow(&before), "{key:?}: {name:?} of {before:?}");
        shelf.store(now_ms, key, name)?;
    }
    Ok(Reply { time: Some(now), fence, line, answer })
}

/// One command at work on one name.
pub(super) struct Visit<'a, S> {
    pub(super) shelf: &'a mut S,
    pub(super) now: NodeTime,
    pub(super) now_ms: u64,
    pub(super) name: Name,
    /// What is told beside the answer.
    pub(super) fence: Option<Fence>,
    pub(super) line: Option<Box<LineReport>>,
}

impl<S: Shelf> Visit<'_, S> {
    /// Carries out a command about this name.
    fn answer(&mut self, command: &Command) -> Result<Answer, S::Trouble> {
        Ok(match command {
            Command::Acquire { key, token, node_ttl_ms, nonce, fence, beside } => {
                let beside = beside.as_deref().cloned().unwrap_or_default();
                self.acquire(key, *token, *node_ttl_ms, *nonce, *fence, &beside)?
            }
            Command::Heal { token, node_ttl_ms, fence, quarantine_ms, mode, .. } => {
                let counts_from_ms = Some(self.now_ms.saturating_add(*quarantine_ms));
                let entry = Entry { counts_from_ms, ..Entry::acquired(self.now_ms, *token, *node_ttl_ms) };
                match mode {
                    Mode::Exclusive => self.heal(entry, *fence),
                    Mode::Shared | Mode::Owned(_) => {
                        let hold = Hold { owner: *token, ends_ms: entry.ends_ms, counts_from_ms };
                        self.heal_in_group(mode, hold, *fence)
                    }
                }
            }
            Command::Extend { token, node_ttl_ms, mode: Mode::Exclusive, .. } => {
                self.extend(*token, *node_ttl_ms)
            }
            Command::Extend { token, node_ttl_ms, mode, .. } => {
                self.extend_in_group(mode, *token, self.now_ms.saturating_add(*node_ttl_ms))
            }
            Command::Undo { key, token, requeue } => self.undo(key, *token, *requeue)?,
            Command::Release { key, token, labelled, next } => self.release(key, *token, *labelled, *next)?,
            Command::Enqueue { key, ticket } => self.enqueue(key, *ticket)?,
            Command::Leave { key, ticket } => self.leave(key, *ticket)?,
            Command::Nudge { key } => self.nudge(key)?,
            Command::Inspect { key } => self.inspect(key)?,
            Command::Record { prefix, swap } => self.record(prefix, swap.as_ref())?,
            Command::Trim { prefix } => self.shelf.trim(self.now_ms, prefix)?,
            Command::Clear { prefix, nonce, .. } => self.clear(prefix, *nonce)?,
            Command::List(listing) => self.list(listing)?,
        })
    }

    fn acquire(
        &mut self,
        key: &LockKey,
        token: OwnerToken,
        node_ttl_ms: u64,
        nonce: Option<Nonce>,
        proposed: Option<ProposedFence>,
        beside: &Beside,
    ) -> Result<Answer, S::Trouble> {
        if let Some(nonce) = nonce
            && !self.shelf.record(key.prefix())?.is_some_and(|record| nonce.begins(&record))
        {
            return Ok(Answer::Refused(Refusal::Stranger));
        }
        let mode = &beside.mode;
        if let Some(found) =
            self.name.entry.map(|entry| entry.owner.kind()).filter(|found| *found != mode.kind())
        {
            return Ok(Answer::Refused(Refusal::OtherKind { found }));
        }
        let ticket = beside.place.map(|place| place.ticket);
        let aside = ticket.is_some_and(|ticket| self.name.is_reserved_for(ticket));
        // A reservation has a fixed life, so what is left of it tells when it was made.
        let reservation = self.name.entry.filter(|_| aside);
        let passed_on = reservation.map(|entry| RESERVATION.saturating_sub(entry.left(self.now_ms)));
        let group_fence = self.name.group.as_ref().map(|group| group.fence);
        // An owner that has a fence cannot join its holds without one, nor the other way round.
        let joins = self.name.is_joined_by(mode)
            && group_fence.is_none_or(|fence| fence.is_some() == proposed.is_some());
        let gives_way =
            joins && beside.gives_way && self.name.hold(token).is_none() && self.is_awaited_alone(key)?;
        if let Some(entry) = self.name.entry.filter(|_| !aside && (!joins || gives_way)) {
            let ours = self.name.is_held_by(token);
            let same_fence = proposed.is_none_or(|proposed| self.name.last_fence() == Some(proposed.top()));
            return match beside.place {
                // Asked again by the same owner: the first answer was lost. Saying no would make
                // the client refuse itself; setting the end anew would let a late duplicate
                // lengthen the hold. With another fence it is not the same question, and a key that
                // was put back is not what was asked for.
                _ if ours && entry.counts_from_ms.is_none() && same_fence => Ok(Answer::Granted),
                Some(place) if !ours => self.line_up(key, place, beside, entry.refusal(self.now_ms)),
                _ => Ok(self.refuse(entry.refusal(self.now_ms), proposed)),
            };
        }
        if let Some(hold) = self.name.hold(token).filter(|_| joins) {
            return Ok(match (hold.counts_from_ms, self.name.entry) {
                // What was put back is not what was asked for.
                (Some(_), Some(entry)) => self.refuse(entry.refusal(self.now_ms), proposed),
                _ => Answer::Granted,
            });
        }
        if let Some(Some(fence)) = group_fence.filter(|fence| joins && *fence != proposed.map(|it| it.top()))
        {
            return Ok(Answer::Refused(Refusal::Rejoin { fence }));
        }
        if let Some(place) = beside.place.filter(|_| !aside && !joins)
            && let Some(left) = self.name.open_for(self.now_ms)
        {
            // Those in line had their turns.
            return self.line_up(key, place, beside, Refusal::Reserved { left });
        }
        if let Some(proposed) = proposed.filter(|_| !joins || group_fence.is_none()) {
            if let Some(refusal) = self.refusal_of(proposed, beside) {
                if let Some(ticket) = ticket.filter(|_| aside) {
                    self.reserve(ticket);
                }
                return Ok(self.refuse(refusal, Some(proposed)));
            }
            // The mark stays until somebody in line looks.
            let (fence, queued) = (proposed.top(), self.name.is_marked());
            let (owner, alone) = (mode.owner().cloned(), self.name.last_of_rivals(mode));
            let before = self.name.fence.take().filter(|_| !mode.is_exclusive());
            self.name.fence = Some(LastFence {
                fence: before.as_ref().map_or(fence, |before| before.fence.max(fence)),
                owner,
                alone: if mode.is_exclusive() { fence } else { alone.unwrap_or(Fence::NONE) },
                ends_ms: before.map_or(0, |before| before.ends_ms).max(proposed.ends_ms),
                queued,
            });
        }
        let entry = Entry::acquired(self.now_ms, token, node_ttl_ms);
        match mode {
            Mode::Exclusive => (self.name.entry, self.name.holds) = (Some(entry), vec![]),
            Mode::Shared | Mode::Owned(_) => {
                let hold = Hold { owner: token, ends_ms: entry.ends_ms, counts_from_ms: None };
                self.name.begin_group(mode, proposed.map(|proposed| proposed.top()));
                self.name.lengthen(hold);
            }
        }
        if joins && group_fence.is_some() {
            // An owner never lets others go first that wait for itself.
            if let Some(ticket) = ticket {
                self.look_at_line(key)?;
                self.shelf.remove(key, ticket)?;
            }
        } else {
            let ahead = self.step_out(key, ticket, aside, proposed.is_some())?;
            // Who shares the lock is in nobody's way whose turn it is.
            self.tell_ahead(ahead.filter(|_| !mode.is_shared()));
        }
        if passed_on.is_some() {
            self.line.get_or_insert_default().passed_on = passed_on;
        }
        if let Some(text) = &beside.label {
            let (text, ends_ms) = (Arc::clone(text), self.end_of(LABEL_RETENTION));
            self.name.label = Some(Label { owner: token, text, ends_ms });
        }
        Ok(Answer::Granted)
    }

    /// Why a fence, or a range of them, is not granted, if it is not.
    pub(super) fn refusal_of(&self, proposed: ProposedFence, beside: &Beside) -> Option<Refusal> {
        // Whole milliseconds, in which nodes count.
        let now = NodeTime::from_micros(self.now_ms * 1_000);
        if proposed.top() > proposed.bounds.highest(now) {
            Some(Refusal::Ahead)
        } else {
            let among_own = beside.mode.is_shared() || beside.joins;
            let last =
                if among_own { self.name.last_of_rivals(&beside.mode) } else { self.name.last_fence() };
            let lowest = last.max(Some(proposed.bounds.lowest(now)));
            (Some(proposed.fence) <= lowest).then_some(Refusal::Behind)
        }
    }

    /// Says no, and which fence a new one must exceed: unless this one was too large.
    pub(super) fn refuse(&mut self, refusal: Refusal, proposed: Option<ProposedFence>) -> Answer {
        if let Some(proposed) = proposed.filter(|_| refusal != Refusal::Ahead) {
            self.fence = self.name.last_fence().max(Some(proposed.bounds.lowest(self.now)));
        }
        Answer::Refused(refusal)
    }

    fn heal(&mut self, healed: Entry, fence: Option<Fence>) -> Answer {
        match self.name.entry {
            Some(entry) if entry.owner == healed.owner => Answer::Granted,
            Some(entry) => Answer::Refused(Refusal::Held { left: entry.left(self.now_ms) }),
            None if fence.is_some() && self.name.last_fence() > fence => Answer::Refused(Refusal::Behind),
            None => {
                self.name.entry = Some(healed);
                Answer::Granted
            }
        }
    }

    fn extend(&mut self, token: OwnerToken, node_ttl_ms: u64) -> Answer {
        let ours = self.name.is_held_by(token);
        match &mut self.name.entry {
            Some(entry) if ours => {
                entry.ends_ms = entry.ends_ms.max(self.now_ms.saturating_add(node_ttl_ms));
                entry.vote(self.now_ms)
            }
            Some(entry) => Answer::Refused(Refusal::Held { left: entry.left(self.now_ms) }),
            None => Answer::Refused(Refusal::NotHeld),
        }
    }

    fn undo(
        &mut self,
        key: &LockKey,
        token: OwnerToken,
        requeue: Option<Ticket>,
    ) -> Result<Answer, S::Trouble> {
        let put_back = self.name.entry.is_some_and(|entry| entry.counts_from_ms.is_some());
        let shares = self.name.hold(token).is_some_and(|hold| hold.counts_from_ms.is_none());
        if !shares && (!self.name.is_held_by(token) || put_back) {
            return Ok(Answer::Refused(Refusal::NotHeld));
        }
        self.give_back(token);
        if let Some(ticket) = requeue {
            self.get_in_line(key, ticket)?;
        }
        Ok(Answer::Granted)
    }

    fn release(
        &mut self,
        key: &LockKey,
        token: OwnerToken,
        labelled: bool,
        next: Next,
    ) -> Result<Answer, S::Trouble> {
        let in_group = self.name.hold(token).is_some();
        if !in_group && !self.name.is_held_by(token) && !self.name.is_kept_by(token) {
            return Ok(Answer::Refused(Refusal::NotHeld));
        }
        if let (Next::Nobody { for_ms }, false, Some(entry)) = (next, in_group, &mut self.name.entry) {
            let ends_ms = entry.ends_ms.min(self.now_ms.saturating_add(for_ms));
            *entry = Entry { owner: Owner::Kept(token), ends_ms, counts_from_ms: None };
            return Ok(Answer::Granted);
        }
        let was_shared = self.name.is_shared();
        if labelled && self.name.label.as_ref().is_some_and(|label| !in_group || label.owner == token) {
            self.name.label = None;
        }
        self.give_back(token);
        if self.name.entry.is_some() {
            // Others of the group still hold it.
            return Ok(Answer::Granted);
        }
        let ahead = match next {
            Next::InLine | Next::Nobody { .. } => self.pass_on(key, was_shared)?,
            Next::InLineWith(ticket) => {
                // Ahead of those who came later: where nobody is before us, it comes back to us.
                self.get_in_line(key, ticket)?;
                self.pass_on(key, was_shared)?
            }
            Next::OutsideLine => self.open(key)?,
        };
        self.tell_ahead(ahead);
        Ok(Answer::Granted)
    }

    /// The hold of this token ends, and the lock with it unless others of its group hold it.
    fn give_back(&mut self, token: OwnerToken) {
        match self.name.is_group() {
            true => self.name.stop_holding(token),
            false => self.name.entry = None,
        }
    }

    fn inspect(&self, key: &LockKey) -> Result<Answer, S::Trouble> {
        let holding = self.name.entry.map(|entry| Holding {
            fence: self.name.last_fence().filter(|fence| *fence != Fence::NONE),
            label: self.name.label(),
            sharers: self.name.is_group().then(|| {
                let holds = self.name.holds.iter().take(SHARERS_MAX);
                holds.map(|hold| hold.owner.to_string().into()).collect()
            }),
            count: self.name.group.as_ref().map(|_| self.name.holds.len() as u64),
            ..entry.holding(self.now_ms, key.as_str(), self.name.group.as_ref())
        });
        let line_is_over = self.name.is_line_over(self.now_ms);
        let waiters = Some(if line_is_over { 0 } else { self.shelf.in_line_listening(key)? });
        let line = if line_is_over { vec![] } else { self.shelf.tell_line(key)? };
        Ok(Holdings { found: holding.into_iter().collect(), waiters, line, next: 0 }.into())
    }

    /// Tells of several locks, each as it is now.
    fn list(&mut self, listing: &Listing) -> Result<Answer, S::Trouble> {
        let (keys, slice) = match &listing.part {
            Part::These(keys) => (keys.clone(), None),
            Part::Slice { cursor, keys } => {
                let slice = self.shelf.slice(self.now_ms, &listing.lead(), *cursor, *keys)?;
                let keys = slice.locks.iter().filter_map(|key| listing.prefix.key_of(key));
                (keys.collect(), Some(slice))
            }
        };
        let mut seen = vec![];
        for key in keys {
            let mut name = self.shelf.load(&key)?;
            name.expire(self.now_ms);
            let Some(holding) = name.entry.map(|entry| {
                let holding = entry.holding(self.now_ms, key.as_str(), name.group.as_ref());
                if !listing.detailed {
                    return holding;
                }
                Holding {
                    fence: name.last_fence().filter(|fence| *fence != Fence::NONE),
                    label: name.label(),
                    count: name.is_group().then_some(name.holds.len() as u64),
                    ..holding
                }
            }) else {
                continue;
            };
            let waiters = match listing.detailed {
                true if name.is_line_over(self.now_ms) => Some(0),
                true => Some(self.shelf.in_line(&key)?),
                false => None,
            };
            seen.push(Sighting { holding, waiters });
        }
        let Slice { next, walked_ppm, keys, .. } = slice.clone().unwrap_or_default();
        let keys = slice.map(|_| keys);
        Ok(Answer::Listed(Box::new(Listed { seen, next, walked_ppm, keys, took: None })))
    }

    /// All at once: a store of our own has no others to let in between.
    fn clear(&mut self, prefix: &Prefix, nonce: Nonce) -> Result<Answer, S::Trouble> {
        if !self.shelf.record(prefix.as_str())?.is_some_and(|record| nonce.begins(&record)) {
            return Ok(Answer::Refused(Refusal::Stranger));
        }
        let (mut cleared, mut cursor) = (vec![], 0);
        loop {
            let slice = self.shelf.slice(self.now_ms, prefix.as_str(), cursor, PAGE_KEYS)?;
            let before = cleared.len();
            for key in slice.locks.iter().filter_map(|key| prefix.key_of(key)) {
                let mut name = self.shelf.load(&key)?;
                let holding =
                    name.entry.map(|entry| entry.holding(self.now_ms, key.as_str(), name.group.as_ref()));
                let Some(holding) = holding.filter(|holding| !holding.is_reserved()) else { continue };
                (name.entry, name.holds, name.group) = (None, vec![], None);
                self.shelf.store(self.now_ms, &key, name)?;
                cleared.push(holding);
            }
            if slice.next == 0 {
                break;
            }
            // Where some are gone, others have taken their places in the slice.
            cursor = if cleared.len() == before { slice.next } else { cursor };
        }
        Ok(Holdings { found: cleared, ..Holdings::default() }.into())
    }

    fn record(&mut self, prefix: &Prefix, swap: Option<&Swap>) -> Result<Answer, S::Trouble> {
        let record = self.shelf.record(prefix.as_str())?;
        let Some(Swap { text, stamp, .. }) = swap.filter(|swap| swap.expected == record) else {
            return Ok(Answer::Record(record));
        };
        if text.is_empty() {
            self.shelf.give_up(self.now_ms, prefix)?;
            return Ok(Answer::Record(None));
        }
        let stamped = || format!("{text}{}", self.now.as_micros()).into();
        let text: Arc<str> = if *stamp { stamped() } else { Arc::clone(text) };
        self.shelf.put_record(prefix, &text)?;
        Ok(Answer::Record(Some(text)))
    }

    /// The last millisecond of what lives so long from now.
    pub(super) fn end_of(&self, life: Duration) -> u64 {
        self.now_ms.saturating_add(u64::try_from(life.as_millis()).unwrap_or(u64::MAX))
    }
}
