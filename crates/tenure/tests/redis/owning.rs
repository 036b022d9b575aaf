//! What is special about reentrant locks on servers: the hash of Redisson, step by step.

use std::collections::BTreeMap;

use tenure::*;
use tenure_testkit::{Proxy, RedisServer, Value};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::support::*;

/// The hash at the name, field by field.
fn hash(server: &RedisServer) -> BTreeMap<String, String> {
    let Value::Array(parts) = server.execute(&["HGETALL", "tenure:x"]) else { panic!("a hash") };
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    parts.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

fn held(owner: &str, count: u32) -> BTreeMap<String, String> {
    BTreeMap::from([(owner.to_owned(), count.to_string())])
}

/// Somebody who listens as Redisson does while it waits.
async fn redisson_waiting(server: &RedisServer) -> Lines<BufReader<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let mut listener = BufReader::new(stream).lines();
    listener.get_mut().write_all(b"SUBSCRIBE redisson_lock__channel:{tenure:x}\r\n").await.unwrap();
    for _ in 0..6 {
        listener.next_line().await.unwrap();
    }
    listener
}

/// Document 003: acquired, acquired again, released to one, released to nothing, which deletes the
/// hash and publishes; and the release of somebody else, which changes nothing.
#[tokio::test]
async fn a_reentrant_lock_is_a_hash_with_a_count_on_every_server() {
    let servers = servers::<3>();
    let (locks, other) = (connect(&servers).await, connect(&servers).await);
    let mut listener = redisson_waiting(&servers[0]).await;
    let everywhere =
        |expected: &BTreeMap<String, String>| servers.iter().all(|server| hash(server) == *expected);
    let owner = "4f1c:17";
    let outer = locks.lock("x").owner(owner).acquire().await.unwrap();
    locks_reach_all(&outer).await;
    assert!(everywhere(&held(owner, 1)));
    let Value::Int(left) = servers[0].execute(&["PTTL", "tenure:x"]) else { panic!("it has an end") };
    assert!((30_000..=33_000).contains(&left), "{left}");
    let inner = other.lock("x").owner(owner).acquire().await.unwrap();
    locks_reach_all(&inner).await;
    assert!(everywhere(&held(owner, 2)));
    let token = inner.to_handover();
    inner.release().await.unwrap();
    until("one hold is left", || everywhere(&held(owner, 1))).await;
    assert!(other.release(&token).await.is_err(), "released twice");
    let mut stranger = token.clone();
    stranger.token = OwnerToken::from_bytes([7; 20]);
    let error = other.release(&stranger).await.unwrap_err();
    assert!(matches!(error, ReleaseError::NotHeld { .. }), "{error}");
    assert!(everywhere(&held(owner, 1)), "a stranger changes nothing");
    let nothing = timeout(ms(50), listener.next_line()).await;
    assert!(nothing.is_err(), "one still holds it: {nothing:?}");
    outer.release().await.unwrap();
    until("it is free", || everywhere(&BTreeMap::new())).await;
    let published = timeout(secs(5), async {
        loop {
            let line = listener.next_line().await.unwrap().unwrap();
            if line == "0" {
                return;
            }
        }
    });
    published.await.expect("it is published that it is free");
    for key in ["tenure~holds:{tenure:x}", "tenure~group:{tenure:x}"] {
        assert_eq!(servers[0].execute(&["EXISTS", key]), Value::Int(0), "{key}");
    }
}

/// Redisson counts on from our holds, and we from its, if both have the same id: the lock is free
/// when the last hold of either is gone. What it does here is what its scripts do.
#[tokio::test]
async fn holds_of_one_owner_here_and_in_redisson_are_counted_together() {
    let servers = servers::<1>();
    let locks = connect(&servers).await;
    let (lock, other) = (locks.lock("x").owner("c0ffee:1"), locks.lock("x").owner("other"));
    let theirs_by = |by: &str| servers[0].execute(&["HINCRBY", "tenure:x", "c0ffee:1", by]);
    let left = || match servers[0].execute(&["PTTL", "tenure:x"]) {
        Value::Int(ms) => ms,
        other => panic!("{other:?}"),
    };
    // Ours first: our last release leaves theirs.
    let guard = lock.acquire().await.unwrap();
    theirs_by("1");
    servers[0].execute(&["PEXPIRE", "tenure:x", "50000"]);
    let mut second = lock.acquire().await.unwrap();
    second.extend().await.unwrap();
    assert_eq!(hash(&servers[0]), held("c0ffee:1", 3));
    assert!(left() > 45_000, "theirs lives longer: {}", left());
    guard.release().await.unwrap();
    second.release().await.unwrap();
    assert_eq!(hash(&servers[0]), held("c0ffee:1", 1));
    assert!(other.try_acquire().await.unwrap().is_none());
    assert!(left() > 45_000, "{}", left());
    // Theirs is there: ours is counted on from it, and outlives it.
    let guard = lock.acquire().await.unwrap();
    assert_eq!(hash(&servers[0]), held("c0ffee:1", 2));
    theirs_by("-1");
    assert!(other.try_acquire().await.unwrap().is_none());
    let fence = guard.fence();
    guard.release().await.unwrap();
    until("it is free", || hash(&servers[0]).is_empty()).await;
    assert!(other.acquire().await.unwrap().fence() > fence);
}

/// One of ours that ends without a release is not taken for theirs.
#[tokio::test]
async fn a_hold_that_has_ended_is_not_counted_for_redisson() {
    let servers = servers::<1>();
    let locks = connect(&servers).await;
    let lock = locks.lock("x").owner("c0ffee:1");
    let short = lock.clone().ttl(secs(1)).renewal(Renewal::Off).acquire().await.unwrap();
    let long = lock.acquire().await.unwrap();
    assert_eq!(hash(&servers[0]), held("c0ffee:1", 2));
    sleep(ms(1_300)).await;
    assert!(short.release().await.is_err(), "it has ended");
    assert_eq!(hash(&servers[0]), held("c0ffee:1", 1));
    long.release().await.unwrap();
    until("it is free", || hash(&servers[0]).is_empty()).await;
}

/// Where Redisson listens, a released lock is left to it and to the first in line. Whoever has just
/// released it, or comes then, would be faster than both.
#[tokio::test]
async fn nobody_of_ours_overtakes_the_first_in_line_where_redisson_waits() {
    let servers = servers::<1>();
    let proxy = Proxy::start_forgetful(servers[0].port());
    let locks = builder([servers[0].url()]).fleet("one").build().unwrap();
    let far = builder([proxy.url()]).fleet("one").build().unwrap();
    let _redisson = redisson_waiting(&servers[0]).await;
    let guard = locks.lock("x").owner("a").acquire().await.unwrap();
    let waiting = tokio::spawn(far.lock("x").owner("b").wait(secs(20)).acquire());
    let in_line = || servers[0].execute(&["ZCARD", "tenure~queue:{tenure:x}"]) == Value::Int(1);
    until("it is in line", in_line).await;
    // It hears nothing for a while.
    proxy.set_both(tenure_testkit::Mode::Stall);
    guard.release().await.unwrap();
    let released = tokio::time::Instant::now();
    let free = servers[0].execute(&["EXISTS", "tenure:x"]) == Value::Int(0);
    let overtaken = locks.lock("x").owner("a").try_acquire().await.unwrap().is_some();
    // Its turn lasts for 200 ms.
    if released.elapsed() < ms(150) {
        assert!(free, "Redisson may have it");
        assert!(!overtaken);
    }
    proxy.set_both(tenure_testkit::Mode::Pass);
    assert!(waiting.await.unwrap().unwrap().is_valid());
}

/// Every server has granted it.
async fn locks_reach_all(guard: &Guard) {
    guard.late_votes(secs(5)).await;
}

/// Holds of one owner count each on a majority of its own. Whichever servers are gone, none of them
/// is lost with another's, and a server that comes back empty is filled again.
#[tokio::test]
async fn owners_outlive_servers_and_join_with_their_old_fence() {
    let mut servers = servers::<5>();
    let (first, second) = (connect(&servers).await, connect(&servers).await);
    let lock = |locks: &Locks| locks.lock("x").owner("job").ttl(secs(2)).wait(secs(20));
    let outer = lock(&first).acquire().await.unwrap();
    servers[0].kill();
    let inner = lock(&second).acquire().await.unwrap();
    assert_eq!(inner.fence(), outer.fence());
    servers[1].kill();
    sleep(secs(3)).await;
    assert!(outer.is_valid() && inner.is_valid());
    let third = lock(&first).acquire().await.unwrap();
    assert_eq!(third.fence(), outer.fence());
    outer.release().await.unwrap();
    third.release().await.unwrap();
    servers[0].restart();
    servers[1].restart();
    sleep(secs(3)).await;
    assert!(inner.is_valid());
    until("it is put back", || servers[..2].iter().all(|server| hash(server) == held("job", 1))).await;
    let fence = inner.fence();
    inner.release().await.unwrap();
    let other = first.lock("x").owner("other").wait(secs(20)).acquire().await.unwrap();
    assert!(other.fence() > fence);
}

/// Something else that is no lock: an error at once, whatever the type, and it stays as it is.
#[tokio::test]
async fn a_key_that_is_no_lock_is_named_and_left_alone() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    for server in &servers {
        server.execute(&["RPUSH", "tenure:x", "a"]);
        server.execute(&["HSET", "tenure:h", "somebody", "1"]);
    }
    for lock in [locks.lock("x"), locks.lock("x").shared(), locks.lock("x").owner("job")] {
        let error = timeout(secs(10), lock.wait_forever().acquire()).await.unwrap().map(|_| ()).unwrap_err();
        assert!(matches!(error, AcquireError::OtherKind { found: Kind::Foreign, .. }), "{error}");
    }
    assert_eq!(servers[0].execute(&["LLEN", "tenure:x"]), Value::Int(1));
    let report = locks.inspect("x").await.unwrap();
    let LockState::Held { kind, owner, left, .. } = report.state else { panic!("{report:?}") };
    assert_eq!((kind, &*owner, left), (Kind::Foreign, "list", None), "nobody can have it");
    // Redisson's, which has no end here: held by another.
    let held = locks.lock("h").owner("job").try_acquire().await.unwrap();
    assert!(held.is_none());
    let report = locks.inspect("h").await.unwrap();
    let LockState::Held { kind, sharers, owner, .. } = report.state else { panic!("{report:?}") };
    assert_eq!((kind, sharers, &*owner), (Kind::Reentrant, Some(1), "somebody"));
}

/// Redisson saw it held by an attempt of ours that came to nothing, and waits until it is told.
#[tokio::test]
async fn an_attempt_that_is_undone_wakes_redisson() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    for server in &servers[1..] {
        server.execute(&["HSET", "tenure:x", "somebody", "1"]);
        server.execute(&["PEXPIRE", "tenure:x", "60000"]);
    }
    let mut redisson = redisson_waiting(&servers[0]).await;
    assert!(answer_of(&locks.lock("x").owner("job")).await.is_none());
    let mut told = vec![];
    while told.last().map(String::as_str) != Some("0") {
        told.push(timeout(secs(10), redisson.next_line()).await.expect("it is told").unwrap().unwrap());
    }
    assert!(told.contains(&"redisson_lock__channel:{tenure:x}".to_owned()), "{told:?}");
    until("it is gone", || servers[0].execute(&["EXISTS", "tenure:x"]) == Value::Int(0)).await;
}

#[tokio::test]
async fn a_server_whose_memory_is_full_renews_owners_too() {
    let servers = servers::<1>();
    let locks = connect(&servers).await;
    let guard = locks.lock("x").owner("job").ttl(secs(2)).acquire().await.unwrap();
    servers[0].execute(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    servers[0].execute(&["CONFIG", "SET", "maxmemory", "1"]);
    sleep(secs(4)).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert!(hash(&servers[0]).is_empty());
}

/// From the same rack to the other side of the world, on two threads, with nothing set for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_join_and_wait_however_far_the_nodes_are() {
    for round_trip_ms in [1, 48, 180] {
        let servers = servers::<3>();
        let far = |server: &RedisServer| {
            let proxy = Proxy::start_forgetful(server.port());
            proxy.set_both(tenure_testkit::Mode::Delay(ms(round_trip_ms) / 2));
            proxy
        };
        let proxies: Vec<Proxy> = servers.iter().map(far).collect();
        let (first, second) = (connect_through(&proxies).await, connect_through(&proxies).await);
        let lock = |locks: &Locks, owner: &str| locks.lock("x").owner(owner).ttl(secs(3)).wait(secs(30));
        let outer = lock(&first, "job").acquire().await.unwrap();
        let inner = lock(&second, "job").acquire().await.unwrap();
        assert_eq!(inner.fence(), outer.fence(), "{round_trip_ms} ms");
        let waiting = tokio::spawn(lock(&second, "other").acquire());
        sleep(secs(4)).await;
        assert!(!waiting.is_finished() && outer.is_valid() && inner.is_valid(), "{round_trip_ms} ms");
        let fence = outer.fence();
        outer.release().await.unwrap();
        inner.release().await.unwrap();
        assert!(waiting.await.unwrap().unwrap().fence() > fence, "{round_trip_ms} ms");
    }
}

/// How long each of these waits takes from the moment the lock is freed: the middle one.
async fn middle_of_wakes(lock: &Lock, take: impl Fn(), free: impl Fn()) -> std::time::Duration {
    let mut waits = vec![];
    for _ in 0..15 {
        take();
        let waiting = tokio::spawn(lock.clone().wait(secs(20)).acquire());
        // It is in line, and has seen who holds it.
        sleep(ms(60)).await;
        assert!(!waiting.is_finished());
        let freed = tokio::time::Instant::now();
        free();
        let guard = waiting.await.unwrap().unwrap();
        waits.push(freed.elapsed());
        guard.late_votes(secs(1)).await;
        guard.release().await.unwrap();
    }
    waits.sort_unstable();
    waits[waits.len() / 2]
}

/// Clients of other libraries wake nobody when they release a lock. The servers tell us all the
/// same, so nobody waits until it would have asked by itself.
#[tokio::test]
async fn whoever_waits_for_a_client_of_another_library_is_woken_by_its_release() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    let all = |command: &[&str]| servers.iter().for_each(|server| drop(server.execute(command)));
    let in_line = |key: &str| servers[0].execute(&["ZCARD", key]) == Value::Int(1);
    // As redsync, redlock and others do.
    let plain = locks.lock("x");
    let woken = middle_of_wakes(
        &plain,
        || all(&["SET", "tenure:x", "c29tZWJvZHkgZWxzZQ==", "NX", "PX", "20000"]),
        || {
            assert!(in_line("tenure~queue:{tenure:x}"));
            all(&["DEL", "tenure:x"]);
        },
    );
    let woken = woken.await;
    // As Redisson does.
    let owned = locks.lock("y").owner("us");
    let hash = middle_of_wakes(
        &owned,
        || {
            all(&["HSET", "tenure:y", "c0ffee:1", "1"]);
            all(&["PEXPIRE", "tenure:y", "20000"]);
        },
        || all(&["DEL", "tenure:y"]),
    );
    let hash = hash.await;
    println!("woken after {woken:?} and {hash:?}");
    // Whoever is first asks by itself after 200 ms at least.
    assert!(woken < ms(100) && hash < ms(100), "{woken:?} and {hash:?}");
}
