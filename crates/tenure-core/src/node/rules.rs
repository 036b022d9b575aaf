//! The commands: who is granted a key, who is refused and why. Those in line are the matter of
//! `line.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::{Entry, Label, LastFence, Name, Shelf};
use crate::command::{Answer, Command, Holding, Next, Refusal, Reply, Swap};
use crate::fence::{Fence, ProposedFence};
use crate::line::{Beside, LABEL_RETENTION, LineReport, Ticket};
use crate::names::{LockKey, Prefix};
use crate::time::NodeTime;
use crate::token::OwnerToken;
use crate::trust::Nonce;

/// Executes one command at the node's time `now`.
///
/// # Errors
/// The shelf's trouble. What the command has changed until then must be undone.
pub fn execute<S: Shelf>(shelf: &mut S, now: NodeTime, command: &Command) -> Result<Reply, S::Trouble> {
    let now_ms = now.as_millis();
    let mut name = command.key().map(|key| shelf.load(key)).transpose()?.unwrap_or_default();
    name.expire(now_ms);
    let before = name.clone();
    let mut visit = Visit { shelf, now, now_ms, name, fence: None, line: None };
    let answer = match command {
        Command::Acquire { key, token, node_ttl_ms, nonce, fence, beside } => {
            let beside = beside.as_deref().cloned().unwrap_or_default();
            visit.acquire(key, *token, *node_ttl_ms, *nonce, *fence, &beside)?
        }
        Command::Heal { token, node_ttl_ms, fence, quarantine_ms, .. } => {
            let counts_from_ms = Some(now_ms.saturating_add(*quarantine_ms));
            let entry = Entry { counts_from_ms, ..Entry::acquired(now_ms, *token, *node_ttl_ms) };
            visit.heal(entry, *fence)
        }
        Command::Extend { token, node_ttl_ms, .. } => visit.extend(*token, *node_ttl_ms),
        Command::Undo { key, token, requeue } => visit.undo(key, *token, *requeue)?,
        Command::Release { key, token, labelled, next } => visit.release(key, *token, *labelled, *next)?,
        Command::Enqueue { key, ticket } => visit.enqueue(key, *ticket)?,
        Command::Leave { key, ticket } => visit.leave(key, *ticket)?,
        Command::Nudge { key } => visit.nudge(key)?,
        Command::Inspect { key } => visit.inspect(key)?,
        Command::Record { prefix, swap } => visit.record(prefix, swap.as_ref())?,
        Command::Trim { prefix } => visit.shelf.trim(now_ms, prefix)?,
        Command::Clear { prefix, nonce, .. } => visit.clear(prefix, *nonce)?,
        Command::List { prefix, cursor } => visit.shelf.list(now_ms, prefix, *cursor)?,
    };
    let Visit { shelf, name, fence, line, .. } = visit;
    if let Some(key) = command.key().filter(|_| name != before) {
        assert!(name.may_follow(&before), "{command:?} makes {name:?} of {before:?}");
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
        let ticket = beside.place.map(|place| place.ticket);
        let aside = ticket.is_some_and(|ticket| self.name.is_reserved_for(ticket));
        if let Some(entry) = self.name.entry.filter(|_| !aside) {
            let ours = self.name.is_held_by(token);
            let same_fence = proposed.is_none_or(|proposed| self.name.last_fence() == Some(proposed.top()));
            return match beside.place {
                // Asked again by the same owner: the first answer was lost. Saying no would make
                // the client refuse itself; setting the end anew would let a late duplicate
                // lengthen the hold. With another fence it is not the same question, and a key that
                // was put back is not what was asked for.
                _ if ours && entry.counts_from_ms.is_none() && same_fence => Ok(Answer::Granted),
                Some(place) if !ours => self.line_up(key, place, entry.refusal(self.now_ms)),
                _ => Ok(self.refuse(entry.refusal(self.now_ms), proposed)),
            };
        }
        if let Some(place) = beside.place.filter(|_| !aside)
            && let Some(left) = self.name.open_for(self.now_ms)
        {
            // Those in line had their turns.
            return self.line_up(key, place, Refusal::Reserved { left });
        }
        if let Some(proposed) = proposed {
            if let Some(refusal) = self.refusal_of(proposed) {
                if let Some(ticket) = ticket.filter(|_| aside) {
                    self.reserve(ticket);
                }
                return Ok(self.refuse(refusal, Some(proposed)));
            }
            // The mark stays until somebody in line looks.
            let (fence, ends_ms) = (proposed.top(), proposed.ends_ms);
            self.name.fence = Some(LastFence { fence, ends_ms, queued: self.name.is_marked() });
        }
        self.name.entry = Some(Entry::acquired(self.now_ms, token, node_ttl_ms));
        let ahead = self.step_out(key, ticket, aside, proposed.is_some())?;
        self.tell_ahead(ahead);
        if let Some(text) = &beside.label {
            let (text, ends_ms) = (Arc::clone(text), self.end_of(LABEL_RETENTION));
            self.name.label = Some(Label { owner: token, text, ends_ms });
        }
        Ok(Answer::Granted)
    }

    /// Why a fence, or a range of them, is not granted, if it is not.
    fn refusal_of(&self, proposed: ProposedFence) -> Option<Refusal> {
        // Whole milliseconds, in which nodes count.
        let now = NodeTime::from_micros(self.now_ms * 1_000);
        if proposed.top() > proposed.bounds.highest(now) {
            Some(Refusal::Ahead)
        } else {
            let lowest = self.name.last_fence().max(Some(proposed.bounds.lowest(now)));
            (Some(proposed.fence) <= lowest).then_some(Refusal::Behind)
        }
    }

    /// Says no, and which fence a new one must exceed: unless this one was too large.
    fn refuse(&mut self, refusal: Refusal, proposed: Option<ProposedFence>) -> Answer {
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
        if !self.name.is_held_by(token) || put_back {
            return Ok(Answer::Refused(Refusal::NotHeld));
        }
        self.name.entry = None;
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
        if !self.name.is_held_by(token) {
            return Ok(Answer::Refused(Refusal::NotHeld));
        }
        self.name.entry = None;
        if labelled {
            self.name.label = None;
        }
        let ahead = match next {
            Next::InLine => self.pass_on(key)?,
            Next::InLineWith(ticket) => {
                // Ahead of those who came later: where nobody is before us, it comes back to us.
                self.get_in_line(key, ticket)?;
                self.pass_on(key)?
            }
            Next::OutsideLine => self.open(key)?,
        };
        self.tell_ahead(ahead);
        Ok(Answer::Granted)
    }

    fn inspect(&self, key: &LockKey) -> Result<Answer, S::Trouble> {
        let holding = self.name.entry.map(|entry| Holding {
            fence: self.name.last_fence().filter(|fence| *fence != Fence::NONE),
            label: self.name.label(),
            ..entry.holding(self.now_ms, key.as_str())
        });
        let line_is_over = self.name.is_line_over(self.now_ms);
        let waiters = if line_is_over { 0 } else { self.shelf.in_line_listening(key)? };
        Ok(Answer::Holdings { holdings: holding.into_iter().collect(), waiters: Some(waiters), next: 0 })
    }

    /// All at once: a store of our own has no others to let in between.
    fn clear(&mut self, prefix: &Prefix, nonce: Nonce) -> Result<Answer, S::Trouble> {
        if !self.shelf.record(prefix.as_str())?.is_some_and(|record| nonce.begins(&record)) {
            return Ok(Answer::Refused(Refusal::Stranger));
        }
        let (mut cleared, mut cursor) = (vec![], 0);
        while let Answer::Holdings { holdings, next, .. } = self.shelf.list(self.now_ms, prefix, cursor)? {
            let before = cleared.len();
            for holding in holdings.into_iter().filter(|holding| !holding.is_reserved()) {
                let name = holding.key.strip_prefix(prefix.as_str()).unwrap_or_default();
                let Ok(key) = LockKey::new(prefix, name) else { continue };
                let mut name = self.shelf.load(&key)?;
                name.entry = None;
                self.shelf.store(self.now_ms, &key, name)?;
                cleared.push(holding);
            }
            if next == 0 {
                break;
            }
            // Where some are gone, others have taken their places in the page.
            cursor = if cleared.len() == before { next } else { cursor };
        }
        Ok(Answer::Holdings { holdings: cleared, waiters: None, next: 0 })
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
