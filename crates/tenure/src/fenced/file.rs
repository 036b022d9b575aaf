//! A file that only the last holder of a lock can replace.
//!
//! Beside the file `x` lie `x.fence` with the largest fence seen, and `x.fence.lock`, which is only
//! ever locked, for the moment of one check and one replacement. A claim changes the fence alone
//! and a write the contents alone, each by renaming a complete, synced `x.fence.tmp` over the old
//! file: a crash at any moment leaves the old state or the new one. A lock of the operating system
//! goes with its process, so a crash also leaves nothing locked.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::Fence;

/// How long to wait by default for another process that is checking and replacing. That takes
/// milliseconds; one that was paused in the middle of it may take any time.
const BUSY_LIMIT: Duration = Duration::from_secs(10);

/// The longest pause between two looks whether the other process is done.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A file that remembers the largest fence it has seen and refuses smaller ones.
///
/// [`FencedFile::claim`] records the fence and returns the only way to read and write, so nobody
/// reads before the file knows their fence. Every process that writes the file must do it this way.
/// Others may read it as a plain file: they see the old contents or the new, never a mixture.
///
/// Calls block on the disk; async programs use `spawn_blocking`. The file is replaced, not changed:
/// hard links keep the old contents. On a network file system it works as well as file locks and
/// renames do there.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("visits");
/// use tenure::fenced::{FencedFile, FencedFileError};
///
/// let locks = tenure::Locks::memory();
/// let file = FencedFile::new(&path);
///
/// let guard = locks.lock("visits").acquire().await?;
/// let paused = file.claim(guard.fence())?;
/// assert_eq!(paused.read()?, None, "there is no file yet");
/// guard.release().await?; // or it expired while its holder was paused
///
/// let guard = locks.lock("visits").acquire().await?;
/// file.claim(guard.fence())?.write(b"1")?;
///
/// let late = paused.write(b"1");
/// assert!(matches!(late, Err(FencedFileError::Stale { .. })));
/// assert_eq!(std::fs::read(&path)?, b"1");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FencedFile {
    path: PathBuf,
    busy_limit: Duration,
}

/// A [`FencedFile`] claimed by one holder. Made by [`FencedFile::claim`].
#[derive(Clone, Debug)]
#[must_use = "a claim is what reads and writes the file"]
pub struct FencedFileClaim {
    files: FencedFiles,
    fence: Fence,
}

/// Why a fenced file was not claimed, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FencedFileError {
    /// A later holder has claimed it: the lock was lost on the way. Nothing was changed.
    #[error(
        "{} was claimed by a later holder, with fence {seen}; ours is {ours}. Nothing was changed: acquire \
         the lock again, then claim and read again",
        file.display()
    )]
    #[non_exhaustive]
    Stale {
        /// The file.
        file: PathBuf,
        /// The fence of the later holder.
        seen: Fence,
        /// The fence that was refused.
        ours: Fence,
    },
    /// The lock was acquired without fencing.
    #[error(
        "{} cannot be claimed without a fence. Acquire the lock without `unfenced()`",
        file.display()
    )]
    #[non_exhaustive]
    Unfenced {
        /// The file.
        file: PathBuf,
    },
    /// The record of this claim is gone: somebody removed or replaced the file with the fence.
    #[error(
        "{} no longer has fence {ours}; it has {seen}. Someone changed {}. Nothing was written: claim and \
         read again, and keep that file together with the one it protects",
        file.display(), beside(file, "").display()
    )]
    #[non_exhaustive]
    Forgotten {
        /// The file.
        file: PathBuf,
        /// The fence it knows.
        seen: Fence,
        /// The fence that was claimed.
        ours: Fence,
    },
    /// The stored fence is not a number. It is never guessed.
    #[error(
        "{} does not contain a fence. If the file it protects is intact and not in use, remove this one",
        file.display()
    )]
    #[non_exhaustive]
    Damaged {
        /// The file with the fence.
        file: PathBuf,
    },
    /// Another process was claiming or writing all the time. Nothing was changed.
    #[error(
        "{} was busy for {waited:?}. Look for a process that was paused while writing it, and resume or \
         kill it",
        file.display()
    )]
    #[non_exhaustive]
    Busy {
        /// The file.
        file: PathBuf,
        /// How long this call waited.
        waited: Duration,
    },
    /// The system refused. After a failed write the file has either the old contents or the new;
    /// read it to find out.
    #[error("{} cannot be {tried}: {error}. Check the path, its permissions and the disk space", file.display())]
    #[non_exhaustive]
    Io {
        /// The file.
        file: PathBuf,
        /// What was tried.
        tried: &'static str,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

impl FencedFile {
    /// The file at `path`. It need not exist, but its folder has to. Nothing is opened yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), busy_limit: BUSY_LIMIT }
    }

    /// How long a call may wait for another process that is in the middle of one. Default 10 s, and
    /// milliseconds are enough unless that process was paused just then.
    #[must_use]
    pub const fn busy_limit(mut self, limit: Duration) -> Self {
        self.busy_limit = limit;
        self
    }

    /// Makes the file remember the fence of the lock that protects it, so that earlier holders are
    /// refused from now on. The same holder may claim it as often as it likes.
    ///
    /// # Errors
    /// [`FencedFileError::Stale`] if a later holder has claimed it, and the others.
    pub fn claim(&self, fence: Fence) -> Result<FencedFileClaim, FencedFileError> {
        let files = FencedFiles::resolve(&self.path, self.busy_limit)?;
        if fence == Fence::NONE {
            return Err(FencedFileError::Unfenced { file: files.contents });
        }
        let _alone = files.exclude_others()?;
        let seen = files.fence()?;
        if fence < seen {
            return Err(FencedFileError::Stale { file: files.contents, seen, ours: fence });
        }
        if fence > seen {
            files.replace(&files.fence, format!("{fence}\n").as_bytes())?;
        }
        Ok(FencedFileClaim { files, fence })
    }
}

impl FencedFileClaim {
    /// The fence it was claimed with.
    #[must_use]
    pub const fn fence(&self) -> Fence {
        self.fence
    }

    /// The contents; `None` if there is no file yet.
    ///
    /// # Errors
    /// [`FencedFileError::Stale`] if a later holder has claimed the file meanwhile, and the others.
    pub fn read(&self) -> Result<Option<Vec<u8>>, FencedFileError> {
        let _alone = self.files.exclude_others()?;
        self.check()?;
        read_if_any(&self.files.contents)
    }

    /// Replaces the contents, all at once. They are on disk when this comes back.
    ///
    /// # Errors
    /// [`FencedFileError::Stale`] if a later holder has claimed the file meanwhile, and the others.
    pub fn write(&self, contents: &[u8]) -> Result<(), FencedFileError> {
        let _alone = self.files.exclude_others()?;
        self.check()?;
        self.files.replace(&self.files.contents, contents)
    }

    /// Whether this claim is still the last one.
    fn check(&self) -> Result<(), FencedFileError> {
        let (file, seen, ours) = (self.files.contents.clone(), self.files.fence()?, self.fence);
        match seen {
            seen if seen > ours => Err(FencedFileError::Stale { file, seen, ours }),
            // What was read under a claim that nobody remembers may have been overwritten since.
            seen if seen < ours => Err(FencedFileError::Forgotten { file, seen, ours }),
            _ => Ok(()),
        }
    }
}

/// Where everything is, and how long to wait for it.
#[derive(Clone, Debug)]
struct FencedFiles {
    folder: PathBuf,
    contents: PathBuf,
    fence: PathBuf,
    lock: PathBuf,
    /// One for both, because only who has the lock makes it; what a crash leaves is overwritten.
    new: PathBuf,
    busy_limit: Duration,
}

impl FencedFiles {
    /// The same files for every path that leads to the one file, or two holders would not meet.
    fn resolve(path: &Path, busy_limit: Duration) -> Result<Self, FencedFileError> {
        let contents = match fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = match path.parent() {
                    Some(folder) if !folder.as_os_str().is_empty() => folder,
                    _ => Path::new("."),
                };
                let name = path.file_name().ok_or(error).map_err(refused(path, "found"))?;
                fs::canonicalize(folder).map_err(refused(folder, "found"))?.join(name)
            }
            found => found.map_err(refused(path, "found"))?,
        };
        let folder = contents.parent().unwrap_or(&contents).to_owned();
        let [fence, lock, new] = ["", ".lock", ".tmp"].map(|suffix| beside(&contents, suffix));
        Ok(Self { folder, contents, fence, lock, new, busy_limit })
    }

    /// Keeps every other process and thread from checking and replacing until the answer is
    /// dropped.
    fn exclude_others(&self) -> Result<File, FencedFileError> {
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&self.lock);
        let lock = lock.map_err(refused(&self.lock, "opened"))?;
        let (start, mut pause) = (Instant::now(), Duration::from_micros(100));
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::Error(error)) => return Err(refused(&self.lock, "locked")(error)),
                Err(TryLockError::WouldBlock) if start.elapsed() > self.busy_limit => {
                    let (file, waited) = (self.contents.clone(), start.elapsed());
                    return Err(FencedFileError::Busy { file, waited });
                }
                Err(TryLockError::WouldBlock) => thread::sleep(pause),
            }
            pause = (pause * 2).min(LOOK_AGAIN);
        }
    }

    /// The largest fence seen.
    fn fence(&self) -> Result<Fence, FencedFileError> {
        let Some(text) = read_if_any(&self.fence)? else { return Ok(Fence::NONE) };
        let number = str::from_utf8(&text).ok().and_then(|text| text.trim_end().parse().ok());
        number.map(Fence::new).ok_or_else(|| FencedFileError::Damaged { file: self.fence.clone() })
    }

    /// Puts new contents in the place of a file, such that a crash leaves the old or the new.
    fn replace(&self, file: &Path, contents: &[u8]) -> Result<(), FencedFileError> {
        let write = || -> io::Result<()> {
            let mut new = File::create(&self.new)?;
            if let Ok(old) = fs::metadata(file) {
                new.set_permissions(old.permissions())?;
            }
            new.write_all(contents)?;
            new.sync_all()
        };
        write().map_err(refused(&self.new, "written"))?;
        fs::rename(&self.new, file).map_err(refused(file, "replaced"))?;
        // Elsewhere a folder cannot be opened; there the system decides when the rename is on disk.
        if cfg!(unix) {
            let sync = File::open(&self.folder).and_then(|folder| folder.sync_all());
            sync.map_err(refused(&self.folder, "synced"))?;
        }
        Ok(())
    }
}

/// The file with the fence, or one that belongs to it.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".fence");
    name.push(suffix);
    name.into()
}

fn read_if_any(file: &Path) -> Result<Option<Vec<u8>>, FencedFileError> {
    match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(refused(file, "read")),
    }
}

fn refused(file: &Path, tried: &'static str) -> impl FnOnce(io::Error) -> FencedFileError {
    let file = file.to_owned();
    move |error| FencedFileError::Io { file, tried, error }
}
