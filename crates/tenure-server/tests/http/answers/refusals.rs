//! What those get who ask wrongly, may not, or come when there is no room.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tenure_server::{Callers, LogFile, Service, Verb};
use tokio::time::sleep;

use super::asking::Asking;
use super::described::{Seen, answered};
use super::{ACTS, LOOKS};
use crate::callers::ListFile;
use crate::client::Client;
use crate::events::Reader;
use crate::everywhere::{Fleet, MadeOf};
use crate::{Instance, given, keys};

pub(super) async fn of_bad_input(fleet: &Fleet, seen: &mut Seen) {
    let instance = Instance::start(fleet.service().await).await;
    let mut one = Asking::new(instance.address, seen);
    one.lines = "Origin: https://evil.example\r\n".to_owned();
    one.each_gets(&LOOKS, &Value::Null, "403 web-page").await;
    one.each_gets(&ACTS, &json!({}), "403 web-page").await;
    one.lines.clear();
    let large = json!({ "name": "n".repeat(300_000) }).to_string();
    for call in ACTS {
        one.gets_text(call, "text/plain", "{}", "415 not-json").await;
        one.gets_text(call, "application/json", "{", "400 bad-request").await;
        one.gets_text(call, "application/json", &large, "413 too-large").await;
    }
    let looks = ["GET /v1/lock", "GET /v1/locks?x=1", "GET /v1/events?x=1", "GET /v1/watch?prefix=a&name=a"];
    one.each_gets(&looks, &Value::Null, "400 bad-request").await;
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "" }), "422 out-of-bounds").await;
    one.each_gets(&["GET /v1/lock?name=", "GET /v1/watch?name="], &Value::Null, "422 out-of-bounds").await;
    for owner in ["", "two words", &"x".repeat(129)] {
        let asks = json!({ "name": "o", "owner": owner });
        one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &asks, "422 out-of-bounds").await;
    }
    let both = json!({ "name": "o", "owner": "job-1", "shared": true });
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &both, "400 bad-request").await;
    let by_key = json!({ "name": "", "idempotency_key": "k", "holder": "h" });
    one.gets("POST /v1/release", by_key, "422 out-of-bounds").await;
    let many = json!({ "leases": vec![json!({ "name": "x", "token": "" }); 1_001] });
    one.each_gets(&["POST /v1/extend-many", "POST /v1/release-many"], &many, "422 out-of-bounds").await;
}

/// Requests that never come to their end.
pub(super) async fn of_slow_requests(fleet: &Fleet, seen: &mut Seen) {
    let instance = Instance::start(fleet.service().await.silence_max(Duration::from_millis(500))).await;
    let address = instance.address;
    let slow = ACTS.map(async |call| {
        let mut client = Client::connect(address).await;
        let head = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
        client.write(&format!("{call} HTTP/1.1\r\n{head}")).await;
        let answer = client.receive().await;
        answered(call, &answer.status.to_string(), answer.body["type"].as_str().unwrap_or("-"))
    });
    seen.extend(join_all(slow).await);
}

/// What callers get, those who are none, and an operator.
pub(super) async fn of_callers(fleet: &Fleet, seen: &mut Seen) {
    let file = ListFile::new();
    let operator = file.add("ops", &[Verb::Read, Verb::Lock, Verb::Force, Verb::Metrics], &[], None);
    let other = file.add("other", &[Verb::Lock], &["other/"], None);
    let metrics = file.add("prometheus", &[Verb::Metrics], &[], None);
    let (locks, callers) = (fleet.locks().await, Callers::read(&file.path()).unwrap());
    let listed = || Service::new(locks.clone(), keys('a')).callers(callers.clone());
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let instance = Instance::start(listed()).await;
    let mut one = Asking::new(instance.address, seen);
    one.each_gets(&LOOKS[2..], &Value::Null, "401 unauthenticated").await;
    one.each_gets(&ACTS, &json!({}), "401 unauthenticated").await;
    one.lines = bearer(&other);
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "c" }), "403 forbidden").await;
    let lease = json!({ "name": "c", "token": "t" });
    one.each_gets(&["POST /v1/extend", "POST /v1/release"], &lease, "403 forbidden").await;
    one.gets("GET /metrics", Value::Null, "403 forbidden").await;
    let force = |holder: &Value, reason: &str| json!({ "name": "c", "holder": holder, "reason": reason });
    one.gets("POST /v1/force-release", force(&json!("h"), "r"), "403 forbidden").await;
    one.lines = bearer(&metrics);
    one.each_gets(&LOOKS[5..], &Value::Null, "403 forbidden").await;

    one.lines = bearer(&operator);
    one.gets("POST /v1/force-release", force(&json!("h"), " "), "422 out-of-bounds").await;
    one.gets("POST /v1/force-release", force(&json!("h"), "r"), "410 not-held").await;
    one.gets("POST /v1/acquire", json!({ "name": "c" }), "200 -").await;
    let holder = one.gets("GET /v1/lock?name=c", Value::Null, "200 -").await["holder"].clone();
    let full = Instance::start(listed().audit_log(LogFile::open("/dev/full".as_ref()).unwrap())).await;
    one.address = full.address;
    one.gets("POST /v1/force-release", force(&holder, "r"), "503 not-audited").await;
    one.address = instance.address;
    let mut events = Reader::begin(&instance, "/v1/events", Some(&operator), None).await.settle().await;
    one.gets("POST /v1/force-release", force(&holder, "r"), "200 -").await;
    let (kind, forced) = events.next().await.unwrap();
    assert_eq!((kind.as_str(), &forced["caller"]), ("forced", &json!("ops")), "{forced}");
    one.note("GET /v1/events", "", &forced);
    if let MadeOf::Servers(servers) = fleet.made_of() {
        for server in servers.lock().unwrap().iter() {
            server.execute(&["SET", "tenure:c", "somebody", "PX", "60000"]);
        }
        let holder = one.gets("GET /v1/lock?name=c", Value::Null, "200 -").await["holder"].clone();
        one.gets("POST /v1/force-release", force(&holder, "r"), "409 foreign").await;
    }
}

/// More at once than there is room for.
pub(super) async fn for_want_of_room(fleet: &Fleet, seen: &mut Seen) {
    let file = ListFile::new();
    let token = file.add("one", &[Verb::Lock], &[], None);
    let callers = Callers::read(&file.path()).unwrap();
    let service = fleet.service().await;
    let one_place = (service.acquires_max(1), String::new(), "503 overloaded");
    let service = fleet.service().await.acquires_max(2).callers(callers);
    let two_places = (service, format!("Authorization: Bearer {token}\r\n"), "429 rate");
    for (service, lines, expected) in [one_place, two_places] {
        let instance = Instance::start(service).await;
        let mut one = Asking::new(instance.address, seen);
        one.lines.clone_from(&lines);
        let name = expected.replace(' ', "-");
        one.gets("POST /v1/acquire", json!({ "name": name }), "200 -").await;
        let mut waiter = Client::connect(instance.address).await;
        waiter.send_with(&lines, "/v1/acquire", &json!({ "name": name, "wait_ms": 60_000 })).await;
        sleep(Duration::from_millis(100)).await;
        one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "r" }), expected).await;
    }
}

/// An instance that is about to end, and one whose locks have ended.
pub(super) async fn at_the_end(fleet: &Fleet, seen: &mut Seen) {
    let locks = fleet.locks().await;
    let instance = Instance::start(Service::new(locks.clone(), keys('a'))).await;
    let mut one = Asking::new(instance.address, seen);
    let lease = one.gets("POST /v1/acquire", json!({ "name": "d" }), "200 -").await;
    // As long as it has a connection it listens on.
    let mut kept = Client::connect(instance.address).await;
    kept.get("/livez").await;
    instance.end.send(()).unwrap();
    sleep(Duration::from_millis(50)).await;
    one.each_gets(&["GET /readyz", "GET /v1/events", "GET /v1/watch"], &Value::Null, "503 draining").await;
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "f" }), "503 draining").await;
    // Whoever has a lock is served to the last.
    locks.shutdown().await.unwrap();
    one.each_gets(&["POST /v1/extend", "POST /v1/release"], &given(&lease), "200 -").await;
}
