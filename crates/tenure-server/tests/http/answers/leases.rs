//! Leases from their beginning to their end.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_server::Service;
use tokio::time::sleep;

use super::LOOKS;
use super::asking::Asking;
use super::described::Seen;
use crate::client::Client;
use crate::everywhere::Fleet;
use crate::{Instance, given, keys};

pub(super) async fn go_from_their_beginning_to_their_end(fleet: &Fleet, seen: &mut Seen) {
    let instance = Instance::start(fleet.service().await).await;
    let stranger = Instance::start(Service::new(fleet.locks().await, keys('b'))).await;
    let mut one = Asking::new(instance.address, seen);
    let everything = json!({
        "name": "x", "ttl_ms": 20_000, "wait_ms": 0, "label": "billing", "max_hold_ms": 60_000, "min_margin": 0,
    });
    let x = one.gets("POST /v1/acquire", everything, "200 -").await;
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "x" }), "409 contended").await;
    one.gets("POST /v1/acquire", json!({ "name": "x", "wait_ms": 100 }), "409 contended").await;
    // While somebody waits, for there is more to tell.
    let mut waiter = Client::connect(one.address).await;
    waiter.send("/v1/acquire", &json!({ "name": "x", "wait_ms": 60_000, "label": "next" })).await;
    sleep(Duration::from_millis(100)).await;
    one.each_gets(&LOOKS[..8], &Value::Null, "200 -").await;
    drop(waiter);

    let many = json!({ "leases": [given(&x), { "name": "y", "token": "z" }] });
    let many = one.gets("POST /v1/extend-many", many, "200 -").await;
    assert_eq!(many["results"][1]["problem"]["type"], json!("urn:tenure:bad-token"));
    let x = one.gets("POST /v1/extend", given(&x), "200 -").await;
    let by_token = ["POST /v1/extend", "POST /v1/release", "POST /v1/hold"];
    one.each_gets(&by_token, &json!({ "name": "x", "token": "t" }), "400 bad-token").await;
    one.each_gets(&by_token, &json!({ "name": "y", "token": x["token"] }), "403 other-lock").await;
    Asking::new(stranger.address, one.seen).each_gets(&by_token, &given(&x), "401 unknown-key").await;
    one.gets("POST /v1/release", given(&x), "200 -").await;
    one.each_gets(&by_token, &given(&x), "410 not-held").await;
    let y = one.gets("POST /v1/acquire", json!({ "name": "y" }), "200 -").await;
    one.gets("POST /v1/release-many", json!({ "leases": [given(&x), given(&y)] }), "200 -").await;

    // Many readers, or one writer.
    let shared = json!({ "name": "r", "shared": true });
    let first = one.gets("POST /v1/acquire", shared.clone(), "200 -").await;
    let second = one.gets("POST /v1/acquire", shared, "200 -").await;
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "r" }), "409 contended").await;
    let told = one.gets("GET /v1/lock?name=r", Value::Null, "200 -").await;
    assert_eq!((&told["state"], &told["readers"]), (&json!("held"), &json!(2)), "{told}");
    let first = one.gets("POST /v1/extend", given(&first), "200 -").await;
    one.gets("POST /v1/release", given(&first), "200 -").await;
    one.gets("POST /v1/acquire", json!({ "name": "r", "shared": false }), "409 contended").await;
    one.gets("POST /v1/release", given(&second), "200 -").await;
    let writer = one.gets("POST /v1/acquire", json!({ "name": "r" }), "200 -").await;
    one.gets("POST /v1/hold", json!({ "name": "r", "shared": true }), "409 contended").await;
    one.gets("POST /v1/release", given(&writer), "200 -").await;

    // One owner as often as it likes, and nobody else.
    let owned = json!({ "name": "own", "owner": "job-1" });
    let first = one.gets("POST /v1/acquire", owned.clone(), "200 -").await;
    let second = one.gets("POST /v1/acquire", owned.clone(), "200 -").await;
    assert_eq!(first["fence"], second["fence"], "{second}");
    let acquires = ["POST /v1/acquire", "POST /v1/hold"];
    one.each_gets(&acquires, &json!({ "name": "own", "owner": "job-2" }), "409 contended").await;
    let told = one.gets("GET /v1/lock?name=own", Value::Null, "200 -").await;
    assert_eq!((&told["kind"], &told["owner"]), (&json!("reentrant"), &json!("job-1")), "{told}");
    assert_eq!((&told["holds"], &told["readers"]), (&json!(2), &Value::Null), "{told}");
    assert_eq!(told["holders"].as_array().map(Vec::len), Some(2), "{told}");
    let listed = one.gets("GET /v1/locks?prefix=own", Value::Null, "200 -").await["locks"][0].clone();
    assert_eq!((&listed["kind"], &listed["owner"]), (&json!("reentrant"), &json!("job-1")), "{listed}");
    assert_eq!((&listed["holds"], &listed["holder"]), (&Value::Null, &told["holder"]), "{listed}");
    let other = json!({ "name": "own" });
    for call in acquires {
        let refused = one.gets(call, other.clone(), "409 other-kind").await;
        assert_eq!((&refused["asked"], &refused["found"]), (&json!("plain"), &json!("reentrant")));
    }
    let mut hold = one.streams("POST /v1/hold", &owned).await;
    let held = one.hears(&mut hold, "acquired").await;
    assert_eq!(held["lease"]["fence"], first["fence"], "{held}");
    drop(hold);
    for lease in [&first, &second, &held["lease"]] {
        one.gets("POST /v1/acquire", json!({ "name": "own", "owner": "job-2" }), "409 contended").await;
        let mut lease = lease.clone();
        lease["name"] = json!("own");
        let lease = one.gets("POST /v1/extend", given(&lease), "200 -").await;
        one.gets("POST /v1/release", given(&lease), "200 -").await;
    }
    let plain = one.gets("POST /v1/acquire", other, "200 -").await;
    let refused = one.gets("POST /v1/acquire", owned, "409 other-kind").await;
    assert_eq!((&refused["asked"], &refused["found"]), (&json!("reentrant"), &json!("plain")));
    one.gets("POST /v1/release", given(&plain), "200 -").await;

    // Several names, all or none.
    let both = json!({ "names": ["b", "a", "b"] });
    let held = one.gets("POST /v1/acquire", both.clone(), "200 -").await;
    assert_eq!((&held["names"], held.get("name")), (&json!(["a", "b"]), None), "{held}");
    one.each_gets(&acquires, &json!({ "name": "a" }), "409 contended").await;
    one.each_gets(&acquires, &json!({ "names": ["b", "c"] }), "409 contended").await;
    let of_one = json!({ "name": "a", "token": held["token"] });
    one.each_gets(&by_token, &of_one, "403 other-lock").await;
    let held = one.gets("POST /v1/extend", given(&held), "200 -").await;
    let many = one.gets("POST /v1/extend-many", json!({ "leases": [given(&held)] }), "200 -").await;
    let released = one.gets("POST /v1/release", given(&many["results"][0]), "200 -").await;
    assert_eq!(released["names"], json!(["a", "b"]), "{released}");
    let mut hold = one.streams("POST /v1/hold", &both).await;
    let held = one.hears(&mut hold, "acquired").await;
    drop(hold);
    one.gets("POST /v1/release-many", json!({ "leases": [given(&held["lease"])] }), "200 -").await;
    one.each_gets(&acquires, &json!({ "names": [] }), "422 out-of-bounds").await;
    one.each_gets(&acquires, &json!({ "names": ["a", "b"], "shared": true }), "422 out-of-bounds").await;

    // So many at a time.
    let permit = json!({ "name": "s", "slots": 2 });
    let first = one.gets("POST /v1/acquire", permit.clone(), "200 -").await;
    let mut hold = one.streams("POST /v1/hold", &permit).await;
    let second = one.hears(&mut hold, "acquired").await;
    drop(hold);
    one.each_gets(&acquires, &permit, "409 contended").await;
    let first = one.gets("POST /v1/extend", given(&first), "200 -").await;
    one.gets("POST /v1/release", given(&first), "200 -").await;
    one.gets("POST /v1/acquire", permit, "200 -").await;
    one.gets("POST /v1/release", given(&second["lease"]), "200 -").await;
    one.each_gets(&acquires, &json!({ "name": "s", "slots": 65 }), "422 out-of-bounds").await;
    one.each_gets(&acquires, &json!({ "names": ["s"], "slots": 2 }), "400 bad-request").await;

    // Once per period.
    let period = json!({ "name": "p", "ttl_ms": 1_000, "at_least_ms": 30_000 });
    let lease = one.gets("POST /v1/acquire", period.clone(), "200 -").await;
    one.gets("POST /v1/release", given(&lease), "200 -").await;
    one.each_gets(&acquires, &period, "409 contended").await;
    let told = one.gets("GET /v1/lock?name=p", Value::Null, "200 -").await;
    assert_eq!(told["state"], json!("kept"), "{told}");
    let period = json!({ "name": "q", "ttl_ms": 1_000, "at_least_ms": 30_000 });
    let lease = one.gets("POST /v1/acquire", period.clone(), "200 -").await;
    let mut early = given(&lease);
    early["early"] = json!(true);
    one.gets("POST /v1/release", early, "200 -").await;
    drop(one.streams("POST /v1/hold", &period).await);

    // A lease that may not be extended.
    let once = json!({ "name": "o", "ttl_ms": 3_000, "max_hold_ms": 3_000 });
    let o = one.gets("POST /v1/acquire", once, "200 -").await;
    one.each_gets(&["POST /v1/extend", "POST /v1/hold"], &given(&o), "409 max-hold").await;
}

pub(super) async fn are_asked_for_again(fleet: &Fleet, seen: &mut Seen) {
    let instance = Instance::start(fleet.service().await).await;
    let mut one = Asking::new(instance.address, seen);
    let with_key = |key: &str| format!("Idempotency-Key: {key}\r\n");
    one.lines = with_key("k1");
    let body = json!({ "name": "k", "ttl_ms": 3_000, "max_hold_ms": 3_000 });
    one.gets("POST /v1/acquire", body.clone(), "200 -").await;
    one.gets("POST /v1/acquire", body, "409 max-hold").await;
    one.gets("POST /v1/acquire", json!({ "name": "l" }), "422 key-reused").await;
    one.lines = with_key("k2");
    let waits = json!({ "name": "k", "wait_ms": 60_000 });
    let mut waiter = Client::connect(one.address).await;
    waiter.send_with(&with_key("k2"), "/v1/acquire", &waits).await;
    sleep(Duration::from_millis(100)).await;
    one.gets("POST /v1/acquire", waits, "409 still-running").await;
    drop(waiter);
    one.lines = with_key("k3");
    let body = json!({ "name": "g" });
    let g = one.gets("POST /v1/acquire", body.clone(), "200 -").await;
    one.gets("POST /v1/release", given(&g), "200 -").await;
    one.gets("POST /v1/acquire", body, "410 not-held").await;

    // Another instance does not know the lease, but whose it is.
    one.lines = with_key("k1");
    let second = Instance::start(fleet.service().await).await;
    one.address = second.address;
    let yours = one.gets("POST /v1/acquire", json!({ "name": "k" }), "409 contended").await;
    assert_eq!(yours["yours"], json!(true), "{yours}");
    let by_key = json!({ "name": "k", "idempotency_key": "k1", "holder": yours["holder"] });
    one.gets("POST /v1/release", by_key, "200 -").await;
}
