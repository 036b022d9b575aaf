//! What the store does with a command: what `LockTable` of the core says, on rows.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use tenure_core::{
    Answer, Command, Entry, Fence, Holding, LockKey, NodeTime, Nonce, Owner, OwnerToken, Prefix, QueueReport,
    Refusal, Reply, Swap, TRIM_FENCES, Ticket,
};

use super::acquire::Wanted;
use super::name::{Name, damaged, read_entry, signed, unsigned};
use super::trouble::{Result, Trouble};

/// How many locks a page of a list has.
const PAGE_KEYS: usize = 100;

/// Commands in one transaction, at one time each.
pub(super) struct Execution<'a> {
    pub(super) store: &'a Connection,
    pub(super) now: NodeTime,
    pub(super) now_ms: u64,
    /// Whether this client can be woken.
    pub(super) listens: &'a dyn Fn(Ticket) -> bool,
    /// Whom to wake when the transaction is committed.
    pub(super) wakes: &'a mut Vec<(Arc<str>, Ticket)>,
}

/// What a reply tells beside its answer.
#[derive(Default)]
pub(super) struct Told {
    pub(super) fence: Option<Fence>,
    pub(super) queue: Option<Box<QueueReport>>,
}

/// Whether a command leaves the store as it is.
pub(super) fn only_reads(command: &Command) -> bool {
    matches!(command, Command::Inspect { .. } | Command::List { .. } | Command::Record { swap: None, .. })
}

impl Execution<'_> {
    pub(super) fn execute(&mut self, command: &Command) -> Result<Reply> {
        let mut told = Told::default();
        let answer = match command {
            Command::Record { prefix, swap } => self.record(prefix, swap.as_ref())?,
            Command::Trim { .. } => self.trim()?,
            Command::Clear { prefix, cursor, nonce } => self.clear(prefix, *cursor, *nonce)?,
            Command::List { prefix, cursor } => self.list(prefix, *cursor)?,
            _ => {
                let unknown = || Trouble::refused("it does not know this command");
                self.with_name(command.key().ok_or_else(unknown)?, command, &mut told)?
            }
        };
        Ok(Reply { time: Some(self.now), fence: told.fence, queue: told.queue, answer })
    }

    fn with_name(&mut self, key: &LockKey, command: &Command, told: &mut Told) -> Result<Answer> {
        let mut name = Name::load(self.store, key, self.now_ms)?;
        let before = name.clone();
        let answer = match command {
            Command::Acquire { token, node_ttl_ms, nonce, fence, beside, .. } => {
                let beside = beside.as_deref().cloned().unwrap_or_default();
                let wanted = Wanted {
                    key,
                    token: *token,
                    node_ttl_ms: *node_ttl_ms,
                    nonce: *nonce,
                    claim: *fence,
                    turn: beside.turn,
                    label: beside.label.as_ref(),
                };
                self.acquire(&mut name, &wanted, told)?
            }
            Command::Heal { token, node_ttl_ms, fence, quarantine_ms, .. } => {
                let entry = Entry::put_back(self.now_ms, *token, *node_ttl_ms, *quarantine_ms);
                self.heal(&mut name, entry, *fence)
            }
            Command::Extend { token, node_ttl_ms, .. } => self.extend(&mut name, *token, *node_ttl_ms),
            Command::Release { token, .. } => release(&mut name, *token),
            Command::PassOn { token, labelled, requeue, .. } => {
                self.release_and_pass_on(key, &mut name, *token, *labelled, *requeue, told)?
            }
            Command::Open { token, labelled, .. } => {
                if name.is_held_by(*token) {
                    name.entry = None;
                    self.open(&mut name, *labelled, told)?;
                    Answer::Granted
                } else {
                    Answer::Refused(Refusal::NotHeld)
                }
            }
            Command::Requeue { token, ticket, .. } => {
                let answer = release(&mut name, *token);
                if answer == Answer::Granted {
                    self.enqueue(key, &mut name, *ticket)?;
                }
                answer
            }
            Command::Enqueue { ticket, .. } => {
                self.enqueue(key, &mut name, *ticket)?;
                Answer::Granted
            }
            Command::Leave { ticket, .. } => self.leave(key, &mut name, *ticket)?,
            Command::Nudge { .. } => {
                if name.entry.is_none() {
                    self.pass_on(key, &mut name)?;
                }
                Answer::Granted
            }
            _ => self.inspect(key, &name)?,
        };
        if name != before {
            name.store(self.store, key, self.now_ms)?;
        }
        Ok(answer)
    }

    fn extend(&self, name: &mut Name, token: OwnerToken, node_ttl_ms: u64) -> Answer {
        match &mut name.entry {
            Some(entry) if entry.owner == Owner::Token(token) => {
                entry.ends_ms = entry.ends_ms.max(self.now_ms.saturating_add(node_ttl_ms));
                entry.vote(self.now_ms)
            }
            Some(entry) => Answer::Refused(Refusal::Held { left: left(self.now_ms, entry) }),
            None => Answer::Refused(Refusal::NotHeld),
        }
    }

    fn inspect(&self, key: &LockKey, name: &Name) -> Result<Answer> {
        let holding = name.entry.map(|entry| Holding {
            key: key.as_str().into(),
            owner: entry.owner.to_string().into(),
            left: Some(left(self.now_ms, &entry)),
            fence: name.fence().filter(|fence| *fence != Fence::NONE),
            label: name.label(self.now_ms),
        });
        let waiters = Some(self.in_line(name)?);
        Ok(Answer::Told { holdings: holding.into_iter().collect(), waiters, next: 0 })
    }

    /// The locks in the order in which their names came into the store, from behind the `cursor`-th on.
    fn list(&self, prefix: &Prefix, cursor: u64) -> Result<Answer> {
        let mut page = self.store.prepare(
            "SELECT id, key, owner, ends_ms FROM names
             WHERE id > ?1 AND owner IS NOT NULL AND ends_ms >= ?2 AND key >= ?3 AND key < ?4 ORDER BY id LIMIT ?5",
        )?;
        // No text has this byte, so all that begin with the prefix come before.
        let (from, mut to) = (prefix.as_str().as_bytes(), prefix.as_str().as_bytes().to_vec());
        to.push(0xff);
        let (now_ms, more) = (signed(self.now_ms), signed(PAGE_KEYS as u64 + 1));
        let mut rows = page.query((signed(cursor), now_ms, from, to, more))?;
        let (mut holdings, mut last, mut next) = (vec![], 0, 0);
        while let Some(row) = rows.next()? {
            if holdings.len() == PAGE_KEYS {
                next = last;
                break;
            }
            let (key, owner): (Vec<u8>, String) = (row.get(1)?, row.get(2)?);
            let entry = read_entry(&owner, unsigned(row.get(3)?)?)?;
            last = unsigned(row.get(0)?)?;
            holdings.push(Holding {
                key: String::from_utf8(key).map_err(|_| damaged("a key"))?.into(),
                owner: entry.owner.to_string().into(),
                left: Some(left(self.now_ms, &entry)),
                fence: None,
                label: None,
            });
        }
        Ok(Answer::Told { holdings, waiters: None, next })
    }

    fn clear(&self, prefix: &Prefix, cursor: u64, nonce: Nonce) -> Result<Answer> {
        if !self.record_of(prefix.as_str())?.is_some_and(|record| nonce.begins(&record)) {
            return Ok(Answer::Refused(Refusal::Stranger));
        }
        let mut page = self.list(prefix, cursor)?;
        if let Answer::Told { holdings, .. } = &mut page {
            holdings.retain(|holding| !holding.is_reserved());
            for holding in holdings {
                let name = holding.key.strip_prefix(prefix.as_str()).unwrap_or_default();
                let key = LockKey::new(prefix, name).map_err(|_| damaged("a key"))?;
                let mut name = Name::load(self.store, &key, self.now_ms)?;
                name.entry = None;
                name.store(self.store, &key, self.now_ms)?;
            }
        }
        Ok(page)
    }

    fn record(&self, prefix: &Prefix, swap: Option<&Swap>) -> Result<Answer> {
        let record = self.record_of(prefix.as_str())?;
        let Some(Swap { text, stamp, .. }) = swap.filter(|swap| swap.expected == record) else {
            return Ok(Answer::Record(record));
        };
        let text: Arc<str> =
            if *stamp { format!("{text}{}", self.now.as_micros()).into() } else { Arc::clone(text) };
        let mut put = self.store.prepare("INSERT OR REPLACE INTO records (prefix, text) VALUES (?1, ?2)")?;
        put.execute((prefix.as_str().as_bytes(), &*text))?;
        Ok(Answer::Record(Some(text)))
    }

    pub(super) fn record_of(&self, prefix: &str) -> Result<Option<Arc<str>>> {
        let mut get = self.store.prepare("SELECT text FROM records WHERE prefix = ?1")?;
        let text: Option<String> = get.query_row([prefix.as_bytes()], |row| row.get(0)).optional()?;
        Ok(text.map(Into::into))
    }

    /// Removes rows in which nothing matters any more, of whichever prefix.
    fn trim(&self) -> Result<Answer> {
        let mut over = self.store.prepare("SELECT id FROM names WHERE forget_ms < ?1 LIMIT ?2")?;
        let over = over.query_map((signed(self.now_ms), signed(TRIM_FENCES)), |row| row.get(0))?;
        let over = over.collect::<rusqlite::Result<Vec<i64>>>()?;
        for id in &over {
            self.store.prepare("DELETE FROM waiters WHERE name = ?1")?.execute([id])?;
            self.store.prepare("DELETE FROM names WHERE id = ?1")?.execute([id])?;
        }
        let mut any = self.store.prepare("SELECT EXISTS (SELECT 1 FROM names)")?;
        let left = u64::from(any.query_row([], |row| row.get::<_, bool>(0))?);
        // Its time never goes back, so no fence is ahead of it.
        Ok(Answer::Trimmed { seen: over.len() as u64, left, latest: None })
    }
}

fn release(name: &mut Name, token: OwnerToken) -> Answer {
    let as_acquired = name.entry.is_some_and(|entry| entry.counts_from_ms.is_none());
    if !name.is_held_by(token) || !as_acquired {
        return Answer::Refused(Refusal::NotHeld);
    }
    name.entry = None;
    Answer::Granted
}

pub(super) fn left(now_ms: u64, entry: &Entry) -> Duration {
    Duration::from_millis(entry.ends_ms.saturating_sub(now_ms))
}
