//! W3C trace context: a call belongs to the trace of its client.
//!
//! A client that sends `traceparent` finds its call, and each node that was asked for it, below its
//! own span. The span of a call is here, those of the locks and nodes are the library's. Where they
//! go is said elsewhere: with the feature `otlp` to a collector (`trace/otlp.rs`).

#[cfg(feature = "otlp")]
mod otlp;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use tracing::Span;
use tracing::field::Empty;

#[cfg(feature = "otlp")]
pub use self::otlp::{Traces, TracesError};
use crate::hex::read_hex;
use crate::log::Record;

/// Where a collector is, by the usual variables: the first counts.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// The collector that the environment names, and by which variable. Only with the feature `otlp`
/// is anything sent there.
#[must_use]
pub fn collector() -> Option<(&'static str, String)> {
    let named = |variable: &&'static str| Some((*variable, std::env::var(variable).ok()?));
    ENDPOINTS.iter().filter_map(named).find(|(_, url)| !url.is_empty())
}

/// What a client says of its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    trace: [u8; 16],
    #[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "for a collector"))]
    span: [u8; 8],
    #[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "for a collector"))]
    flags: u8,
}

impl TraceParent {
    /// What the header says; nothing, if it is not there, is there twice, or cannot be read.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all("traceparent").iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        Self::parse(value.to_str().ok()?)
    }

    /// `00-TRACE-SPAN-FLAGS`. Later versions begin alike and may go on behind a further dash.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
        let ([version], [flags]) = (lower_hex(version)?, lower_hex(parts.next()?)?);
        let (trace, span) = (lower_hex(trace)?, lower_hex(span)?);
        let is_whole = version != 0 || parts.next().is_none();
        let is_valid = version != 0xff && trace != [0; 16] && span != [0; 8];
        (is_whole && is_valid).then_some(Self { trace, span, flags })
    }

    /// The trace, as it is written.
    pub(crate) fn trace_id(&self) -> String {
        crate::hex::hex(&self.trace)
    }
}

/// The span of a call.
pub(crate) fn span(request: &Request, route: Option<&str>, record: &Record) -> Span {
    let (method, route) = (request.method(), route.unwrap_or("none"));
    let span = tracing::info_span!(
        target: "tenure", "call", otel.name = %format_args!("{method} {route}"), otel.kind = "server",
        http.request.method = %method, http.route = route, request_id = record.id(),
        http.response.status_code = Empty, otel.status_code = Empty,
    );
    #[cfg(feature = "otlp")]
    if let Some(parent) = TraceParent::of(request.headers()) {
        otlp::adopt(&span, parent, request.headers());
    }
    span
}

/// Says in its span what came of a call.
pub(crate) fn answered(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}

fn lower_hex<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) { None } else { read_hex(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_as_the_standard_says() {
        let parent = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        assert_eq!(parent.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!((parent.span[7], parent.flags), (0xb7, 1));
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes";
        assert_eq!(TraceParent::parse(later).map(|parent| parent.flags), Some(1));
        for text in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
        ] {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
    }
}
