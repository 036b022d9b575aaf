//! The end of an instance, in good order.
//!
//! It is not ready any more, and takes no new work: whoever waits hears so and goes elsewhere, a
//! connection that holds a lock gets a last line. No lock is released. For a moment it listens on,
//! and tells everybody who calls to come no more (`Connection: close`): whoever found the socket
//! closed in the middle of a request could not know whether it was done. Then the calls under way
//! get their answers, within `drain_max`.

use std::time::Duration;

use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Version};
use axum::response::Response;

use crate::Service;

/// How long the end may take, unless [`Service::drain_max`] says otherwise: several times what the
/// longest call takes that does not wait.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(30);

/// How long it listens on while connections are open: a proxy that keeps them sends its next call
/// by then, or has noticed that it is not ready.
pub(crate) const LISTENS_ON: Duration = Duration::from_secs(1);

/// How often it looks whether they have ended before that.
pub(crate) const LOOKS_EVERY: Duration = Duration::from_millis(10);

/// Calls were under way for longer than the end may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{connections} connections were closed before their calls finished: drain_max was reached; raise it if \
     this happens again"
)]
#[non_exhaustive]
pub struct CutOff {
    /// How many connections there were.
    pub connections: i64,
}

/// Tells those who call to come no more.
pub(crate) fn tell(service: &Service, version: Version, response: &mut Response) {
    // HTTP/2 has a way of its own.
    if service.is_draining() && version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}
