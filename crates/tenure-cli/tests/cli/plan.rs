//! `plan`: from a load to machines, without any node.

use std::iter;

use serde_json::Value;

use crate::deployment::{Deployment, embedded_store, five_redis_nodes};
use crate::json::has_fields;

fn plan(deployment: &Deployment, arguments: &[&str]) -> Value {
    let (plan, code) = deployment.json(&[&["plan", "--json", "--locks-per-second"], arguments].concat());
    assert_eq!(code, Some(0), "{plan}");
    plan
}

fn number(plan: &Value, field: &str) -> f64 {
    plan[field].as_f64().unwrap_or_else(|| panic!("{field} in {plan}"))
}

#[test]
fn a_load_is_turned_into_nodes_cpu_memory_connections_and_latency() {
    let deployment = embedded_store();
    let small =
        plan(&deployment, &["1000", "--held", "10k", "--names", "50k", "--rtt", "2ms", "--clients", "20"]);
    has_fields(
        &small,
        &[
            "fleets",
            "nodes_per_fleet",
            "nodes",
            "node_cores",
            "fleet_locks_per_second",
            "fleet_locks_per_second_together",
            "node_memory_bytes",
            "node_memory",
            "node_network_bytes_per_second",
            "node_connections",
            "client_connections",
            "clients_cores",
            "client_memory_bytes",
            "renewals_per_second",
            "acquire_us",
            "release_us",
            "hand_over_us",
            "quarantine_ms",
            "bottleneck",
            "message",
            "advice",
            "placed",
        ],
    );
    has_fields(&small["node_memory"], &["server", "fences", "held", "waiters", "connections"]);
    assert_eq!((number(&small, "fleets"), number(&small, "nodes")), (1.0, 5.0));
    assert_eq!((number(&small, "node_connections"), number(&small, "client_connections")), (20.0, 5.0));
    // A third of 30 s.
    assert_eq!(number(&small, "renewals_per_second"), 1_000.0);
    assert_eq!(number(&small, "quarantine_ms"), 66_000.0);
    let acquire = number(&small, "acquire_us");
    assert!(
        (2_000.0..3_000.0).contains(&acquire) && number(&small, "hand_over_us") > 2.0 * 1_999.0,
        "{small}"
    );
    assert!(number(&small, "node_cores") > 0.0 && number(&small, "node_cores") < 0.6, "{small}");
}

#[test]
fn more_than_one_fleet_can_do_is_spread_over_several_by_name() {
    let deployment = embedded_store();
    let names = ["--names", "10M", "--place", "invoice:42", "--place", "nightly"];
    let large = plan(&deployment, &[&["1M", "--nodes", "3"][..], &names].concat());
    let fleets = number(&large, "fleets");
    assert!(fleets > 2.0 && (number(&large, "nodes") - 3.0 * fleets).abs() < 0.5, "{large}");
    assert_eq!(number(&large, "client_connections"), 3.0 * fleets);
    let placed = large["placed"].as_array().unwrap();
    assert_eq!(placed[0]["name"], "invoice:42");
    assert!(placed.iter().all(|place| place["fleet"].as_str().unwrap().starts_with('f')), "{large}");
    let said = deployment.tenure(&["plan", "--locks-per-second", "1M", "--place", "nightly"]).stdout;
    assert!(
        said.contains(" fleets of 5;") && said.contains("MD5") && said.contains("\"nightly\" belongs to f"),
        "{said}"
    );
}

#[test]
fn what_was_measured_on_ones_own_nodes_is_computed_with() {
    let deployment = five_redis_nodes();
    let measured = deployment.tenure(&["bench", "--seconds", "3", "--json"]).ends_with(0).stdout.clone();
    let mut doubled: Value = serde_json::from_str(&measured).unwrap();
    deployment.write("mine.json", &measured);
    let own = plan(&deployment, &["500", "--measured", "mine.json"]);
    for load in doubled["loads"].as_array_mut().unwrap() {
        load["server_cpu_us"] = (load["server_cpu_us"].as_f64().unwrap_or(40.0) * 2.0).into();
    }
    deployment.write("doubled.json", &doubled.to_string());
    let twice = plan(&deployment, &["500", "--measured", "doubled.json"]);
    assert!(number(&twice, "node_cores") > 1.2 * number(&own, "node_cores"), "{own} {twice}");
    assert!(number(&own, "acquire_us") > 1_000.0);
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line_that_names_it() {
    let deployment = embedded_store();
    deployment.write("other.json", "{\"error\": \"unavailable\"}");
    deployment.write("no.json", "a table");
    for (arguments, words) in [
        (&["plan"][..], "--locks-per-second"),
        (&["plan", "--locks-per-second", "many"], "such as 1500, 20k or 1M"),
        (&["plan", "--locks-per-second", "0"], "--locks-per-second 0"),
        (&["plan", "--locks-per-second", "-5"], "such as 1500"),
        (&["plan", "--locks-per-second", "5", "--nodes", "0"], "1 to 15 nodes"),
        (&["plan", "--locks-per-second", "5", "--nodes", "some"], "the number of nodes"),
        (&["plan", "--locks-per-second", "5", "--rtt", "5"], "--rtt: \"5\" has no unit"),
        (&["plan", "--locks-per-second", "5", "--rtt", "2s"], "at least 20 round trips"),
        (&["plan", "--locks-per-second", "5", "--ttl", "soon"], "--ttl: "),
        (&["plan", "--locks-per-second", "5", "--names", "0"], "--names 0"),
        (&["plan", "--locks-per-second", "5", "--cores", "0"], "--cores 0"),
        (&["plan", "--locks-per-second", "5", "--measured", "missing.json"], "cannot read it"),
        (
            &["plan", "--locks-per-second", "5", "--measured", "no.json"],
            "not the output of `tenure bench --json`",
        ),
        (&["plan", "--locks-per-second", "5", "--measured", "other.json"], "it has no \"loads\""),
        (&["plan", "--locks-per-second", "5", "--prefix", "x"], "--prefix does not apply to `tenure plan`"),
        (&["plan", "--locks-per-second", "5", "--wait", "1s"], "--wait does not apply to `tenure plan`"),
        (&["bench", "--seconds", "0"], "expected 1 to 300 seconds"),
        (&["bench", "--seconds", "soon"], "expected 1 to 300 seconds"),
        (&["bench", "--ttl", "5s"], "--ttl does not apply to `tenure bench`"),
    ] {
        let done = deployment.tenure(arguments);
        assert!(done.ends_with(64).stderr.contains(words), "{arguments:?}: {done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    }
    // It asks no node and makes no store, and takes a list of nodes for their number.
    let urls = plan(&deployment, &["5", "--nodes", "redis://a,redis://b,redis://c"]);
    assert_eq!(number(&urls, "nodes"), 3.0);
    assert!(!deployment.folder().join("locks.db").exists());
}

#[test]
fn the_examples_of_the_page_are_what_the_tool_says() {
    let deployment = embedded_store();
    let pages =
        [include_str!("../../../../docs/capacity.md"), include_str!("../../../../docs/reference/cli.md")];
    let examples: Vec<&str> =
        pages.iter().flat_map(|page| page.split("```console\n$ tenure plan ").skip(1)).collect();
    assert!(examples.len() >= 4);
    for example in examples {
        let (command, rest) = example.split_once('\n').unwrap();
        let (shown, _) = rest.split_once("```").unwrap();
        let arguments: Vec<&str> = iter::once("plan").chain(command.split(' ')).collect();
        let done = deployment.tenure(&arguments);
        assert_eq!(done.ends_with(0).stdout, shown, "tenure plan {command}");
    }
}
