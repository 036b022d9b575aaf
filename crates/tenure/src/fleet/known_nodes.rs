//! What this machine knows of nodes from before, in a small file: `known_nodes`, as `ssh` has its
//! `known_hosts`.
//!
//! A node that was emptied looks like a new one. A client that has met it before knows better, and
//! says so to all others; but programs that start, lock and end know nothing of what the last one
//! saw. So the lives that were met are written down: which node (prefix, address, database, server
//! process), its nonce, and when it began. `book.rs` says which of them concern a node, and what is
//! dropped when there are too many; `text.rs` has the form, `file.rs` the disk: several processes
//! write it, any of them may be killed, and other users must not be able to.
//!
//! A file that is old, or was copied from another machine, costs at most a quarantine.

mod book;
#[cfg(unix)]
mod file;
#[cfg(not(unix))]
#[path = "known_nodes/no_file.rs"]
mod file;
#[cfg(test)]
mod tests;
mod text;

use std::path::{Path, PathBuf};

use tenure_core::Prefix;
use tenure_core::trust::NodeMemory;

use self::book::{Book, Subject};
use crate::{Builder, Node};

/// The name of the file in the folder where the programs of a user keep what they know.
const NAME: &str = "tenure/known_nodes";

/// Where the file is, and how far its folder is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// `None` if there is no folder for it.
    path: Option<PathBuf>,
    /// Nobody else may enter its folder, which is made if it is not there.
    private: bool,
}

/// What is known of the nodes of one manager. Everything here waits for the disk.
#[derive(Clone, Debug)]
pub(crate) struct KnownNodes {
    location: Location,
    prefix: String,
    /// One a node, in the order of the list.
    subjects: Vec<Subject>,
}

/// What was found in the file about the nodes.
#[derive(Debug)]
pub(crate) struct Recalled {
    pub(crate) memory: Vec<NodeMemory>,
    /// What people should know about the file.
    pub(crate) complaint: Option<String>,
}

impl Builder {
    /// Remembers the nodes in a file that outlives this program, as the command-line tool does by
    /// default: `tenure/known_nodes` in the user's state folder (`XDG_STATE_HOME`, or
    /// `.local/state` in the home folder). Off unless this or [`Builder::remember_nodes_in`] is
    /// called.
    ///
    /// A flushed Redis server looks like a new one, and if all nodes do, they vote at once. A
    /// client that has seen them before knows better and makes them wait until every lock that they
    /// may have forgotten has expired. With the file, all programs of this user know it, even after
    /// the one that saw the nodes has ended. Use it for programs that start, lock and exit; for
    /// long-running ones it matters when they restart together with the nodes. It does not cover
    /// what only other machines have seen: `docs/how-to/run-nodes.md`.
    ///
    /// It costs one small read at the start, and one small write whenever a node starts with a new
    /// memory. If the file cannot be used, locks work without it, and
    /// [`Event::NodesNotRemembered`](crate::Event::NodesNotRemembered) says why.
    pub fn remember_nodes(mut self) -> Self {
        self.known_nodes = Some(Location::user_default());
        self
    }

    /// As [`Builder::remember_nodes`], in this file. Its folder must exist and belong to this user
    /// or to root; if it is group-writable, the group shares the file. Programs on one machine that
    /// use the same nodes should share one file.
    ///
    /// # Examples
    /// ```no_run
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use tenure::Locks;
    ///
    /// let builder = Locks::builder().url("redis://a")?.url("redis://b")?.url("redis://c")?;
    /// let locks = builder.remember_nodes_in("/var/lib/app/known_nodes").build()?;
    /// # Ok(()) }
    /// ```
    pub fn remember_nodes_in(mut self, path: impl AsRef<Path>) -> Self {
        self.known_nodes = Some(Location::at(path.as_ref()));
        self
    }
}

impl Location {
    /// At a path of one's own. Its folder must be there.
    pub(crate) fn at(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { path: Some(path), private: false }
    }

    /// The file that the programs of this user share.
    pub(crate) fn user_default() -> Self {
        Self { path: crate::machine::home::state().map(|state| state.join(NAME)), private: true }
    }

    pub(crate) fn path(&self) -> Result<&Path, String> {
        self.path.as_deref().ok_or_else(|| {
            "no folder for it: none of XDG_STATE_HOME, HOME and STATE_DIRECTORY is set, and this user has \
             no home in /etc/passwd"
                .to_owned()
        })
    }
}

impl KnownNodes {
    pub(crate) fn new(location: Location, prefix: &Prefix, nodes: &[Node]) -> Self {
        let subjects = nodes.iter().map(|node| Subject { place: node.place(), part: node.part() }).collect();
        Self { location, prefix: prefix.as_str().to_owned(), subjects }
    }

    /// What is known of the nodes. Nothing is written.
    pub(crate) fn recall(&self) -> Result<Recalled, String> {
        let book = file::read(&self.location).map_err(|reason| self.words(&reason))?;
        let nothing = vec![NodeMemory::default(); self.subjects.len()];
        Ok(self.recalled(&book, &nothing, None))
    }

    /// Adds what is new in `memory`, and says what is known then, on disk.
    pub(crate) fn remember(&self, memory: &[NodeMemory]) -> Result<Recalled, String> {
        let add = |book: &mut Book| book.add(&self.prefix, &self.subjects, memory);
        let found = file::change(&self.location, add).map_err(|reason| self.words(&reason))?;
        Ok(self.recalled(&found.book, memory, found.complaint))
    }

    fn recalled(&self, book: &Book, sent: &[NodeMemory], complaint: Option<String>) -> Recalled {
        let about = |(subject, sent)| book.about(&self.prefix, subject, sent);
        let memory = self.subjects.iter().zip(sent).map(about).collect();
        Recalled { memory, complaint: complaint.map(|reason| self.words(&reason)) }
    }

    /// What is wrong, with the file that it is about.
    pub(crate) fn words(&self, reason: &str) -> String {
        let path = self.location.path.as_deref().unwrap_or(Path::new(NAME));
        format!("{}: {reason}", path.display())
    }
}
