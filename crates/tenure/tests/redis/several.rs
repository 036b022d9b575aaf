//! What is special about several names on servers.

use std::time::Instant;

use tenure::*;
use tokio::time::sleep;

use crate::support::*;

/// Two reservations: what each of the two may cost the other.
const TWO_CLAIM_WINDOWS: std::time::Duration = ms(500);

/// Each is woken on the name that the other one needs, too. Whoever asked first goes first.
/// `TENURE_KINDS_ROUNDS` sets how often for a campaign.
#[tokio::test]
async fn two_sets_that_are_woken_on_different_names_are_both_served() {
    let rounds = std::env::var("TENURE_KINDS_ROUNDS").ok().map_or(20, |rounds| rounds.parse().unwrap());
    let servers = servers::<5>();
    let (holder, first, second) = (connect(&servers).await, connect(&servers).await, connect(&servers).await);
    let mut took = vec![];
    for _ in 0..rounds {
        let b = holder.lock("b").acquire().await.unwrap();
        let before = tokio::spawn(first.lock_all(["a", "b"]).wait_forever().acquire());
        sleep(ms(15)).await;
        let a = holder.lock("a").acquire().await.unwrap();
        let after = tokio::spawn(second.lock_all(["b", "a"]).wait_forever().acquire());
        sleep(ms(15)).await;
        let released = Instant::now();
        let (a, b) = tokio::join!(a.release(), b.release());
        a.unwrap();
        b.unwrap();
        let one = before.await.unwrap().unwrap();
        let fence = one.fence();
        one.release().await.unwrap();
        let other = after.await.unwrap().unwrap();
        took.push(released.elapsed());
        assert!(other.fence() > fence);
        other.release().await.unwrap();
    }
    took.sort_unstable();
    let (middle, longest) = (took[took.len() / 2], took[took.len() - 1]);
    println!("both served {middle:?} after the release, {longest:?} at most, of {rounds} times");
    assert!(middle < ms(100), "{middle:?}");
    // What a busy machine may add.
    assert!(longest < TWO_CLAIM_WINDOWS + secs(2), "{longest:?}");
}

/// A set that waits for a name which somebody holds for long leaves the other one alone. When it
/// went from line to line, this one was set aside for it, in vain, for most of the time.
#[tokio::test]
async fn a_set_that_waits_for_a_long_hold_keeps_nobody_from_the_other_names() {
    let servers = servers::<5>();
    let (holder, waiter) = (connect(&servers).await, connect(&servers).await);
    let _held = holder.lock("b").acquire().await.unwrap();
    let holds = async || {
        let workers = [connect(&servers).await, connect(&servers).await].map(|locks| {
            tokio::spawn(async move {
                let (begun, mut holds) = (Instant::now(), 0);
                while begun.elapsed() < secs(2) {
                    let guard = locks.lock("a").wait_forever().acquire().await.unwrap();
                    sleep(ms(10)).await;
                    guard.release().await.unwrap();
                    holds += 1;
                }
                holds
            })
        });
        let mut all = 0;
        for worker in workers {
            all += worker.await.unwrap();
        }
        all
    };
    let alone = holds().await;
    let set = tokio::spawn(waiter.lock_all(["a", "b"]).wait_forever().acquire());
    while holder.inspect("b").await.unwrap().waiters != Some(1) {
        sleep(ms(2)).await;
    }
    let beside = holds().await;
    println!("{alone} holds of one name, {beside} beside a set that waits for another one");
    assert!(beside * 10 >= alone * 7, "{beside} of {alone}");
    set.abort();
}

/// From the same rack to the other side of the world, on two threads, with nothing set for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_permits_and_periods_work_however_far_the_nodes_are() {
    for round_trip_ms in [1, 48, 180] {
        let servers = servers::<3>();
        let proxies = far_away(&servers, ms(round_trip_ms));
        let (one, other) = (connect_through(&proxies).await, connect_through(&proxies).await);
        // Shorter than what is done while they are held: they are renewed.
        let both = one.lock_all(["a", "b"]).ttl(secs(3)).acquire().await.unwrap();
        let waiting = tokio::spawn(other.lock_all(["b", "c"]).ttl(secs(3)).wait(secs(30)).acquire());
        let (permit, rest) = (one.semaphore("s", 2).ttl(secs(3)), other.semaphore("s", 2).ttl(secs(3)));
        let held = [permit.acquire().await.unwrap(), rest.acquire().await.unwrap()];
        assert!(rest.try_acquire().await.unwrap().is_none());
        let job = one.lock("job").ttl(secs(3)).at_least(secs(4));
        job.acquire().await.unwrap().release().await.unwrap();
        assert!(other.lock("job").try_acquire().await.unwrap().is_none(), "{round_trip_ms} ms");
        sleep(ms(3_500)).await;
        assert!(!waiting.is_finished() && both.is_valid(), "{round_trip_ms} ms");
        assert!(held.iter().all(Guard::is_valid), "{round_trip_ms} ms");
        both.release().await.unwrap();
        let next = waiting.await.unwrap().unwrap();
        assert_eq!(next.names().collect::<Vec<_>>(), ["b", "c"]);
        assert!(other.lock("job").wait(secs(30)).acquire().await.is_ok(), "{round_trip_ms} ms");
    }
}

/// A key of another program under one of the names is an error at once, and nothing is left of the
/// others.
#[tokio::test]
async fn a_set_with_a_key_of_another_kind_is_refused_at_once() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    for server in &servers {
        server.execute(&["RPUSH", "tenure:b", "x"]);
    }
    let refused = locks.lock_all(["a", "b", "c"]).wait_forever().acquire().await.unwrap_err();
    assert!(matches!(refused, AcquireError::OtherKind { .. }), "{refused}");
    for name in ["a", "c"] {
        assert!(locks.lock(name).try_acquire().await.unwrap().is_some(), "{name}");
    }
}

/// What a server that is full, or has become a replica, refuses leaves no part of a set behind.
#[tokio::test]
async fn a_set_on_servers_that_will_not_write_is_unavailable_and_leaves_nothing() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    locks.lock_all(["a", "b"]).acquire().await.unwrap().release().await.unwrap();
    for server in &servers {
        server.execute(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        server.execute(&["CONFIG", "SET", "maxmemory", "1"]);
    }
    let refused = locks.lock_all(["a", "b"]).try_acquire().await.unwrap_err();
    assert!(matches!(refused, AcquireError::Unavailable { .. }), "{refused}");
    for server in &servers {
        server.execute(&["CONFIG", "SET", "maxmemory", "0"]);
    }
    assert!(answer_of(&locks.lock_all(["a", "b"])).await.is_some());
}
