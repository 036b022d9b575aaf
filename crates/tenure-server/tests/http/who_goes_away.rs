//! Who waits and goes away leaves the line; who has been told of a lock keeps it.

use std::time::Duration;

use serde_json::json;
use tenure::LockState;
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::{Instance, locks, nodes, service};

#[tokio::test]
async fn whoever_waits_and_goes_away_leaves_the_line_and_no_key() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let locks = locks(&nodes);
    let holder = locks.lock("x").acquire().await.unwrap();
    let mut clients = vec![];
    for _ in 0..20 {
        let mut client = Client::connect(instance.address).await;
        client.send("/v1/acquire", &json!({ "name": "x", "wait_ms": 60_000 })).await;
        clients.push(client);
    }
    until(async || locks.inspect("x").await.unwrap().waiters == Some(20)).await;
    drop(clients);
    until(async || locks.inspect("x").await.unwrap().waiters == Some(0)).await;
    holder.release().await.unwrap();
    until(async || matches!(locks.inspect("x").await.unwrap().state, LockState::Free)).await;
}

/// A client that is cut off at any moment either has the lock, because the answer was on its way,
/// or nobody has it.
#[tokio::test]
async fn a_connection_that_breaks_is_no_release() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let locks = locks(&nodes);
    let mut client = Client::connect(instance.address).await;
    let lease = client.post("/v1/acquire", &json!({ "name": "x" })).await;
    assert_eq!(lease.status, 200);
    drop(client);
    sleep(Duration::from_millis(200)).await;
    assert!(matches!(locks.inspect("x").await.unwrap().state, LockState::Held { .. }));
    instance.stop().await;
    assert!(matches!(locks.inspect("x").await.unwrap().state, LockState::Held { .. }));
}

#[tokio::test]
async fn an_instance_that_ends_refuses_new_work_and_releases_nothing() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let mut client = Client::connect(instance.address).await;
    assert_eq!(client.get("/readyz").await.status, 200);
    assert_eq!(client.post("/v1/acquire", &json!({ "name": "x" })).await.status, 200);
    let mut waiter = Client::connect(instance.address).await;
    waiter.send("/v1/acquire", &json!({ "name": "x", "wait_ms": 600_000 })).await;
    sleep(Duration::from_millis(50)).await;
    let (answer, ()) = tokio::join!(waiter.receive(), instance.stop());
    assert_eq!((answer.status, &answer.body["type"]), (503, &json!("urn:tenure:draining")), "{answer:?}");
    assert!(matches!(locks(&nodes).inspect("x").await.unwrap().state, LockState::Held { .. }));
}

async fn until(mut done: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !done().await {
        assert!(Instant::now() < limit, "it does not come about");
        sleep(Duration::from_millis(10)).await;
    }
}
