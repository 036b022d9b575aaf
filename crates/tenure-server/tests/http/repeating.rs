//! Acquires that are repeated with the same `Idempotency-Key`.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_server::{Callers, Verb};
use tokio::time::{Instant, sleep};

use crate::callers::ListFile;
use crate::client::{Answer, Client};
use crate::everywhere::everywhere;
use crate::{Instance, given, locks, nodes, service};

async fn send(client: &mut Client, key: &str, body: &Value) {
    let header = format!("Idempotency-Key: {key}\r\n");
    client.send_with(&header, "/v1/acquire", body).await;
}

async fn acquire(client: &mut Client, key: &str, body: &Value) -> Answer {
    send(client, key, body).await;
    client.receive().await
}

fn kind(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.body["type"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn the_same_key_and_body_lead_to_the_same_lease_which_the_nodes_extend_first() {
    everywhere(async |fleet| {
        let instance = Instance::start(fleet.service().await).await;
        let mut client = Client::connect(instance.address).await;
        let body = json!({ "name": "x", "ttl_ms": 5_000, "label": "billing" });
        let first = acquire(&mut client, "k1", &body).await;
        assert_eq!(first.status, 200, "{first:?}");
        sleep(Duration::from_millis(300)).await;
        let asked = Instant::now();
        let again = acquire(&mut client, "k1", &body).await;
        assert_eq!((again.status, &again.body["fence"]), (200, &first.body["fence"]), "{again:?}");
        // What it tells counts from this request, and the nodes have proved it.
        let number = |name: &str| Duration::from_millis(again.body[name].as_u64().unwrap());
        assert!(number("valid_ms") > Duration::from_millis(4_800), "{again:?}");
        assert!(number("started_after_ms") <= asked.elapsed());
        let seen = client.get("/v1/lock?name=x").await;
        assert!(seen.body["left_ms"].as_u64().unwrap() > 4_900, "{seen:?}");
        assert!(seen.body["label"].as_str().unwrap().starts_with("billing key:"), "{seen:?}");

        let other = json!({ "name": "x", "ttl_ms": 6_000, "label": "billing" });
        assert_eq!(kind(&acquire(&mut client, "k1", &other).await), (422, "urn:tenure:key-reused"));
        let other = json!({ "name": "y", "ttl_ms": 5_000, "label": "billing" });
        assert_eq!(kind(&acquire(&mut client, "k1", &other).await), (422, "urn:tenure:key-reused"));
        let other = acquire(&mut client, "k2", &body).await;
        assert_eq!(kind(&other), (409, "urn:tenure:contended"));
        assert!(other.body.get("yours").is_none(), "{other:?}");

        // Never from memory: released elsewhere, it is gone.
        let locks = fleet.locks().await;
        let report = locks.inspect("x").await.unwrap();
        for owner in report.owners() {
            locks.release_by_force("x", owner).await.unwrap();
        }
        assert_eq!(kind(&acquire(&mut client, "k1", &body).await), (410, "urn:tenure:not-held"));
        assert_eq!(acquire(&mut client, "k3", &body).await.status, 200);
        assert_eq!(kind(&acquire(&mut client, "k1", &body).await), (410, "urn:tenure:not-held"));
    })
    .await;
}

#[tokio::test]
async fn another_instance_says_that_it_is_yours_and_releases_it_by_key_and_holder() {
    everywhere(async |fleet| {
        let [one, other] =
            [Instance::start(fleet.service().await).await, Instance::start(fleet.service().await).await];
        let (mut one, mut other) = (Client::connect(one.address).await, Client::connect(other.address).await);
        let body = json!({ "name": "x", "ttl_ms": 30_000 });
        let waits = json!({ "name": "x", "ttl_ms": 30_000, "wait_ms": 20_000 });
        let lease = acquire(&mut one, "k1", &body).await;
        assert_eq!(lease.status, 200, "{lease:?}");
        let mut holder = Value::Null;
        for body in [&body, &waits] {
            let begun = Instant::now();
            let refused = acquire(&mut other, "k1", body).await;
            assert_eq!(kind(&refused), (409, "urn:tenure:contended"), "{refused:?}");
            assert_eq!(refused.body["yours"], json!(true), "{refused:?}");
            assert!(refused.body["retry_after_ms"].as_u64().unwrap() > 20_000, "{refused:?}");
            assert!(begun.elapsed() < Duration::from_secs(5), "nobody waits for itself");
            holder = refused.body["holder"].clone();
        }
        assert_eq!(one.get("/v1/lock?name=x").await.body["holder"], holder);

        let release =
            |key: &str, holder: &Value| json!({ "name": "x", "idempotency_key": key, "holder": holder });
        for (key, holder) in [("k2", &holder), ("k1", &json!("0123456789abcdef"))] {
            let refused = other.post("/v1/release", &release(key, holder)).await;
            assert_eq!(kind(&refused), (410, "urn:tenure:not-held"), "{refused:?}");
        }
        let released = other.post("/v1/release", &release("k1", &holder)).await;
        assert_eq!((released.status, &released.body["released"]), (200, &json!(true)), "{released:?}");
        let gone = one.post("/v1/extend", &given(&lease.body)).await;
        assert_eq!(kind(&gone), (410, "urn:tenure:not-held"));
        // The same key again, elsewhere: a late duplicate of the release frees nobody.
        let next = acquire(&mut other, "k1", &json!({ "name": "x", "wait_ms": 5_000 })).await;
        assert_eq!(next.status, 200, "{next:?}");
        let late = one.post("/v1/release", &release("k1", &holder)).await;
        assert_eq!(kind(&late), (410, "urn:tenure:not-held"), "{late:?}");
        assert_eq!(other.post("/v1/extend", &given(&next.body)).await.status, 200);
    })
    .await;
}

/// The same instance gives the same hold; another one gives another hold, and the first one, whose
/// answer may be lost, ends by itself. Nobody takes it from others by the key.
#[tokio::test]
async fn what_several_may_hold_is_held_once_more_at_another_instance() {
    everywhere(async |fleet| {
        let [one, other] =
            [Instance::start(fleet.service().await).await, Instance::start(fleet.service().await).await];
        let (mut one, mut other) = (Client::connect(one.address).await, Client::connect(other.address).await);
        for (name, body) in [
            ("owned", json!({ "name": "owned", "owner": "job-1" })),
            ("read", json!({ "name": "read", "shared": true })),
        ] {
            let first = acquire(&mut one, name, &body).await;
            let again = acquire(&mut one, name, &body).await;
            assert_eq!((again.status, &again.body["fence"]), (200, &first.body["fence"]), "{again:?}");
            let path = format!("/v1/lock?name={name}");
            assert_eq!(one.get(&path).await.body["holders"].as_array().map(Vec::len), Some(1));
            let second = acquire(&mut other, name, &body).await;
            assert_eq!(second.status, 200, "{second:?}");
            let told = one.get(&path).await.body;
            assert_eq!(told["holders"].as_array().map(Vec::len), Some(2), "{told}");
            for holder in [&told["holder"], &told["holders"][0]] {
                let by_key = json!({ "name": name, "idempotency_key": name, "holder": holder });
                let refused = other.post("/v1/release", &by_key).await;
                assert_eq!(kind(&refused), (410, "urn:tenure:not-held"), "{refused:?}");
            }
            for lease in [&again, &second] {
                assert_eq!(one.post("/v1/release", &given(&lease.body)).await.status, 200);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_acquire_under_way_says_so_and_one_that_was_cut_off_is_forgotten() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let locks = locks(&nodes);
    let holder = locks.lock("x").acquire().await.unwrap();
    let body = json!({ "name": "x", "wait_ms": 20_000 });
    let mut waiter = Client::connect(instance.address).await;
    send(&mut waiter, "k1", &body).await;
    let mut client = Client::connect(instance.address).await;
    // Until it waits.
    let refused = loop {
        let refused = acquire(&mut client, "k1", &body).await;
        if refused.status != 200 {
            break refused;
        }
    };
    assert_eq!(kind(&refused), (409, "urn:tenure:still-running"), "{refused:?}");
    assert!(refused.head.to_ascii_lowercase().contains("retry-after: 1"), "{}", refused.head);
    drop(waiter);
    sleep(Duration::from_millis(200)).await;
    holder.release().await.unwrap();
    let lease = acquire(&mut client, "k1", &body).await;
    assert_eq!(lease.status, 200, "{lease:?}");
}

/// A limit on the hold is no answer to whether the lock is held.
#[tokio::test]
async fn a_lease_that_has_ended_is_not_held_whatever_its_limit_was() {
    everywhere(async |fleet| {
        let instance = Instance::start(fleet.service().await).await;
        let mut client = Client::connect(instance.address).await;
        let body = json!({ "name": "x", "ttl_ms": 1_000, "max_hold_ms": 1_000 });
        let lease = acquire(&mut client, "k", &body).await.body;
        assert_eq!(kind(&acquire(&mut client, "k", &body).await), (409, "urn:tenure:max-hold"));
        while client.get("/v1/lock?name=x").await.body["state"] != json!("free") {
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(kind(&acquire(&mut client, "k", &body).await), (410, "urn:tenure:not-held"));
        for call in ["/v1/extend", "/v1/hold"] {
            let refused = client.post(call, &given(&lease)).await;
            assert_eq!(kind(&refused), (410, "urn:tenure:not-held"), "{refused:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_key_of_one_caller_is_not_that_of_another() {
    let file = ListFile::new();
    let [ann, bob] = ["ann", "bob"].map(|name| file.add(name, &[Verb::Read, Verb::Lock], &[], None));
    let instance = Instance::start(service(&nodes()).callers(Callers::read(&file.path()).unwrap())).await;
    let mut ann = Client::connect(instance.address).await.token(&ann);
    let mut bob = Client::connect(instance.address).await.token(&bob);
    let body = json!({ "name": "x" });
    assert_eq!(acquire(&mut ann, "k", &body).await.status, 200);
    let refused = acquire(&mut bob, "k", &body).await;
    assert_eq!(kind(&refused), (409, "urn:tenure:contended"));
    assert!(refused.body.get("yours").is_none(), "{refused:?}");
    let holder = bob.get("/v1/lock?name=x").await.body["holder"].clone();
    let release = json!({ "name": "x", "idempotency_key": "k", "holder": holder });
    assert_eq!(kind(&bob.post("/v1/release", &release).await), (410, "urn:tenure:not-held"));
    assert_eq!(ann.post("/v1/release", &release).await.status, 200);
}

#[tokio::test]
async fn a_key_of_another_form_is_refused() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    let body = json!({ "name": "x" });
    for key in ["", &"k".repeat(256), "k\r\nIdempotency-Key: l"] {
        let refused = acquire(&mut client, key, &body).await;
        assert_eq!(kind(&refused), (400, "urn:tenure:bad-request"), "{refused:?}");
        assert!(refused.body["detail"].as_str().unwrap().contains("Idempotency-Key"), "{refused:?}");
    }
    for body in [
        json!({ "name": "x" }),
        json!({ "name": "x", "idempotency_key": "k" }),
        json!({ "name": "x", "holder": "h" }),
        json!({ "name": "x", "token": "t", "idempotency_key": "k", "holder": "h" }),
    ] {
        let refused = client.post("/v1/release", &body).await;
        assert_eq!(kind(&refused), (400, "urn:tenure:bad-request"), "{body}: {refused:?}");
    }
    let label = json!({ "name": "x", "label": "l".repeat(230) });
    assert_eq!(kind(&acquire(&mut client, "k", &label).await), (422, "urn:tenure:out-of-bounds"));
}
