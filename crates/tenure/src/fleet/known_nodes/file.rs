//! The file on disk.
//!
//! It is read without a lock, because it is only ever replaced as a whole: the new text is written
//! beside it (`known_nodes.tmp`), synced and renamed, and the folder is synced. Whoever replaces it
//! holds a lock of the operating system on `known_nodes.lock`, which ends with its process, and
//! reads the file again first. So a process that is killed leaves the old file or the new one, and
//! nothing locked.
//!
//! A file that others could have written is not believed, and not replaced: a person has to look at
//! it. One that is damaged is put aside (`known_nodes.damaged`).

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Location;
use super::book::Book;
use super::text::{self, Unreadable};
use crate::machine::folder::{self, EVERYBODY_WRITES, GROUP_WRITES, own_id};

/// No file of ours is larger: all nodes with all their lives and long names.
const BYTES_MAX: u64 = 8 * 1024 * 1024;

/// What is in the file now.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) book: Book,
    /// What people should know about it.
    pub(super) complaint: Option<String>,
}

/// Reads the file. One that is not there says nothing, nor does one that is damaged: that is told
/// when it is replaced.
pub(super) fn read(location: &Location) -> Result<Book, String> {
    match load(location)? {
        Loaded::Missing | Loaded::Damaged => Ok(Book::default()),
        Loaded::Book(book) => Ok(book),
    }
}

/// Changes what is in the file; `change` says whether there is anything to change. What is returned
/// is on disk.
pub(super) fn change(
    location: &Location,
    mut change: impl FnMut(&mut Book) -> bool,
) -> Result<Contents, String> {
    let path = location.path()?;
    if let Loaded::Book(mut book) = load(location)?
        && !change(&mut book)
    {
        return Ok(Contents { book, complaint: None });
    }
    let folder = folder(path)?;
    let shared = folder::check(folder, location.private)?;
    let _locked = lock(path, shared)?;
    let (mut book, complaint) = match load(location)? {
        Loaded::Missing => (Book::default(), None),
        Loaded::Book(book) => (book, None),
        Loaded::Damaged => {
            let aside = beside(path, "damaged");
            std::fs::rename(path, &aside).map_err(|error| cannot("be moved aside", &error))?;
            let words = format!(
                "it was damaged and moved to {}; this machine knows no nodes until it connects to them again",
                aside.display()
            );
            (Book::default(), Some(words))
        }
    };
    // Another process may have written the same meanwhile.
    if change(&mut book) {
        replace(path, folder, shared, &text::write(&book)).map_err(|error| cannot("be written", &error))?;
    }
    Ok(Contents { book, complaint })
}

enum Loaded {
    Missing,
    Book(Book),
    Damaged,
}

fn load(location: &Location) -> Result<Loaded, String> {
    let path = location.path()?;
    let mut file = match open(OpenOptions::new().read(true), path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Loaded::Missing),
        Err(error) if is_link(path) => {
            return Err(format!("it is a symbolic link; use the file it points to ({error})"));
        }
        Err(error) => return Err(cannot("be read", &error)),
    };
    let shared = folder::check(folder(path)?, location.private)?;
    check(&file, shared)?;
    let mut bytes = vec![];
    let read = Read::by_ref(&mut file).take(BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| cannot("be read", &error))?;
    let text = String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= BYTES_MAX);
    match text.map(|text| text::read(&text)) {
        Some(Ok(book)) => Ok(Loaded::Book(book)),
        Some(Err(Unreadable::Newer)) => {
            Err("it was written by a newer version of Tenure; use that version, or another file".to_owned())
        }
        Some(Err(Unreadable::Damaged)) | None => Ok(Loaded::Damaged),
    }
}

/// Nobody else may have written it.
fn check(file: &File, shared: bool) -> Result<(), String> {
    let seen = file.metadata().map_err(|error| cannot("be inspected", &error))?;
    if !seen.is_file() {
        return Err("it is not a file".to_owned());
    }
    if seen.mode() & EVERYBODY_WRITES != 0 || (seen.mode() & GROUP_WRITES != 0 && !shared) {
        return Err("it is writable by others, so it is not trusted; remove it, or run chmod 600".to_owned());
    }
    if seen.uid() != own_id() && !shared {
        return Err(
            "it belongs to another user; use another file, or share its folder with a group (chmod g+w)"
                .to_owned(),
        );
    }
    Ok(())
}

/// A lock on the file beside, and not on one that was removed meanwhile. It waits for whoever
/// replaces the file just now: in the kernel, where those who come later do not get ahead.
fn lock(path: &Path, shared: bool) -> Result<File, String> {
    let path = &beside(path, "lock");
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(mode(shared));
        let file = open(&mut options, path).map_err(|error| cannot("be locked", &error))?;
        if shared {
            // Not ours if another member of the group has made it, and then as it should be.
            let _ = file.set_permissions(Permissions::from_mode(mode(shared)));
        }
        match file.lock() {
            Ok(()) if is_at(&file, path) => return Ok(file),
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(cannot("be locked", &error)),
        }
    }
}

fn replace(path: &Path, folder: &Path, shared: bool, text: &str) -> Result<(), Error> {
    let new = beside(path, "tmp");
    // Left by a process that was killed.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = open(OpenOptions::new().write(true).create_new(true).mode(mode(shared)), &new)?;
    if shared {
        file.set_permissions(Permissions::from_mode(mode(shared)))?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(folder)?.sync_all()
}

const fn mode(shared: bool) -> u32 {
    if shared { 0o660 } else { 0o600 }
}

/// Opens what is called so itself, never what a link there points to; and never waits for a pipe.
#[cfg(target_os = "linux")]
fn open(options: &mut OpenOptions, path: &Path) -> Result<File, Error> {
    use rustix::fs::OFlags;
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open(options: &mut OpenOptions, path: &Path) -> Result<File, Error> {
    if is_link(path) {
        return Err(Error::other("a symbolic link"));
    }
    options.open(path)
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|seen| seen.file_type().is_symlink())
}

fn is_at(file: &File, path: &Path) -> bool {
    let id = |seen: std::fs::Metadata| (seen.dev(), seen.ino());
    let (open, there) = (file.metadata().map(id).ok(), path.symlink_metadata().map(id).ok());
    open.is_some() && open == there
}

fn folder(path: &Path) -> Result<&Path, String> {
    path.parent().ok_or_else(|| "its path has no folder".to_owned())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".");
    beside.push(ending);
    beside.into()
}

fn cannot(what: &str, error: &Error) -> String {
    format!("it cannot {what} ({error})")
}
