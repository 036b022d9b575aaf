//! Where a store may lie: not where others could put another file in its place, or where locks of
//! files do not work.
//!
//! | | default folder | a path of one's own |
//! |---|---|---|
//! | folder | ours, made with mode 0700; nobody else may enter it | ours or root's; or writable for its group, whoever owns it |
//! | files | ours, 0600 | ours, 0600; in a folder that is writable for its group: of any member, 0660 |
//!
//! Never: a symbolic link in the place of the file or of the default folder, a file that has a
//! second name, a folder or file that everybody may write, a file system that is reached over a
//! network. The log of a database is found by the name of its file: whoever comes by another name
//! has a log of its own, and sees none of the locks.

use std::fs::{File, Metadata, Permissions};
use std::io::ErrorKind;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::files::FileId;
use super::trouble::{Result, Trouble};
use crate::machine::folder::{self, EVERYBODY_WRITES, about, own_id};

/// File systems over a network, where the locks and the shared memory of a database cannot be
/// relied on.
const NETWORK: [(u32, &str); 19] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x564c, "NCP"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x2003_0528, "OrangeFS"),
    (0xbacb_acbc, "a folder shared by the virtual machine's host"),
    (0x786f_4256, "a folder shared by the virtual machine's host"),
];

/// Where a store lies, and what was found there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreFile {
    /// Which file it is, whatever its name.
    pub(super) file: FileId,
    /// The group may use it, too.
    pub(super) shared: bool,
}

/// Makes sure that a store can lie at `path`, and that there is a file. `private`: nobody else may
/// enter its folder, which is made if it is not there.
pub(super) fn prepare(path: &Path, private: bool) -> Result<StoreFile> {
    if cfg!(not(target_os = "linux")) {
        return Err(Trouble::refused("an embedded store needs Linux; use Redis nodes on this system"));
    }
    let folder = path.parent().filter(|folder| folder.is_absolute());
    let folder = folder.ok_or_else(|| Trouble::refused("its path has no folder"))?;
    let shared = folder::check(folder, private)?;
    refuse_network(folder)?;
    match make(path) {
        Ok(()) => {
            if shared {
                share(path, 0o660).map_err(|error| about(path, "cannot be shared", &error))?;
            }
            // The name of the file has to be on disk, too.
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(|error| about(folder, "cannot be synced", &error))?;
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(Trouble::refused(format!(
                "it does not exist and this user cannot create it ({error}). Make its folder writable, or \
                 use another path"
            )));
        }
        Err(error) => return Err(about(path, "cannot be created", &error).into()),
    }
    let file = check_file(path, shared)?;
    for beside in beside(path) {
        match beside.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            _ => {
                check_file(&beside, shared)?;
            }
        }
    }
    Ok(StoreFile { file: (file.dev(), file.ino()), shared })
}

/// Where the log and the shared memory of the database at `path` are.
pub(super) fn beside(path: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|ending| {
        let mut beside = path.as_os_str().to_owned();
        beside.push(ending);
        PathBuf::from(beside)
    })
}

fn check_file(path: &Path, shared: bool) -> Result<Metadata> {
    let seen = path.symlink_metadata().map_err(|error| about(path, "cannot be inspected", &error))?;
    let refuse = |why: &str| Err(Trouble::refused(format!("{} {why}", path.display())));
    if seen.file_type().is_symlink() {
        return refuse("is a symbolic link; use the file it points to");
    }
    if !seen.is_file() {
        return refuse("is not a file");
    }
    if seen.nlink() > 1 {
        return refuse("has a second name (a hard link), with a separate log; remove one of the names");
    }
    if is_mounted(path) {
        return refuse("is mounted on its own, without the log beside it; mount its folder");
    }
    if seen.mode() & EVERYBODY_WRITES != 0 {
        return refuse("is world-writable (chmod o-w)");
    }
    if seen.uid() != own_id() && !shared {
        return refuse(
            "belongs to another user; share its folder with a group (chmod g+w), or use another path",
        );
    }
    Ok(seen)
}

/// Makes an empty file without opening it. A process that closes a descriptor of a file loses all
/// its locks on that file, also those of another manager that has found the file meanwhile and has
/// it open.
#[cfg(target_os = "linux")]
fn make(path: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0)?)
}

#[cfg(not(target_os = "linux"))]
fn make(_: &Path) -> std::io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// The group gets what we have, whatever the mask of this process is. What lies there is named by a
/// descriptor that cannot read or write: closing it costs no locks, and a link that a member of the
/// group put there meanwhile is not followed.
#[cfg(target_os = "linux")]
pub(super) fn share(path: &Path, mode: u32) -> std::io::Result<()> {
    use rustix::fs::{Mode, OFlags, open};
    let named = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let way = format!("/proc/self/fd/{}", named.as_raw_fd());
    std::fs::set_permissions(way, Permissions::from_mode(mode))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn share(_: &Path, _: u32) -> std::io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Whether a single file was mounted here. A system that does not tell is older than Linux 5.8.
#[cfg(target_os = "linux")]
fn is_mounted(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let seen = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty());
    seen.is_ok_and(|seen| seen.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mounted(_: &Path) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn refuse_network(folder: &Path) -> Result<()> {
    let system =
        rustix::fs::statfs(folder).map_err(|error| about(folder, "cannot be inspected", &error.into()))?;
    #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "a magic number of 32 bits")]
    let magic = system.f_type as u32;
    match NETWORK.iter().find(|(number, _)| *number == magic) {
        Some((_, kind)) => Err(Trouble::refused(format!(
            "its folder {} is on {kind}, where file locks are not reliable; use a folder on a local disk",
            folder.display()
        ))),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_network(_: &Path) -> Result<()> {
    Ok(())
}
