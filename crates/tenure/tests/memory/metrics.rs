//! What is counted, told to a recorder of the `metrics` facade.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tenure::metrics::{
    ACQUIRE_SECONDS, ACQUIRES, EXTENSIONS, LEASES_LOST, NODE_DISTRUSTED, NODE_GAUGES, QUORUM_NODES,
};
use tenure::*;
use tokio::time::sleep;

use crate::support::*;

/// Every metric with its labels, as Prometheus would write it: numbers of counters and gauges, how
/// many values a histogram has.
fn recorded(snapshotter: &Snapshotter, all: &mut BTreeMap<String, f64>) {
    for (key, _, help, value) in snapshotter.snapshot().into_vec() {
        assert!(help.is_some(), "{key:?} is described");
        let labels = key.key().labels().map(|label| format!("{}={}", label.key(), label.value()));
        let name = format!("{}{{{}}}", key.key().name(), labels.collect::<Vec<_>>().join(","));
        match value {
            // A snapshot takes what it shows.
            DebugValue::Counter(count) => *all.entry(name).or_default() += count as f64,
            DebugValue::Gauge(value) => _ = all.entry(name).or_insert(value.into_inner()),
            DebugValue::Histogram(values) => *all.entry(name).or_default() += values.len() as f64,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn acquires_extensions_losses_and_nodes_are_counted_under_the_names_of_the_service() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let nodes = nodes::<3>();
    let locks = builder(&nodes).tokio_time().metrics_groups(["invoice:", "in"]).build().unwrap();
    let mut guard = locks.lock("invoice:42").ttl(secs(1)).acquire().await.unwrap();
    guard.extend().await.unwrap();
    assert!(locks.lock("invoice:42").try_acquire().await.unwrap().is_none());
    locks.lock("other").acquire().await.unwrap().release().await.unwrap();
    locks.record_nodes().await;
    let mut all = BTreeMap::new();
    recorded(&snapshotter, &mut all);
    fail(&nodes, &Faults::unreachable());
    locks.lock("index").try_acquire().await.unwrap_err();
    guard.lost().await;
    sleep(secs(1)).await;
    recorded(&snapshotter, &mut all);
    let count = |name: &str| all.get(name).copied().unwrap_or_default();
    assert_eq!(count("tenure_acquires_total{outcome=acquired,group=invoice:}"), 1.0, "{all:#?}");
    assert_eq!(count("tenure_acquires_total{outcome=contended,group=invoice:}"), 1.0);
    assert_eq!(count("tenure_acquires_total{outcome=acquired,group=}"), 1.0);
    assert_eq!(count("tenure_acquires_total{outcome=unavailable,group=in}"), 1.0);
    assert_eq!(count("tenure_acquire_duration_seconds{outcome=acquired}"), 2.0);
    assert!(count("tenure_extensions_total{outcome=extended,group=invoice:}") >= 1.0);
    assert!(count("tenure_extensions_total{outcome=unavailable,group=invoice:}") >= 1.0);
    assert_eq!(count("tenure_leases_lost_total{group=invoice:}"), 1.0);
    assert_eq!(count("tenure_quorum_nodes{}"), 2.0);
    for node in 0..3 {
        assert_eq!(count(&format!("tenure_node_votes{{node=memory:{node}}}")), 1.0);
        assert_eq!(count(&format!("tenure_node_reachable{{node=memory:{node}}}")), 1.0);
    }
    // Nothing has a name that is not in the table.
    let mut known = vec![ACQUIRES, ACQUIRE_SECONDS, EXTENSIONS, LEASES_LOST, NODE_DISTRUSTED, QUORUM_NODES];
    known.extend(NODE_GAUGES.iter().map(|gauge| gauge.metric));
    for name in all.keys() {
        let (name, labels) = name.split_once('{').unwrap();
        let metric = known.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}"));
        let labels = labels.trim_end_matches('}').split(',').filter_map(|label| label.split('=').next());
        let labels: Vec<&str> = labels.filter(|label| !label.is_empty()).collect();
        assert_eq!(labels, metric.labels, "{name}");
    }
}

#[tokio::test]
async fn without_a_recorder_nothing_happens() {
    let locks = Locks::memory();
    locks.lock("x").acquire().await.unwrap().release().await.unwrap();
    locks.record_nodes().await;
}
