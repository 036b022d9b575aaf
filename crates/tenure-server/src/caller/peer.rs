//! What the connection itself tells of who is at its other end.

use std::net::SocketAddr;
use std::sync::Arc;

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    /// Where it is; nowhere, if it came by a unix socket.
    pub(crate) address: Option<SocketAddr>,
    /// The user whose process it is, if the system tells.
    pub(crate) user: Option<u32>,
    /// The names in the certificate that it showed.
    pub(crate) names: Arc<[String]>,
}
