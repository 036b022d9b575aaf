//! Holders in processes of their own: killed, stopped, and handing over.

use std::time::{Duration, Instant};

use tenure::{Fence, Handover, Locks};
use tenure_testkit::{Client, RedisServer};

const TTL: Duration = Duration::from_millis(1_000);

/// The nodes keep a key this much longer than its ttl.
const GUARD_BAND: Duration = Duration::from_millis(100);

/// How late it may be noticed, the quickest time of three.
const SLACK: Duration = Duration::from_millis(200);

fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

fn start(verb: &str, what: &str, urls: &[String]) -> (Client, Fence) {
    let arguments = [verb, what].into_iter().chain(urls.iter().map(String::as_str));
    let mut client = Client::start_talking(env!("CARGO_BIN_EXE_testclient"), arguments);
    let fence = client.hear().parse().unwrap();
    (client, Fence::new(fence))
}

fn holder(urls: &[String]) -> (Client, Fence) {
    start("hold", &TTL.as_millis().to_string(), urls)
}

fn held_on(servers: &[RedisServer]) -> usize {
    servers.iter().filter(|server| server.get("tenure:held").is_some()).count()
}

async fn is_held(locks: &Locks) -> bool {
    locks.lock("held").try_acquire().await.unwrap().is_none()
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_after_its_ttl_and_guard_band() {
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let urls = urls(&servers);
    let locks = Locks::connect(&urls).await.unwrap();
    let mut soonest = Duration::MAX;
    for _ in 0..3 {
        let (mut client, fence) = holder(&urls);
        let start = Instant::now();
        while start.elapsed() < TTL * 2 {
            assert!(is_held(&locks).await, "it is renewed");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        client.kill();
        let killed = Instant::now();
        while held_on(&servers) > 0 {
            assert!(killed.elapsed() < TTL * 30, "still there");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let freed = killed.elapsed();
        println!("free {freed:?} after the kill");
        soonest = soonest.min(freed);
        let next = locks.lock("held").try_acquire().await.unwrap().unwrap();
        assert!(next.fence() > fence);
        next.release().await.unwrap();
    }
    assert!(soonest < TTL + GUARD_BAND + SLACK, "{soonest:?}");
}

#[tokio::test]
async fn a_process_that_was_stopped_past_its_term_sees_at_once_that_its_lock_is_lost() {
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let urls = urls(&servers);
    let locks = Locks::connect(&urls).await.unwrap();
    let (mut client, fence) = holder(&urls);
    client.say("state");
    assert_eq!(client.hear(), "Held");
    client.pause();
    let next = locks.lock("held").wait(TTL * 30).acquire().await.unwrap();
    assert!(next.fence() > fence);
    client.say("state");
    client.resume();
    assert_eq!(client.hear(), "Lost", "at its first look");
    // Its end does not touch the lock of the next.
    drop(client);
    tokio::time::sleep(TTL).await;
    assert!(next.is_valid() && held_on(&servers) >= 3);
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_goes_from_process_to_process() {
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let urls = urls(&servers);
    let locks = Locks::connect(&urls).await.unwrap();
    let (mut client, fence) = holder(&urls);
    for _ in 0..3 {
        client.say("hand over");
        let text = client.hear();
        assert!(client.succeeds(), "it has ended, and the lock lives on");
        assert!(is_held(&locks).await);
        let (next, same_fence) = start("resume", &text, &urls);
        assert_eq!(same_fence, fence);
        client = next;
        let start = Instant::now();
        while start.elapsed() < TTL * 2 {
            assert!(is_held(&locks).await, "it is renewed by the next");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        client.say("state");
        assert_eq!(client.hear(), "Held");
    }
    // To this process, which never held it before.
    client.say("hand over");
    let handover: Handover = client.hear().parse().unwrap();
    assert_eq!(handover.name, "held");
    let text = locks.resume(&handover).await.unwrap().hand_over().to_string();
    let (mut last, _) = start("resume", &text, &urls);
    last.say("release");
    assert!(last.hear().parse::<u32>().unwrap() >= 3);
    assert!(last.succeeds());
    assert_eq!(held_on(&servers), 0);
}
