//! What a benchmark measured, as tables for people and as an object for programs.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::table::table;
use crate::capacity::limits::{Finding, ms, percent, whole};
use crate::capacity::measured::{Benchmark, LoadRun, NodeRun};

pub(super) fn text(benchmark: &Benchmark) -> String {
    let mut text = String::new();
    let fastest = benchmark.fastest();
    for (index, node) in benchmark.nodes.iter().enumerate() {
        let cpu = fastest.and_then(|load| Some((load, (*load.server_cpu.get(index)?)?)));
        let parts = [
            node.round_trip.map(|time| format!("round trip {}", ms(time))),
            (!node.votes).then(|| match &node.error {
                Some(error) => format!("does not vote ({error})"),
                None => "does not vote".to_owned(),
            }),
            node.version.clone(),
            cpu.map(|(load, cpu)| format!("CPU {} with {}", percent(cpu), load.name())),
        ];
        let _ =
            writeln!(text, "{}  {}", node.node, parts.into_iter().flatten().collect::<Vec<_>>().join(", "));
    }
    let header =
        ["LOAD", "LOCKS/S", "ACQUIRE P50", "P99", "RELEASE P50", "P99", "CLIENT CPU", "SERVER CPU", "FAILED"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(benchmark.loads.iter().map(row));
    if let Some(times) = benchmark.pass_on {
        let empty = || String::new();
        rows.push(vec!["hand-over".to_owned(), empty(), ms(times.p50), ms(times.p99)]);
    }
    let _ = write!(text, "\n{}\n", table(&rows));
    for (what, finding) in [("latency", benchmark.latency_limit()), ("throughput", benchmark.rate_limit())] {
        if let Some(Finding { message, .. }) = finding {
            let _ = writeln!(text, "{what}: {message}");
        }
    }
    text
}

fn row(load: &LoadRun) -> Vec<String> {
    let cpu = |us: Option<f64>| us.map_or_else(|| "?".to_owned(), |us| format!("{us:.1} us"));
    vec![
        load.name(),
        whole(load.per_second()),
        ms(load.acquire.p50),
        ms(load.acquire.p99),
        ms(load.release.p50),
        ms(load.release.p99),
        cpu(load.client_cpu_us()),
        cpu(load.server_cpu_us()),
        load.failed.to_string(),
    ]
}

pub(super) fn json(benchmark: &Benchmark) -> Value {
    let finding = |finding: Option<Finding>| {
        finding.map(|Finding { limit, message }| json!({ "limit": limit.word(), "message": message }))
    };
    json!({
        "nodes": benchmark.nodes.iter().map(node).collect::<Vec<_>>(),
        "majority_rtt_us": benchmark.decisive().map(|(_, round_trip)| us(round_trip)),
        "loads": benchmark.loads.iter().map(load).collect::<Vec<_>>(),
        "hand_over": benchmark.pass_on.map(|times| json!({ "p50_us": us(times.p50), "p99_us": us(times.p99) })),
        "latency_limit": finding(benchmark.latency_limit()),
        "throughput_limit": finding(benchmark.rate_limit()),
        "took_ms": super::milliseconds(benchmark.elapsed),
    })
}

fn node(node: &NodeRun) -> Value {
    json!({
        "node": node.node,
        "votes": node.votes,
        "version": node.version,
        "persistence": format!("{:?}", node.persistence).to_lowercase(),
        "rtt_us": node.round_trip.map(us),
        "error": node.error,
    })
}

fn load(load: &LoadRun) -> Value {
    json!({
        "clients": load.clients,
        "tasks": load.tasks,
        "locks_per_second": rounded(load.per_second()),
        "acquire_p50_us": us(load.acquire.p50),
        "acquire_p99_us": us(load.acquire.p99),
        "release_p50_us": us(load.release.p50),
        "release_p99_us": us(load.release.p99),
        "client_cpu_us": load.client_cpu_us().map(rounded),
        "server_cpu_us": load.server_cpu_us().map(rounded),
        "client_cores": rounded(load.client_cpu),
        "server_cores": load.server_cpu.iter().map(|cpu| cpu.map(rounded)).collect::<Vec<_>>(),
        "machine_busy": load.machine.map(rounded),
        "failed": load.failed,
    })
}

fn us(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1e6)
}

/// To three digits behind the point.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
