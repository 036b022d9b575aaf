//! Every answer that is described is given: each call with each status and each type of problem,
//! and each fact of a problem. The tests' client compares what is in them, field by field.

mod asking;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tenure::{Event, Faults, Locks, Node};
use tenure_server::{Callers, LogFile, Service, Verb};
use tenure_testkit::{MovedClock, RedisServer};
use tokio::time::sleep;

use self::asking::{Asking, Seen, described, seen};
use crate::callers::ListFile;
use crate::client::Client;
use crate::everywhere::{Fleet, everywhere};
use crate::{Instance, given, keys, nodes};

/// What all calls are, with a body or without.
const LOOKS: [&str; 9] = [
    "GET /livez",
    "GET /readyz",
    "GET /version",
    "GET /metrics",
    "GET /openapi.json",
    "GET /v1/nodes",
    "GET /v1/lock?name=x",
    "GET /v1/locks",
    "GET /v1/events",
];
const ACTS: [&str; 7] = [
    "POST /v1/acquire",
    "POST /v1/hold",
    "POST /v1/extend",
    "POST /v1/release",
    "POST /v1/extend-many",
    "POST /v1/release-many",
    "POST /v1/force-release",
];

#[tokio::test]
async fn every_answer_that_is_described_is_given() {
    let mut all = Seen::new();
    for seen in [input().await, callers().await, room().await, ends().await] {
        all.extend(seen);
    }
    for seen in [faults().await, clocks().await, slow_requests().await] {
        all.extend(seen);
    }
    let leases = std::sync::Mutex::new(vec![]);
    everywhere(async |fleet| {
        let seen = leases_of(fleet).await;
        leases.lock().unwrap().push(seen);
    })
    .await;
    let leases = leases.into_inner().unwrap();
    assert!(leases.windows(2).all(|pair| pair[0] == pair[1]), "the same everywhere: {leases:?}");
    all.extend(leases.into_iter().flatten());
    let missing: Vec<String> = described().difference(&all).cloned().collect();
    assert!(missing.is_empty(), "described and never given: {missing:#?}");
}

async fn start(service: Service) -> (Instance, String) {
    (Instance::start(service).await, String::new())
}

fn memory() -> Service {
    Service::new(Locks::builder().nodes(nodes()).build().unwrap(), keys('a'))
}

/// Leases from their beginning to their end, whatever the nodes are.
async fn leases_of(fleet: &Fleet) -> Seen {
    let mut seen = Seen::new();
    let (instance, lines) = start(fleet.service().await).await;
    let stranger = Instance::start(Service::new(fleet.locks().await, keys('b'))).await;
    let mut one = Asking { address: instance.address, lines, seen: &mut seen };
    one.each_gets(&LOOKS, &Value::Null, "200 -").await;
    let x = one.gets("POST /v1/acquire", json!({ "name": "x" }), "200 -").await;
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "x" }), "409 contended").await;
    one.gets(
        "POST /v1/extend-many",
        json!({ "leases": [given(&x), { "name": "y", "token": "z" }] }),
        "200 -",
    )
    .await;
    let x = one.gets("POST /v1/extend", given(&x), "200 -").await;
    let by_token = ["POST /v1/extend", "POST /v1/release", "POST /v1/hold"];
    one.each_gets(&by_token, &json!({ "name": "x", "token": "t" }), "400 bad-token").await;
    one.each_gets(&by_token, &json!({ "name": "y", "token": x["token"] }), "403 other-lock").await;
    let mut other = Asking { address: stranger.address, lines: String::new(), seen: one.seen };
    other.each_gets(&by_token, &given(&x), "401 unknown-key").await;
    one.gets("POST /v1/release", given(&x), "200 -").await;
    one.each_gets(&by_token, &given(&x), "410 not-held").await;
    one.gets("POST /v1/release-many", json!({ "leases": [given(&x)] }), "200 -").await;
    one.gets("POST /v1/hold", json!({ "name": "h", "ttl_ms": 500 }), "200 -").await;

    // A lease that may not be extended.
    let once = json!({ "name": "o", "ttl_ms": 3_000, "max_hold_ms": 3_000 });
    let o = one.gets("POST /v1/acquire", once, "200 -").await;
    one.each_gets(&["POST /v1/extend", "POST /v1/hold"], &given(&o), "409 max-hold").await;

    // The same acquire again.
    let with_key = |key: &str| format!("Idempotency-Key: {key}\r\n");
    let body = json!({ "name": "k", "ttl_ms": 3_000, "max_hold_ms": 3_000 });
    one.lines = with_key("k1");
    one.gets("POST /v1/acquire", body.clone(), "200 -").await;
    one.gets("POST /v1/acquire", body, "409 max-hold").await;
    one.gets("POST /v1/acquire", json!({ "name": "l" }), "422 key-reused").await;
    // Another instance does not know the lease, but whose it is.
    let second = Instance::start(fleet.service().await).await;
    one.address = second.address;
    let yours = one.gets("POST /v1/acquire", json!({ "name": "k" }), "409 contended").await;
    assert_eq!(yours["yours"], json!(true), "{yours}");
    one.address = instance.address;
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
    seen
}

/// What bad input gets.
async fn input() -> Seen {
    let mut seen = Seen::new();
    let (instance, _) = start(memory()).await;
    let lines = "Origin: https://evil.example\r\n".to_owned();
    let mut page = Asking { address: instance.address, lines, seen: &mut seen };
    page.each_gets(&LOOKS, &Value::Null, "403 web-page").await;
    page.each_gets(&ACTS, &json!({}), "403 web-page").await;
    let mut one = Asking { address: instance.address, lines: String::new(), seen: &mut seen };
    for call in ACTS {
        one.gets_text(call, "text/plain", "{}", "415 not-json").await;
        one.gets_text(call, "application/json", "{", "400 bad-request").await;
        one.gets_text(
            call,
            "application/json",
            &json!({ "name": "n".repeat(300_000) }).to_string(),
            "413 too-large",
        )
        .await;
    }
    one.each_gets(
        &["GET /v1/lock", "GET /v1/locks?x=1", "GET /v1/events?x=1"],
        &Value::Null,
        "400 bad-request",
    )
    .await;
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "" }), "422 out-of-bounds").await;
    one.gets("GET /v1/lock?name=", Value::Null, "422 out-of-bounds").await;
    let by_key = json!({ "name": "", "idempotency_key": "k", "holder": "h" });
    one.gets("POST /v1/release", by_key, "422 out-of-bounds").await;
    let many = json!({ "leases": vec![json!({ "name": "x", "token": "" }); 1_001] });
    one.each_gets(&["POST /v1/extend-many", "POST /v1/release-many"], &many, "422 out-of-bounds").await;
    seen
}

/// What callers get, and those who are none; and what an operator gets.
async fn callers() -> Seen {
    let (mut seen, file) = (Seen::new(), ListFile::new());
    let operator = file.add("ops", &[Verb::Read, Verb::Lock, Verb::Force, Verb::Metrics], &[], None);
    let other = file.add("other", &[Verb::Lock], &["other/"], None);
    let metrics = file.add("prometheus", &[Verb::Metrics], &[], None);
    let server = RedisServer::start(&[]);
    let locks = Locks::connect([server.url()]).await.unwrap();
    let callers = Callers::read(&file.path()).unwrap();
    let listed = || Service::new(locks.clone(), keys('a')).callers(callers.clone());
    let (instance, lines) = start(listed()).await;
    let address = instance.address;
    let mut nobody = Asking { address, lines, seen: &mut seen };
    nobody.each_gets(&LOOKS[2..], &Value::Null, "401 unauthenticated").await;
    nobody.each_gets(&ACTS, &json!({}), "401 unauthenticated").await;
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let mut one = Asking { address, lines: bearer(&other), seen: &mut seen };
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "x" }), "403 forbidden").await;
    let lease = json!({ "name": "x", "token": "t" });
    one.each_gets(&["POST /v1/extend", "POST /v1/release"], &lease, "403 forbidden").await;
    one.gets("GET /metrics", Value::Null, "403 forbidden").await;
    let force = |holder: &Value, reason: &str| json!({ "name": "x", "holder": holder, "reason": reason });
    one.gets("POST /v1/force-release", force(&json!("h"), "r"), "403 forbidden").await;
    one.lines = bearer(&metrics);
    let looks = ["GET /v1/nodes", "GET /v1/lock?name=x", "GET /v1/locks", "GET /v1/events"];
    one.each_gets(&looks, &Value::Null, "403 forbidden").await;

    one.lines = bearer(&operator);
    one.gets("POST /v1/force-release", force(&json!("h"), " "), "422 out-of-bounds").await;
    one.gets("POST /v1/force-release", force(&json!("h"), "r"), "410 not-held").await;
    one.gets("POST /v1/acquire", json!({ "name": "x" }), "200 -").await;
    let holder = one.gets("GET /v1/lock?name=x", Value::Null, "200 -").await["holder"].clone();
    let full = Instance::start(listed().audit_log(LogFile::open("/dev/full".as_ref()).unwrap())).await;
    one.address = full.address;
    one.gets("POST /v1/force-release", force(&holder, "r"), "503 not-audited").await;
    one.address = address;
    one.gets("POST /v1/force-release", force(&holder, "r"), "200 -").await;
    server.execute(&["SET", "tenure:x", "somebody", "PX", "60000"]);
    let holder = one.gets("GET /v1/lock?name=x", Value::Null, "200 -").await["holder"].clone();
    one.gets("POST /v1/force-release", force(&holder, "r"), "409 foreign").await;
    seen
}

/// More at once than there is room for.
async fn room() -> Seen {
    let (mut seen, file) = (Seen::new(), ListFile::new());
    let token = file.add("one", &[Verb::Lock], &[], None);
    let callers = Callers::read(&file.path()).unwrap();
    for (service, token, expected) in [
        (memory().acquires_max(1), None, "503 overloaded"),
        (memory().acquires_max(2).callers(callers), Some(token), "429 rate"),
    ] {
        let (instance, _) = start(service).await;
        let lines = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let mut one = Asking { address: instance.address, lines: lines.clone(), seen: &mut seen };
        one.gets("POST /v1/acquire", json!({ "name": "x" }), "200 -").await;
        let mut waiter = Client::connect(instance.address).await;
        waiter.send_with(&lines, "/v1/acquire", &json!({ "name": "x", "wait_ms": 60_000 })).await;
        sleep(Duration::from_millis(100)).await;
        one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "y" }), expected).await;
    }
    seen
}

/// An instance that is about to end, and one whose locks have ended.
async fn ends() -> Seen {
    let mut seen = Seen::new();
    let locks = Locks::builder().nodes(nodes()).build().unwrap();
    let (instance, lines) = start(Service::new(locks.clone(), keys('a'))).await;
    let mut one = Asking { address: instance.address, lines, seen: &mut seen };
    let x = one.gets("POST /v1/acquire", json!({ "name": "x" }), "200 -").await;
    // As long as it has a connection it listens on.
    let mut kept = Client::connect(instance.address).await;
    kept.get("/livez").await;
    instance.end.send(()).unwrap();
    sleep(Duration::from_millis(50)).await;
    one.each_gets(&["GET /readyz", "GET /v1/events"], &Value::Null, "503 draining").await;
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "y" }), "503 draining").await;
    // Whoever has a lock is served to the last.
    locks.shutdown().await.unwrap();
    one.each_gets(&["POST /v1/extend", "POST /v1/release"], &given(&x), "200 -").await;
    seen
}

/// Nodes that do not answer, or too late.
async fn faults() -> Seen {
    let (mut seen, nodes, file) = (Seen::new(), nodes(), ListFile::new());
    let token = file.add("ops", &[Verb::Read, Verb::Lock, Verb::Force], &[], None);
    // The nodes grant it, but the machine stands still until it is over.
    let pause = |event: &Event<'_>| {
        if let Event::Acquired { name: "late", .. } = event {
            std::thread::sleep(Duration::from_millis(80));
        }
    };
    let locks = Locks::builder().nodes(nodes.iter().cloned()).observer(pause).build().unwrap();
    let service = Service::new(locks, keys('a')).callers(Callers::read(&file.path()).unwrap());
    let (instance, _) = start(service).await;
    let lines = format!("Authorization: Bearer {token}\r\n");
    let mut one = Asking { address: instance.address, lines, seen: &mut seen };
    let x = one.gets("POST /v1/acquire", json!({ "name": "x" }), "200 -").await;
    let late = json!({ "name": "late", "ttl_ms": 50 });
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &late, "503 too-late").await;
    nodes.iter().for_each(|node| node.set_faults(Faults::unreachable()));
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "z" }), "503 unavailable").await;
    one.each_gets(&["POST /v1/extend", "POST /v1/release"], &given(&x), "503 unavailable").await;
    let force = json!({ "name": "x", "holder": "h", "reason": "r" });
    one.gets("POST /v1/force-release", force, "503 unavailable").await;
    seen
}

/// Nodes whose clocks were set back.
async fn clocks() -> Seen {
    let (mut seen, clock) = (Seen::new(), MovedClock::new());
    clock.step(7_200_000);
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start_with_clock(&clock, &[])).collect();
    let fleet = Fleet::of(servers.iter().map(|server| Node::parse(&server.url()).unwrap()));
    let (instance, lines) = start(fleet.service().await).await;
    let mut one = Asking { address: instance.address, lines, seen: &mut seen };
    let x = one.gets("POST /v1/acquire", json!({ "name": "x" }), "200 -").await;
    one.gets("POST /v1/release", given(&x), "200 -").await;
    clock.correct();
    let (instance, lines) = start(fleet.service().await).await;
    let mut one = Asking { address: instance.address, lines, seen: &mut seen };
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "x" }), "503 clocks-set-back")
        .await;
    seen
}

/// Requests that never come to their end.
async fn slow_requests() -> Seen {
    let (instance, _) = start(memory().silence_max(Duration::from_millis(500))).await;
    let address = instance.address;
    let slow = ACTS.map(async |call| {
        let mut client = Client::connect(address).await;
        let head = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
        client.write(&format!("{call} HTTP/1.1\r\n{head}")).await;
        let answer = client.receive().await;
        seen(call, &answer.status.to_string(), answer.body["type"].as_str().unwrap_or("-"))
    });
    join_all(slow).await.into_iter().collect()
}
