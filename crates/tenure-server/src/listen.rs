//! The connections: where they come from, how many there are, and how long they may take to say
//! what they want.

mod connection;
mod descriptors;
mod idle;
mod leftover;
mod socket;
mod vanished;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

use self::connection::{Connection, Http};
pub(crate) use self::descriptors::make_room;
pub(crate) use self::socket::Socket;
pub use self::socket::SocketError;
use self::socket::Stream;
use crate::drain::{LISTENS_ON, LOOKS_EVERY};
use crate::metrics::Metrics;
use crate::tls::Tls;

/// How many connections there may be, unless settings say otherwise.
pub(crate) const CONNECTIONS_MAX: usize = 20_000;

/// What bounds the connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// So many at a time; more are closed at once.
    pub(crate) connections: usize,
    /// How long the head of a request may take; and so how long a connection may be silent.
    pub(crate) head: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { connections: CONNECTIONS_MAX, head: Duration::from_secs(60) }
    }
}

/// The sockets that a service listens on.
#[derive(Debug)]
pub struct Listeners {
    sockets: Vec<Socket>,
    tls: Option<Tls>,
    /// For how many connections the process may have files open.
    room: usize,
}

impl Listeners {
    /// These sockets, with room for so many connections; what comes by network is encrypted, if
    /// this says how.
    pub(crate) const fn new(sockets: Vec<Socket>, tls: Option<Tls>, room: usize) -> Self {
        Self { sockets, tls, room }
    }

    /// How many connections there may be, if so many are wanted.
    pub(crate) fn connections_max(&self, wanted: usize) -> usize {
        wanted.min(self.room)
    }

    /// Where each of them is, as a URL.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.sockets.iter().map(|socket| socket.url(scheme)).collect()
    }
}

impl From<TcpListener> for Listeners {
    /// Without encryption, and without a look at who can reach it: [`Door`](crate::Door) does that.
    fn from(listener: TcpListener) -> Self {
        Self::new(vec![Socket::Tcp(listener)], None, usize::MAX)
    }
}

/// Serves connections until `end` comes, and then those that are under way to their end.
pub(crate) async fn serve(
    listeners: Listeners,
    router: Router,
    bounds: Bounds,
    metrics: &Metrics,
    end: impl Future<Output = ()>,
) {
    // Each connection has a place; all are free again when the last connection has ended.
    let places = Arc::new(Semaphore::new(bounds.connections));
    let (http, ending) = (Arc::new(Http::new(bounds)), watch::Sender::new(false));
    let accept = async |socket: &Socket| loop {
        let (stream, peer) = socket.accept().await;
        // One too many is closed at once, and the others notice nothing.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            metrics.refused_connection();
            continue;
        };
        let place = (place, metrics.connection());
        let (http, router, ending) = (Arc::clone(&http), router.clone(), ending.subscribe());
        let connection = Connection { http, router, peer, ending, _place: place };
        match (stream, &listeners.tls) {
            (Stream::Unix(stream), _) => tokio::spawn(connection.plain(stream)),
            (Stream::Tcp(stream), None) => tokio::spawn(connection.plain(stream)),
            (Stream::Tcp(stream), Some(tls)) => tokio::spawn(connection.encrypted(stream, tls.clone())),
        };
    };
    let mut accepting = Box::pin(join_all(listeners.sockets.iter().map(accept)));
    tokio::select! {
        _ = &mut accepting => {}
        () = end => {}
    }
    let all_have_ended = async {
        while places.available_permits() < bounds.connections {
            sleep(LOOKS_EVERY).await;
        }
    };
    tokio::select! {
        _ = accepting => {}
        () = all_have_ended => {}
        () = sleep(LISTENS_ON) => {}
    }
    drop(listeners);
    ending.send_replace(true);
    let all = u32::try_from(bounds.connections).unwrap_or(u32::MAX);
    // Nobody closes it.
    let _ = places.acquire_many(all).await;
}
