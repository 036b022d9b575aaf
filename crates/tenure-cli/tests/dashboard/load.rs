//! Thousands of locks on the page, all of them renewed again and again.
//!
//! A slice of it takes seconds; `TENURE_CAMPAIGNS=1` makes it the ten thousand locks and ten
//! minutes of the promise, `TENURE_MINUTES` another time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_testkit::RedisServer;
use tenure_testkit::http::Client;
use tokio::task::{JoinHandle, JoinSet};

use crate::browser::Browser;
use crate::stage::Stage;

/// More would be too large for one call.
const BATCH: usize = 500;

/// So much of the time may the page's thread be busy, and its memory grow by this.
const BUSY_MAX: f64 = 0.25;
const GROWTH_MAX: f64 = 1.2;

/// Acquires all of them, and gives the leases.
async fn acquire_all(stage: &Stage, count: usize) -> Vec<Value> {
    let mut tasks = JoinSet::new();
    for part in 0..10 {
        let (address, token) = (stage.address(), stage.token.clone());
        tasks.spawn(async move {
            let mut client = Client::connect(address).await.token(&token);
            let mut leases = vec![];
            for number in 0..count / 10 {
                let name = format!("load/{part}/{number:04}");
                let ask = json!({ "name": name, "ttl_ms": 300_000, "label": format!("worker-{number}@batch-{part}") });
                // A busy machine may not answer in time.
                let mut answer = client.post("/v1/acquire", &ask).await;
                while answer.status != 200 {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    answer = client.post("/v1/acquire", &ask).await;
                }
                leases.push(json!({ "name": name, "token": answer.body["token"] }));
            }
            leases
        });
    }
    tasks.join_all().await.concat()
}

/// Extends all of them, over and over, until it is aborted.
fn renew_all(stage: &Stage, mut leases: Vec<Value>) -> JoinHandle<()> {
    let (address, token) = (stage.address(), stage.token.clone());
    tokio::spawn(async move {
        let mut client = Client::connect(address).await.token(&token);
        loop {
            let begun = Instant::now();
            for batch in leases.chunks_mut(BATCH) {
                let answer = client.post("/v1/extend-many", &json!({ "leases": batch })).await;
                for (lease, result) in batch.iter_mut().zip(answer.body["results"].as_array().unwrap()) {
                    if result["token"].is_string() {
                        lease["token"] = result["token"].clone();
                    }
                }
            }
            tokio::time::sleep(Duration::from_secs(5).saturating_sub(begun.elapsed())).await;
        }
    })
}

/// For how long the page's thread was busy, and when that was read: seconds.
async fn busy(browser: &Browser) -> (f64, f64) {
    let told = browser.tells("Performance.getMetrics", json!({})).await;
    let of = |name: &str| {
        let found = told["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name);
        found.unwrap()["value"].as_f64().unwrap()
    };
    (of("TaskDuration"), of("Timestamp"))
}

async fn memory(browser: &Browser) -> f64 {
    browser.tells("HeapProfiler.collectGarbage", json!({})).await;
    let told = browser.tells("Runtime.getHeapUsage", json!({})).await;
    told["usedSize"].as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewed_locks_by_the_thousand_leave_the_page_idle_most_of_the_time() {
    let whole = std::env::var_os("TENURE_CAMPAIGNS").is_some();
    let minutes = std::env::var("TENURE_MINUTES").map_or(10, |text| text.parse().unwrap());
    let (locks, first, last) = if whole { (10_000, 60, 60 * minutes) } else { (2_000, 5, 12) };
    // A busy machine may need a minute to acquire all of them.
    let stage = Stage::with(RedisServer::start_many::<5>(&[]).into(), "max_ttl = \"5m\"\n").await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    let renewals = renew_all(&stage, acquire_all(&stage, locks).await);
    browser.visit("locks?sort=left").await;
    // Looking takes at most 2 % of a node's time, so a long list takes a while.
    let shown = format!("{},000 locks", locks / 1_000);
    while !browser.text().await.contains(&shown) {
        assert!(!renewals.is_finished());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let drawn = browser.run("return document.querySelectorAll('.vbody [role=row]').length").await;
    assert!(drawn.as_u64().unwrap() < 100, "{drawn} rows are drawn");
    browser.tells("Performance.enable", json!({ "timeDomain": "timeTicks" })).await;
    let begun = Instant::now();
    let (task, at) = busy(&browser).await;
    tokio::time::sleep(Duration::from_secs(first)).await;
    let early = memory(&browser).await;
    tokio::time::sleep(Duration::from_secs(last).saturating_sub(begun.elapsed())).await;
    let late = memory(&browser).await;
    let (task_end, at_end) = busy(&browser).await;
    let share = (task_end - task) / (at_end - at);
    let scrolled = "const l = document.querySelector('.vlist'); l.scrollTop = 60000; return new Promise(d => requestAnimationFrame(() => requestAnimationFrame(() => d(document.querySelector('.vbody [role=row]').ariaRowIndex > 1000))))";
    assert_eq!(browser.run(scrolled).await, true, "it scrolls");
    assert!(!renewals.is_finished(), "the locks were renewed all the time");
    renewals.abort();
    if whole {
        say(&format!("busy {share:.3}, memory {early:.0} then {late:.0} bytes"));
    }
    assert!(share <= BUSY_MAX, "the page's thread is busy {share:.3} of the time");
    // In its first seconds the page is still growing to its size.
    let growth_max = if whole { GROWTH_MAX } else { 1.5 };
    assert!(late <= early * growth_max, "memory grew from {early:.0} to {late:.0} bytes");
    browser.close(&["/v1/me"]).await;
}

#[expect(clippy::print_stderr, reason = "whoever waits for ten minutes wants the figures")]
fn say(words: &str) {
    eprintln!("    {words}");
}
