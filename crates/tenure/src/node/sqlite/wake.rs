//! Waking waiters of other processes: one datagram socket for each client, in a folder beside the
//! store.
//!
//! Whoever sets a lock aside sends a datagram to the waiter's client once that is committed. A
//! socket that nobody has bound any more belongs to a client that is gone: its waiters are passed
//! over, and the socket is removed. Nothing depends on a datagram arriving: waiters also ask by
//! themselves.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{ClientId, Ticket};

use super::location::share;
use super::trouble::{Result, Trouble};

/// The longest name of a socket that the system takes is 107 bytes; longer ones go round by an open
/// folder.
const PATH_BYTES_MAX: usize = 100;

/// The longest message: a number, a space and the longest key.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// How many sockets a client looks at when it begins to listen, and how old those that it removes
/// are at least.
const SWEEP_MAX: usize = 256;
const SWEEP_AGE: Duration = Duration::from_secs(10);

/// Where the sockets of a store's clients are.
#[derive(Clone, Debug)]
pub(super) struct Sockets {
    folder: PathBuf,
    /// Keeps a short way to the folder open.
    open: Option<Arc<File>>,
    shared: bool,
}

/// The socket of one client. It is gone when this is dropped.
#[derive(Debug)]
pub(super) struct Ear {
    socket: Arc<UnixDatagram>,
    path: PathBuf,
    /// The way to it, which is needed to the end.
    _open: Option<Arc<File>>,
}

impl Sockets {
    /// The sockets beside the store at `path`.
    pub(super) fn beside(path: &Path, shared: bool) -> Result<Self> {
        let folder = make_folder(path, shared)?;
        if folder.as_os_str().len() + 1 + 16 <= PATH_BYTES_MAX {
            return Ok(Self { folder, open: None, shared });
        }
        let open = File::open(&folder).map_err(|error| about(&folder, &error))?;
        let folder = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        Ok(Self { folder, open: Some(Arc::new(open)), shared })
    }

    /// Begins to listen for this client.
    pub(super) fn listen(&self, client: ClientId) -> Result<Ear> {
        self.sweep();
        let path = self.path(client);
        let trouble = |error: std::io::Error| about(&path, &error);
        let socket = UnixDatagram::bind(&path).map_err(trouble)?;
        if self.shared {
            share(&path, 0o660).map_err(trouble)?;
        }
        Ok(Ear { socket: Arc::new(socket), path, _open: self.open.clone() })
    }

    /// Whether somebody listens for this waiter's client.
    pub(super) fn listens(&self, ticket: Ticket) -> bool {
        is_heard(&self.path(ticket.client))
    }

    /// Removes some sockets of clients that were killed.
    fn sweep(&self) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries.take(SWEEP_MAX) {
            // One that is being made right now cannot be told from one that is left over.
            let age = entry.metadata().and_then(|seen| seen.modified()).ok();
            if age.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > SWEEP_AGE) {
                is_heard(&entry.path());
            }
        }
    }

    /// Wakes a waiter for whom this lock is set aside.
    pub(super) fn wake(&self, key: &str, ticket: Ticket) {
        if let Ok(socket) = UnixDatagram::unbound() {
            // One whose mailbox is full has much to wake up for already.
            let _ = socket.set_nonblocking(true);
            let _ = socket.send_to(format!("{} {key}", ticket.number).as_bytes(), self.path(ticket.client));
        }
    }

    fn path(&self, client: ClientId) -> PathBuf {
        self.folder.join(client.to_string())
    }
}

/// The folder for the sockets beside the store at `path`. It is made if it is not there.
pub(super) fn make_folder(path: &Path, shared: bool) -> Result<PathBuf> {
    let mut folder = path.as_os_str().to_owned();
    folder.push(".wake");
    let folder = PathBuf::from(folder);
    let trouble = |error: std::io::Error| about(&folder, &error);
    // All sockets in it get the group that the folder has.
    let mode = if shared { 0o2770 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(&folder) {
        // Whatever the mask of this process is.
        Ok(()) => share(&folder, mode).map_err(trouble)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(trouble(error)),
    }
    let seen = folder.symlink_metadata().map_err(trouble)?;
    let store = path.symlink_metadata().map_err(trouble)?;
    if !seen.is_dir() || seen.mode() & 0o002 != 0 || (seen.uid() != store.uid() && !shared) {
        let words = "is a symbolic link, not a folder, another user's, or world-writable; remove it";
        return Err(Trouble::refused(format!("{} {words}", folder.display())));
    }
    Ok(folder)
}

fn about(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::refused(format!("{}: {error}", path.display()))
}

/// Whether somebody listens at this socket. One that nobody has bound any more is removed: its name
/// is never used again. Whoever cannot find out, for want of descriptors or of rights, takes nobody
/// out of line for it.
fn is_heard(path: &Path) -> bool {
    let error = match UnixDatagram::unbound().and_then(|socket| socket.connect(path)) {
        Ok(()) => return true,
        Err(error) => error.kind(),
    };
    if error == ErrorKind::ConnectionRefused {
        let _ = std::fs::remove_file(path);
    }
    !matches!(error, ErrorKind::ConnectionRefused | ErrorKind::NotFound)
}

impl Ear {
    /// Hands every wake-up to `tell`, on a thread of its own, until this is dropped.
    pub(super) fn start(&self, tell: impl Fn(u64, String) + Send + 'static) -> Result<()> {
        let socket = Arc::clone(&self.socket);
        let thread = std::thread::Builder::new().name("tenure-wake".to_owned());
        let started = thread.spawn(move || {
            let mut message = [0; MESSAGE_BYTES_MAX];
            loop {
                match socket.recv(&mut message) {
                    // Told to end.
                    Ok(0) => return,
                    Ok(bytes) => {
                        let text = String::from_utf8_lossy(&message[..bytes]);
                        if let Some((Ok(number), key)) =
                            text.split_once(' ').map(|(number, key)| (number.parse(), key))
                        {
                            tell(number, key.to_owned());
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        });
        started.map(drop).map_err(|error| Trouble::refused(format!("cannot start a thread ({error})")))
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        // The name goes first: whoever looks from now on finds nobody. Then the thread is told to
        // end.
        let farewell = UnixDatagram::unbound().and_then(|socket| {
            socket.connect(&self.path)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        let _ = std::fs::remove_file(&self.path);
        if let Ok(socket) = farewell {
            let _ = socket.send(&[]);
        }
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_gone_if_nobody_listens_and_not_if_nobody_can_tell() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        assert!(!is_heard(&path), "it was never there");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        assert!(is_heard(&path));
        drop(socket);
        assert!(!is_heard(&path), "it is bound by nobody");
        assert!(!path.exists(), "it is removed");
        // No address can be made of this one, so nobody knows.
        assert!(is_heard(&folder.path().join("s".repeat(200))));
    }
}
