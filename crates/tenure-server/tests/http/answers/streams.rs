//! Answers that come bit by bit.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::asking::Asking;
use super::described::Seen;
use crate::client::Client;
use crate::events::{Reader, service_keeping};
use crate::everywhere::Fleet;
use crate::{Instance, given};

pub(super) async fn holds(fleet: &Fleet, seen: &mut Seen) {
    let instance = Instance::start(fleet.service().await).await;
    let mut one = Asking::new(instance.address, seen);
    let brief = json!({
        "name": "h1", "ttl_ms": 600, "wait_ms": 0, "label": "nightly", "max_hold_ms": 1_000, "min_margin": 0,
        "shared": true, "on_disconnect": "keep",
    });
    let mut hold = one.streams("POST /v1/hold", &brief).await;
    for event in ["acquired", "renewed", "at_risk", "lost"] {
        one.hears(&mut hold, event).await;
    }

    let labelled = json!({ "name": "h2", "label": "nightly" });
    let lease = one.gets("POST /v1/acquire", labelled, "200 -").await;
    let waits = json!({ "name": "h2", "wait_ms": 400 });
    let mut waiter = one.streams("POST /v1/hold", &waits).await;
    while one.hears(&mut waiter, "waiting").await.get("label").is_none() {}
    let end = one.hears(&mut waiter, "problem").await;
    assert_eq!(end["problem"]["type"], json!("urn:tenure:contended"), "{end}");

    let mut goes_on = one.streams("POST /v1/hold", &given(&lease)).await;
    one.hears(&mut goes_on, "acquired").await;
    instance.end.send(()).unwrap();
    let last = one.hears(&mut goes_on, "draining").await;
    assert_eq!(last["lease"]["fence"], lease["fence"], "{last}");
}

pub(super) async fn events(fleet: &Fleet, seen: &mut Seen) {
    let instance = Instance::start(service_keeping(fleet, 1_000).await).await;
    let mut one = Asking::new(instance.address, seen);
    let mut reader = Reader::begin(&instance, "/v1/events", None, None).await.settle().await;
    drop(one.streams("GET /v1/events?prefix=e&seen=true", &Value::Null).await);
    let mut sighted =
        Reader::begin(&instance, "/v1/events?prefix=s&seen=true", None, None).await.settle().await;
    let lease = one.gets("POST /v1/acquire", json!({ "name": "e", "label": "nightly" }), "200 -").await;
    one.gets("POST /v1/acquire", json!({ "name": "e", "wait_ms": 300 }), "409 contended").await;
    let lease = one.gets("POST /v1/extend", given(&lease), "200 -").await;
    one.gets("POST /v1/release", given(&lease), "200 -").await;
    // What the service held itself it gives up itself, and knows for how long it had it.
    let brief = json!({ "name": "e", "ttl_ms": 300, "on_disconnect": "release" });
    let mut hold = one.streams("POST /v1/hold", &brief).await;
    one.hears(&mut hold, "acquired").await;
    drop(hold);
    wait_for_each_other(&mut one).await;
    fleet.forget_on_one();
    let mut passing = JoinSet::new();
    passing.spawn(pass_on(instance.address, "e4", Duration::ZERO));
    let awaited: &[&str] = match fleet.is_one() {
        true => &["held_ms", "passed_on_after_ms", "deadlock[].label"],
        false => &["held_ms", "passed_on_after_ms", "deadlock[].label", "node"],
    };
    while !awaited.iter().all(|field| one.seen.contains(&format!("GET /v1/events gives {field}"))) {
        let (_, data) = reader.next().await.unwrap();
        one.note("GET /v1/events", "", &data);
    }

    drop(passing);

    // What another client does, when the look has begun.
    let (others, begun) = (fleet.locks().await, Instant::now());
    while !["within_ms", "was", "holder", "expired", "seen", "margin"]
        .iter()
        .all(|field| one.seen.contains(&format!("GET /v1/events gives {field}")))
    {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was seen");
        let guard = others.lock("s").label("them").acquire().await.unwrap();
        sleep(Duration::from_millis(2_500)).await;
        guard.release().await.unwrap();
        while let Ok(Some((_, data))) = timeout(Duration::from_millis(2_500), sighted.next()).await {
            one.note("GET /v1/events", "", &data);
        }
    }

    // Somebody comes back too late.
    let brief = Instance::start(service_keeping(fleet, 1).await).await;
    let reader = Reader::begin(&brief, "/v1/events", None, None).await.settle().await;
    let (mut other, last) = (Asking::new(brief.address, one.seen), reader.id.clone());
    for name in ["e1", "e2", "e3"] {
        other.gets("POST /v1/acquire", json!({ "name": name }), "200 -").await;
    }
    other.lines = format!("Last-Event-ID: {last}\r\n");
    drop(other.streams("GET /v1/events", &Value::Null).await);
    let mut late = Reader::begin(&brief, "/v1/events", None, Some(&last)).await;
    let (kind, gap) = late.next().await.unwrap();
    assert_eq!(kind, "gap", "{gap}");
    other.note("GET /v1/events", "", &gap);
}

/// Each of two clients holds what the other one wants, until one gives up.
async fn wait_for_each_other(one: &mut Asking<'_>) {
    let mut leases = vec![];
    for name in ["e5", "e6"] {
        leases.push(one.gets("POST /v1/acquire", json!({ "name": name, "ttl_ms": 20_000 }), "200 -").await);
    }
    let free = json!({ "name": "e7", "holding": [leases[0]["held"]] });
    one.gets("POST /v1/acquire", free, "200 -").await;
    let waits = |name: &str, held: &Value| json!({ "name": name, "wait_ms": 20_000, "label": "nightly", "holding": [held["held"]] });
    let mut waiter = one.streams("POST /v1/hold", &waits("e6", &leases[0])).await;
    let mut other = Client::connect(one.address).await;
    other.send("/v1/acquire", &waits("e5", &leases[1])).await;
    one.hears(&mut waiter, "deadlock").await;
    one.gets("POST /v1/release", given(&leases[1]), "200 -").await;
    one.hears(&mut waiter, "acquired").await;
}

/// All that a live view shows of locks of every kind.
pub(super) async fn watches(fleet: &Fleet, seen: &mut Seen) {
    let instance = Instance::start(service_keeping(fleet, 1_000).await).await;
    let mut one = Asking::new(instance.address, seen);
    for call in ["GET /v1/watch?name=w1", "GET /v1/watch?prefix=w"] {
        drop(one.streams(call, &Value::Null).await);
    }
    let mut reader = Reader::begin(&instance, "/v1/watch?prefix=w", None, None).await;
    let lease = one.gets("POST /v1/acquire", json!({ "name": "w1", "label": "nightly" }), "200 -").await;
    one.gets("POST /v1/acquire", json!({ "name": "w1", "wait_ms": 300 }), "409 contended").await;
    one.gets("POST /v1/acquire", json!({ "name": "w2", "shared": true, "label": "reader" }), "200 -").await;
    one.gets("POST /v1/acquire", json!({ "name": "w3", "owner": "job-1" }), "200 -").await;
    let mut lock = Reader::begin(&instance, "/v1/watch?name=w1", None, None).await;
    loop {
        let (event, data) = lock.next().await.unwrap();
        one.note("GET /v1/watch", "", &data);
        if event == "lock" {
            break;
        }
    }
    let mut waiting: Vec<String> = fields("added[]").chain(fields("changed[]")).collect();
    waiting.extend(
        ["gone", "extended[].left_ms", "contended[].longest_ms", "held", "looked_at"].map(Into::into),
    );
    waiting.extend(["changed[].owner", "changed[].readers", "passed_on[].after_ms"].map(Into::into));
    let is_given = |one: &Asking<'_>, field: &str| {
        let inside = if field == "looked_at" { "nodes[]." } else { "" };
        one.seen.contains(&format!("GET /v1/watch gives {inside}{field}"))
    };
    let renewed = one.gets("POST /v1/acquire", json!({ "name": "w4" }), "200 -").await;
    let mut told = Some((lease, renewed));
    // They end with this.
    let (begun, mut tasks) = (Instant::now(), JoinSet::new());
    loop {
        let missing: Vec<&String> = waiting.iter().filter(|field| !is_given(&one, field)).collect();
        if missing.is_empty() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{missing:?}");
        let Ok(Some((_, data))) = timeout(Duration::from_secs(5), reader.next()).await else { continue };
        one.note("GET /v1/watch", "", &data);
        // Each change follows what was told before it.
        if is_given(&one, "added[].name")
            && let Some((lease, renewed)) = told.take()
        {
            sleep(Duration::from_millis(1_500)).await;
            one.gets("POST /v1/extend", given(&renewed), "200 -").await;
            let mut waiter = Client::connect(instance.address).await;
            waiter.send("/v1/acquire", &json!({ "name": "w1", "wait_ms": 6_000, "label": "next" })).await;
            // Again and again: the first extensions may put the lock back on a node that forgot it,
            // and the first holds may be seen together with those before them.
            tasks.spawn(async move {
                let mut client = Client::connect(instance.address).await;
                loop {
                    sleep(Duration::from_secs(2)).await;
                    client.post("/v1/extend", &given(&renewed)).await;
                    client.post("/v1/acquire", &json!({ "name": "w2", "shared": true })).await;
                    client.post("/v1/acquire", &json!({ "name": "w3", "owner": "job-1" })).await;
                }
            });
            // Who waits may come too late for what was set aside.
            tasks.spawn(pass_on(instance.address, "w5", Duration::from_secs(2)));
            tasks.spawn(async move {
                sleep(Duration::from_secs(3)).await;
                let mut client = Client::connect(instance.address).await;
                client.post("/v1/release", &given(&lease)).await;
                let next = waiter.receive().await.body;
                sleep(Duration::from_secs(3)).await;
                client.post("/v1/release", &given(&next)).await;
            });
        }
    }
    // Those who come later are told all of it at once.
    let mut late = Reader::begin(&instance, "/v1/watch?prefix=w", None, None).await;
    while !fields("rows[]").all(|field| is_given(&one, &field)) {
        let (_, data) = late.next().await.unwrap();
        one.note("GET /v1/watch", "", &data);
    }
}

/// Passes a lock on from one caller of an instance to another, again and again, until it is
/// dropped.
async fn pass_on(address: SocketAddr, name: &str, held: Duration) {
    let (mut holder, mut waiter) = (Client::connect(address).await, Client::connect(address).await);
    loop {
        let lease = holder.post("/v1/acquire", &json!({ "name": name })).await.body;
        waiter.send("/v1/acquire", &json!({ "name": name, "wait_ms": 20_000 })).await;
        sleep(Duration::from_millis(500)).await;
        holder.post("/v1/release", &given(&lease)).await;
        let next = waiter.receive().await.body;
        sleep(held).await;
        holder.post("/v1/release", &given(&next)).await;
    }
}

/// What is told of a lock of some kind.
fn fields(of: &str) -> impl Iterator<Item = String> {
    let each = ["name", "state", "kind", "holder", "label", "left_ms", "age_ms", "fence", "waiters", "agree"];
    each.into_iter().map(move |field| format!("{of}.{field}"))
}
