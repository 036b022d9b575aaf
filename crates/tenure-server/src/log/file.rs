//! Where lines go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Others than the group of the service have no business with who calls it.
const MODE: u32 = 0o640;

/// A file that lines are added to, or standard error. A clone writes to the same.
#[derive(Clone, Debug, Default)]
pub struct LogFile {
    path: Option<PathBuf>,
    file: Arc<Mutex<Option<File>>>,
}

impl LogFile {
    /// Standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self::default()
    }

    /// The file with this path, which is made if it is not there.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: Some(path.to_owned()), file: Arc::new(Mutex::new(Some(opened(path)?))) })
    }

    /// Opens the path again, because the file that was there has been moved away. If that fails,
    /// lines go where they went before.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn reopen(&self) -> io::Result<()> {
        if let Some(path) = &self.path {
            let file = opened(path)?;
            *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        }
        Ok(())
    }

    /// Adds whole lines, with one write: other instances may write to the same file.
    pub(super) fn append(&self, lines: &str) -> io::Result<()> {
        match &mut *self.file.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => file.write_all(lines.as_bytes()),
            None => io::stderr().lock().write_all(lines.as_bytes()),
        }
    }

    /// The same, and comes back when they would survive a loss of power.
    pub(super) fn append_durably(&self, lines: &str) -> io::Result<()> {
        self.append(lines)?;
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match file.as_ref().map_or(Ok(()), File::sync_data) {
            // Not a file on a disk.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }
}

fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}
