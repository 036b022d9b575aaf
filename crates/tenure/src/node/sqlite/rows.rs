//! Where the store keeps its names, those in line and its records: the rows that the core's rules
//! work on.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Params};
use tenure_core::node::{LastFence, Name, Shelf, Slice};
use tenure_core::{Answer, LockKey, Note, OwnerId, Prefix, TRIM_FENCES, Ticket, WAITERS_TOLD_MAX, Waiter};

use super::name::{damaged, read_name, signed, unsigned, write_owner};
use super::trouble::{Result, Trouble};

/// Of so many clients it is seen whether they are still there, when somebody asks how many wait;
/// more of them hardly wait for one lock.
const LOOKED_AT_MAX: i64 = 256;

/// Among so many in line those are looked for that are still there, when somebody asks who waits.
const TOLD_OF_MAX: i64 = 1_000;

/// The rows of a store in one transaction, for one command.
pub(super) struct Rows<'a> {
    pub(super) store: &'a Connection,
    /// Whether this client can be woken.
    pub(super) listens: &'a dyn Fn(Ticket) -> bool,
    /// Whom to wake when the transaction is committed.
    pub(super) wakes: &'a mut Vec<(Arc<str>, Ticket)>,
    /// Where the name is in the store, if it is. Found when it is loaded.
    pub(super) id: Option<i64>,
}

impl Rows<'_> {
    /// Changes rows. How many.
    fn change(&self, sql: &str, values: impl Params) -> Result<usize> {
        Ok(self.store.prepare(sql)?.execute(values)?)
    }

    /// A number about those in line for the name.
    fn number(&self, sql: &str, values: impl Params) -> Result<u64> {
        unsigned(self.store.prepare(sql)?.query_row(values, |row| row.get(0))?)
    }

    /// The first waiter in this order.
    fn one(&self, sql: &str) -> Result<Option<Ticket>> {
        let Some(id) = self.id else { return Ok(None) };
        let mut find = self.store.prepare(sql)?;
        let found: Option<(i64, String)> =
            find.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((number, client)) = found else { return Ok(None) };
        read_ticket(number, &client).map(Some)
    }

    /// A waiter's row.
    fn place(&self, ticket: Ticket) -> (Option<i64>, i64, String) {
        let text = ticket.to_string();
        let client = text.split_once(':').map_or("", |(_, client)| client);
        (self.id, signed(ticket.number), client.to_owned())
    }

    /// Where the name is in the store; it gets a row if it has none.
    fn make(&mut self, key: &LockKey) -> Result<i64> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let mut insert = self.store.prepare("INSERT INTO names (key) VALUES (?1) RETURNING id")?;
        let id = insert.query_row([key.as_str().as_bytes()], |row| row.get(0))?;
        self.id = Some(id);
        Ok(id)
    }

    fn delete(&self, id: i64) -> Result<()> {
        self.change("DELETE FROM waiters WHERE name = ?1", [id])?;
        self.change("DELETE FROM names WHERE id = ?1", [id])?;
        Ok(())
    }
}

impl Shelf for Rows<'_> {
    type Trouble = Trouble;

    fn load(&mut self, key: &LockKey) -> Result<Name> {
        let mut row = self.store.prepare(
            "SELECT owner, ends_ms, fence, fence_ends_ms, queued, label_owner, label, label_ends_ms, line_ends_ms,
             shared_fence, alone_fence, fence_owner, id FROM names WHERE key = ?1",
        )?;
        let found = row.query_row([key.as_str().as_bytes()], |row| Ok((row.get(12)?, read_name(row))));
        // Commands about several names load one after the other.
        self.id = None;
        let Some((id, name)) = found.optional()? else { return Ok(Name::default()) };
        self.id = Some(id);
        name
    }

    /// Writes the row, or removes it if nothing in it matters any more.
    fn store(&mut self, now_ms: u64, key: &LockKey, name: Name) -> Result<()> {
        let forget_ms = name.ends_ms().max().unwrap_or(0);
        if forget_ms < now_ms {
            return self.id.take().map_or(Ok(()), |id| self.delete(id));
        }
        let Name { entry, holds, group, fence, label, line_ends_ms, open_ends_ms } = name;
        let fence = fence.as_ref();
        let among = fence.filter(|last| last.alone != last.fence || last.owner.is_some());
        let id = self.make(key)?;
        self.change(
            "UPDATE names SET owner = ?2, ends_ms = ?3, fence = ?4, fence_ends_ms = ?5, queued = ?6, label_owner = ?7,
             label = ?8, label_ends_ms = ?9, line_ends_ms = ?10, forget_ms = ?11, shared_fence = ?12,
             alone_fence = ?13, fence_owner = ?14 WHERE id = ?1",
            (
                id,
                entry.as_ref().map(|entry| write_owner(entry, &holds, group.as_ref())),
                signed(entry.map_or(0, |entry| entry.ends_ms)),
                fence.map(|last| last.fence.as_i64()),
                signed(fence.map_or(0, |last| last.ends_ms)),
                match fence {
                    Some(LastFence { queued: true, .. }) => signed(open_ends_ms.max(1)),
                    _ => 0,
                },
                label.as_ref().map(|label| label.owner.to_string()),
                label.as_ref().map(|label| &*label.text),
                signed(label.as_ref().map_or(0, |label| label.ends_ms)),
                signed(line_ends_ms),
                signed(forget_ms),
                among.map(|last| last.fence.as_i64()),
                among.map(|last| last.alone.as_i64()),
                among.and_then(|last| last.owner.as_ref()).map(OwnerId::as_str),
            ),
        )?;
        Ok(())
    }

    fn in_line(&self, _: &LockKey) -> Result<u64> {
        self.number("SELECT count(*) FROM waiters WHERE name = ?1", [self.id])
    }

    fn in_line_listening(&self, key: &LockKey) -> Result<u64> {
        let mut waiters = self.in_line(key)?;
        let sql =
            "SELECT client, count(*), min(number) FROM waiters WHERE name = ?1 GROUP BY client LIMIT ?2";
        let mut clients = self.store.prepare(sql)?;
        let mut rows = clients.query((self.id, LOOKED_AT_MAX))?;
        while let Some(row) = rows.next()? {
            let ticket = read_ticket(row.get(2)?, &row.get::<_, String>(0)?)?;
            if !self.listens(ticket) {
                waiters = waiters.saturating_sub(unsigned(row.get(1)?)?);
            }
        }
        Ok(waiters)
    }

    fn first(&self, _: &LockKey) -> Result<Option<Ticket>> {
        self.one("SELECT number, client FROM waiters WHERE name = ?1 ORDER BY number, client LIMIT 1")
    }

    fn first_of(&self, _: &LockKey, sharing: bool) -> Result<Option<Ticket>> {
        self.one(match sharing {
            true => {
                "SELECT number, client FROM waiters WHERE name = ?1 AND client LIKE '%r'
                 ORDER BY number, client LIMIT 1"
            }
            false => {
                "SELECT number, client FROM waiters WHERE name = ?1 AND client NOT LIKE '%r'
                 ORDER BY number, client LIMIT 1"
            }
        })
    }

    fn last(&self, _: &LockKey) -> Result<Option<Ticket>> {
        self.one(
            "SELECT number, client FROM waiters WHERE name = ?1 ORDER BY number DESC, client DESC LIMIT 1",
        )
    }

    fn contains(&self, _: &LockKey, ticket: Ticket) -> Result<bool> {
        let sql = "SELECT count(*) FROM waiters WHERE name = ?1 AND number = ?2 AND client = ?3";
        Ok(self.number(sql, self.place(ticket))? > 0)
    }

    fn ahead_of(&self, _: &LockKey, ticket: Ticket) -> Result<u64> {
        let sql = "SELECT count(*) FROM waiters WHERE name = ?1 AND (number, client) < (?2, ?3)";
        self.number(sql, self.place(ticket))
    }

    fn insert(&mut self, key: &LockKey, ticket: Ticket) -> Result<bool> {
        self.make(key)?;
        let sql = "INSERT OR IGNORE INTO waiters (name, number, client) VALUES (?1, ?2, ?3)";
        Ok(self.change(sql, self.place(ticket))? > 0)
    }

    fn note(&mut self, _: &LockKey, ticket: Ticket, note: &Note) -> Result<()> {
        let (name, number, client) = self.place(ticket);
        let sql = "UPDATE waiters SET note = ?4 WHERE name = ?1 AND number = ?2 AND client = ?3";
        self.change(sql, (name, number, client, note.to_text()))?;
        Ok(())
    }

    fn tell_line(&self, _: &LockKey) -> Result<Vec<Waiter>> {
        let sql = "SELECT number, client, note FROM waiters WHERE name = ?1 ORDER BY number, client LIMIT ?2";
        let mut line = self.store.prepare(sql)?;
        let mut rows = line.query((self.id, TOLD_OF_MAX))?;
        let (mut waiters, mut listening) = (vec![], BTreeMap::new());
        while waiters.len() < WAITERS_TOLD_MAX
            && let Some(row) = rows.next()?
        {
            let ticket = read_ticket(row.get(0)?, &row.get::<_, String>(1)?)?;
            if *listening.entry(ticket.client).or_insert_with(|| self.listens(ticket)) {
                let note = row.get::<_, Option<String>>(2)?;
                waiters.push(Waiter {
                    ticket,
                    note: note.map_or_else(Note::default, |text| Note::parse(&text)),
                });
            }
        }
        Ok(waiters)
    }

    fn remove(&mut self, _: &LockKey, ticket: Ticket) -> Result<()> {
        let sql = "DELETE FROM waiters WHERE name = ?1 AND number = ?2 AND client = ?3";
        self.change(sql, self.place(ticket))?;
        Ok(())
    }

    fn clear(&mut self, _: &LockKey) -> Result<()> {
        self.change("DELETE FROM waiters WHERE name = ?1", [self.id])?;
        Ok(())
    }

    fn listens(&self, ticket: Ticket) -> bool {
        (self.listens)(ticket)
    }

    fn wake(&mut self, key: &LockKey, ticket: Ticket) {
        self.wakes.push((key.as_str().into(), ticket));
    }

    fn record(&self, prefix: &str) -> Result<Option<Arc<str>>> {
        let mut get = self.store.prepare("SELECT text FROM records WHERE prefix = ?1")?;
        let text: Option<String> = get.query_row([prefix.as_bytes()], |row| row.get(0)).optional()?;
        Ok(text.map(Into::into))
    }

    fn put_record(&mut self, prefix: &Prefix, text: &Arc<str>) -> Result<()> {
        let row = (prefix.as_str().as_bytes(), &**text);
        self.change("INSERT OR REPLACE INTO records (prefix, text) VALUES (?1, ?2)", row)?;
        Ok(())
    }

    fn give_up(&mut self, now_ms: u64, prefix: &Prefix) -> Result<()> {
        let (from, to) = range(prefix);
        self.change("DELETE FROM records WHERE prefix = ?1", [from])?;
        self.change(
            "UPDATE names SET fence = NULL, fence_ends_ms = 0, queued = 0 WHERE fence > 0 AND key >= ?1 AND key < ?2",
            (from, &to),
        )?;
        // What is left of a name that nobody holds or waits for is a label that nobody reads.
        self.change(
            "DELETE FROM names WHERE fence IS NULL AND (owner IS NULL OR ends_ms < ?3) AND key >= ?1 AND key < ?2
             AND NOT EXISTS (SELECT 1 FROM waiters WHERE name = names.id)",
            (from, &to, signed(now_ms)),
        )?;
        Ok(())
    }

    /// Removes rows in which nothing matters any more, of whichever prefix.
    fn trim(&mut self, now_ms: u64, _: &Prefix) -> Result<Answer> {
        let mut over = self.store.prepare("SELECT id FROM names WHERE forget_ms < ?1 LIMIT ?2")?;
        let over = over.query_map((signed(now_ms), signed(TRIM_FENCES)), |row| row.get(0))?;
        let over = over.collect::<rusqlite::Result<Vec<i64>>>()?;
        over.iter().try_for_each(|id| self.delete(*id))?;
        let left = self.number("SELECT EXISTS (SELECT 1 FROM names)", [])?;
        // Its time never goes back, so no fence is ahead of it.
        Ok(Answer::Trimmed { seen: over.len() as u64, left, latest: None })
    }

    /// The locks in the order in which their names came into the store, from behind the `cursor`-th
    /// on.
    fn slice(&self, now_ms: u64, lead: &str, cursor: u64, keys: u32) -> Result<Slice> {
        let mut page = self.store.prepare(
            "SELECT id, key, owner IS NOT NULL AND ends_ms >= ?2 FROM names WHERE id > ?1 ORDER BY id LIMIT ?3",
        )?;
        let mut rows = page.query((signed(cursor), signed(now_ms), i64::from(keys.max(1))))?;
        let (mut slice, mut last, mut looked_at) = (Slice::default(), 0, 0);
        while let Some(row) = rows.next()? {
            (last, looked_at) = (unsigned(row.get(0)?)?, looked_at + 1);
            if row.get(2)? {
                let key = String::from_utf8(row.get(1)?).map_err(|_| damaged("a key"))?;
                slice.locks.extend(key.starts_with(lead).then(|| key.into()));
            }
        }
        let highest: Option<i64> =
            self.store.prepare("SELECT max(id) FROM names")?.query_row([], |row| row.get(0))?;
        slice.keys = unsigned(highest.unwrap_or(0))?;
        slice.next = if looked_at < keys.max(1) { 0 } else { last };
        slice.walked_ppm = Slice::millionths(slice.next, slice.keys);
        Ok(slice)
    }
}

/// The keys under a prefix: from the first on, and before the second. No text has the byte behind
/// it, so all that begin with the prefix come before.
fn range(prefix: &Prefix) -> (&[u8], Vec<u8>) {
    let from = prefix.as_str().as_bytes();
    (from, [from, &[0xff]].concat())
}

/// A waiter, by its number and whatever else its ticket says.
fn read_ticket(number: i64, rest: &str) -> Result<Ticket> {
    Ticket::parse(&format!("{number}:{rest}")).ok_or_else(|| damaged("a waiter"))
}
