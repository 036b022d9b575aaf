//! Whether a connection has anything to do: calls that are under way, or answers that are not
//! written to their end.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::{Service, service_fn};

/// What happens on a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Activity {
    /// These calls, counted.
    pub(super) fn watch<C, F>(
        &self,
        calls: C,
    ) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send + 'static> + use<C, F>
    where
        C: Service<Request<Incoming>, Response = Response, Error = Infallible, Future = F>,
        F: Future<Output = Result<Response, Infallible>> + Send + 'static,
    {
        let activity = self.clone();
        service_fn(move |request| {
            let (call, busy) = (calls.call(request), activity.begin());
            async move { Ok(call.await?.map(|body| Body::new(Watched { body, _busy: busy }))) }
        })
    }

    /// How many calls there have been, if none is under way: while this stays the same, nothing
    /// happens.
    pub(super) fn silent_since(&self) -> Option<u64> {
        let (ended, begun) = (self.0.ended.load(Ordering::Acquire), self.0.begun.load(Ordering::Acquire));
        (begun == ended).then_some(begun)
    }

    fn begin(&self) -> Busy {
        self.0.begun.fetch_add(1, Ordering::AcqRel);
        Busy(self.clone())
    }
}

/// A call that is under way.
struct Busy(Activity);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

/// An answer that is being written.
struct Watched {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
