//! Which files an open store consists of: the database, its log and its shared memory.
//!
//! The last two are found by their names when the store is opened. If they are removed, whoever has
//! them open goes on in files that nobody else sees, so it looks whether they are still there,
//! before and after it writes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::location;
use super::trouble::{Result, Trouble};

/// The stores that this process has open.
static OPEN: Mutex<Vec<Weak<StoreFiles>>> = Mutex::new(vec![]);

/// One file among all of the machine, whatever its name.
pub(super) type FileId = (u64, u64);

/// The files of an open store.
#[derive(Debug)]
pub(super) struct StoreFiles {
    path: PathBuf,
    database: FileId,
    beside: [Option<FileId>; 2],
}

impl StoreFiles {
    /// The files of the store that was just opened at `path`.
    pub(super) fn opened(path: &Path, database: FileId) -> Arc<Self> {
        let files = Arc::new(Self { path: path.to_owned(), database, beside: beside(path) });
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|files| files.strong_count() > 0);
        open.push(Arc::downgrade(&files));
        files
    }

    /// Whether all of them are still where they were.
    pub(super) fn are_in_place(&self) -> bool {
        id_of(&self.path) == Some(self.database) && self.are_beside()
    }

    /// Whether the database is there without the log that we wrote to, and so may have forgotten
    /// locks.
    pub(super) fn have_lost_the_log(&self) -> bool {
        id_of(&self.path) == Some(self.database) && !self.are_beside()
    }

    fn are_beside(&self) -> bool {
        self.beside.iter().all(Option::is_some) && beside(&self.path) == self.beside
    }
}

/// The database library lends the shared memory that a process has open to all who open the same
/// database in it, whatever lies beside the file by now. So nobody may open it again before the
/// others have noticed.
pub(super) fn refuse_old_log(database: FileId) -> Result<()> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut same = open.iter().filter_map(Weak::upgrade).filter(|files| files.database == database);
    match same.all(|files| files.are_in_place()) {
        true => Ok(()),
        false => Err(Trouble::refused(
            "its log was removed, or the store was moved, and another `Locks` in this program has not \
             noticed yet",
        )),
    }
}

fn beside(path: &Path) -> [Option<FileId>; 2] {
    location::beside(path).map(|path| id_of(&path))
}

fn id_of(path: &Path) -> Option<FileId> {
    path.symlink_metadata().ok().map(|seen| (seen.dev(), seen.ino()))
}
