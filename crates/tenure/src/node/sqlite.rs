//! A node that is a file: the processes of one machine share it, and need nothing else.
//!
//! It is a `SQLite` database with a write-ahead log. The core's rules for a node
//! (`tenure_core::node`) work on its rows (`rows.rs`, `name.rs`), inside a transaction that is on
//! disk before the answer leaves (`store.rs`). A thread does the blocking work (`worker.rs`), and
//! commands that wait together share one transaction. Waiters of other processes are woken by
//! datagrams (`wake.rs`). `docs/decisions/0009-embedded-store.md` has the why.

mod files;
mod location;
mod name;
mod rows;
mod store;
#[cfg(test)]
mod tests;
mod time;
mod trouble;
mod wake;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Context, Poll};

use tenure_core::{ClientId, Command, Fault};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::store::OpenOptions;
use self::worker::Order;
use super::url::UrlError;
use super::{Connection, NodeEvent, Tag};

/// How the URL of a store begins.
pub(super) const SCHEME: &str = "sqlite:";

/// The most commands under way: what a disk that hangs may hold up is bounded by this. Renewals of
/// many locks come together.
const IN_FLIGHT_MAX: usize = 131_072;

/// The parts of the default path that are our own and must be what they are called: the folder and
/// the file.
const PRIVATE_PARTS: usize = 2;

/// A store in a file on this machine, shared by the processes that name the same path.
///
/// Locks outlive the processes that hold them, and all of them are free after a reboot. One such
/// node is enough: a majority protects against failing machines, and there is only one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("locks.db");
/// use tenure::{Locks, SqliteNode};
///
/// let locks = Locks::builder().node(SqliteNode::new(&path)).build()?;
/// let guard = locks.lock("invoice:42").acquire().await?;
/// guard.release().await?;
/// # Ok(()) }
/// ```
///
/// The folder of the file must exist, and be ours or root's, or writable for its group: then all
/// members of that group can use the store. Folders and files that everybody may write, symbolic
/// links in the place of the file, and file systems that are reached over a network are refused;
/// `docs/how-to/run-nodes.md` says more. Whatever is wrong with the file is told with the vote of
/// this node, as [`Fault::Store`](crate::Fault::Store).
#[derive(Clone, Debug)]
pub struct SqliteNode {
    address: Arc<str>,
    options: OpenOptions,
}

impl SqliteNode {
    /// The store at this path. The file is made when it is first used; its folder must be there,
    /// unless it is the store of [`SqliteNode::user_default`], which is the same one however it is
    /// named.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        match Self::user_default() {
            Ok(default) if default.path() == whole(path, PRIVATE_PARTS) => default,
            _ => Self::at(path, false),
        }
    }

    /// The store that the processes of this user share by default: `tenure/locks.db` in the folder
    /// for what programs keep (`XDG_STATE_HOME`, or `.local/state` in the home folder). Without
    /// HOME that is the first folder of `STATE_DIRECTORY`, which systemd sets for services; without
    /// that, the home in the password file counts. The folder is made when it is first used, for
    /// this user alone.
    ///
    /// # Errors
    /// [`UrlError::NoHome`] if there is none of these.
    pub fn user_default() -> Result<Self, UrlError> {
        let state = crate::machine::home::state().ok_or(UrlError::NoHome)?;
        Ok(Self::at(&state.join("tenure/locks.db"), true))
    }

    /// Reads `sqlite:PATH`. The path is taken as it is: nothing in it is decoded.
    ///
    /// # Errors
    /// [`UrlError`] says what is wrong with it.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let example = "sqlite:/var/lib/app/locks.db";
        match url.strip_prefix(SCHEME) {
            None => Err(UrlError::scheme_of(url)),
            Some("" | "/") => Err(UrlError::Missing { missing: "path", example }),
            Some(path) if path.starts_with("//") && !path.starts_with("///") => {
                Err(UrlError::Missing { missing: "third slash", example })
            }
            Some(path) => Ok(Self::new(path)),
        }
    }

    /// How the node is called in votes, errors and logs: `sqlite:` and the whole path.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.options.path
    }

    fn at(path: &Path, private: bool) -> Self {
        let path = whole(path, if private { PRIVATE_PARTS } else { 1 });
        let address = format!("{SCHEME}{}", path.display()).into();
        let options = OpenOptions {
            path: path.into(),
            private,
            #[cfg(test)]
            machine: None,
        };
        Self { address, options }
    }

    pub(super) fn shared_address(&self) -> Arc<str> {
        Arc::clone(&self.address)
    }

    pub(super) fn connect(self, client: ClientId) -> SqliteConnection {
        let (orders, inbox) = std::sync::mpsc::channel();
        let (news, events) = unbounded_channel();
        let (options, sender) = (self.options, news.clone());
        let thread = std::thread::Builder::new().name("tenure-store".to_owned());
        let started = thread.spawn(move || worker::work(&options, client, &inbox, &sender));
        if let Err(error) = started {
            let words = format!("{}: cannot start a thread ({error})", self.address);
            let _ = news.send(NodeEvent::Unreachable(not_run(words)));
        }
        SqliteConnection { orders, events, news, in_flight: 0, settled: false }
    }
}

/// Nothing was done, for this reason.
fn not_run(reason: String) -> Fault {
    Fault::Store { reason: reason.into(), may_have_run: false, needs_fixing: false }
}

/// The path from the root on, with the real names of the folders above: what two clients must have
/// in common. The last `as_is` parts are left as they are, and what is not there yet.
fn whole(path: &Path, as_is: usize) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors().skip(as_is) {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return real.join(rest);
        }
    }
    path
}

/// One manager's connection to a store: orders to its thread, and what that says.
pub(super) struct SqliteConnection {
    orders: Sender<Order>,
    events: UnboundedReceiver<NodeEvent>,
    news: UnboundedSender<NodeEvent>,
    in_flight: usize,
    /// The first try to open the store has come to an end.
    settled: bool,
}

impl Connection for SqliteConnection {
    fn send(&mut self, tag: Tag, command: Command) {
        self.in_flight += 1;
        let fault = if self.in_flight > IN_FLIGHT_MAX {
            Fault::Busy
        } else if self.orders.send(Order::Execute(tag, command)).is_err() {
            not_run("the thread of the store has ended".to_owned())
        } else {
            return;
        };
        let _ = self.news.send(NodeEvent::Answer(tag, Err(fault)));
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<NodeEvent> {
        let Poll::Ready(Some(event)) = self.events.poll_recv(cx) else { return Poll::Pending };
        match event {
            NodeEvent::Answer(..) => self.in_flight -= 1,
            NodeEvent::Connected(_) | NodeEvent::Unreachable(_) => self.settled = true,
            _ => {}
        }
        Poll::Ready(event)
    }

    fn is_settled(&self) -> bool {
        self.settled && self.events.is_empty()
    }

    fn survey(&mut self) -> bool {
        self.orders.send(Order::Survey).is_ok()
    }
}
