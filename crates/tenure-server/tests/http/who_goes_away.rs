//! Who waits and goes away leaves the line; who has been told of a lock keeps it.

use std::time::Duration;

use serde_json::json;
use tenure::{Faults, LockState};
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

/// Two nodes answer after a while, and the third not at all: so an instance has the lock for some
/// time before it says so. Whoever was cut off by then has done nothing that others have to be kept
/// from.
#[tokio::test]
async fn a_period_begins_only_if_its_client_may_have_heard_of_the_lock() {
    let nodes = nodes();
    let locks = locks(&nodes);
    let instance = Instance::start(service(&nodes)).await;
    assert!(locks.lock("x").acquire().await.unwrap().release().await.is_ok());
    let slow = Faults::none().delay(Duration::from_millis(10)..=Duration::from_millis(10));
    nodes[..2].iter().for_each(|node| node.set_faults(slow.clone()));
    nodes[2].set_faults(Faults::silent());
    let mut cut_off = vec![];
    for number in 0..=100 {
        let path = if number % 2 == 0 { "/v1/acquire" } else { "/v1/hold" };
        let name = format!("job{number}");
        let asks = json!({ "name": name, "ttl_ms": 30_000, "at_least_ms": 30_000 });
        let mut client = Client::connect(instance.address).await;
        cut_off.push(tokio::spawn(async move {
            client.send(path, &asks).await;
            match number {
                0..100 => sleep(Duration::from_millis(number)).await,
                // The last one hears of its lock, however long that takes.
                _ => assert_eq!(client.receive().await.status, 200),
            }
            name
        }));
    }
    let mut names = vec![];
    for client in cut_off {
        names.push(client.await.unwrap());
    }
    nodes.iter().for_each(|node| node.set_faults(Faults::none()));
    sleep(Duration::from_millis(300)).await;
    let (mut held, mut free) = (0, 0);
    for name in names {
        match locks.inspect(&name).await.unwrap().state {
            LockState::Held { .. } => held += 1,
            LockState::Free => free += 1,
            state => panic!("{name}: {state:?}"),
        }
    }
    // Some were cut off before, and some after.
    assert!(held > 0 && free > 0, "{held} held, {free} free");
}

async fn until(mut done: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !done().await {
        assert!(Instant::now() < limit, "it does not come about");
        sleep(Duration::from_millis(10)).await;
    }
}
