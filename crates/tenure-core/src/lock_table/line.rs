//! Those who wait for the locks of a node, and what holders wrote beside them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::kept::{Kept, Remembered};
use super::{Entry, LockTable, Owner};
use crate::command::{Answer, Refusal};
use crate::fence::Fence;
use crate::names::LockKey;
use crate::queue::{
    ClientId, DEAD_MAX, LABEL_LIFE, OPENING, QUEUE_LIFE, QueueReport, RESERVATION, Ticket, Turn, WAITERS_MAX,
};
use crate::token::OwnerToken;

/// The waiters of one lock, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Line {
    tickets: BTreeSet<Ticket>,
    ends_ms: u64,
}

/// What the owner of a lock wrote beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Label {
    owner: OwnerToken,
    text: Arc<str>,
    ends_ms: u64,
}

impl LockTable {
    /// A client can be woken from now on.
    pub fn listen(&mut self, client: ClientId) {
        self.listeners.insert(client);
    }

    /// A client can be woken no longer: its connection is gone.
    pub fn stop_listening(&mut self, client: ClientId) {
        self.listeners.remove(&client);
    }

    /// All connections are gone: nobody can be woken.
    pub fn hang_up(&mut self) {
        self.listeners.clear();
        self.wakes.clear();
    }

    /// Forgets everything but who is connected, as a flush does.
    pub fn forget(&mut self) {
        *self = Self { listeners: std::mem::take(&mut self.listeners), ..Self::default() };
    }

    /// Gets another memory in the place of its own, as when two databases of a server change places. Who is connected stays.
    pub fn exchange(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.listeners, &mut other.listeners);
    }

    /// Whether this waiter is in line.
    #[must_use]
    pub fn is_in_line(&self, key: &LockKey, ticket: Ticket) -> bool {
        let kept = self.prefixes.get(key.prefix());
        kept.and_then(|kept| kept.lines.get(key)).is_some_and(|line| line.tickets.contains(&ticket))
    }

    /// Whom to wake next: a lock was set aside for this waiter.
    pub fn poll_wake(&mut self) -> Option<(LockKey, Ticket)> {
        self.wakes.pop_front()
    }

    /// How many wait for a lock.
    #[must_use]
    pub fn waiters(&self, key: &LockKey) -> usize {
        let kept = self.prefixes.get(key.prefix());
        kept.and_then(|kept| kept.lines.get(key)).map_or(0, |line| line.tickets.len())
    }

    /// How many wait for a lock at this time. Clients that were killed listen no more, and wait no more.
    pub(super) fn in_line(&self, now_ms: u64, key: &LockKey) -> usize {
        let line = self.prefixes.get(key.prefix()).and_then(|kept| kept.lines.get(key));
        let waits = |ticket: &&Ticket| self.listeners.contains(&ticket.client);
        line.filter(|line| line.ends_ms >= now_ms).map_or(0, |line| line.tickets.iter().filter(waits).count())
    }

    /// What the owner of a lock wrote beside it. What one before it wrote does not count.
    pub(super) fn label(&self, now_ms: u64, key: &LockKey) -> Option<&Arc<str>> {
        let (entry, label) = (self.entries.get(key)?, self.prefixes.get(key.prefix())?.labels.get(key)?);
        let current = label.ends_ms >= now_ms && entry.owner == Owner::Token(label.owner);
        current.then_some(&label.text)
    }

    /// Whoever is granted a lock waits for it no longer, and hears who is first in line. One who did not wait hears only
    /// that somebody may be, because the line is not looked at.
    pub(super) fn step_out(
        &mut self,
        now_ms: u64,
        key: &LockKey,
        ticket: Option<Ticket>,
        aside: bool,
        fenced: bool,
    ) -> Option<Ticket> {
        if aside {
            // It left the line when the lock was set aside for it. Who is next does not matter: it was its turn.
            if fenced {
                self.mark(now_ms, key);
            }
            return None;
        }
        let Some(ticket) = ticket else {
            let remembered = self.prefixes.get(key.prefix()).and_then(|kept| kept.fences.get(key));
            if !fenced || !remembered.is_some_and(|remembered| remembered.queued) {
                return None;
            }
            self.mark(now_ms, key);
            return Some(Ticket::SOMEBODY);
        };
        let line = self.line(now_ms, key);
        line.tickets.remove(&ticket);
        let first = line.tickets.first().copied();
        if fenced && first.is_some() {
            self.mark(now_ms, key);
        } else if fenced && let Some(remembered) = self.kept(key).fences.get_mut(key) {
            remembered.queued = false;
        }
        first
    }

    /// Leaves a mark beside the fence that somebody may be in line. It lives as long as the line does.
    fn mark(&mut self, now_ms: u64, key: &LockKey) {
        let kept = self.kept(key);
        let mut remembered = kept.fences.get(key).copied().unwrap_or(Remembered {
            fence: Fence::NONE,
            ends_ms: 0,
            queued: true,
        });
        kept.fence_ends.remove(&(remembered.ends_ms, key.clone()));
        remembered.queued = true;
        remembered.ends_ms = remembered.ends_ms.max(now_ms + millis(QUEUE_LIFE));
        kept.fence_ends.insert((remembered.ends_ms, key.clone()));
        kept.fences.insert(key.clone(), remembered);
    }

    /// Puts a waiter in line whose acquire was refused, and tells it where it stands.
    pub(super) fn line_up(
        &mut self,
        now_ms: u64,
        key: &LockKey,
        Turn { ticket, fresh }: Turn,
        refused: Answer,
        fence: &mut Option<Fence>,
        queue: &mut Option<Box<QueueReport>>,
    ) -> Answer {
        let line = self.line(now_ms, key);
        if fresh
            && !line.tickets.contains(&ticket)
            && let Some(last) = line.tickets.last().filter(|last| last.number >= ticket.number)
        {
            *fence = Some(Fence::new(last.number));
            return Answer::Refused(Refusal::Overtaken);
        }
        self.enqueue(now_ms, key, ticket);
        let tickets = &self.line(now_ms, key).tickets;
        let place = Some((tickets.range(..ticket).count() as u64, tickets.len() as u64));
        let holder = self.label(now_ms, key).cloned();
        *queue = Some(Box::new(QueueReport { ahead: None, place, holder }));
        refused
    }

    pub(super) fn enqueue(&mut self, now_ms: u64, key: &LockKey, ticket: Ticket) -> Answer {
        let line = self.line(now_ms, key);
        if line.tickets.len() < WAITERS_MAX {
            line.tickets.insert(ticket);
        }
        line.ends_ms = now_ms + millis(QUEUE_LIFE);
        self.mark(now_ms, key);
        Answer::Granted
    }

    pub(super) fn release_and_pass_on(
        &mut self,
        now_ms: u64,
        key: &LockKey,
        token: OwnerToken,
        labelled: bool,
        requeue: Option<Ticket>,
        queue: &mut Option<Box<QueueReport>>,
    ) -> Answer {
        if self.entries.get(key).is_none_or(|entry| entry.owner != Owner::Token(token)) {
            return Answer::Refused(Refusal::NotHeld);
        }
        if labelled {
            self.kept(key).labels.remove(key);
        }
        self.remove(key);
        // Ahead of those who came later: where nobody is before us, it comes back to us.
        if let Some(ticket) = requeue {
            self.enqueue(now_ms, key, ticket);
        }
        let ahead = self.pass_on(now_ms, key);
        *queue = ahead.map(|ahead| Box::new(QueueReport { ahead: Some(ahead), ..QueueReport::default() }));
        Answer::Granted
    }

    pub(super) fn release_and_open(
        &mut self,
        now_ms: u64,
        key: &LockKey,
        token: OwnerToken,
        labelled: bool,
        queue: &mut Option<Box<QueueReport>>,
    ) -> Answer {
        if self.entries.get(key).is_none_or(|entry| entry.owner != Owner::Token(token)) {
            return Answer::Refused(Refusal::NotHeld);
        }
        self.remove(key);
        if labelled {
            self.kept(key).labels.remove(key);
        }
        if !self.line(now_ms, key).tickets.is_empty() {
            self.kept(key).open.insert(key.clone(), now_ms + millis(OPENING));
            *queue = Some(Box::new(QueueReport { ahead: Some(Ticket::SOMEBODY), ..QueueReport::default() }));
        }
        Answer::Granted
    }

    /// For how much longer nobody in line is given the lock.
    pub(super) fn open_for(&self, now_ms: u64, key: &LockKey) -> Option<Duration> {
        let ends_ms = self.prefixes.get(key.prefix())?.open.get(key)?;
        (*ends_ms >= now_ms).then(|| Duration::from_millis(ends_ms - now_ms))
    }

    pub(super) fn requeue(
        &mut self,
        now_ms: u64,
        key: &LockKey,
        token: OwnerToken,
        ticket: Ticket,
    ) -> Answer {
        let answer = self.release(key, token);
        if answer == Answer::Granted {
            self.enqueue(now_ms, key, ticket);
        }
        answer
    }

    pub(super) fn leave(&mut self, now_ms: u64, key: &LockKey, ticket: Ticket) -> Answer {
        self.line(now_ms, key).tickets.remove(&ticket);
        if self.entries.get(key).is_some_and(|entry| entry.owner == Owner::Reserved(ticket)) {
            self.remove(key);
            self.pass_on(now_ms, key);
        }
        Answer::Granted
    }

    pub(super) fn nudge(&mut self, now_ms: u64, key: &LockKey) -> Answer {
        if !self.entries.contains_key(key) {
            self.pass_on(now_ms, key);
        }
        Answer::Granted
    }

    pub(super) fn put_label(&mut self, now_ms: u64, key: &LockKey, owner: OwnerToken, text: &Arc<str>) {
        let ends_ms = now_ms + millis(LABEL_LIFE);
        self.kept(key).labels.insert(key.clone(), Label { owner, text: Arc::clone(text), ends_ms });
    }

    /// Sets a free lock aside for the first waiter that listens, and wakes it. Others are gone, and leave the line.
    fn pass_on(&mut self, now_ms: u64, key: &LockKey) -> Option<Ticket> {
        if self.open_for(now_ms, key).is_some() {
            return None;
        }
        for _ in 0..DEAD_MAX {
            let ticket = self.line(now_ms, key).tickets.pop_first()?;
            if self.listeners.contains(&ticket.client) {
                self.reserve(now_ms, key, ticket);
                self.wakes.push_back((key.clone(), ticket));
                return Some(ticket);
            }
        }
        None
    }

    /// A line without waiters is none.
    pub(super) fn drop_empty_line(&mut self, key: &LockKey) {
        if let Some(kept) = self.prefixes.get_mut(key.prefix())
            && kept.lines.get(key).is_some_and(|line| line.tickets.is_empty())
        {
            kept.lines.remove(key);
            if *kept == Kept::default() {
                self.prefixes.remove(key.prefix());
            }
        }
    }

    pub(super) fn reserve(&mut self, now_ms: u64, key: &LockKey, ticket: Ticket) {
        let ends_ms = now_ms + millis(RESERVATION);
        self.put(key, Entry { owner: Owner::Reserved(ticket), ends_ms, counts_from_ms: None });
    }

    fn line(&mut self, now_ms: u64, key: &LockKey) -> &mut Line {
        let line = self.kept(key).lines.entry(key.clone()).or_default();
        if line.ends_ms < now_ms {
            line.tickets.clear();
        }
        line
    }

    fn kept(&mut self, key: &LockKey) -> &mut Kept {
        self.prefixes.entry(key.prefix().into()).or_default()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
