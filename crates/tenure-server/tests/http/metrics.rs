//! What Prometheus collects.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;

use futures_util::future::join_all;
use serde_json::json;
use tenure::{Faults, Locks, MemoryNode};
use tenure_server::{LogFile, Metrics, Service};
use tenure_testkit::installed;

use crate::client::Client;
use crate::{Instance, given, keys, nodes};

/// A service that counts, and locks beside it that count into the same.
fn counting(nodes: &[MemoryNode], groups: &[&str]) -> (Service, Locks) {
    let metrics = Metrics::new(groups.iter().map(|group| (*group).to_owned()).collect());
    let observer = metrics.clone();
    let locks = Locks::builder().nodes(nodes.iter().cloned()).observer(move |event| observer.observe(event));
    let locks = locks.build().unwrap();
    (Service::new(locks.clone(), keys('a')).metrics(metrics), locks)
}

async fn text(client: &mut Client) -> String {
    let answer = client.get("/metrics").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.text
}

/// What stands behind a metric.
#[track_caller]
fn value(text: &str, metric: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {metric} in {text}")).parse().unwrap()
}

#[tokio::test]
async fn calls_locks_connections_and_nodes_are_counted() {
    let (nodes, folder) = (nodes(), tempfile::tempdir().unwrap());
    let (service, _) = counting(&nodes, &["jobs/", "jobs/nightly/"]);
    let log = LogFile::open(&folder.path().join("access")).unwrap();
    let instance = Instance::start(service.acquires_max(7).connections_max(2).access_log(log)).await;
    let mut client = Client::connect(instance.address).await;
    let lease = client.post("/v1/acquire", &json!({ "name": "jobs/nightly/import" })).await.body;
    client.post("/v1/acquire", &json!({ "name": "jobs/nightly/import" })).await;
    client.post("/v1/acquire", &json!({ "name": "jobs/x" })).await;
    client.post("/v1/acquire", &json!({ "name": "y" })).await;
    client.post("/v1/acquire", &json!({ "name": "y", "owner": "job-1" })).await;
    client.post("/v1/extend", &given(&lease)).await;
    client.get("/v1/nothing").await;
    // One that waits and goes away; while it is there, another connection is one too many.
    let mut waiter = Client::connect(instance.address).await;
    waiter.send("/v1/acquire", &json!({ "name": "y", "wait_ms": 60_000 })).await;
    while value(&text(&mut client).await, "tenure_acquires_in_progress") < 1.0 {}
    let mut refused = Client::connect(instance.address).await;
    assert!(refused.is_closed_within(std::time::Duration::from_secs(5)).await);
    let text_then = text(&mut client).await;
    assert_eq!(value(&text_then, "tenure_connections"), 2.0);
    drop(waiter);
    while value(&text(&mut client).await, "tenure_acquires_in_progress") > 0.0 {}
    nodes[2].set_faults(Faults::unreachable());
    let text = text(&mut client).await;
    for (metric, expected) in [
        ("tenure_calls_total{call=\"/v1/acquire\",status=\"200\"}", 3.0),
        ("tenure_calls_total{call=\"/v1/acquire\",status=\"409\"}", 2.0),
        ("tenure_calls_total{call=\"/v1/acquire\",status=\"none\"}", 1.0),
        ("tenure_calls_total{call=\"none\",status=\"404\"}", 1.0),
        ("tenure_call_duration_seconds_count{call=\"/v1/acquire\"}", 6.0),
        ("tenure_acquires_total{group=\"jobs/nightly/\",outcome=\"acquired\"}", 1.0),
        ("tenure_acquires_total{group=\"jobs/nightly/\",outcome=\"contended\"}", 1.0),
        ("tenure_acquires_total{group=\"jobs/\",outcome=\"acquired\"}", 1.0),
        ("tenure_acquires_total{group=\"\",outcome=\"acquired\"}", 1.0),
        ("tenure_acquires_total{group=\"\",outcome=\"other_kind\"}", 1.0),
        ("tenure_extensions_total{group=\"jobs/nightly/\",outcome=\"extended\"}", 1.0),
        ("tenure_acquires_max", 7.0),
        ("tenure_connections_max", 2.0),
        ("tenure_connections_refused_total", 1.0),
        ("tenure_holds", 0.0),
        ("tenure_draining", 0.0),
        ("tenure_quorum_nodes", 2.0),
        ("tenure_node_votes{node=\"memory:a\"}", 1.0),
        ("tenure_node_reachable{node=\"memory:a\"}", 1.0),
        ("tenure_access_log_lines_lost_total", 0.0),
        (concat!("tenure_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1.0),
    ] {
        assert_eq!(value(&text, metric), expected, "{metric} in {text}");
    }
    assert!(value(&text, "tenure_start_time_seconds") > 1_700_000_000.0);
    let page = include_str!("../../../../docs/reference/metrics.md");
    for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(page.contains(&format!("`{name}`")), "docs/reference/metrics.md lacks {name}");
    }
    for secret in ["import", lease["token"].as_str().unwrap()] {
        assert!(!text.contains(secret), "{text}");
    }
    let Some(mut promtool) = installed("promtool") else { return };
    let mut check =
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let done = check.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.is_empty(), "{said}");
}

/// However many names there are, the metrics are the same.
#[tokio::test]
async fn a_hundred_thousand_locks_add_no_series() {
    const LOCKS: usize = 100_000;
    let nodes = [MemoryNode::new("a")];
    let (service, locks) = counting(&nodes, &["even/"]);
    let instance = Instance::start(service).await;
    let mut client = Client::connect(instance.address).await;
    let acquired = |number: usize| {
        let group = if number.is_multiple_of(2) { "even" } else { "odd" };
        let lock = locks.lock(format!("{group}/{number}"));
        async move { lock.acquire().await.unwrap().release().await.unwrap() }
    };
    join_all((0..2).map(acquired)).await;
    text(&mut client).await;
    let series = |text: &str| -> BTreeSet<String> {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
    };
    let before = series(&text(&mut client).await);
    for first in (2..LOCKS).step_by(1_000) {
        join_all((first..LOCKS.min(first + 1_000)).map(acquired)).await;
    }
    let after = text(&mut client).await;
    assert_eq!(series(&after), before);
    let half = value(&after, "tenure_acquires_total{group=\"even/\",outcome=\"acquired\"}");
    assert_eq!(half, 50_000.0);
}
