//! A store: the database, its clock, and transactions of commands.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tenure_core::{Command, Reply, Ticket, node};

use super::files::{StoreFiles, refuse_old_log};
use super::location;
use super::rows::Rows;
use super::time::{Machine, StoreClock};
use super::trouble::{Result, Trouble};
use super::wake;

/// Marks the file as ours: "Tenu".
const APPLICATION_ID: i64 = 0x5465_6e75;

/// The form of the tables that this version knows.
const FORM: i64 = 1;

/// How many pages the log grows to before it is written back: short enough to be read in a moment
/// by whoever opens the store.
const CHECKPOINT_PAGES: i64 = 256;

/// How long a store that others are writing to is waited for: many times what a slow disk needs,
/// and less than the default node timeout, so that whoever asked hears why.
const BUSY_MAX: Duration = Duration::from_millis(1_500);

/// Pauses between two tries while others are writing: below the time a disk takes, and rare enough
/// to cost nothing.
const BUSY_PAUSE_MIN: Duration = Duration::from_micros(100);
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(2);

const GONE: &str = "it, or the -wal or -shm file beside it, was removed or replaced while in use. The new \
                    one does not know the locks held in the old one";

/// An open store.
pub(super) struct Store {
    database: Connection,
    clock: StoreClock,
    life: Arc<str>,
    /// The group may use it, too.
    shared: bool,
    /// Until the database is closed, so it comes behind it.
    files: Arc<StoreFiles>,
    /// Locked while we have the store open.
    _presence: File,
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub(super) struct OpenOptions {
    pub(super) path: Arc<Path>,
    /// Nobody else may enter its folder.
    pub(super) private: bool,
    #[cfg(test)]
    pub(super) machine: Option<Machine>,
}

impl OpenOptions {
    fn machine(&self) -> Result<Machine> {
        #[cfg(test)]
        if let Some(machine) = &self.machine {
            return Ok(machine.clone());
        }
        Machine::real()
    }
}

impl Store {
    /// `forgot`: its log was lost while somebody had it open.
    pub(super) fn open(options: &OpenOptions, forgot: bool) -> Result<Self> {
        let machine = options.machine()?;
        let path = &*options.path;
        let found = location::prepare(path, options.private)?;
        refuse_old_log(found.file)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut database = Connection::open_with_flags(path, flags)?;
        database.busy_handler(Some(wait_a_little))?;
        if database.is_readonly("main")? {
            return Err(Trouble::refused(
                "this user cannot write to it. Make the file and its folder writable, or use another path",
            ));
        }
        // Before anything is changed.
        let is_new = recognise(&database.unchecked_transaction()?)?;
        keep_trying(|| {
            let mode: String = database.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
            match mode.as_str() {
                "wal" => Ok(()),
                _ => Err(Trouble::refused("its disk does not support a write-ahead log; use another folder")),
            }
        })?;
        database.pragma_update(None, "synchronous", "FULL")?;
        database.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        // Programs come and go; the log is not written back by each of them.
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let presence = wake::make_folder(path, found.shared)?;
        let presence = File::open(&presence)
            .map_err(|error| Trouble::refused(format!("{}: {error}", presence.display())))?;
        let (clock, life) = begin(&mut database, machine, &presence, is_new, forgot)?;
        let files = StoreFiles::opened(path, found.file);
        Ok(Self { database, clock, life, shared: found.shared, files, _presence: presence })
    }

    /// Names the file among all files.
    pub(super) fn life(&self) -> Arc<str> {
        Arc::clone(&self.life)
    }

    /// The group may use it, too.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// It may have forgotten locks: its log is gone.
    pub(super) fn has_forgotten(&self) -> bool {
        self.files.have_lost_the_log()
    }

    /// Executes commands in order, in one transaction: when this comes back without trouble all of
    /// it is on disk.
    pub(super) fn execute<'c>(
        &mut self,
        commands: impl Iterator<Item = &'c Command> + Clone,
        listens: &dyn Fn(Ticket) -> bool,
        wakes: &mut Vec<(Arc<str>, Ticket)>,
    ) -> std::result::Result<Vec<Reply>, NotDone> {
        let gone = |maybe: bool| NotDone { trouble: Trouble::refused(GONE), maybe };
        if !self.files.are_in_place() {
            return Err(gone(false));
        }
        let replies = self.transact(commands, listens, wakes);
        if replies.is_err() {
            self.clock.distrust_ceiling();
        } else if !self.files.are_in_place() {
            // Whoever has opened the new files meanwhile knows nothing of it.
            return Err(gone(true));
        }
        replies
    }

    fn transact<'c>(
        &mut self,
        commands: impl Iterator<Item = &'c Command> + Clone,
        listens: &dyn Fn(Ticket) -> bool,
        wakes: &mut Vec<(Arc<str>, Ticket)>,
    ) -> std::result::Result<Vec<Reply>, NotDone> {
        let reads = commands.clone().all(Command::only_reads);
        let behavior = if reads { TransactionBehavior::Deferred } else { TransactionBehavior::Immediate };
        let not_done = |maybe: bool| move |trouble: Trouble| NotDone { trouble, maybe };
        let transaction = self.database.transaction_with_behavior(behavior);
        let transaction = transaction.map_err(Trouble::from).map_err(not_done(false))?;
        if !reads {
            self.clock.cover(&transaction).map_err(not_done(false))?;
        }
        let mut replies = Vec::with_capacity(commands.size_hint().0);
        for command in commands {
            let mut rows = Rows { store: &transaction, listens, wakes, id: None };
            // What was done before is undone with the rest.
            replies.push(node::execute(&mut rows, self.clock.now(), command).map_err(not_done(false))?);
        }
        if !reads {
            // The machine may have been suspended in between.
            self.clock.cover(&transaction).map_err(not_done(false))?;
        }
        transaction.commit().map_err(Trouble::from).map_err(not_done(true))?;
        Ok(replies)
    }
}

/// Commands were not executed, or nobody knows.
pub(super) struct NotDone {
    pub(super) trouble: Trouble,
    /// They may have been.
    pub(super) maybe: bool,
}

/// Whether the database is a new one. One that is not ours is refused. It is looked at in one
/// transaction: another program may be making it, and half of that looks like somebody else's.
fn recognise(database: &Transaction<'_>) -> Result<bool> {
    let number = |sql: &str| Ok::<i64, Trouble>(database.query_row(sql, [], |row| row.get(0))?);
    let (application, form) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    match (application, form, tables) {
        (0, 0, 0) => Ok(true),
        (APPLICATION_ID, FORM, _) => Ok(false),
        (APPLICATION_ID, FORM.., _) => Err(Trouble::refused(format!(
            "it was written by a newer version of Tenure (format {form}; this version reads {FORM}). Use \
             that version, or another path"
        ))),
        _ => Err(Trouble::refused("it is another program's database. Use another path")),
    }
}

/// Makes the tables if there are none, and starts the clock. A store that may have forgotten locks
/// loses its records: so every client sees it, and keeps it out for a while.
fn begin(
    database: &mut Connection,
    machine: Machine,
    presence: &File,
    is_new: bool,
    forgot: bool,
) -> Result<(StoreClock, Arc<str>)> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Somebody else may have been quicker.
    if is_new && recognise(&transaction)? {
        transaction.execute_batch(include_str!("schema.sql"))?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| {
            Trouble::refused(format!(
                "the operating system provides no random numbers \
                                                       ({error})"
            ))
        })?;
        let life = random.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        transaction.execute("INSERT INTO life (id, name) VALUES (1, ?1)", [life])?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", FORM)?;
    }
    // What older versions made lacks these, and they do not mind them.
    for addition in include_str!("columns.sql").lines().filter(|line| line.starts_with("ALTER")) {
        let word = |place| addition.split(' ').nth(place);
        let found = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
        if transaction.query_row(found, [word(2), word(5)], |row| row.get::<_, i64>(0))? == 0 {
            transaction.execute_batch(addition)?;
        }
    }
    if forgot {
        transaction.execute("DELETE FROM records", [])?;
    }
    let clock = StoreClock::start(&transaction, machine, presence)?;
    let life: String = transaction.query_row("SELECT name FROM life", [], |row| row.get(0))?;
    transaction.commit()?;
    Ok((clock, life.into()))
}

fn wait_a_little(tries: i32) -> bool {
    let tries = u32::try_from(tries).unwrap_or(u32::MAX);
    // All pauses together are at most so long, but for what the system adds to each.
    if BUSY_PAUSE_MAX.saturating_mul(tries) > BUSY_MAX {
        return false;
    }
    std::thread::sleep(BUSY_PAUSE_MIN.saturating_mul(tries.saturating_add(1)).min(BUSY_PAUSE_MAX));
    true
}

/// The database does not wait by itself while it changes how it keeps its log.
fn keep_trying(mut step: impl FnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        match step() {
            Err(trouble) if trouble.is_busy() && start.elapsed() < BUSY_MAX => {
                std::thread::sleep(BUSY_PAUSE_MAX);
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test of ours can take the power away: what is written and not synced is there for all who
    /// look.
    #[test]
    fn every_commit_waits_until_the_log_is_on_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let path: Arc<Path> = folder.path().join("locks.db").into();
        for _ in 0..2 {
            let options = OpenOptions { path: Arc::clone(&path), private: false, machine: None };
            let store = Store::open(&options, false).expect("a store");
            let full: i64 =
                store.database.query_row("PRAGMA synchronous", [], |row| row.get(0)).expect("a number");
            let mode: String =
                store.database.query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a word");
            assert_eq!((full, &*mode), (2, "wal"));
        }
    }
}
