//! A node that is a Redis server, or one that speaks its language.

mod connection;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod handshake;
mod info;
mod pipeline;
mod replies;
mod resp;
mod script;
#[cfg(feature = "tls")]
mod tls;
mod url;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tenure_core::{ClientId, FenceBounds, Prefix};

use self::connection::RedisConnection;
use super::url::UrlError;

/// A Redis or Valkey server: its address and how to log in.
///
/// It must be an independent master: never a replica, a cluster node, or another address of a node
/// in the list.
///
/// ```
/// use tenure::RedisNode;
///
/// let node = RedisNode::parse("rediss://app:secret@lock-1.example:6380/2")?;
/// assert_eq!(node.address(), "rediss://lock-1.example:6380/2");
/// assert!(!format!("{node:?}").contains("secret"));
/// # Ok::<(), tenure::UrlError>(())
/// ```
///
/// | URL | means |
/// |---|---|
/// | `redis://[user[:password]@]host[:port][/database]` | TCP |
/// | `rediss://...` | TCP with TLS (feature `tls`) |
/// | `redis+unix:///path/to/socket` | a unix socket |
///
/// Behind a `?`, joined by `&`: `db=N`, `user=NAME`, `password_file=PATH`, and with TLS `ca=PATH`,
/// `cert=PATH` with `key=PATH`. A password in a URL is easily seen by others; a password file is
/// read at every connect, so it can be changed.
#[derive(Clone)]
pub struct RedisNode {
    address: Arc<str>,
    endpoint: Endpoint,
    user: Option<String>,
    password: Option<Password>,
    database: u32,
    tls: Option<TlsFiles>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

#[derive(Clone, PartialEq, Eq)]
enum Password {
    Text(String),
    File(PathBuf),
}

/// TLS: whom to trust, and who we are. Without files the system's certificates are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TlsFiles {
    ca: Option<PathBuf>,
    client: Option<(PathBuf, PathBuf)>,
}

impl RedisNode {
    /// Reads a URL.
    ///
    /// # Errors
    /// [`UrlError`] says what is wrong with it. It never repeats a password.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        url::parse(url)
    }

    /// Reads the password from this file at every connect.
    #[must_use]
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.password = Some(Password::File(path.into()));
        self
    }

    /// How the node is called in votes, errors and logs: its URL without credentials.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn shared_address(&self) -> Arc<str> {
        Arc::clone(&self.address)
    }

    /// What must not be listed twice: the server, whichever database of it.
    pub(super) fn identity(&self) -> String {
        match &self.endpoint {
            Endpoint::Tcp { host, port } => format!("{}:{port}", host.to_ascii_lowercase()),
            Endpoint::Unix(path) => path.display().to_string(),
        }
    }

    pub(super) const fn database(&self) -> u32 {
        self.database
    }

    pub(super) fn connect(self, prefix: &Prefix, bounds: FenceBounds, client: ClientId) -> RedisConnection {
        RedisConnection::new(self, prefix, bounds, client)
    }
}

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisNode").field("address", &self.address).finish_non_exhaustive()
    }
}
