//! A lease from its beginning to its end, at one instance and at several.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_server::Service;
use tokio::time::sleep;

use crate::client::Client;
use crate::{Instance, given, keys, locks, nodes, service};

#[tokio::test]
async fn a_lock_is_acquired_extended_and_released() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    let lease = client.post("/v1/acquire", &json!({ "name": "x", "ttl_ms": 10_000 })).await;
    assert_eq!(lease.status, 200, "{lease:?}");
    assert_eq!((&lease.body["name"], &lease.body["ttl_ms"]), (&json!("x"), &json!(10_000)));
    assert!(lease.body["fence"].as_u64().is_some_and(|fence| fence > 0));
    assert_eq!(lease.body["votes"].as_array().map(Vec::len), Some(3));
    let valid = lease.body["valid_ms"].as_u64().unwrap();
    assert!((9_000..10_000).contains(&valid), "the ttl without the drift: {valid}");

    let other = client.post("/v1/acquire", &json!({ "name": "x" })).await;
    assert_eq!((other.status, &other.body["type"]), (409, &json!("urn:tenure:contended")), "{other:?}");
    assert!(other.body["retry_after_ms"].as_u64().is_some_and(|pause| pause <= 11_000), "{other:?}");

    // A token says until when it was valid, in milliseconds.
    sleep(Duration::from_millis(5)).await;
    let longer = client.post("/v1/extend", &given(&lease.body)).await;
    assert_eq!((longer.status, &longer.body["fence"]), (200, &lease.body["fence"]), "{longer:?}");
    assert_ne!(longer.body["token"], lease.body["token"]);
    let end = client.post("/v1/release", &given(&longer.body)).await;
    assert_eq!((end.status, &end.body["released"]), (200, &json!(true)), "{end:?}");
    let again = client.post("/v1/release", &given(&longer.body)).await;
    assert_eq!((again.status, &again.body["type"]), (410, &json!("urn:tenure:not-held")), "{again:?}");
    let gone = client.post("/v1/extend", &given(&longer.body)).await;
    assert_eq!((gone.status, &gone.body["type"]), (410, &json!("urn:tenure:not-held")), "{gone:?}");
    assert_eq!(client.post("/v1/acquire", &json!({ "name": "x" })).await.status, 200);
}

#[tokio::test]
async fn any_instance_serves_the_next_call_and_one_with_another_key_says_so() {
    let nodes = nodes();
    let [first, second, third] = [
        Instance::start(service(&nodes)).await,
        Instance::start(service(&nodes)).await,
        Instance::start(service(&nodes)).await,
    ];
    let stranger = Instance::start(Service::new(locks(&nodes), keys('b'))).await;
    let mut client = Client::connect(first.address).await;
    let lease = client.post("/v1/acquire", &json!({ "name": "x" })).await.body;
    first.ended.abort();
    let _ = first.ended.await;
    let longer = Client::connect(second.address).await.post("/v1/extend", &given(&lease)).await;
    assert_eq!((longer.status, &longer.body["fence"]), (200, &lease["fence"]), "{longer:?}");
    let refused = Client::connect(stranger.address).await.post("/v1/release", &given(&longer.body)).await;
    assert_eq!(
        (refused.status, &refused.body["type"]),
        (401, &json!("urn:tenure:unknown-key")),
        "{refused:?}"
    );
    assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.contains("lease_key")));
    let end = Client::connect(third.address).await.post("/v1/release", &given(&longer.body)).await;
    assert_eq!(end.status, 200, "{end:?}");
}

#[tokio::test]
async fn many_leases_are_extended_and_released_with_one_call() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    let mut leases = vec![];
    for number in 0..20 {
        let lease = client.post("/v1/acquire", &json!({ "name": format!("x{number}") })).await.body;
        leases.push(given(&lease));
    }
    // One that was never held, in the middle of the others.
    leases[7]["name"] = json!("y");
    let extended = client.post("/v1/extend-many", &json!({ "leases": leases })).await;
    let results = extended.body["results"].as_array().unwrap();
    assert_eq!((extended.status, results.len()), (200, 20));
    for (number, result) in results.iter().enumerate() {
        if number == 7 {
            assert_eq!(result["problem"]["type"], json!("urn:tenure:other-lock"));
        } else {
            assert_eq!(result["name"], json!(format!("x{number}")));
            leases[number] = given(result);
        }
    }
    leases.remove(7);
    let released = client.post("/v1/release-many", &json!({ "leases": leases })).await;
    let results = released.body["results"].as_array().unwrap();
    assert!(results.len() == 19 && results.iter().all(|result| result["released"] == json!(true)));
    let many: Vec<Value> = (0..1_001).map(|_| json!({ "name": "x", "token": "t" })).collect();
    let refused = client.post("/v1/extend-many", &json!({ "leases": many })).await;
    assert_eq!((refused.status, &refused.body["type"]), (422, &json!("urn:tenure:out-of-bounds")));
}

/// What a client may count on is its own time before it asked, plus what the answer says: also when
/// it had to wait first.
#[tokio::test]
async fn a_validity_counts_from_the_moment_the_client_knows() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let locks = locks(&nodes);
    let holder = locks.lock("x").acquire().await.unwrap();
    let mut client = Client::connect(instance.address).await;
    let asked = Instant::now();
    client.send("/v1/acquire", &json!({ "name": "x", "ttl_ms": 2_000, "wait_ms": 5_000 })).await;
    sleep(Duration::from_millis(400)).await;
    holder.release().await.unwrap();
    let lease = client.receive().await.body;
    let number = |name: &str| Duration::from_millis(lease[name].as_u64().unwrap());
    assert!(number("started_after_ms") >= Duration::from_millis(300), "{lease}");
    let end = asked + number("started_after_ms") + number("valid_ms");
    // Nobody else gets it before that.
    let next = locks.lock("x").wait(Duration::from_secs(10)).acquire().await.unwrap();
    assert!(Instant::now() >= end, "too early by {:?}", end - Instant::now());
    drop(next);
}

#[tokio::test]
async fn the_limit_on_a_hold_goes_with_the_token() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    let ask = json!({ "name": "x", "ttl_ms": 500, "max_hold_ms": 600 });
    let lease = client.post("/v1/acquire", &ask).await.body;
    sleep(Duration::from_millis(200)).await;
    let refused = client.post("/v1/extend", &given(&lease)).await;
    assert_eq!((refused.status, &refused.body["type"]), (409, &json!("urn:tenure:max-hold")), "{refused:?}");
}
