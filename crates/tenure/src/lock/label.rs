//! What a holder leaves beside its lock, so that others can see who it is.

/// The label that [`Lock::label`] stores for a note: process id, host name and the note.
///
/// [`Lock::label`]: crate::Lock::label
#[must_use]
pub fn of(note: &str) -> String {
    let (pid, host) = (std::process::id(), host());
    let label = format!("{pid}@{host} {note}");
    label.trim_end().to_owned()
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    "?".to_owned()
}
