//! What goes wrong with a store, in words that name the file and say what to do.

use std::path::Path;

use rusqlite::ErrorCode;

/// Why a store cannot be used, or did not do what was asked.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The database said so.
    Database(rusqlite::Error),
    /// The file, its folder or what is in it is not what it must be.
    Refused(String),
}

pub(super) type Result<T> = std::result::Result<T, Trouble>;

impl Trouble {
    pub(super) fn refused(words: impl Into<String>) -> Self {
        Self::Refused(words.into())
    }

    /// Somebody else is writing, and has been for too long.
    pub(super) fn is_busy(&self) -> bool {
        let code = match self {
            Self::Database(error) => error.sqlite_error_code(),
            Self::Refused(_) => None,
        };
        matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether a store that cannot be opened for this reason stays so until somebody fixes it.
    pub(super) fn needs_fixing(&self) -> bool {
        let Self::Database(error) = self else { return true };
        let code = error.sqlite_error_code();
        matches!(
            code,
            Some(
                ErrorCode::NotADatabase
                    | ErrorCode::DatabaseCorrupt
                    | ErrorCode::ReadOnly
                    | ErrorCode::PermissionDenied
                    | ErrorCode::CannotOpen
            )
        )
    }

    /// What to tell a person.
    pub(super) fn words(&self, path: &Path) -> String {
        let path = path.display();
        let error = match self {
            Self::Refused(words) => return format!("the store {path} cannot be used: {words}"),
            Self::Database(error) => error,
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => format!(
                "the store {path} is busy: another process has been writing for too long. Find the process \
                 that is stuck (fuser {path}) and stop it"
            ),
            Some(ErrorCode::NotADatabase) => format!(
                "the store {path} cannot be used: it is not a database. Use another path, or move this \
                 file away"
            ),
            Some(ErrorCode::DatabaseCorrupt) => format!(
                "the store {path} is damaged ({error}). Stop every program that uses it, wait until their \
                 locks have expired, then move it away with its -wal and -shm files; fences restart from \
                 the clock"
            ),
            Some(ErrorCode::DiskFull) => {
                format!(
                    "the store {path} cannot be written: the disk is full. Free some space; no lock is \
                     granted until then"
                )
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => format!(
                "the store {path} cannot be written ({error}). Make the file and its folder writable for \
                 this user, or use another path"
            ),
            Some(ErrorCode::SystemIoFailure) => format!(
                "the store {path} cannot be read or written ({error}). Check the disk: is it full, over \
                 quota or failing?"
            ),
            _ => format!("the store {path} failed ({error})"),
        }
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<String> for Trouble {
    fn from(words: String) -> Self {
        Self::Refused(words)
    }
}
