//! A lock that is renewed while a connection lives.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::{Faults, LockState, MemoryNode};
use tokio::time::{Instant, sleep, timeout};

use crate::client::Client;
use crate::events::{Reader, service_keeping};
use crate::everywhere::everywhere;
use crate::{Instance, given, locks, nodes, service};

const TTL: Duration = Duration::from_millis(900);

/// A connection that holds, or waits for, a lock.
pub(crate) struct Holding {
    client: Client,
    pub(crate) asked: Instant,
    pub(crate) head: String,
}

impl Holding {
    pub(crate) async fn begin(instance: &Instance, body: &Value) -> Self {
        let mut client = Client::connect(instance.address).await;
        let asked = Instant::now();
        client.send("/v1/hold", body).await;
        let head = client.receive_head().await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        Self { client, asked, head }
    }

    /// The next line; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        timeout(Duration::from_secs(20), self.client.next_json()).await.expect("a line comes in time")
    }

    /// The next line, which tells this.
    pub(crate) async fn expect(&mut self, event: &str) -> Value {
        let line = self.next().await.expect("a line");
        assert_eq!(line["event"], json!(event), "{line}");
        line
    }

    /// Until when the client may count on the lock, after this line.
    pub(crate) fn end(&self, line: &Value) -> Instant {
        let number = |name: &str| Duration::from_millis(line["lease"][name].as_u64().unwrap());
        self.asked + number("started_after_ms") + number("valid_ms")
    }
}

fn ask(name: &str) -> Value {
    json!({ "name": name, "ttl_ms": TTL.as_millis() })
}

async fn is_held(nodes: &[MemoryNode]) -> bool {
    matches!(locks(nodes).inspect("x").await.unwrap().state, LockState::Held { .. })
}

#[tokio::test]
async fn a_lock_is_renewed_for_as_long_as_the_connection_lives() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let mut holding = Holding::begin(&instance, &ask("x")).await;
    let head = holding.head.to_ascii_lowercase();
    for header in ["content-type: application/x-ndjson", "cache-control: no-store", "x-accel-buffering: no"] {
        assert!(head.contains(header), "{head}");
    }
    let line = holding.expect("acquired").await;
    let first = &line["lease"];
    assert_eq!((&line["name"], &first["name"], &first["ttl_ms"]), (&json!("x"), &json!("x"), &json!(900)));
    assert_eq!(first["votes"].as_array().map(Vec::len), Some(3));
    assert!(first["token"].is_string() && first["valid_until_ms"].is_u64(), "{first}");
    let mut end = holding.end(&line);
    while holding.asked.elapsed() < 3 * TTL {
        let line = holding.expect("renewed").await;
        assert!(holding.end(&line) > end, "{line}");
        end = holding.end(&line);
        assert!((Instant::now()..Instant::now() + TTL).contains(&end), "{line}");
        assert_eq!(line["lease"]["fence"], first["fence"]);
        assert_ne!(line["lease"]["token"], first["token"]);
    }
}

/// Clients say what they hold by what their leases told them.
#[tokio::test]
async fn a_waiter_is_told_of_the_deadlock_it_is_in_and_goes_on_waiting() {
    everywhere(async |fleet| {
        let instance = Instance::start(service_keeping(fleet, 1_000).await).await;
        let mut reader = Reader::begin(&instance, "/v1/events", None, None).await.settle().await;
        let mut client = Client::connect(instance.address).await;
        let mut leases = vec![];
        for name in ["a", "b"] {
            leases.push(client.post("/v1/acquire", &json!({ "name": name, "ttl_ms": 20_000 })).await.body);
        }
        let wait = |name: &str, lease: &Value, label: &str| json!({ "name": name, "wait_ms": 20_000, "label": label, "holding": [lease["held"]] });
        let mut one = Holding::begin(&instance, &wait("b", &leases[0], "one")).await;
        one.expect("waiting").await;
        let mut two = Holding::begin(&instance, &wait("a", &leases[1], "two")).await;
        let [first, second] = [("one", "a", "b"), ("two", "b", "a")].map(
            |(label, holds, waits_for)| json!({ "label": label, "holds": holds, "waits_for": waits_for }),
        );
        let circles = [json!([first, second]), json!([second, first])];
        for (waiter, circle) in [&mut one, &mut two].into_iter().zip(&circles) {
            let told = loop {
                let line = waiter.next().await.unwrap();
                if line["event"] != "waiting" {
                    break line;
                }
            };
            assert_eq!((&told["event"], &told["deadlock"]), (&json!("deadlock"), circle), "{told}");
        }
        let event = reader.expect("deadlock", "b").await;
        assert_eq!(event["deadlock"], circles[0], "{event}");
        client.post("/v1/release", &given(&leases[1])).await;
        let after = loop {
            let line = one.next().await.unwrap();
            if line["event"] != "waiting" {
                break line;
            }
        };
        assert_eq!(after["event"], "acquired", "the deadlock is told once: {after}");
        client.post("/v1/release", &given(&leases[0])).await;
    })
    .await;
}

#[tokio::test]
async fn what_is_held_has_to_be_said_as_it_was_told() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    for path in ["/v1/acquire", "/v1/hold"] {
        let refused = client.post(path, &json!({ "name": "x", "holding": ["a"] })).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body["detail"].as_str().unwrap().starts_with("holding: "), "{refused:?}");
    }
    let many = client.post("/v1/acquire", &json!({ "name": "x", "holding": vec![""; 33] })).await;
    assert_eq!((many.status, &many.body["detail"]), (400, &json!("holding: expected at most 32 locks")));
    let lease = client.post("/v1/acquire", &json!({ "name": "a" })).await.body;
    let free = client.post("/v1/acquire", &json!({ "name": "x", "holding": [lease["held"]] })).await;
    assert_eq!(free.status, 200, "{free:?}");
    assert!(
        !lease["token"].as_str().unwrap().contains(lease["held"].as_str().unwrap()),
        "no part of the token"
    );
}

/// A build that drops the guard with the connection frees the lock at once, and fails here.
#[tokio::test]
async fn a_connection_that_ends_releases_nothing_before_the_validity_that_was_told() {
    everywhere(async |fleet| {
        let instance = Instance::start(fleet.service().await).await;
        let locks = fleet.locks().await;
        for lines in [1, 3] {
            let mut holding = Holding::begin(&instance, &ask("x")).await;
            let mut line = holding.expect("acquired").await;
            for _ in 1..lines {
                line = holding.expect("renewed").await;
            }
            let end = holding.end(&line);
            drop(holding);
            let next = locks.lock("x").wait(Duration::from_secs(10)).acquire().await.unwrap();
            assert!(Instant::now() >= end, "{:?} too early", end - Instant::now());
            // Renewal has ended with the connection: one ttl, its guard band, and a turn in line.
            assert!(Instant::now() < end + Duration::from_secs(2));
            next.release().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_lock_goes_on_at_another_instance_with_the_same_fence() {
    everywhere(async |fleet| {
        let one = Instance::start(fleet.service().await).await;
        let other = Instance::start(fleet.service().await).await;
        let mut holding = Holding::begin(&one, &ask("x")).await;
        let lease = holding.expect("acquired").await["lease"].clone();
        one.ended.abort();
        drop(holding);
        let mut holding = Holding::begin(&other, &given(&lease)).await;
        assert_eq!(holding.expect("acquired").await["lease"]["fence"], lease["fence"]);
        let renewed = holding.expect("renewed").await["lease"].clone();
        assert_eq!(renewed["fence"], lease["fence"]);
        // Released elsewhere, while it is held here.
        let mut client = Client::connect(other.address).await;
        assert_eq!(client.post("/v1/release", &given(&renewed)).await.status, 200);
        loop {
            let line = holding.next().await.unwrap();
            if line["event"] == "lost" {
                break assert_eq!(line, json!({ "event": "lost", "name": "x", "reason": "taken" }));
            }
        }
        assert_eq!(holding.next().await, None);
        let again = client.post("/v1/hold", &given(&renewed)).await;
        assert_eq!((again.status, &again.body["type"]), (410, &json!("urn:tenure:not-held")), "{again:?}");
    })
    .await;
}

#[tokio::test]
async fn whoever_waits_hears_its_place_and_then_has_the_lock() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let locks = locks(&nodes);
    let holder = locks.lock("x").label_for("nightly").acquire().await.unwrap();
    let mut asks = ask("x");
    asks["wait_ms"] = json!(20_000);
    let mut first = Holding::begin(&instance, &asks).await;
    let line = first.expect("waiting").await;
    let place = json!({ "event": "waiting", "name": "x", "ahead": 0, "waiters": 1, "label": "nightly" });
    assert_eq!(line, place);
    let mut second = Holding::begin(&instance, &asks).await;
    assert_eq!(second.expect("waiting").await["ahead"], json!(1));
    // Whoever goes away leaves the line.
    drop(first);
    holder.release().await.unwrap();
    let line = loop {
        let line = second.next().await.unwrap();
        if line["event"] != "waiting" {
            break line;
        }
    };
    assert_eq!(line["event"], json!("acquired"));
    assert!(second.end(&line) > Instant::now(), "{line}");
}

#[tokio::test]
async fn a_refusal_has_its_status_or_is_the_last_line() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let _holder = locks(&nodes).lock("x").acquire().await.unwrap();
    let mut client = Client::connect(instance.address).await;
    let refused = client.post("/v1/hold", &ask("x")).await;
    assert_eq!((refused.status, &refused.body["type"]), (409, &json!("urn:tenure:contended")), "{refused:?}");
    let mut waiting = Holding::begin(&instance, &json!({ "name": "x", "wait_ms": 500 })).await;
    waiting.expect("waiting").await;
    let line = waiting.expect("problem").await;
    assert_eq!((&line["name"], &line["problem"]["type"]), (&json!("x"), &json!("urn:tenure:contended")));
    assert_eq!(waiting.next().await, None);
}

#[tokio::test]
async fn a_lock_that_is_released_on_disconnect_is_told_briefly_and_freed_no_earlier() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let asks = json!({ "name": "x", "ttl_ms": 30_000, "on_disconnect": "release" });
    let mut holding = Holding::begin(&instance, &asks).await;
    let mut line = holding.expect("acquired").await;
    for _ in 0..2 {
        assert!(line["lease"].get("token").is_none(), "{line}");
        let left = holding.end(&line) - Instant::now();
        assert!((Duration::from_millis(2_000)..=Duration::from_secs(3)).contains(&left), "{left:?}");
        line = holding.expect("renewed").await;
    }
    let end = holding.end(&line);
    drop(holding);
    let next = locks(&nodes).lock("x").wait(Duration::from_secs(20)).acquire().await.unwrap();
    assert!(Instant::now() >= end, "{:?} too early", end - Instant::now());
    assert!(Instant::now() < end + Duration::from_secs(2), "long before its ttl");
    next.release().await.unwrap();
}

#[tokio::test]
async fn an_instance_that_ends_gives_a_last_line_and_releases_nothing() {
    let nodes = nodes();
    let (instance, other) = (Instance::start(service(&nodes)).await, Instance::start(service(&nodes)).await);
    let mut holding = Holding::begin(&instance, &json!({ "name": "x" })).await;
    holding.expect("acquired").await;
    let mut waiting = Holding::begin(&instance, &json!({ "name": "x", "wait_ms": 60_000 })).await;
    waiting.expect("waiting").await;
    let mut brief = Holding::begin(&instance, &json!({ "name": "y", "on_disconnect": "release" })).await;
    brief.expect("acquired").await;
    let ended = tokio::spawn(instance.stop());
    let last = holding.expect("draining").await;
    assert!(last["lease"]["token"].is_string() && holding.end(&last) > Instant::now(), "{last}");
    assert_eq!(waiting.expect("draining").await, json!({ "event": "draining", "name": "x" }));
    let end = brief.expect("draining").await;
    assert!(end["lease"].get("token").is_none());
    let end = brief.end(&end);
    for mut ended in [holding, waiting, brief] {
        assert_eq!(ended.next().await, None);
    }
    assert!(is_held(&nodes).await);
    // What goes with its connection goes when the last validity is over, and the instance sees to
    // that before it ends.
    ended.await.unwrap();
    assert!(Instant::now() >= end);
    assert!(locks(&nodes).lock("y").try_acquire().await.unwrap().is_some());
    let mut holding = Holding::begin(&other, &given(&last["lease"])).await;
    assert_eq!(holding.expect("acquired").await["lease"]["fence"], last["lease"]["fence"]);
}

#[tokio::test]
async fn a_lock_that_cannot_be_renewed_is_at_risk_and_lost_before_its_validity_ends() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let mut holding = Holding::begin(&instance, &ask("x")).await;
    let first = holding.expect("acquired").await;
    let mut end = holding.end(&first);
    nodes.iter().for_each(|node| node.set_faults(Faults::silent()));
    let mut risks = 0;
    loop {
        let line = holding.next().await.unwrap();
        match line["event"].as_str().unwrap() {
            "renewed" => end = end.max(holding.end(&line)),
            "at_risk" => {
                assert_eq!(line["reason"], json!("not_extended"));
                assert!(holding.end(&line) >= end - Duration::from_millis(1), "the old validity stands");
                risks += 1;
            }
            _ => {
                assert_eq!((&line["event"], &line["reason"]), (&json!("lost"), &json!("not_extended")));
                break;
            }
        }
    }
    assert!(Instant::now() < end && risks > 0, "{risks}");
    assert_eq!(holding.next().await, None);
}

#[tokio::test]
async fn max_hold_ends_a_hold_whatever_the_connection_does() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let mut asks = ask("x");
    asks["max_hold_ms"] = json!(1_500);
    let mut holding = Holding::begin(&instance, &asks).await;
    holding.expect("acquired").await;
    let mut reasons = vec![];
    while let Some(line) = holding.next().await {
        if line["event"] != "renewed" {
            reasons.push((line["event"].clone(), line["reason"].clone()));
        }
    }
    assert_eq!(reasons, [(json!("at_risk"), json!("max_hold")), (json!("lost"), json!("max_hold"))]);
    assert!(holding.asked.elapsed() <= Duration::from_millis(1_600), "{:?}", holding.asked.elapsed());
}

#[tokio::test]
async fn a_hold_of_another_form_is_refused() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes).acquires_max(0)).await;
    let mut client = Client::connect(instance.address).await;
    for (body, status, kind, detail) in [
        (
            json!({ "name": "x", "on_disconnect": "drop" }),
            400,
            "bad-request",
            "on_disconnect: unknown variant",
        ),
        (json!({ "name": "x", "token": "t", "ttl_ms": 1_000 }), 400, "bad-request", "token: "),
        (json!({ "name": "x", "token": "t", "label": "l" }), 400, "bad-request", "token: "),
        (
            json!({ "name": "x", "token": "t", "on_disconnect": "release" }),
            400,
            "bad-request",
            "on_disconnect",
        ),
        (json!({ "name": "x", "token": "t" }), 400, "bad-token", "damaged"),
        (json!({ "name": "x" }), 503, "overloaded", "later"),
    ] {
        let refused = client.post("/v1/hold", &body).await;
        let kind = json!(format!("urn:tenure:{kind}"));
        assert_eq!((refused.status, &refused.body["type"]), (status, &kind), "{body}: {refused:?}");
        assert!(refused.body["detail"].as_str().is_some_and(|said| said.contains(detail)), "{refused:?}");
    }
}

/// Cut off at any moment around the one at which the lock is there: either nobody has it, or its
/// client may have been told so.
#[tokio::test]
async fn a_client_that_goes_away_before_its_line_leaves_nothing() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let locks = locks(&nodes);
    let holder = locks.lock("x").acquire().await.unwrap();
    let mut waiters = vec![];
    for _ in 0..10 {
        let asks = json!({ "name": "x", "ttl_ms": 500, "wait_ms": 60_000 });
        waiters.push(Holding::begin(&instance, &asks).await);
    }
    drop(waiters);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(locks.inspect("x").await.unwrap().waiters, Some(0));
    holder.release().await.unwrap();
    assert!(locks.lock("x").try_acquire().await.unwrap().is_some());
}
