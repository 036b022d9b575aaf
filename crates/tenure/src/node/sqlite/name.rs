//! What the store keeps for one name: a row, read as a whole and written back if it changed.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row};
use tenure_core::{Entry, Fence, LockKey, Owner, OwnerToken, RESERVED_LEAD, Ticket};

use super::trouble::{Result, Trouble};

/// Everything about one name, as of the present.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Name {
    /// Where it is in the store, if it is.
    pub(super) id: Option<i64>,
    pub(super) entry: Option<Entry>,
    pub(super) remembered: Option<Remembered>,
    pub(super) label: Option<Label>,
    /// The last millisecond of those who wait in line, unless somebody touches it.
    pub(super) line_ends_ms: u64,
    /// The last millisecond at which nobody in line is given the lock.
    pub(super) open_ends_ms: u64,
}

/// The last fence of a lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Remembered {
    pub(super) fence: Fence,
    pub(super) ends_ms: u64,
    /// Somebody may be in line.
    pub(super) queued: bool,
}

/// What the owner of a lock wrote beside it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label {
    pub(super) owner: OwnerToken,
    pub(super) text: Arc<str>,
    pub(super) ends_ms: u64,
}

impl Name {
    /// Reads a row; what is over is not there any more.
    pub(super) fn load(store: &Connection, key: &LockKey, now_ms: u64) -> Result<Self> {
        let mut row = store.prepare(
            "SELECT id, owner, ends_ms, fence, fence_ends_ms, queued, label_owner, label, label_ends_ms, line_ends_ms
             FROM names WHERE key = ?1",
        )?;
        let name = row.query_row([key.as_str().as_bytes()], |row| Ok(Self::read(row))).optional()?;
        let mut name = name.transpose()?.unwrap_or_default();
        name.entry = name.entry.filter(|entry| entry.ends_ms >= now_ms);
        name.remembered = name.remembered.filter(|remembered| remembered.ends_ms >= now_ms);
        Ok(name)
    }

    fn read(row: &Row<'_>) -> Result<Self> {
        let entry = match row.get::<_, Option<String>>(1)? {
            Some(owner) => Some(read_entry(&owner, unsigned(row.get(2)?)?)?),
            None => None,
        };
        let remembered = match row.get::<_, Option<i64>>(3)? {
            Some(fence) => Some(Remembered {
                fence: Fence::new(unsigned(fence)?),
                ends_ms: unsigned(row.get(4)?)?,
                queued: row.get(5)?,
            }),
            None => None,
        };
        let label = match (row.get::<_, Option<String>>(6)?, row.get::<_, Option<String>>(7)?) {
            (Some(owner), Some(text)) => {
                let owner = OwnerToken::parse(&owner).map_err(|_| damaged("a label's owner"))?;
                Some(Label { owner, text: text.into(), ends_ms: unsigned(row.get(8)?)? })
            }
            _ => None,
        };
        // One is the mark alone.
        let open_ends_ms = unsigned(row.get(5)?)?;
        let line_ends_ms = unsigned(row.get(9)?)?;
        Ok(Self { id: row.get(0)?, entry, remembered, label, line_ends_ms, open_ends_ms })
    }

    /// Writes the row back, or removes it if nothing in it matters any more.
    pub(super) fn store(&mut self, store: &Connection, key: &LockKey, now_ms: u64) -> Result<()> {
        let forget_ms = self.forget_ms();
        if forget_ms < now_ms {
            if let Some(id) = self.id.take() {
                store.prepare("DELETE FROM waiters WHERE name = ?1")?.execute([id])?;
                store.prepare("DELETE FROM names WHERE id = ?1")?.execute([id])?;
            }
            return Ok(());
        }
        let id = self.id(store, key)?;
        let mut update = store.prepare(
            "UPDATE names SET owner = ?2, ends_ms = ?3, fence = ?4, fence_ends_ms = ?5, queued = ?6, label_owner = ?7,
             label = ?8, label_ends_ms = ?9, line_ends_ms = ?10, forget_ms = ?11 WHERE id = ?1",
        )?;
        update.execute((
            id,
            self.entry.as_ref().map(write_owner),
            signed(self.entry.map_or(0, |entry| entry.ends_ms)),
            self.remembered.map(|remembered| remembered.fence.as_i64()),
            signed(self.remembered.map_or(0, |remembered| remembered.ends_ms)),
            match self.remembered {
                Some(Remembered { queued: true, .. }) if self.open_ends_ms < now_ms => 1,
                Some(Remembered { queued: true, .. }) => signed(self.open_ends_ms),
                _ => 0,
            },
            self.label.as_ref().map(|label| label.owner.to_string()),
            self.label.as_ref().map(|label| &*label.text),
            signed(self.label.as_ref().map_or(0, |label| label.ends_ms)),
            signed(self.line_ends_ms),
            signed(forget_ms),
        ))?;
        Ok(())
    }

    /// Where it is in the store; it gets a row if it has none.
    pub(super) fn id(&mut self, store: &Connection, key: &LockKey) -> Result<i64> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let mut insert = store.prepare("INSERT INTO names (key) VALUES (?1) RETURNING id")?;
        let id = insert.query_row([key.as_str().as_bytes()], |row| row.get(0))?;
        self.id = Some(id);
        Ok(id)
    }

    /// The fence that is remembered, whether it was granted or only stands beside the mark of a line.
    pub(super) fn fence(&self) -> Option<Fence> {
        self.remembered.map(|remembered| remembered.fence)
    }

    pub(super) fn is_held_by(&self, token: OwnerToken) -> bool {
        self.entry.is_some_and(|entry| entry.owner == Owner::Token(token))
    }

    /// What the holder wrote beside the lock. What one before it wrote does not count.
    pub(super) fn label(&self, now_ms: u64) -> Option<Arc<str>> {
        let label = self.label.as_ref().filter(|label| label.ends_ms >= now_ms)?;
        self.is_held_by(label.owner).then(|| Arc::clone(&label.text))
    }

    /// The last millisecond at which anything about it matters.
    fn forget_ms(&self) -> u64 {
        let entry_ms = self.entry.map_or(0, |entry| entry.ends_ms);
        let fence_ms = self.remembered.map_or(0, |remembered| remembered.ends_ms);
        let label_ms = self.label.as_ref().map_or(0, |label| label.ends_ms);
        entry_ms.max(fence_ms).max(label_ms).max(self.line_ends_ms)
    }
}

/// An owner, and behind it, if its lock was put back, from when on that counts.
fn write_owner(entry: &Entry) -> String {
    match entry.counts_from_ms {
        Some(from_ms) => format!("{}~{from_ms}", entry.owner),
        None => entry.owner.to_string(),
    }
}

pub(super) fn read_entry(text: &str, ends_ms: u64) -> Result<Entry> {
    let (text, counts_from_ms) = match text.split_once('~') {
        Some((owner, from_ms)) => (owner, Some(from_ms.parse().map_err(|_| damaged("an owner"))?)),
        None => (text, None),
    };
    let owner = match text.strip_prefix(RESERVED_LEAD) {
        Some(ticket) => Ticket::parse(ticket).map(Owner::Reserved),
        None => OwnerToken::parse(text).ok().map(Owner::Token),
    };
    let owner = owner.ok_or_else(|| damaged("an owner"))?;
    Ok(Entry { owner, ends_ms, counts_from_ms })
}

pub(super) fn damaged(what: &str) -> Trouble {
    Trouble::refused(format!(
        "{what} in it cannot be read. Another program has written there; end every program that uses it and move it away"
    ))
}

pub(super) fn unsigned(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| damaged("a number"))
}

/// As the database counts. Nothing that matters is as large.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
