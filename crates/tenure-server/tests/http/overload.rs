//! Under overload only new work is refused.

use serde_json::json;

use crate::client::Client;
use crate::{Instance, nodes, service};

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
