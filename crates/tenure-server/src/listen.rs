//! The connections: how many there are, and how long they may take to say what they want.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::metrics::Metrics;

use crate::caller::Peer;

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
        Self { connections: 20_000, head: Duration::from_secs(60) }
    }
}

/// The most that the head of a request may be. Hyper answers a larger one with 431.
const HEAD_MAX: usize = 16 * 1_024;

/// When the machine has no descriptor left, it has one again after this.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until `end` comes, and then those that are under way to their end.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    metrics: &Metrics,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(bounds.head).max_buf_size(HEAD_MAX);
    let (room, ending) = (Arc::new(Semaphore::new(bounds.connections)), GracefulShutdown::new());
    let mut end = pin!(end);
    loop {
        let stream = tokio::select! {
            stream = accept(&listener) => stream?,
            () = &mut end => break,
        };
        // One too many is closed at once, and the others notice nothing.
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            metrics.refused_connection();
            continue;
        };
        let place = (place, metrics.connection());
        let peer = Peer { address: stream.peer_addr().ok(), ..Peer::default() };
        let service = of_peer(router.clone(), peer);
        let connection = ending.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // What went wrong on a connection is its client's matter.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    ending.shutdown().await;
    Ok(())
}

/// The calls, for one connection: each knows who is at its other end.
fn of_peer(
    router: Router,
    peer: Peer,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send + 'static> {
    let calls = TowerToHyperService::new(router);
    service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        calls.call(request)
    })
}

/// The next connection. Those that break before they are here are passed over.
async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are small, and somebody waits for each.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => sleep(PAUSE).await,
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
