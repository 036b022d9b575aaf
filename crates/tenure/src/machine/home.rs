//! The folders of the user that this process runs as: by the XDG rules, by the service manager
//! where there is no HOME, and at last by the password file.

use std::path::{Path, PathBuf};

/// The folder for what programs keep, if there is one: `XDG_STATE_HOME`, `~/.local/state`, or what
/// systemd made for this service.
pub(crate) fn state() -> Option<PathBuf> {
    absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .or_else(|| first_absolute("STATE_DIRECTORY"))
        .or_else(|| Some(in_password_file()?.join(".local/state")))
}

/// The folder for a person's settings, if there is one: `XDG_CONFIG_HOME` or `~/.config`.
#[cfg(feature = "config")]
pub(crate) fn config() -> Option<PathBuf> {
    absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").or_else(in_password_file).map(|home| home.join(".config")))
}

/// A relative path would be another folder after `cd`; the XDG rules say to ignore it.
fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Services may have several, separated by colons.
fn first_absolute(variable: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os(variable)?).find(|path| path.is_absolute())
}

#[cfg(unix)]
fn in_password_file() -> Option<PathBuf> {
    let users = std::fs::read(Path::new("/etc/passwd")).ok()?;
    home_of(rustix::process::geteuid().as_raw(), &String::from_utf8_lossy(&users))
}

#[cfg(not(unix))]
fn in_password_file() -> Option<PathBuf> {
    None
}

/// The home in the first entry of this user: `name:x:UID:gid:comment:HOME:shell`.
#[cfg_attr(not(any(unix, test)), expect(dead_code, reason = "nobody is looked up there"))]
fn home_of(user: u32, users: &str) -> Option<PathBuf> {
    let mut entries = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = entries.find(|entry| entry.get(2).and_then(|id| id.parse().ok()) == Some(user))?;
    let home = Path::new(entry.get(5)?);
    home.is_absolute().then(|| home.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_in_the_first_entry_of_its_user() {
        let users = "# comment\nroot:x:0:0:root:/root:/bin/sh\n+::::::\nann:x:1000:1000:Ann, 2nd floor:/home/ann:/bin/sh\n\
                     also-ann:x:1000:1000::/elsewhere:/bin/sh\nbroken:x:7\nrelative:x:8:8::home:/bin/sh\n";
        assert_eq!(home_of(1000, users), Some("/home/ann".into()));
        assert_eq!(home_of(0, users), Some("/root".into()));
        for stranger in [7, 8, 9] {
            assert_eq!(home_of(stranger, users), None, "{stranger}");
        }
    }
}
