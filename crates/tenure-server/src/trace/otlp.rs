//! Spans for a collector, by OTLP over HTTP, as the usual variables say:
//! `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, and `OTEL_SERVICE_NAME`.
//!
//! Without encryption: a collector is on the same machine, or a proxy to it is.

use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use axum::http::{HeaderMap, Request, Response};
use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Span;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::{TraceParent, collector};

/// A collector that takes longer is not there.
const SEND_LIMIT: Duration = Duration::from_secs(10);

/// Spans on their way to a collector.
#[derive(Debug)]
pub struct Traces(SdkTracerProvider);

/// Why spans do not get to a collector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracesError {
    /// The collector is elsewhere.
    #[error(
        "{variable}: spans are sent unencrypted; use a collector on this machine, such as \
         http://127.0.0.1:4318"
    )]
    #[non_exhaustive]
    Encrypted {
        /// Which variable says so.
        variable: &'static str,
    },
    /// The variables cannot be understood, or the process sends its spans elsewhere already.
    #[error("cannot send spans to a collector: {0}")]
    Refused(String),
}

impl Traces {
    /// From now on all spans of this process go to the collector that the environment names, if it
    /// names one.
    ///
    /// # Errors
    /// [`TracesError`].
    pub fn begin() -> Result<Option<Self>, TracesError> {
        let Some((variable, url)) = collector() else { return Ok(None) };
        if url.starts_with("https:") {
            return Err(TracesError::Encrypted { variable });
        }
        let exporter = SpanExporter::builder().with_http().with_http_client(Sender::new());
        let exporter = exporter.build().map_err(|error| TracesError::Refused(error.to_string()))?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("tenure");
        }
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("tenure"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_target("tenure", LevelFilter::DEBUG));
        let installed = tracing_subscriber::registry().with(layer).try_init();
        installed.map_err(|error| TracesError::Refused(error.to_string()))?;
        Ok(Some(Self(provider)))
    }
}

impl Drop for Traces {
    /// Sends what is left.
    fn drop(&mut self) {
        // A collector that is gone is nobody's concern here.
        let _ = self.0.shutdown();
    }
}

/// Makes a span the child of the client's.
pub(super) fn adopt(span: &Span, parent: TraceParent, headers: &HeaderMap) {
    let state = headers.get("tracestate").and_then(|state| state.to_str().ok());
    let state: Option<TraceState> = state.and_then(|state| state.parse().ok());
    let TraceParent { trace, span: of_client, flags } = parent;
    let parent = SpanContext::new(
        TraceId::from_bytes(trace),
        SpanId::from_bytes(of_client),
        TraceFlags::new(flags) & TraceFlags::SAMPLED,
        true,
        state.unwrap_or_default(),
    );
    // Without a collector there is no layer to tell.
    let _ = span.set_parent(Context::new().with_remote_span_context(parent));
}

/// Sends requests from the exporter's own thread, which may wait.
#[derive(Debug)]
struct Sender(ureq::Agent);

impl Sender {
    fn new() -> Self {
        let settings = ureq::Agent::config_builder();
        Self(settings.timeout_global(Some(SEND_LIMIT)).http_status_as_error(false).build().into())
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, mut body) = self.0.run(request.map(|body| body.to_vec()))?.into_parts();
        Ok(Response::from_parts(head, body.read_to_vec()?.into()))
    }
}
