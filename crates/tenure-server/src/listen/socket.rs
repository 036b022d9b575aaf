//! Where a service listens: an address of this machine, or a socket in the file system.

use std::fs::{File, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure::config::Listen;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::sleep;

use super::vanished::notice;
use crate::caller::Peer;

/// When the machine has no descriptor left, it has one again after this.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// A connection.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Why nothing can listen there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The system does not let it.
    #[error("cannot listen on {listen}: {error}; use another address with --listen")]
    #[non_exhaustive]
    Refused {
        /// Where.
        listen: Listen,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// Somebody else listens there.
    #[error(
        "cannot listen on {listen}: already in use by another process; stop it, or use another address \
             with --listen"
    )]
    #[non_exhaustive]
    Taken {
        /// Where.
        listen: Listen,
    },
    /// There is a file that is no socket.
    #[error(
        "cannot listen on {listen}: the file exists and is not a socket; remove it, or use another path \
         with --listen"
    )]
    #[non_exhaustive]
    NoSocket {
        /// Where.
        listen: Listen,
    },
}

impl Socket {
    /// Listens there. A socket in the file system gets this mode.
    pub(crate) async fn bind(listen: &Listen, mode: u32) -> Result<Self, SocketError> {
        let refused = |error| SocketError::Refused { listen: listen.clone(), error };
        match listen {
            Listen::Tcp(address) => TcpListener::bind(address).await.map(Self::Tcp).map_err(refused),
            Listen::Unix(path) => {
                let (listener, file) = SocketFile::bind(path, mode).map_err(|fault| match fault {
                    Fault::Io(error) => refused(error),
                    Fault::Taken => SocketError::Taken { listen: listen.clone() },
                    Fault::NoSocket => SocketError::NoSocket { listen: listen.clone() },
                })?;
                Ok(Self::Unix(listener, file))
            }
            _ => Err(refused(io::ErrorKind::Unsupported.into())),
        }
    }

    /// The next connection. Those that break before they are here are passed over.
    pub(super) async fn accept(&self) -> (Stream, Peer) {
        loop {
            let accepted = match self {
                Self::Tcp(listener) => {
                    listener.accept().await.map(|(stream, address)| of_tcp(stream, address))
                }
                Self::Unix(listener, _) => listener.accept().await.map(|(stream, _)| of_unix(stream)),
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(error) if is_of_one_connection(&error) => {}
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Where it is.
    pub(super) fn url(&self, scheme: &str) -> String {
        match self {
            Self::Tcp(listener) => listener.local_addr().map_or_else(
                |error| format!("{scheme}://? ({error})"),
                |address| format!("{scheme}://{address}"),
            ),
            Self::Unix(_, file) => format!("unix:{}", file.path.display()),
        }
    }
}

fn of_tcp(stream: TcpStream, address: SocketAddr) -> (Stream, Peer) {
    // Answers are small, and somebody waits for each.
    let _ = stream.set_nodelay(true);
    let _ = notice(&stream);
    (Stream::Tcp(stream), Peer { address: Some(address), ..Peer::default() })
}

fn of_unix(stream: UnixStream) -> (Stream, Peer) {
    let user = stream.peer_cred().ok().map(|credentials| credentials.uid());
    (Stream::Unix(stream), Peer { user, ..Peer::default() })
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// A socket in the file system, which is removed when nobody listens on it any longer.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Which file it is: somebody else's may have taken its place since.
    identity: (u64, u64),
}

enum Fault {
    Io(io::Error),
    Taken,
    NoSocket,
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl SocketFile {
    /// Makes it under another name first, so that nobody finds it with another mode. Whoever does
    /// the same at the same time waits.
    fn bind(path: &Path, mode: u32) -> Result<(UnixListener, Self), Fault> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let turn = File::open(folder.unwrap_or(Path::new(".")))?;
        turn.lock()?;
        make_sure_that_it_is_free(path)?;
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", std::process::id()));
        let draft = PathBuf::from(draft);
        let _ = std::fs::remove_file(&draft);
        let listener = UnixListener::bind(&draft)?;
        let placed = std::fs::set_permissions(&draft, Permissions::from_mode(mode))
            .and_then(|()| std::fs::rename(&draft, path))
            .and_then(|()| identity(path));
        let identity = placed.inspect_err(|_| drop(std::fs::remove_file(&draft)))?;
        Ok((listener, Self { path: path.to_owned(), identity }))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A socket that is left from a process that was killed may be replaced, and nothing else.
fn make_sure_that_it_is_free(path: &Path) -> Result<(), Fault> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(found) if !found.file_type().is_socket() => return Err(Fault::NoSocket),
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(Fault::Io(error)),
        Ok(_) => Err(Fault::Taken),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    path.symlink_metadata().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn bound(path: &Path) -> Result<Socket, String> {
        Socket::bind(&Listen::Unix(path.to_owned()), 0o640).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_socket_is_replaced_if_nobody_listens_on_it_and_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = bound(&path).await.unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
        assert!(bound(&path).await.unwrap_err().contains("already in use by another process"));
        // As if it were killed: the file stays.
        let Socket::Unix(listener, file) = first else { panic!("a unix socket") };
        std::mem::forget(file);
        drop(listener);
        let second = bound(&path).await.unwrap();
        // Another one has taken its place.
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        let third = bound(&path).await.unwrap();
        drop(second);
        assert!(path.exists(), "it is the third one's");
        drop(third);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        std::fs::write(&path, "work").unwrap();
        assert!(bound(&path).await.unwrap_err().contains("not a socket"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "work");
        assert!(bound(&folder.path().join("nowhere/socket")).await.unwrap_err().contains("cannot listen"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }
}
