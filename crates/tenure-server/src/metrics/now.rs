//! What is so at this moment: the nodes as the library sees them, and the room that is left.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::proto::MetricFamily;
use prometheus::{Gauge, GaugeVec, IntCounter, Registry};
use tenure::NodeReport;
use tenure::metrics::{NODE_GAUGES, QUORUM_NODES};
use tokio::time::timeout;

use super::described;
use crate::Service;

/// Nodes that do not answer must not keep the rest from being seen.
const NODES_LIMIT: Duration = Duration::from_secs(3);

static STARTED: LazyLock<f64> =
    LazyLock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64());

/// The process has started, for those who want to know when.
pub(super) fn started() {
    LazyLock::force(&STARTED);
}

pub(super) async fn families(service: &Service) -> prometheus::Result<Vec<MetricFamily>> {
    let now = Now(Registry::new());
    now.value("tenure_start_time_seconds", "Start time of the instance, in Unix time.", *STARTED)?;
    now.values("tenure_build_info", "The version.", "version", [(env!("CARGO_PKG_VERSION"), 1.0)])?;
    let draining = f64::from(u8::from(service.is_draining()));
    now.value("tenure_draining", "Whether the instance is shutting down.", draining)?;
    let (most, left) = service.room.seats();
    now.value("tenure_acquires_max", "Maximum number of acquires in progress.", count(most))?;
    let help = "Acquires in progress, including those waiting in line.";
    now.value("tenure_acquires_in_progress", help, count(most - left.min(most)))?;
    let help = "Maximum number of connections.";
    now.value("tenure_connections_max", help, count(service.bounds.connections))?;
    if let Some(log) = &service.access_log {
        let help = "Access log lines that could not be written.";
        let lost = IntCounter::with_opts(described("tenure_access_log_lines_lost_total", help))?;
        lost.inc_by(log.lost());
        now.0.register(Box::new(lost))?;
    }
    if let Ok(nodes) = timeout(NODES_LIMIT, service.locks.nodes()).await {
        now.nodes(&nodes)?;
    }
    Ok(now.0.gather())
}

struct Now(Registry);

impl Now {
    fn nodes(&self, nodes: &[NodeReport]) -> prometheus::Result<()> {
        let majority = count(nodes.len() / 2 + 1);
        self.value(QUORUM_NODES.name, QUORUM_NODES.help, majority)?;
        NODE_GAUGES.iter().try_for_each(|gauge| {
            let known = nodes.iter().filter_map(|node| Some((&*node.node, (gauge.value)(node)?)));
            self.values(gauge.metric.name, gauge.metric.help, "node", known)
        })
    }

    fn value(&self, name: &str, help: &str, value: f64) -> prometheus::Result<()> {
        let gauge = Gauge::with_opts(described(name, help))?;
        gauge.set(value);
        self.0.register(Box::new(gauge))
    }

    fn values<'a>(
        &self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> prometheus::Result<()> {
        let gauges = GaugeVec::new(described(name, help), &[label])?;
        for (of, value) in values {
            gauges.with_label_values(&[of]).set(value);
        }
        self.0.register(Box::new(gauges))
    }
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}
