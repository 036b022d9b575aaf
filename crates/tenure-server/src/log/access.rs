//! One line for each call: who, what, about which lock, and what came of it.
//!
//! Nobody waits for the log. Lines go through a queue to a thread of its own; when the disk does
//! not keep up, the newest are left out and counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use serde::Serialize;
use tracing::Span;

use super::record::REQUEST_ID;
use super::{LogFile, Record, now};
use crate::Service;
use crate::caller::Peer;
use crate::grant::Received;
use crate::problem::Kind;
use crate::trace::{self, TraceParent};

/// How many lines may wait for the disk: some megabytes.
const QUEUE_MAX: usize = 16_384;

/// How many of them leave with one write.
const BATCH_MAX: usize = 512;

/// The log of all calls.
#[derive(Debug)]
pub(crate) struct AccessLog {
    /// Nothing but while it is dropped.
    queue: Option<SyncSender<String>>,
    writer: Option<JoinHandle<()>>,
    lost: Arc<AtomicU64>,
}

impl AccessLog {
    pub(crate) fn new(file: LogFile) -> Self {
        let (queue, lines) = sync_channel(QUEUE_MAX);
        let lost = Arc::default();
        let writer = thread::spawn({
            let lost = Arc::clone(&lost);
            move || write(&file, &lines, &lost)
        });
        Self { queue: Some(queue), writer: Some(writer), lost }
    }

    /// How many lines were left out.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn add(&self, line: String) {
        let sent = self.queue.as_ref().is_some_and(|queue| queue.try_send(line).is_ok());
        if !sent {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for AccessLog {
    /// What is in the queue is written first.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write(file: &LogFile, lines: &Receiver<String>, lost: &AtomicU64) {
    while let Ok(mut batch) = lines.recv() {
        let mut count = 1;
        for line in lines.try_iter().take(BATCH_MAX) {
            batch.push_str(&line);
            count += 1;
        }
        if file.append(&batch).is_err() {
            lost.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// A call that is being served. It has ended when this is dropped, and is counted and logged then:
/// one whose client has gone away is never answered.
pub(crate) struct Call {
    service: Arc<Service>,
    record: Record,
    received: Instant,
    peer: Option<SocketAddr>,
    method: Method,
    path: Option<MatchedPath>,
    status: Option<StatusCode>,
    problem: Option<Kind>,
    trace: Option<TraceParent>,
}

/// The line.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    id: &'a str,
    caller: Option<&'a str>,
    peer: Option<SocketAddr>,
    method: &'a str,
    /// Nothing if there is no such call: what was asked for instead can be anything.
    call: Option<&'a str>,
    name: Option<&'a str>,
    /// How many there are, if it is about several.
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<usize>,
    /// Nothing if the client went away.
    status: Option<u16>,
    problem: Option<&'static str>,
    duration_ms: f64,
    /// The client's trace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
}

impl Call {
    /// Notes what has come in.
    pub(crate) fn begin(service: Arc<Service>, request: &mut Request) -> Self {
        let record = Record::of(request.headers());
        request.extensions_mut().insert(record.clone());
        let known = request.extensions();
        Self {
            service,
            record,
            received: known.get::<Received>().map_or_else(Instant::now, |received| received.0),
            peer: known.get::<Peer>().and_then(|peer| peer.address),
            method: request.method().clone(),
            path: known.get::<MatchedPath>().cloned(),
            status: None,
            problem: None,
            trace: TraceParent::of(request.headers()),
        }
    }

    /// The span that it is served in.
    pub(crate) fn span(&self, request: &Request) -> Span {
        trace::span(request, self.path(), &self.record)
    }

    /// Notes what goes out. What has an answer has a request id, too.
    pub(crate) fn answer(&mut self, span: &Span, response: &mut Response) {
        trace::answered(span, response.status());
        self.status = Some(response.status());
        self.problem = response.extensions().get::<Kind>().copied();
        if let Ok(id) = HeaderValue::from_str(self.record.id()) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
    }

    /// What it is called; nothing if there is no such call.
    fn path(&self) -> Option<&str> {
        self.path.as_ref().map(MatchedPath::as_str)
    }

    fn line(&self, took: Duration) -> serde_json::Result<String> {
        let noted = self.record.noted();
        let line = Line {
            time: now(),
            id: self.record.id(),
            caller: noted.caller.as_deref(),
            peer: self.peer,
            method: self.method.as_str(),
            call: self.path(),
            name: noted.name.as_deref(),
            names: Some(noted.names).filter(|names| *names > 1),
            status: self.status.map(|status| status.as_u16()),
            problem: self.problem.map(Kind::name),
            duration_ms: took.as_secs_f64() * 1_000.0,
            trace_id: self.trace.map(|trace| trace.trace_id()),
        };
        Ok(serde_json::to_string(&line)? + "\n")
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let took = self.received.elapsed();
        self.service.metrics.called(self.path(), self.status.as_ref().map(StatusCode::as_str), took);
        if let Some(log) = &self.service.access_log
            && let Ok(line) = self.line(took)
        {
            log.add(line);
        }
    }
}
