//! What can be counted and measured, for Prometheus: `tenure_*`, in seconds and bytes.
//!
//! A lock's name is never a label, because there may be any number of them. Whoever wants to tell
//! locks apart names groups by what the names begin with (`metrics_groups`).
//!
//! What happened is counted when it happens: calls by the layer around them, locks by the library's
//! events. What is so now, such as the state of the nodes (`metrics/now.rs`), is asked for when
//! somebody looks.

mod now;

use std::sync::Arc;
use std::time::Duration;

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};
use tenure::Event;
use tenure::metrics::{
    ACQUIRE_SECONDS, ACQUIRES, Count, EXTENSIONS, LEASES_LOST, Metric, NODE_DISTRUSTED, group,
};

use crate::Service;

/// From a fast call on loopback to a long wait in line.
const SECONDS: [f64; 14] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0];

/// The counters of one instance. A clone counts into the same.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    registry: Registry,
    groups: Vec<String>,
    calls: IntCounterVec,
    call_seconds: HistogramVec,
    acquires: IntCounterVec,
    acquire_seconds: HistogramVec,
    extensions: IntCounterVec,
    lost: IntCounterVec,
    distrusts: IntCounterVec,
    holds: IntGauge,
    connections: IntGauge,
    connections_refused: IntCounter,
}

impl Metrics {
    /// Locks are told apart by which of these their names begin with; the longest counts.
    #[must_use]
    pub fn new(groups: Vec<String>) -> Self {
        now::started();
        let registry = Registry::new();
        let of = Registering(&registry);
        Self(Arc::new(Counted {
            groups,
            calls: of.counters(
                "tenure_calls_total",
                "Calls by status; `none` if the client disconnected.",
                &["call", "status"],
            ),
            call_seconds: of.histograms(
                "tenure_call_duration_seconds",
                "Time from receiving a call to answering it.",
                &["call"],
            ),
            acquires: of.counters_of(ACQUIRES),
            acquire_seconds: of.histograms(
                ACQUIRE_SECONDS.name,
                ACQUIRE_SECONDS.help,
                ACQUIRE_SECONDS.labels,
            ),
            extensions: of.counters_of(EXTENSIONS),
            lost: of.counters_of(LEASES_LOST),
            distrusts: of.counters_of(NODE_DISTRUSTED),
            holds: of.gauge("tenure_holds", "Locks held by a connection."),
            connections: of.gauge("tenure_connections", "Open connections."),
            connections_refused: of.counter(
                "tenure_connections_refused_total",
                "Connections refused because of connections_max.",
            ),
            registry,
        }))
    }

    /// Counts something that happened to a lock or a node.
    pub fn observe(&self, event: &Event<'_>) {
        let counted = &*self.0;
        match Count::of(event) {
            Some(Count::Acquire { outcome, name, elapsed, .. }) => counted.acquire(outcome, name, elapsed),
            Some(Count::Extension { outcome, name, .. }) => counted.extension(outcome, name),
            Some(Count::Lost { name, .. }) => counted.lost.with_label_values(&[counted.group(name)]).inc(),
            Some(Count::NodeDistrusted { node, .. }) => counted.distrusts.with_label_values(&[node]).inc(),
            _ => {}
        }
    }

    /// A call has ended; without a status its client went away.
    pub(crate) fn called(&self, call: Option<&str>, status: Option<&str>, took: Duration) {
        // What is no call can be anything, so it has no name here.
        let call = call.unwrap_or("none");
        self.0.calls.with_label_values(&[call, status.unwrap_or("none")]).inc();
        self.0.call_seconds.with_label_values(&[call]).observe(took.as_secs_f64());
    }

    /// A connection that is open until this is dropped.
    pub(crate) fn connection(&self) -> Present {
        Present::new(&self.0.connections)
    }

    /// How many there are.
    pub(crate) fn connections(&self) -> i64 {
        self.0.connections.get()
    }

    /// A connection that was closed at once.
    pub(crate) fn refused_connection(&self) {
        self.0.connections_refused.inc();
    }

    /// A lock that is held by a connection until this is dropped.
    pub(crate) fn hold(&self) -> Present {
        Present::new(&self.0.holds)
    }

    /// All of them as text.
    pub(crate) async fn text(&self, service: &Service) -> prometheus::Result<String> {
        let mut families = self.0.registry.gather();
        families.extend(now::families(service).await?);
        families.sort_by(|one, other| one.name().cmp(other.name()));
        TextEncoder::new().encode_to_string(&families)
    }
}

impl Default for Metrics {
    /// All locks are alike.
    fn default() -> Self {
        Self::new(vec![])
    }
}

impl Counted {
    fn acquire(&self, outcome: &str, name: &str, elapsed: Duration) {
        self.acquires.with_label_values(&[outcome, self.group(name)]).inc();
        self.acquire_seconds.with_label_values(&[outcome]).observe(elapsed.as_secs_f64());
    }

    fn extension(&self, outcome: &str, name: &str) {
        self.extensions.with_label_values(&[outcome, self.group(name)]).inc();
    }

    /// The group of a lock; of all that are in none it is the empty one.
    fn group(&self, name: &str) -> &str {
        group(&self.groups, name).map_or("", |place| &self.groups[place])
    }
}

/// Something that is there until this is dropped.
#[derive(Debug)]
pub(crate) struct Present(IntGauge);

impl Present {
    fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Makes metrics, and registers them.
struct Registering<'a>(&'a Registry);

impl Registering<'_> {
    fn counters_of(&self, Metric { name, help, labels, .. }: Metric) -> IntCounterVec {
        self.counters(name, help, labels)
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.registered(IntCounterVec::new(described(name, help), labels))
    }

    fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.registered(IntCounter::with_opts(described(name, help)))
    }

    fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.registered(IntGauge::with_opts(described(name, help)))
    }

    fn histograms(&self, name: &str, help: &str, labels: &[&str]) -> HistogramVec {
        let described = HistogramOpts::from(described(name, help)).buckets(SECONDS.into());
        self.registered(HistogramVec::new(described, labels))
    }

    fn registered<M: prometheus::core::Collector + Clone + 'static>(&self, made: prometheus::Result<M>) -> M {
        let metric = made.expect("its name is one");
        self.0.register(Box::new(metric.clone())).expect("each has a name of its own");
        metric
    }
}

fn described(name: &str, help: &str) -> Opts {
    Opts::new(name, help)
}
