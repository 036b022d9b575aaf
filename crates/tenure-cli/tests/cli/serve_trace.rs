//! One trace goes from the client's span through the service to each node. A collector of our own
//! receives it, as any other would: OTLP over HTTP.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use serde_json::json;

use crate::deployment::{Done, embedded_store, five_redis_nodes};
use crate::serve::Serving;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

/// Somebody who receives what is exported.
pub(crate) struct Collector {
    pub(crate) url: String,
    exports: Receiver<Vec<u8>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (send, exports) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, send) = (stream.unwrap(), send.clone());
                thread::spawn(move || receive(stream, |export| drop(send.send(export))));
            }
        });
        Self { url: format!("http://{address}"), exports }
    }

    /// All that came from a service that has ended, byte by byte.
    pub(crate) fn exports(&self) -> Vec<Vec<u8>> {
        let next = || self.exports.recv_timeout(Duration::from_millis(500)).ok();
        std::iter::from_fn(next).collect()
    }

    /// The spans in it.
    fn spans(&self) -> Vec<Span> {
        let exports = self.exports().into_iter();
        let exports = exports.map(|export| ExportTraceServiceRequest::decode(&*export).unwrap());
        let scopes = exports.flat_map(|export| export.resource_spans).flat_map(|of| of.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

/// Takes requests until the connection ends.
fn receive(stream: TcpStream, mut take: impl FnMut(Vec<u8>)) {
    let mut answers = stream.try_clone().unwrap();
    let mut input = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let begin = head.len();
            if input.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = head[begin..].to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        assert!(head.starts_with("POST /v1/traces "), "{head}");
        let mut body = vec![0; length];
        input.read_exact(&mut body).unwrap();
        take(body);
        answers.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Attribute::StringValue(text) => Some(text.clone()),
        Attribute::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

#[test]
fn one_trace_goes_from_the_clients_span_through_the_service_to_each_node() {
    let deployment = five_redis_nodes();
    let collector = Collector::start();
    let mut service = Serving::start_with(&deployment, &[], |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    });
    service.headers = format!("traceparent: 00-{TRACE}-{CLIENT_SPAN}-01\r\n");
    let (status, lease) = service.post("/v1/acquire", &json!({ "name": "x" }));
    assert_eq!(status, 200, "{lease}");
    let given = json!({ "name": "x", "token": lease["token"] });
    assert_eq!(service.post("/v1/extend", &given).0, 200);
    assert_eq!(service.post("/v1/release", &given).0, 200);
    // Another call, of nobody's trace.
    service.headers = String::new();
    service.post("/v1/acquire", &json!({ "name": "y" }));
    // What is left is sent at the end.
    assert_eq!(service.end(Signal::SIGTERM), Some(0));
    let all = collector.spans();
    let (ours, others): (Vec<Span>, Vec<Span>) =
        all.into_iter().partition(|span| hex(&span.trace_id) == TRACE);
    let below = |parent: &[u8]| ours.iter().filter(|span| span.parent_span_id == parent).collect::<Vec<_>>();
    let only = |spans: Vec<&Span>, name: &str| -> Span {
        let named: Vec<_> = spans.into_iter().filter(|span| span.name == name).collect();
        assert_eq!(named.len(), 1, "{name}: {ours:#?}");
        named[0].clone()
    };
    let client: Vec<u8> =
        (0..8).map(|at| u8::from_str_radix(&CLIENT_SPAN[2 * at..][..2], 16).unwrap()).collect();
    let mut addresses = BTreeSet::new();
    for (call, operation, command) in [
        ("acquire", "tenure.acquire", "acquire"),
        ("extend", "tenure.resume", "extend"),
        ("release", "tenure.release", "release"),
    ] {
        let served = only(below(&client), &format!("POST /v1/{call}"));
        assert_eq!(
            (served.kind, attribute(&served, "http.response.status_code").as_deref()),
            (SpanKind::Server as i32, Some("200"))
        );
        let operation = only(below(&served.span_id), operation);
        assert_eq!(attribute(&operation, "lock").as_deref(), Some("x"));
        let asked = below(&operation.span_id);
        let nodes: BTreeSet<String> = asked.iter().filter_map(|span| attribute(span, "node")).collect();
        assert_eq!(nodes.len(), 5, "{asked:#?}");
        for span in asked {
            assert_eq!((span.name.as_str(), span.kind), ("tenure.ask", SpanKind::Client as i32));
            assert_eq!(attribute(span, "command").as_deref(), Some(command));
            assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
        }
        addresses.extend(nodes);
    }
    let expected: BTreeSet<String> =
        deployment.servers.iter().map(|server| format!("{}/0", server.url())).collect();
    assert_eq!(addresses, expected);
    assert!(others.iter().any(|span| span.name == "POST /v1/acquire" && span.parent_span_id.is_empty()));
}

#[test]
fn a_collector_that_would_need_encryption_is_refused() {
    let deployment = embedded_store();
    let mut service = deployment.command(&["serve", "--listen", "127.0.0.1:0"]);
    service.env("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example");
    let done = Done::of(service.output().unwrap());
    done.ends_with(64);
    assert!(done.stderr.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{done:?}");
}
