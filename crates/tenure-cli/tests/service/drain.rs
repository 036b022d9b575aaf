//! An instance that ends in good order: no lock is lost, no answer is cut, whoever waited is served
//! elsewhere, and it does not take long.
//!
//! The tests' client fails if a connection ends without an answer to what was sent on it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_testkit::http::{Answer, Client};
use tokio::runtime::Runtime;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use crate::campaign::campaign;
use crate::instances::{Instance, Nodes};

const WORKERS: usize = 16;

/// What `drain_max` is unless it is said.
const DRAIN_MAX: Duration = Duration::from_secs(30);

#[test]
fn an_instance_that_is_drained_loses_no_lock_and_cuts_no_answer() {
    campaign("drained", |extent, _| Runtime::new().unwrap().block_on(drain(extent.of(40, 200))));
}

async fn drain(waiting: usize) -> String {
    let nodes = Nodes::start();
    let [mut first, second]: [Instance; 2] = nodes.instances();
    let (there, elsewhere) = (first.address(), second.address());
    let mut client = Client::connect(there).await;
    let wanted =
        acquired(ask(&mut client, "/v1/acquire", &json!({ "name": "wanted", "ttl_ms": 60_000 })).await);
    let (mut waiters, mut workers, over) = (JoinSet::new(), JoinSet::new(), Arc::new(AtomicBool::new(false)));
    for _ in 0..waiting {
        waiters.spawn(wait(there, elsewhere));
    }
    for number in 0..WORKERS {
        workers.spawn(work(format!("own-{number}"), there, elsewhere, Arc::clone(&over)));
    }
    let (mut holder, held) = hold(there).await;
    sleep(Duration::from_millis(500)).await;

    let begun = Instant::now();
    let ended = spawn_blocking(move || {
        first.drain();
        begun.elapsed()
    });
    // A connection that holds a lock has a last line, with what another instance goes on with.
    let mut lines = vec![held.clone()];
    while let Some(line) = holder.next_json().await {
        lines.push(line);
    }
    let last = lines.last().filter(|line| line["event"] == "draining");
    let last = last.unwrap_or_else(|| panic!("there is no last line: {lines:?}"));
    let mut gone_on = Client::connect(elsewhere).await;
    let lease = acquired(ask(&mut gone_on, "/v1/extend", &given(&last["lease"])).await);
    assert_eq!(lease["fence"], held["lease"]["fence"]);
    drop(holder);
    // What was acquired there is extended and released elsewhere, and those who waited there are
    // next.
    release(&mut gone_on, &wanted).await;
    waiters.join_all().await;
    let took = ended.await.unwrap();
    over.store(true, Ordering::Relaxed);
    let calls: usize = workers.join_all().await.into_iter().sum();
    assert!(took < DRAIN_MAX, "{took:?}");
    assert!(calls > 10 * WORKERS, "they were at work: {calls}");
    format!("{waiting} waiters served elsewhere, {calls} calls of {WORKERS} clients, ended within {took:?}")
}

/// Holds a lock that nobody else wants by a connection, and gives its first line.
async fn hold(there: SocketAddr) -> (Client, Value) {
    loop {
        let mut holder = Client::connect(there).await;
        holder.send("/v1/hold", &json!({ "name": "held", "ttl_ms": 10_000, "wait_ms": 10_000 })).await;
        let is_held = holder.receive_head().await.starts_with("HTTP/1.1 200");
        // On a busy machine the nodes may not answer in time.
        while is_held && let Some(line) = holder.next_json().await {
            if line["event"] == "acquired" {
                return (holder, line);
            }
        }
    }
}

fn acquired(answer: Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// On a busy machine the nodes do not always answer in time: that says nothing about the instance.
fn is_busy(answer: &Answer) -> bool {
    ["urn:tenure:unavailable", "urn:tenure:too-late"].iter().any(|kind| answer.body["type"] == *kind)
}

/// Asks until the nodes answer in time.
async fn ask(client: &mut Client, path: &str, body: &Value) -> Answer {
    loop {
        let answer = client.post(path, body).await;
        if !is_busy(&answer) {
            return answer;
        }
    }
}

/// Releases a lease. If the nodes answered too late, it is gone when it is tried again.
async fn release(client: &mut Client, lease: &Value) {
    let first = client.post("/v1/release", &given(lease)).await;
    if is_busy(&first) {
        let again = ask(client, "/v1/release", &given(lease)).await;
        assert!([200, 410].contains(&again.status), "{again:?}");
    } else {
        assert_eq!(first.status, 200, "{first:?}");
    }
}

fn given(lease: &Value) -> Value {
    json!({ "name": lease["name"], "token": lease["token"] })
}

/// Waits for the lock, and goes elsewhere when it is told to.
async fn wait(there: SocketAddr, elsewhere: SocketAddr) {
    let wanted = json!({ "name": "wanted", "wait_ms": 60_000 });
    let answer = Client::connect(there).await.post("/v1/acquire", &wanted).await;
    assert_eq!((answer.status, &answer.body["type"]), (503, &json!("urn:tenure:draining")));
    let mut client = Client::connect(elsewhere).await;
    let lease = acquired(ask(&mut client, "/v1/acquire", &wanted).await);
    release(&mut client, &lease).await;
}

/// Acquires, extends and releases a lock of its own over and over, on one connection as long as it
/// may, and tells how many calls that were.
async fn work(name: String, there: SocketAddr, elsewhere: SocketAddr, over: Arc<AtomicBool>) -> usize {
    let (mut client, mut is_elsewhere) = (Client::connect(there).await, false);
    let (mut lease, mut calls, mut was_busy) = (None::<Value>, 0, false);
    while !over.load(Ordering::Relaxed) {
        calls += 1;
        let path = ["/v1/acquire", "/v1/extend", "/v1/release"][calls % 3];
        let answer = match (&lease, path) {
            (None, _) => client.post("/v1/acquire", &json!({ "name": name, "ttl_ms": 20_000 })).await,
            (Some(lease), "/v1/release") => client.post("/v1/release", &given(lease)).await,
            (Some(lease), _) => client.post("/v1/extend", &given(lease)).await,
        };
        if answer.header("connection").is_some_and(|what| what == "close") {
            assert!(!is_elsewhere, "only one of them ends");
            (client, is_elsewhere) = (Client::connect(elsewhere).await, true);
        }
        match answer.status {
            // Nobody else wants it: what was acquired there is still ours elsewhere.
            200 => lease = answer.body.get("token").is_some().then_some(answer.body),
            _ if is_busy(&answer) => was_busy = true,
            // It was released after all when the nodes answered too late.
            410 if was_busy => lease = None,
            503 if lease.is_none() => assert_eq!(answer.body["type"], "urn:tenure:draining"),
            _ => panic!("{name}: {answer:?}"),
        }
    }
    assert!(is_elsewhere, "it went on elsewhere");
    calls
}
