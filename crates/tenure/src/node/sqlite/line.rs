//! Those who wait for the locks of a store, and what holders wrote beside them.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::OptionalExtension;
use tenure_core::{
    Answer, ClientId, DEAD_MAX, Entry, Fence, LABEL_LIFE, LockKey, OPENING, Owner, OwnerToken, QUEUE_LIFE,
    QueueReport, RESERVATION, Refusal, Ticket, Turn, WAITERS_MAX,
};

use super::execute::{Execution, Told};
use super::name::{Label, Name, Remembered, damaged, signed, unsigned};
use super::trouble::Result;

/// Of so many clients it is seen whether they are still there, when somebody asks how many wait; more of them hardly wait
/// for one lock.
const LOOKED_AT_MAX: i64 = 256;

impl Execution<'_> {
    /// Whoever is granted a lock waits for it no longer, and hears who is first in line. One who did not wait hears only
    /// that somebody may be, because the line is not looked at.
    pub(super) fn step_out(
        &mut self,
        name: &mut Name,
        ticket: Option<Ticket>,
        aside: bool,
        fenced: bool,
    ) -> Result<Option<Ticket>> {
        if aside {
            // It left the line when the lock was set aside for it. Who is next does not matter: it was its turn.
            if fenced {
                self.mark(name);
            }
            return Ok(None);
        }
        let Some(ticket) = ticket else {
            let queued = name.remembered.is_some_and(|remembered| remembered.queued);
            if !fenced || !queued {
                return Ok(None);
            }
            self.mark(name);
            return Ok(Some(Ticket::SOMEBODY));
        };
        self.look_at_line(name)?;
        self.remove(name, ticket)?;
        let first = self.first(name)?;
        if fenced && first.is_some() {
            self.mark(name);
        } else if fenced && let Some(remembered) = &mut name.remembered {
            remembered.queued = false;
        }
        Ok(first)
    }

    /// Puts a waiter in line whose acquire was refused, and tells it where it stands.
    pub(super) fn line_up(
        &mut self,
        key: &LockKey,
        name: &mut Name,
        Turn { ticket, fresh }: Turn,
        refused: Answer,
        told: &mut Told,
    ) -> Result<Answer> {
        self.look_at_line(name)?;
        if fresh
            && !self.is_in_line(name, ticket)?
            && let Some(last) = self.last(name)?.filter(|last| last.number >= ticket.number)
        {
            told.fence = Some(Fence::new(last.number));
            return Ok(Answer::Refused(Refusal::Overtaken));
        }
        self.enqueue(key, name, ticket)?;
        let place = Some((self.ahead_of(name, ticket)?, self.count(name)?));
        told.queue = Some(Box::new(QueueReport { ahead: None, place, holder: name.label(self.now_ms) }));
        Ok(refused)
    }

    pub(super) fn enqueue(&mut self, key: &LockKey, name: &mut Name, ticket: Ticket) -> Result<()> {
        self.look_at_line(name)?;
        if self.count(name)? < WAITERS_MAX as u64 {
            let id = name.id(self.store, key)?;
            let insert = "INSERT OR IGNORE INTO waiters (name, number, client) VALUES (?1, ?2, ?3)";
            let row = (id, signed(ticket.number), ticket.client.to_string());
            self.store.prepare(insert)?.execute(row)?;
        }
        name.line_ends_ms = self.now_ms + millis(QUEUE_LIFE);
        self.mark(name);
        Ok(())
    }

    pub(super) fn release_and_pass_on(
        &mut self,
        key: &LockKey,
        name: &mut Name,
        token: OwnerToken,
        labelled: bool,
        requeue: Option<Ticket>,
        told: &mut Told,
    ) -> Result<Answer> {
        if !name.is_held_by(token) {
            return Ok(Answer::Refused(Refusal::NotHeld));
        }
        if labelled {
            name.label = None;
        }
        name.entry = None;
        // Ahead of those who came later: where nobody is before us, it comes back to us.
        if let Some(ticket) = requeue {
            self.enqueue(key, name, ticket)?;
        }
        let ahead = self.pass_on(key, name)?;
        told.queue =
            ahead.map(|ahead| Box::new(QueueReport { ahead: Some(ahead), ..QueueReport::default() }));
        Ok(Answer::Granted)
    }

    /// Leaves a lock that was released to those outside the line for a moment, if somebody is in it.
    pub(super) fn open(&mut self, name: &mut Name, labelled: bool, told: &mut Told) -> Result<()> {
        if labelled {
            name.label = None;
        }
        self.look_at_line(name)?;
        if self.count(name)? > 0 {
            name.open_ends_ms = self.now_ms + millis(OPENING);
            told.queue =
                Some(Box::new(QueueReport { ahead: Some(Ticket::SOMEBODY), ..QueueReport::default() }));
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, key: &LockKey, name: &mut Name, ticket: Ticket) -> Result<Answer> {
        self.look_at_line(name)?;
        self.remove(name, ticket)?;
        if name.entry.is_some_and(|entry| entry.owner == Owner::Reserved(ticket)) {
            name.entry = None;
            self.pass_on(key, name)?;
        }
        Ok(Answer::Granted)
    }

    /// Sets a free lock aside for the first waiter that listens, and wakes it. Others are gone, and leave the line.
    pub(super) fn pass_on(&mut self, key: &LockKey, name: &mut Name) -> Result<Option<Ticket>> {
        self.look_at_line(name)?;
        if name.open_ends_ms >= self.now_ms {
            return Ok(None);
        }
        for _ in 0..DEAD_MAX {
            let Some(ticket) = self.first(name)? else { return Ok(None) };
            self.remove(name, ticket)?;
            if (self.listens)(ticket) {
                self.reserve(name, ticket);
                self.wakes.push((key.as_str().into(), ticket));
                return Ok(Some(ticket));
            }
        }
        Ok(None)
    }

    pub(super) fn reserve(&self, name: &mut Name, ticket: Ticket) {
        let ends_ms = self.now_ms + millis(RESERVATION);
        name.entry = Some(Entry { owner: Owner::Reserved(ticket), ends_ms, counts_from_ms: None });
    }

    pub(super) fn put_label(&self, name: &mut Name, owner: OwnerToken, text: &Arc<str>) {
        let ends_ms = self.now_ms + millis(LABEL_LIFE);
        name.label = Some(Label { owner, text: Arc::clone(text), ends_ms });
    }

    /// How many wait at this time. Clients that were killed listen no more, and wait no more.
    pub(super) fn in_line(&self, name: &Name) -> Result<u64> {
        if name.line_ends_ms < self.now_ms {
            return Ok(0);
        }
        let mut waiters = self.count(name)?;
        let sql =
            "SELECT client, count(*), min(number) FROM waiters WHERE name = ?1 GROUP BY client LIMIT ?2";
        let mut clients = self.store.prepare(sql)?;
        let mut rows = clients.query((name.id, LOOKED_AT_MAX))?;
        while let Some(row) = rows.next()? {
            let client = ClientId::parse(&row.get::<_, String>(0)?).ok_or_else(|| damaged("a waiter"))?;
            let (count, number) = (unsigned(row.get(1)?)?, unsigned(row.get(2)?)?);
            if !(self.listens)(Ticket { number, client }) {
                waiters = waiters.saturating_sub(count);
            }
        }
        Ok(waiters)
    }

    /// Leaves a mark beside the fence that somebody may be in line. It lives as long as the line does.
    fn mark(&self, name: &mut Name) {
        let unknown = Remembered { fence: Fence::NONE, ends_ms: 0, queued: true };
        let remembered = name.remembered.get_or_insert(unknown);
        remembered.queued = true;
        remembered.ends_ms = remembered.ends_ms.max(self.now_ms + millis(QUEUE_LIFE));
    }

    /// A line that nobody has touched for long is none.
    fn look_at_line(&self, name: &Name) -> Result<()> {
        if let Some(id) = name.id.filter(|_| name.line_ends_ms != 0 && name.line_ends_ms < self.now_ms) {
            self.store.prepare("DELETE FROM waiters WHERE name = ?1")?.execute([id])?;
        }
        Ok(())
    }

    fn remove(&self, name: &Name, ticket: Ticket) -> Result<()> {
        if let Some(id) = name.id {
            let delete = "DELETE FROM waiters WHERE name = ?1 AND number = ?2 AND client = ?3";
            let row = (id, signed(ticket.number), ticket.client.to_string());
            self.store.prepare(delete)?.execute(row)?;
        }
        Ok(())
    }

    fn is_in_line(&self, name: &Name, ticket: Ticket) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM waiters WHERE name = ?1 AND number = ?2 AND client = ?3)";
        let row = (name.id, signed(ticket.number), ticket.client.to_string());
        Ok(self.store.prepare(sql)?.query_row(row, |row| row.get(0))?)
    }

    fn first(&self, name: &Name) -> Result<Option<Ticket>> {
        self.one(name, "SELECT number, client FROM waiters WHERE name = ?1 ORDER BY number, client LIMIT 1")
    }

    fn last(&self, name: &Name) -> Result<Option<Ticket>> {
        let sql =
            "SELECT number, client FROM waiters WHERE name = ?1 ORDER BY number DESC, client DESC LIMIT 1";
        self.one(name, sql)
    }

    fn one(&self, name: &Name, sql: &str) -> Result<Option<Ticket>> {
        let Some(id) = name.id else { return Ok(None) };
        let mut find = self.store.prepare(sql)?;
        let found: Option<(i64, String)> =
            find.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((number, client)) = found else { return Ok(None) };
        let client = ClientId::parse(&client).ok_or_else(|| damaged("a waiter"))?;
        Ok(Some(Ticket { number: unsigned(number)?, client }))
    }

    fn count(&self, name: &Name) -> Result<u64> {
        let Some(id) = name.id else { return Ok(0) };
        let mut count = self.store.prepare("SELECT count(*) FROM waiters WHERE name = ?1")?;
        unsigned(count.query_row([id], |row| row.get(0))?)
    }

    fn ahead_of(&self, name: &Name, ticket: Ticket) -> Result<u64> {
        let sql = "SELECT count(*) FROM waiters WHERE name = ?1 AND (number, client) < (?2, ?3)";
        let row = (name.id, signed(ticket.number), ticket.client.to_string());
        unsigned(self.store.prepare(sql)?.query_row(row, |row| row.get(0))?)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
