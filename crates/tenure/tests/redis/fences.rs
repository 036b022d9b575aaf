//! Fences on real servers: they grow, and what they leave behind goes away.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure::*;
use tenure_testkit::{RedisServer, Value};
use tokio::time::{Instant, sleep};

use crate::support::*;

#[tokio::test]
async fn fences_grow_over_clients_and_the_lock_stays_a_plain_string() {
    let servers = servers::<5>();
    let clients = [connect(&servers).await, connect(&servers).await, connect(&servers).await];
    let mut last = Fence::NONE;
    for round in 0..60 {
        let mut guard = clients[round % 3].lock("x").acquire().await.unwrap();
        assert!(guard.fence() > last, "round {round}");
        last = guard.fence();
        let token = servers.iter().find_map(|server| server.get("tenure:x")).unwrap();
        assert_eq!(token.len(), 40, "the owner and nothing else");
        guard.extend().await.unwrap();
        assert_eq!(guard.fence(), last, "an extension keeps it");
        guard.release().await.unwrap();
    }
    let unfenced = clients[0].lock("x").unfenced().acquire().await.unwrap();
    assert_eq!(unfenced.fence(), Fence::NONE);
    assert!(unfenced.fence() < last);
}

/// A client that wins while another's attempts are under way leaves larger fences on some nodes.
/// The other finds out and proposes again, at once.
#[tokio::test]
async fn a_fence_that_is_too_small_is_proposed_anew_at_once() {
    let servers = servers::<3>();
    let (ahead, behind) = (connect(&servers).await, connect(&servers).await);
    for server in &servers {
        // As far ahead as nodes allow: the next fence must be above it.
        let ahead = now_us(server) + 3_000_000;
        server.execute(&["SET", "tenure~fence:{tenure:x}", &ahead.to_string()]);
    }
    let start = Instant::now();
    let first = answer_of(&ahead.lock("x")).await.unwrap();
    assert!(start.elapsed() < ms(2_500), "not when the clock is there: {:?}", start.elapsed());
    let fence = first.fence();
    first.release().await.unwrap();
    assert!(answer_of(&behind.lock("x")).await.unwrap().fence() > fence);
}

fn now_us(server: &RedisServer) -> u64 {
    let Value::Array(parts) = server.execute(&["TIME"]) else { panic!("TIME is a list") };
    let number = |value: &Value| match value {
        Value::BulkString(digits) => String::from_utf8_lossy(digits).parse::<u64>().unwrap(),
        other => panic!("{other:?}"),
    };
    number(&parts[0]) * 1_000_000 + number(&parts[1])
}

/// A fence from the far future cannot have been granted by the node. It is ignored and reported,
/// and the lock is not given out there: nobody can be sure to be above it.
#[tokio::test]
async fn a_poisoned_fence_is_reported_and_does_not_spread() {
    let servers = servers::<3>();
    let (sender, receiver) = std::sync::mpsc::channel();
    let urls = servers.iter().map(RedisServer::url);
    let locks = builder(urls).observer(move |event| drop(sender.send(format!("{event:?}")))).build().unwrap();
    locks.ready().await;
    servers[0].execute(&["SET", "tenure~fence:{tenure:x}", "4000000000000000"]);
    let guard = locks.lock("x").acquire().await.unwrap();
    assert!(guard.fence().get() < 2_000_000_000_000_000, "{}", guard.fence());
    until("it is reported", || receiver.try_iter().any(|event| event.contains("FencePoisoned"))).await;
    assert!(locks.lock("y").acquire().await.unwrap().fence().get() < 2_000_000_000_000_000);
}

/// Many names that are used once each: what is remembered of them is bounded by the retention, and
/// gone after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_of_100_000_names_are_forgotten_after_the_retention() {
    const NAMES: u64 = 100_000;
    let servers = servers::<1>();
    let url = servers[0].url();
    let locks = builder([&url]).fence_retention(secs(2)).build().unwrap();
    locks.ready().await;
    let (next, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let start = Instant::now();
    for _ in 0..256 {
        let (locks, next, done) = (locks.clone(), Arc::clone(&next), Arc::clone(&done));
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= NAMES {
                    break;
                }
                let guard =
                    locks.lock(format!("name-{number}")).node_timeout(secs(1)).acquire().await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
                guard.release().await.unwrap();
            }
        });
    }
    // How many locks there had been at each moment of the last seconds.
    let (mut history, mut connection) = (VecDeque::new(), servers[0].connection());
    let (mut fastest, mut most) = (0.0_f64, 0.0_f64);
    // All keys but the record and the list of them; locks that are held at this moment are among
    // them, too.
    let mut entries = || -> u64 {
        let keys: u64 = tenure_testkit::cmd("DBSIZE").query(&mut connection).unwrap();
        keys.saturating_sub(2)
    };
    while done.load(Ordering::Relaxed) < NAMES {
        assert!(start.elapsed() < secs(300), "only {} names", done.load(Ordering::Relaxed));
        let (now, count) = (Instant::now(), done.load(Ordering::Relaxed));
        history.push_back((now, count));
        while history.len() > 1 && now - history[1].0 >= secs(2) {
            history.pop_front();
        }
        let (then, before) = history[0];
        if now - then >= secs(2) {
            // What came in within one retention, brought to exactly two seconds; and what is under
            // way.
            let recent = (count - before) as f64 * 2.0 / (now - then).as_secs_f64() + 256.0;
            // A machine that stands still for a moment has a lower rate for two seconds; that is
            // not what is asked.
            fastest = fastest.max(recent);
            most = most.max(entries() as f64 / fastest);
        }
        sleep(ms(50)).await;
    }
    println!("100,000 names in {:?}; at most {most:.2} x rate x retention", start.elapsed());
    assert!(most > 0.5, "the bound was looked at: {most:.2}");
    assert!(most < 1.2, "{most:.2} x rate x retention");
    let idle = Instant::now();
    while entries() > 0 {
        assert!(idle.elapsed() < secs(30), "{} entries are left after {:?}", entries(), idle.elapsed());
        sleep(ms(50)).await;
    }
    println!("none left {:?} after the last", idle.elapsed());
}
