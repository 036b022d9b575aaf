//! The quorum on real Redis servers: who is counted, who is not, and what is left behind.

use std::time::Instant;

use tenure::*;
use tenure_testkit::RedisServer;

use crate::support::*;

#[tokio::test]
async fn a_lock_is_a_plain_string_at_prefix_and_name_that_expires_by_itself() {
    let servers = servers::<5>();
    let locks = connect(&servers).await;
    let begun = Instant::now();
    let guard = locks.lock("invoice:42").ttl(secs(10)).acquire().await.unwrap();
    until("all five have it", || keys(&servers).len() == 5).await;
    let token = servers[0].get("tenure:invoice:42").unwrap();
    assert_eq!(token.len(), 40);
    for server in &servers {
        assert_eq!(server.get("tenure:invoice:42").as_ref(), Some(&token), "the same value everywhere");
        let left: i64 =
            tenure_testkit::cmd("PTTL").arg("tenure:invoice:42").query(&mut server.connection()).unwrap();
        let passed = i64::try_from(begun.elapsed().as_millis()).unwrap();
        assert!(left <= 11_000 && left + passed >= 10_999, "ttl and guard band: {left} ms");
    }
    guard.release().await.unwrap();
    locks.shutdown().await.unwrap();
    assert_eq!(keys(&servers), [""; 0]);
}

#[tokio::test]
async fn attempts_follow_each_other_after_random_pauses() {
    let servers = servers::<3>();
    let _guard = connect(&servers).await.lock("x").acquire().await.unwrap();
    let pauses = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let seen = pauses.clone();
    let observer = move |event: &Event<'_>| {
        if let Event::Retrying { pause, .. } = event {
            seen.lock().unwrap().push(*pause);
        }
    };
    let waiter = builder(servers.iter().map(RedisServer::url)).observer(observer).build().unwrap();
    let retry = Retry::default().tries_max(6).delay(ms(20)).jitter(ms(40));
    let error = waiter.lock("x").unqueued().retry(retry).wait_forever().acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Contended { attempts: 6, .. }), "{error}");
    let pauses = pauses.lock().unwrap();
    assert_eq!(pauses.len(), 5);
    assert!(pauses.iter().all(|pause| *pause >= ms(20)), "{pauses:?}");
    assert!(pauses.windows(2).any(|pair| pair[0] != pair[1]), "{pauses:?}");
}

#[tokio::test]
async fn a_wait_can_be_limited_and_cancelled() {
    let servers = servers::<3>();
    let (holder, waiter) = (connect(&servers).await, connect(&servers).await);
    let guard = holder.lock("x").acquire().await.unwrap();
    let start = Instant::now();
    let error = waiter.lock("x").wait(ms(300)).acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Contended { .. }), "{error}");
    assert!((ms(300)..secs(10)).contains(&start.elapsed()), "{:?}", start.elapsed());
    let forever = waiter.lock("x").wait_forever().acquire();
    assert!(tokio::time::timeout(ms(300), forever).await.is_err(), "it would wait for ever");
    guard.release().await.unwrap();
    waiter.shutdown().await.unwrap();
    until("nobody asks any more", || keys(&servers).is_empty()).await;
    tokio::time::sleep(ms(200)).await;
    assert_eq!(keys(&servers), [""; 0]);
}

#[tokio::test]
async fn one_node_is_enough_for_a_lock() {
    let servers = servers::<1>();
    let locks = connect(&servers).await;
    let guard = locks.lock("x").acquire().await.unwrap();
    assert!(answer_of(&locks.lock("x")).await.is_none());
    guard.release().await.unwrap();
    assert!(answer_of(&locks.lock("x")).await.is_some());
}

#[tokio::test]
async fn names_are_bytes_and_nothing_else() {
    let servers = servers::<1>();
    let locks = builder([servers[0].url()]).prefix("app:").build().unwrap();
    let names = ["a", "a\0b", "שלום", "🔒", "caf\u{e9}", "cafe\u{301}", "with space\r\n{tag}"];
    let mut guards = vec![];
    for name in names {
        guards.push(locks.lock(name).acquire().await.unwrap());
    }
    let mut expected: Vec<String> = names.iter().map(|name| format!("app:{name}")).collect();
    expected.sort();
    assert_eq!(servers[0].keys(), expected);
}

/// For N = 4 and N = 5 and every subset of nodes on which somebody else has the key.
#[tokio::test]
async fn acquired_iff_a_majority_is_free_for_every_subset() {
    async fn check<const N: usize>() {
        let servers = servers::<N>();
        let locks = connect(&servers).await;
        for taken in 0..1_u32 << N {
            let name = format!("n{taken}");
            let key = format!("tenure:{name}");
            let foreign = |node: usize| taken & (1 << node) != 0;
            for node in (0..N).filter(|node| foreign(*node)) {
                servers[node].execute(&["SET", &key, "foreign"]);
            }
            let free = N - taken.count_ones() as usize;
            let guard = answer_of(&locks.lock(&*name)).await;
            assert_eq!(guard.is_some(), free > N / 2, "N = {N}, {free} free");
            let ours = |server: &RedisServer| server.get(&key).is_some_and(|owner| owner != "foreign");
            let expected = if guard.is_some() { free } else { 0 };
            let count = || servers.iter().filter(|server| ours(server)).count();
            until("the free nodes have it, or none has", || count() == expected).await;
            for node in (0..N).filter(|node| foreign(*node)) {
                assert_eq!(
                    servers[node].get(&key).as_deref(),
                    Some("foreign"),
                    "another's key is not touched"
                );
            }
        }
        locks.shutdown().await.unwrap();
    }
    check::<4>().await;
    check::<5>().await;
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Failure {
    Killed,
    Hung,
}

/// Every choice of up to two of five nodes, killed or hung: everything works, and nobody waits for
/// them.
#[tokio::test]
async fn any_two_of_five_may_be_gone() {
    let mut servers = durable_servers::<5>();
    for failure in [Failure::Hung, Failure::Killed] {
        for first in 0..5 {
            for second in first..5 {
                let locks = connect(&servers).await;
                fail(&mut servers, &[first, second], failure);
                let took = shortest(ms(140), async || {
                    let start = Instant::now();
                    let mut guard = locks.lock("x").acquire().await.unwrap();
                    guard.extend().await.unwrap();
                    guard.release().await.unwrap();
                    start.elapsed()
                })
                .await;
                assert!(took < ms(140), "{failure:?} {first} {second}: {took:?}: somebody waited");
                heal(&mut servers, &[first, second], failure);
                locks.shutdown().await.unwrap();
                assert_eq!(keys(&servers), [""; 0], "{failure:?} {first} {second}");
            }
        }
    }
}

#[tokio::test]
async fn with_three_of_five_gone_the_error_says_unavailable_and_names_them() {
    let mut servers = durable_servers::<5>();
    for failure in [Failure::Hung, Failure::Killed] {
        for gone in [[0, 1, 2], [0, 2, 4], [2, 3, 4]] {
            let locks = connect(&servers).await;
            fail(&mut servers, &gone, failure);
            let start = Instant::now();
            let error = locks.lock("x").try_acquire().await.unwrap_err();
            assert!(start.elapsed() < secs(5), "one node timeout: {:?}", start.elapsed());
            assert!(matches!(error, AcquireError::Unavailable { .. }), "{error}");
            let text = error.to_string();
            for (node, server) in servers.iter().enumerate() {
                assert_eq!(text.contains(&format!("{}/0", server.url())), gone.contains(&node), "{text}");
            }
            let alive: Vec<&RedisServer> = servers
                .iter()
                .enumerate()
                .filter(|(node, _)| !gone.contains(node))
                .map(|(_, server)| server)
                .collect();
            until("no key on the living", || alive.iter().all(|server| server.keys().is_empty())).await;
            heal(&mut servers, &gone, failure);
            locks.shutdown().await.unwrap();
            assert_eq!(keys(&servers), [""; 0]);
        }
    }
}

fn fail(servers: &mut [RedisServer], nodes: &[usize], failure: Failure) {
    for node in nodes {
        match failure {
            Failure::Hung => servers[*node].pause(),
            Failure::Killed => servers[*node].kill(),
        }
    }
}

fn heal(servers: &mut [RedisServer], nodes: &[usize], failure: Failure) {
    for node in nodes {
        match failure {
            Failure::Hung => servers[*node].resume(),
            Failure::Killed => servers[*node].restart(),
        }
    }
}
