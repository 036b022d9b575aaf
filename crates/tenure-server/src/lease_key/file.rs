//! Lease keys in a file, which nobody else may read.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{LeaseKeyError, LeaseKeys};

/// The file in the folder that is given to [`LeaseKeys::of_machine`].
const NAME: &str = "lease_key";

/// Whoever is neither the owner nor in its group.
const OTHERS: u32 = 0o007;

/// Why a file gives no lease keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseKeyFileError {
    /// It cannot be read or made.
    #[error("the lease key {} cannot be {what}: {error}", path.display())]
    #[non_exhaustive]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What was to be done with it.
        what: &'static str,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// Others may read it, and could make tokens.
    #[error("the lease key {} is world-readable; run chmod o= {}", path.display(), path.display())]
    #[non_exhaustive]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// There is no key in it.
    #[error("the lease key {}: {error}", path.display())]
    #[non_exhaustive]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: LeaseKeyError,
    },
}

impl LeaseKeys {
    /// Reads the keys that all instances share.
    ///
    /// # Errors
    /// If it cannot be read, if everybody can, or if there is no key in it.
    pub fn read(path: &Path) -> Result<Self, LeaseKeyFileError> {
        let unusable = |error| LeaseKeyFileError::Unusable { path: path.into(), what: "read", error };
        let mode = path.metadata().map_err(unusable)?.mode();
        if mode & OTHERS != 0 {
            return Err(LeaseKeyFileError::Open { path: path.into() });
        }
        let text = std::fs::read_to_string(path).map_err(unusable)?;
        Self::parse(&text).map_err(|error| LeaseKeyFileError::Wrong { path: path.into(), error })
    }

    /// Reads them again. If that fails, they stay as they are.
    ///
    /// # Errors
    /// As [`LeaseKeys::read`].
    pub fn reload(&self, path: &Path) -> Result<(), LeaseKeyFileError> {
        self.replace(&Self::read(path)?);
        Ok(())
    }

    /// The key of this machine, from this folder; it is made there the first time. Enough for
    /// instances on one machine. Tells where it is.
    ///
    /// # Errors
    /// If it can be neither read nor made.
    pub fn of_machine(folder: &Path) -> Result<(Self, PathBuf), LeaseKeyFileError> {
        let path = folder.join(NAME);
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => make(folder, &path)?,
            _ => {}
        }
        Ok((Self::read(&path)?, path))
    }
}

/// Makes a key, unless somebody else just did.
fn make(folder: &Path, path: &Path) -> Result<(), LeaseKeyFileError> {
    let unusable = |error| LeaseKeyFileError::Unusable { path: path.into(), what: "created", error };
    let (_, text) =
        LeaseKeys::generate().map_err(|error| LeaseKeyFileError::Wrong { path: path.into(), error })?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unusable)?;
    // Whoever reads it at the same time finds all of it, or nothing.
    let draft = folder.join(format!("{NAME}.{}", std::process::id()));
    let written =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft).and_then(
            |mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            },
        );
    let linked = written.and_then(|()| match std::fs::hard_link(&draft, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        done => done,
    });
    let _ = std::fs::remove_file(&draft);
    linked.map_err(unusable)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_machine_has_one_key_which_nobody_else_reads() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let (made, path) = LeaseKeys::of_machine(&state).unwrap();
        let (read, _) = LeaseKeys::of_machine(&state).unwrap();
        assert_eq!(format!("{made:?}"), format!("{read:?}"), "the same key");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1, "no draft is left");
        set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let error = LeaseKeys::of_machine(&state).unwrap_err().to_string();
        assert!(error.contains("chmod o="), "{error}");
    }

    #[test]
    fn keys_are_exchanged_while_they_are_in_use_and_a_wrong_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let write = |text: &str| {
            std::fs::write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        };
        let (old, new) = ("a".repeat(64), "b".repeat(64));
        write(&old);
        let keys = LeaseKeys::read(&path).unwrap();
        let (clone, first) = (keys.clone(), format!("{keys:?}"));
        write("none");
        assert!(clone.reload(&path).is_err());
        assert_eq!(format!("{keys:?}"), first);
        write(&format!("{new}\n{old}\n"));
        clone.reload(&path).unwrap();
        assert_eq!(format!("{keys:?}"), format!("{:?}", LeaseKeys::read(&path).unwrap()));
        assert_ne!(format!("{keys:?}"), first);
    }

    #[test]
    fn a_file_that_has_no_key_says_so_and_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        assert!(LeaseKeys::read(&path).unwrap_err().to_string().contains("cannot be read"));
        std::fs::write(&path, "s3cret\n").unwrap();
        set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = LeaseKeys::read(&path).unwrap_err().to_string();
        assert!(error.contains("line 1") && !error.contains("s3cret"), "{error}");
    }
}
