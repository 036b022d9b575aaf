//! How many files the process may have open: each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What it has open beside connections: nodes, logs, the runtime.
const BESIDE: usize = 256;

/// Makes room for so many connections, as far as the system lets it. Returns for how many there is.
pub(crate) fn make_room(connections: usize) -> usize {
    let wanted = u64::try_from(connections.saturating_add(BESIDE)).unwrap_or(u64::MAX);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|now| now < wanted) {
        let current = Some(limit.maximum.map_or(wanted, |most| most.min(wanted)));
        // If it is refused, what there is now counts.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }
    let files = getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX));
    // An instance with a few files serves a few connections.
    connections.min(files.saturating_sub(BESIDE).max(files / 2))
}
