//! What is left of a request when it has its answer: a call that is refused is answered before its
//! body was read.
//!
//! With HTTP/2 the stream is then reset behind the answer, and clients that are still sending take
//! that for a failure and throw the answer away. So the rest is read first, if it is little.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::Request;
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::{Service, service_fn};
use tokio::time::timeout;

/// Clients that still have more than this to send, or take longer, have to bear it.
const LEFT_MAX: usize = 256 * 1_024;
const LEFT_LIMIT: Duration = Duration::from_secs(1);

/// These calls, whose answers leave when the request has been read to its end.
pub(super) fn reading_to_the_end<C, F>(
    calls: C,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send + 'static>
where
    C: Service<Request<Lent>, Response = Response, Error = Infallible, Future = F>,
    F: Future<Output = Result<Response, Infallible>> + Send + 'static,
{
    service_fn(move |request: Request<Incoming>| {
        let back = Arc::new(Mutex::new(None));
        let call = calls.call(request.map(|body| Lent { body: Some(body), back: Arc::clone(&back) }));
        async move {
            let answer = call.await;
            let left = back.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(left) = left {
                let _ = timeout(LEFT_LIMIT, discard(left)).await;
            }
            answer
        }
    })
}

async fn discard(mut left: Incoming) {
    let mut read = 0;
    while read < LEFT_MAX && !left.is_end_stream() {
        match poll_fn(|cx| Pin::new(&mut left).poll_frame(cx)).await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            _ => return,
        }
    }
}

/// The body of a request, which comes back when the call is done with it.
pub(super) struct Lent {
    body: Option<Incoming>,
    back: Arc<Mutex<Option<Incoming>>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        *self.back.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
    }
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}
