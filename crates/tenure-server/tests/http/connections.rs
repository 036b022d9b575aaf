//! Connections that say too little, too much, or come from a web page.

use std::time::Duration;

use serde_json::json;

use crate::client::Client;
use crate::{Instance, nodes, service};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(5);

#[tokio::test]
async fn who_is_silent_or_slow_is_hung_up_on_and_others_notice_nothing() {
    let instance = Instance::start(service(&nodes()).silence_max(SHORT)).await;
    let mut silent = Client::connect(instance.address).await;
    let mut slow = Client::connect(instance.address).await;
    slow.write("POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\n").await;
    let mut client = Client::connect(instance.address).await;
    assert_eq!(client.post("/v1/acquire", &json!({ "name": "x" })).await.status, 200);
    assert!(slow.is_closed_within(LONG).await);
    assert!(silent.is_closed_within(LONG).await);
    // Whoever waits for a lock is not silent.
    let mut waiter = Client::connect(instance.address).await;
    let answer = waiter.post("/v1/acquire", &json!({ "name": "x", "wait_ms": 1_000 })).await;
    assert_eq!(answer.status, 409, "{answer:?}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    let head = format!("GET /livez HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    client.write(&head).await;
    assert_eq!(client.receive().await.status, 431);
}

#[tokio::test]
async fn one_connection_too_many_is_closed_and_the_others_go_on() {
    let instance = Instance::start(service(&nodes()).connections_max(2)).await;
    let (mut first, mut second) =
        (Client::connect(instance.address).await, Client::connect(instance.address).await);
    assert_eq!((first.get("/livez").await.status, second.get("/livez").await.status), (200, 200));
    assert!(Client::connect(instance.address).await.is_closed_within(LONG).await);
    assert_eq!(first.get("/livez").await.status, 200);
    drop(second);
    loop {
        let mut third = Client::connect(instance.address).await;
        if !third.is_closed_within(Duration::from_millis(50)).await {
            break assert_eq!(third.get("/livez").await.status, 200);
        }
    }
}

#[tokio::test]
async fn a_web_page_can_do_nothing() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    for header in [
        "Host: evil.example",
        "Host: localhost\r\nOrigin: https://evil.example",
        "Host: localhost\r\nSec-Fetch-Site: cross-site",
        "Host: localhost\r\nSec-Fetch-Site: same-site",
        "Host: localhost\r\nHost: evil.example",
    ] {
        let body = json!({ "name": "x" }).to_string();
        let length = body.len();
        client
            .write(&format!(
                "POST /v1/acquire HTTP/1.1\r\n{header}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            ))
            .await;
        let answer = client.receive().await;
        assert_eq!((answer.status, &answer.body["type"]), (403, &json!("urn:tenure:web-page")), "{answer:?}");
    }
    assert_eq!(client.post("/v1/acquire", &json!({ "name": "x" })).await.status, 200, "nobody has it");
}
