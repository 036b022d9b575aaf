//! One connection, from its first byte to its last: TLS if there is to be any, then HTTP/1, or
//! HTTP/2 if both agreed on it.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::Request;
use axum::response::Response;
use axum::{BoxError, Router};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{interval, timeout};

use super::Bounds;
use super::idle::Activity;
use super::leftover::reading_to_the_end;
use crate::caller::Peer;
use crate::metrics::Present;
use crate::tls::Tls;

/// The most that the head of a request may be. Hyper answers a larger one with 431.
const HEAD_MAX: usize = 16 * 1_024;

/// A client that takes longer to agree on a key is none. Others are served meanwhile.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// How many calls one connection may have under way: a client with more waiters opens another one.
const STREAMS_MAX: u32 = 256;

/// How many calls may have been taken back before they were looked at. Who has more only wants to
/// make work, and is hung up on.
const RESETS_MAX: usize = 20;

/// How much one call may send before it is read, and all calls of a connection together.
const WINDOW: u32 = 64 * 1_024;
const WINDOW_IN_ALL: u32 = 1_024 * 1_024;

/// How often a connection with calls under way is asked whether it still lives, and how long it has
/// for the answer.
const PING: Duration = Duration::from_secs(20);

/// How HTTP is spoken.
pub(super) struct Http {
    one: http1::Builder,
    two: http2::Builder<TokioExecutor>,
    bounds: Bounds,
}

impl Http {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (mut one, mut two) = (http1::Builder::new(), http2::Builder::new(TokioExecutor::new()));
        one.timer(TokioTimer::new()).header_read_timeout(bounds.head).max_buf_size(HEAD_MAX);
        let head_max = u32::try_from(HEAD_MAX).unwrap_or(u32::MAX);
        two.timer(TokioTimer::new()).max_header_list_size(head_max).max_concurrent_streams(STREAMS_MAX);
        two.max_pending_accept_reset_streams(RESETS_MAX).max_local_error_reset_streams(RESETS_MAX);
        two.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW_IN_ALL);
        two.keep_alive_interval(PING).keep_alive_timeout(PING);
        Self { one, two, bounds }
    }
}

/// A connection, and what it takes to serve it.
pub(super) struct Connection {
    pub(super) http: Arc<Http>,
    pub(super) router: Router,
    pub(super) peer: Peer,
    /// Whether the service is about to end.
    pub(super) ending: watch::Receiver<bool>,
    pub(super) _place: (OwnedSemaphorePermit, Present),
}

impl Connection {
    /// Serves it as it is.
    pub(super) async fn plain(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        self.speak_one(stream).await;
    }

    /// Agrees on a key first.
    pub(super) async fn encrypted(mut self, stream: TcpStream, tls: Tls) {
        let limit = HANDSHAKE_LIMIT.min(self.http.bounds.head);
        let Ok(Ok(stream)) = timeout(limit, tls.acceptor().accept(stream)).await else { return };
        let (_, session) = stream.get_ref();
        self.peer.names = Tls::names_of_client(session);
        match session.alpn_protocol() {
            Some(b"h2") => self.speak_two(stream).await,
            _ => self.speak_one(stream).await,
        }
    }

    async fn speak_one(mut self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let calls = calls(self.router, self.peer);
        let mut connection = pin!(self.http.one.serve_connection(TokioIo::new(stream), calls));
        tokio::select! {
            // What went wrong on a connection is its client's matter.
            _ = connection.as_mut() => return,
            _ = self.ending.wait_for(|ending| *ending) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }

    /// Hyper bounds the silence of a client that speaks HTTP/1, but not of this one.
    async fn speak_two(mut self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let activity = Activity::default();
        let calls = activity.watch(reading_to_the_end(calls(self.router, self.peer)));
        let mut connection = pin!(self.http.two.serve_connection(TokioIo::new(stream), calls));
        let mut look = interval(self.http.bounds.head);
        let (mut last, mut asked_to_end) = (None, false);
        loop {
            tokio::select! {
                _ = connection.as_mut() => return,
                _ = self.ending.wait_for(|ending| *ending), if !asked_to_end => {
                    asked_to_end = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ = look.tick() => {
                    let silent = activity.silent_since();
                    if silent.is_some() && silent == last {
                        return;
                    }
                    last = silent;
                }
            }
        }
    }
}

/// The calls, for one connection: each knows who is at its other end.
fn calls<B>(
    router: Router,
    peer: Peer,
) -> impl Service<Request<B>, Response = Response, Error = Infallible, Future: Send + 'static>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let calls = TowerToHyperService::new(router);
    service_fn(move |mut request: Request<B>| {
        request.extensions_mut().insert(peer.clone());
        calls.call(request)
    })
}
