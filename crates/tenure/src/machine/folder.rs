//! Which folders are safe from other users: whose they and those above them are, and what they
//! allow. A file that others could replace would tell us whatever they like.

use std::fs::DirBuilder;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

pub(crate) const EVERYBODY_WRITES: u32 = 0o002;
pub(crate) const GROUP_WRITES: u32 = 0o020;
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// Whom everything belongs to that is outside of the users a container knows.
const UNMAPPED: u32 = 65_534;

/// Makes sure that nobody but the users it belongs to can replace what is in a folder, and says
/// whether those are the members of a group. `private`: nobody else may enter it, and it is made if
/// it is not there.
pub(crate) fn check(folder: &Path, private: bool) -> Result<bool, String> {
    if private {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        let advice = "set XDG_STATE_HOME to a folder this user can write to, or use another path";
        made.map_err(|error| format!("{}; {advice}", about(folder, "cannot be created", &error)))?;
    }
    let (shared, owner) = check_folder(folder, private)?;
    check_way(folder, owner)?;
    Ok(shared)
}

/// Whether a folder is shared with a group, and whose it is.
fn check_folder(folder: &Path, private: bool) -> Result<(bool, u32), String> {
    let seen = folder.symlink_metadata().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            format!("folder {} does not exist; create it, or use another path", folder.display())
        }
        _ => about(folder, "cannot be inspected", &error),
    })?;
    let refuse = |why: &str| Err(format!("its folder {} {why}", folder.display()));
    let shared = seen.mode() & GROUP_WRITES != 0;
    if !seen.is_dir() {
        return refuse("is a symbolic link or not a folder; use the folder itself");
    }
    if private && seen.uid() == own_id() && seen.mode() & OTHERS != 0 {
        return refuse("is accessible to others; run chmod 700");
    }
    if seen.mode() & EVERYBODY_WRITES != 0 {
        // Whoever took that right away from the system's folder for temporary files would break
        // other programs.
        let advice = if seen.mode() & STICKY != 0 {
            format!("create your own in it: mkdir -m 700 {}", folder.join("tenure").display())
        } else {
            "use another, or run chmod o-w".to_owned()
        };
        return refuse(&format!("is world-writable, so anyone could replace the file; {advice}"));
    }
    let ours = seen.uid() == own_id() || (seen.uid() == 0 && !private);
    if !ours && (private || !shared) {
        return refuse("belongs to another user and is not shared with a group (chmod g+w)");
    }
    if !ours && !is_own_group(seen.gid()) {
        return refuse("belongs to another user and to a group this user is not in");
    }
    Ok((shared && !private, seen.uid()))
}

/// Nobody may put another folder in the place of this one, but for root, us, and its owner, who
/// could do so anyway.
fn check_way(folder: &Path, owner: u32) -> Result<(), String> {
    for above in folder.ancestors().skip(1) {
        let seen = above.metadata().map_err(|error| about(above, "cannot be inspected", &error))?;
        let refuse = |why: &str| {
            let words = "so its contents could be replaced; use another folder";
            Err(format!("{} {why}, {words}", above.display()))
        };
        if seen.mode() & EVERYBODY_WRITES != 0 && seen.mode() & STICKY == 0 {
            return refuse("is world-writable");
        }
        if ![0, own_id(), owner, UNMAPPED].contains(&seen.uid()) {
            return refuse("belongs to another user");
        }
    }
    Ok(())
}

pub(crate) fn own_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn is_own_group(group: u32) -> bool {
    let others = rustix::process::getgroups().unwrap_or_default();
    rustix::process::getegid().as_raw() == group || others.iter().any(|other| other.as_raw() == group)
}

pub(crate) fn about(path: &Path, what: &str, error: &Error) -> String {
    format!("{} {what} ({error})", path.display())
}
