//! What is written about calls.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_server::LogFile;
use tokio::time::sleep;

use crate::client::Client;
use crate::{Instance, given, nodes, service};

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn every_call_is_a_line_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access");
    let instance = Instance::start(service(&nodes()).access_log(LogFile::open(&path).unwrap())).await;
    let mut client = Client::connect(instance.address).await;
    let lease = client.post("/v1/acquire", &json!({ "name": "a \"b\"\n" })).await;
    let id = lease.header("x-request-id").unwrap();
    client.post("/v1/acquire", &json!({ "name": "a \"b\"\n" })).await;
    client
        .post("/v1/extend-many", &json!({ "leases": [given(&lease.body), { "name": "y", "token": "z" }] }))
        .await;
    client.get("/v1/nothing?token=s3cret").await;
    client.write("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: from.the-proxy:7\r\n\r\n").await;
    assert_eq!(client.receive().await.header("x-request-id").unwrap(), "from.the-proxy:7");
    client.write("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a\"}{\r\n\r\n").await;
    client.receive().await;
    // One that waits, and goes away.
    let mut waiter = Client::connect(instance.address).await;
    waiter.send("/v1/acquire", &json!({ "name": "a \"b\"\n", "wait_ms": 60_000 })).await;
    sleep(Duration::from_millis(50)).await;
    drop(waiter);
    sleep(Duration::from_millis(50)).await;
    instance.stop().await;

    let text = fs::read_to_string(&path).unwrap();
    let lines = lines(&path);
    for secret in [lease.body["token"].as_str().unwrap(), "s3cret", "Bearer"] {
        assert!(!text.contains(secret), "{text}");
    }
    let told =
        |line: &Value| [&line["call"], &line["name"], &line["status"], &line["problem"]].map(Clone::clone);
    let (acquire, name) = (json!("/v1/acquire"), json!("a \"b\"\n"));
    let expected = [
        [acquire.clone(), name.clone(), json!(200), Value::Null],
        [acquire.clone(), name.clone(), json!(409), json!("contended")],
        [json!("/v1/extend-many"), name.clone(), json!(200), Value::Null],
        [Value::Null, Value::Null, json!(404), json!("no-such-call")],
        [json!("/livez"), Value::Null, json!(200), Value::Null],
        [json!("/livez"), Value::Null, json!(200), Value::Null],
        [acquire, name, Value::Null, Value::Null],
    ];
    assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), expected, "{text}");
    assert_eq!(
        (&lines[0]["id"], &lines[0]["method"], &lines[2]["names"]),
        (&json!(id), &json!("POST"), &json!(2))
    );
    assert_eq!(lines[0]["caller"], json!("anonymous"));
    assert_eq!(lines[4]["id"], json!("from.the-proxy:7"));
    assert!(lines[5]["id"].as_str().is_some_and(|made| made[..8] == id[..8]));
    // A busy machine notices it later than the client sent it.
    assert!(lines[6]["duration_ms"].as_f64().unwrap() >= 20.0, "{text}");
    assert!(lines.iter().all(|line| line["time"].as_str().is_some_and(|time| time.ends_with('Z'))));
}

#[tokio::test]
async fn a_log_that_cannot_be_written_holds_nobody_up() {
    let log = LogFile::open(Path::new("/dev/full")).unwrap();
    let instance = Instance::start(service(&nodes()).access_log(log)).await;
    let mut client = Client::connect(instance.address).await;
    for _ in 0..100 {
        assert_eq!(client.get("/livez").await.status, 200);
    }
    instance.stop().await;
}

#[tokio::test]
async fn a_log_that_was_moved_away_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("access"), folder.path().join("access.1"));
    let log = LogFile::open(&path).unwrap();
    let instance = Instance::start(service(&nodes()).access_log(log.clone())).await;
    fs::rename(&path, &old).unwrap();
    log.reopen().unwrap();
    Client::connect(instance.address).await.get("/livez").await;
    instance.stop().await;
    assert_eq!((lines(&path).len(), lines(&old).len()), (1, 0));
}
