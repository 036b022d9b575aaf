//! Under overload only new work is refused.

use serde_json::json;
use tenure_server::{Callers, Verb};

use crate::callers::ListFile;
use crate::client::Client;
use crate::{Instance, given, nodes, service};

#[tokio::test]
async fn when_too_many_ask_those_who_hold_are_served() {
    let instance = Instance::start(service(&nodes()).acquires_max(1)).await;
    let mut client = Client::connect(instance.address).await;
    let lease = client.post("/v1/acquire", &json!({ "name": "x" })).await.body;
    let mut waiter = Client::connect(instance.address).await;
    waiter.send("/v1/acquire", &json!({ "name": "x", "wait_ms": 10_000 })).await;
    // Until it has taken the only place.
    let refused = loop {
        let answer = client.post("/v1/acquire", &json!({ "name": "y" })).await;
        if answer.status != 200 {
            break answer;
        }
        let lease = json!({ "name": "y", "token": answer.body["token"] });
        assert_eq!(client.post("/v1/release", &lease).await.status, 200);
    };
    assert_eq!((refused.status, &refused.body["type"]), (503, &json!("urn:tenure:overloaded")));
    assert!(refused.head.to_ascii_lowercase().contains("retry-after: 1"), "{}", refused.head);
    let lease = json!({ "name": "x", "token": lease["token"] });
    let longer = client.post("/v1/extend", &lease).await;
    assert_eq!(longer.status, 200, "{longer:?}");
    let lease = json!({ "name": "x", "token": longer.body["token"] });
    assert_eq!(client.post("/v1/release", &lease).await.status, 200);
    assert_eq!(waiter.receive().await.status, 200, "and the next one has it");
}

#[tokio::test]
async fn one_caller_does_not_take_all_the_room() {
    let list = ListFile::new();
    let [greedy, other] = ["greedy", "other"].map(|name| list.add(name, &[Verb::Lock], &[], None));
    let callers = Callers::read(&list.path()).unwrap();
    let instance = Instance::start(service(&nodes()).acquires_max(4).callers(callers)).await;
    let connect = async |token: &str| Client::connect(instance.address).await.token(token);
    let mut client = connect(&other).await;
    let lease = client.post("/v1/acquire", &json!({ "name": "x" })).await.body;
    let mut waiters = vec![];
    for _ in 0..2 {
        let mut waiter = connect(&greedy).await;
        waiter.send("/v1/acquire", &json!({ "name": "x", "wait_ms": 20_000 })).await;
        waiters.push(waiter);
    }
    let mut third = connect(&greedy).await;
    // Until both have taken their places.
    let refused = loop {
        let answer = third.post("/v1/acquire", &json!({ "name": "x" })).await;
        if answer.status != 409 {
            break answer;
        }
    };
    assert_eq!((refused.status, &refused.body["type"]), (429, &json!("urn:tenure:rate")), "{refused:?}");
    assert!(refused.head.to_ascii_lowercase().contains("retry-after: 1"), "{}", refused.head);
    assert_eq!(client.post("/v1/acquire", &json!({ "name": "y" })).await.status, 200, "others have room");
    assert_eq!(client.post("/v1/release", &given(&lease)).await.status, 200);
    let first = waiters.remove(0).receive().await;
    assert_eq!(first.status, 200, "{first:?}");
    // Its place is free again.
    assert_eq!(third.post("/v1/acquire", &json!({ "name": "z" })).await.status, 200);
}
