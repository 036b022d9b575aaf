//! The clients of the chaos campaign hide nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

use std::time::Duration;

use tenure_testkit::{Client, RedisServer, Value};

/// A worker that fails must not leave a process behind that only does less.
#[test]
fn a_worker_that_panics_ends_its_process() {
    let (node, resource) = (RedisServer::start(&[]), RedisServer::start(&[]));
    let (resource_at, node_at) = (format!("resource={}", resource.url()), node.url());
    let settings = ["contend", "seed=1", "workers=3", "locks=3", "max_ttl_ms=1000", "guard=on", "hold=mixed"];
    let arguments = settings.into_iter().chain([resource_at.as_str(), node_at.as_str()]);
    let mut client = Client::start_talking(env!("CARGO_BIN_EXE_testclient"), arguments);
    while !client.hear().starts_with("wrote") {}
    client.hear_all(drop);
    assert!(!client.has_ended());
    // Every worker has a connection of its own; the last of the three loses it.
    let Value::BulkString(list) = resource.execute(&["CLIENT", "LIST"]) else { panic!("no list") };
    let list = String::from_utf8(list).unwrap();
    let id_of =
        |line: &str| line.split(' ').next().unwrap().strip_prefix("id=").unwrap().parse::<u64>().unwrap();
    let mut ids: Vec<u64> = list.lines().filter(|line| !line.contains("cmd=client")).map(id_of).collect();
    ids.sort_unstable();
    resource.execute(&["CLIENT", "KILL", "ID", &ids.last().unwrap().to_string()]);
    assert_eq!(ids.len(), 3, "the others go on: {list}");
    let start = std::time::Instant::now();
    while !client.has_ended() {
        assert!(start.elapsed() < Duration::from_secs(60), "it goes on without its worker");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!client.succeeds());
}
