//! The rules for Prometheus in `docs/how-to/monitoring.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use tenure_testkit::{RedisServer, installed};

use super::page::Page;
use super::three_nodes;
use crate::deployment::{Done, wait_until};
use crate::serve::Serving;

/// A rule, the series that make it fire, and those that do not.
const CASES: &[(&str, &[&str], &[&str])] = &[
    (
        "TenureNoMajority",
        &[
            r#"tenure_node_votes{job="j",instance="i",node="a"} 1+0x20"#,
            r#"tenure_node_votes{job="j",instance="i",node="b"} 0+0x20"#,
            r#"tenure_node_votes{job="j",instance="i",node="c"} 0+0x20"#,
            r#"tenure_quorum_nodes{job="j",instance="i"} 2+0x20"#,
        ],
        &[
            r#"tenure_node_votes{job="j",instance="i",node="a"} 1+0x20"#,
            r#"tenure_node_votes{job="j",instance="i",node="b"} 1+0x20"#,
            r#"tenure_node_votes{job="j",instance="i",node="c"} 0+0x20"#,
            r#"tenure_quorum_nodes{job="j",instance="i"} 2+0x20"#,
        ],
    ),
    (
        "TenureNoNodeToSpare",
        &[
            r#"tenure_node_votes{job="j",instance="i",node="a"} 1+0x20"#,
            r#"tenure_node_votes{job="j",instance="i",node="b"} 1+0x20"#,
            r#"tenure_node_votes{job="j",instance="i",node="c"} 0+0x20"#,
            r#"tenure_quorum_nodes{job="j",instance="i"} 2+0x20"#,
        ],
        // One node in all has none to spare, and nobody wants to hear of it every day.
        &[
            r#"tenure_node_votes{job="j",instance="i",node="a"} 1+0x20"#,
            r#"tenure_quorum_nodes{job="j",instance="i"} 1+0x20"#,
        ],
    ),
    (
        "TenureLocksLost",
        &[r#"tenure_leases_lost_total{job="j",instance="i",group=""} 0+1x20"#],
        &[r#"tenure_leases_lost_total{job="j",instance="i",group=""} 7+0x20"#],
    ),
    (
        "TenureAcquiresUnavailable",
        &[r#"tenure_acquires_total{job="j",instance="i",outcome="unavailable",group=""} 0+10x20"#],
        &[
            r#"tenure_acquires_total{job="j",instance="i",outcome="unavailable",group=""} 3+0x20"#,
            r#"tenure_acquires_total{job="j",instance="i",outcome="contended",group=""} 0+10x20"#,
        ],
    ),
    (
        "TenureClockOff",
        &[r#"tenure_node_clock_offset_seconds{job="j",instance="i",node="a"} -0.2+0x20"#],
        &[r#"tenure_node_clock_offset_seconds{job="j",instance="i",node="a"} 0.05+0x20"#],
    ),
    (
        "TenureNoRoom",
        &[
            r#"tenure_acquires_in_progress{job="j",instance="i"} 95+0x20"#,
            r#"tenure_acquires_max{job="j",instance="i"} 100+0x20"#,
        ],
        &[
            r#"tenure_acquires_in_progress{job="j",instance="i"} 50+0x20"#,
            r#"tenure_acquires_max{job="j",instance="i"} 100+0x20"#,
        ],
    ),
];

#[test]
fn the_rules_fire_when_they_should() {
    let Some(mut check) = installed("promtool") else { return };
    let rules = Page::open("docs/how-to/monitoring.md").block("yaml").to_owned();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yml"), &rules).unwrap();
    let done = Done::of(check.args(["check", "rules", "rules.yml"]).current_dir(&folder).output().unwrap());
    assert!(done.ends_with(0).stdout.contains(&format!("{} rules found", CASES.len())), "{done:?}");
    let mut tests = String::from("rule_files: [rules.yml]\nevaluation_interval: 15s\ntests:\n");
    for (alert, firing, quiet) in CASES {
        for (series, fires) in [(firing, true), (quiet, false)] {
            let _ = writeln!(tests, "  - interval: 1m\n    name: {alert} fires {fires}\n    input_series:");
            for one in *series {
                let (name, values) = one.rsplit_once(' ').unwrap();
                let _ = writeln!(tests, "      - series: '{name}'\n        values: '{values}'");
            }
            // How many there are, whatever their labels and words.
            let count = if fires { "[{labels: '{}', value: 1}]" } else { "[]" };
            let _ = writeln!(
                tests,
                "    promql_expr_test:\n      - expr: count(ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})\n\
                 \x20       eval_time: 15m\n        exp_samples: {count}"
            );
        }
    }
    std::fs::write(folder.path().join("tests.yml"), &tests).unwrap();
    let mut run = installed("promtool").unwrap();
    let done = Done::of(run.args(["test", "rules", "tests.yml"]).current_dir(&folder).output().unwrap());
    assert_eq!(done.code, Some(0), "{done:?}\n{tests}");
}

/// Every metric of the rules is one that the service has, as soon as there is something to count.
#[test]
fn the_rules_are_about_metrics_that_there_are() {
    let page = Page::open("docs/how-to/monitoring.md");
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = page.block("yaml").split(|c| !is_name(c));
    let named: BTreeSet<&str> = words.filter(|word| word.starts_with("tenure_")).collect();
    assert!(named.len() > 6, "{named:?}");

    let mut deployment = three_nodes();
    let service = Serving::start(&deployment, &[]);
    let mut seen = BTreeSet::new();
    let mut look = || {
        let metrics = get(&service, "/metrics");
        let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        seen.extend(types.filter_map(|line| line.split(' ').next()).map(str::to_owned));
        named.iter().all(|name| seen.contains(*name))
    };
    let holder = hold(&service, "import");
    assert!(!look(), "nothing is lost yet");
    // Nobody can extend it any more, so it is lost.
    deployment.servers.iter_mut().for_each(RedisServer::kill);
    wait_until(look);
    drop(holder);
}

/// A lock that this connection holds.
fn hold(service: &Serving, name: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&service.address).unwrap();
    let body = json!({"name": name, "ttl_ms": 1000}).to_string();
    write!(
        stream,
        "POST /v1/hold HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        service.address,
        body.len()
    )
    .unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    stream
}

fn get(service: &Serving, path: &str) -> String {
    let mut stream = TcpStream::connect(&service.address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", service.address).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
