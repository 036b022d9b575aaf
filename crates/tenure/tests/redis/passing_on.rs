//! How long a lock takes from one holder to the next, by the clocks of the servers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::*;
use tenure_testkit::{Proxy, RedisServer, Value};

use crate::support::*;

/// There and back, for whoever waits: it is woken so late, and claims so late.
const ROUND_TRIP: Duration = ms(30);

/// A way to ask for the lock `x`.
type Ask = fn(&Locks, &str) -> Lock;

fn is_in_line(servers: &[RedisServer]) -> bool {
    servers.iter().all(|server| server.execute(&["EXISTS", "tenure~queue:{tenure:x}"]) == Value::Int(1))
}

/// One holds it, another waits, and the first releases: what the second one hears. On a busy
/// machine it may come too late for what was set aside, and then it hears nothing.
async fn pass_on(servers: &[RedisServer], from: &Locks, to: &Locks, ask: [Ask; 2]) -> Option<Duration> {
    let held = ask[0](from, "first").acquire().await.unwrap();
    assert_eq!(held.passed_on_after(), None, "it was free");
    let waiting = tokio::spawn(ask[1](to, "second").wait_forever().acquire());
    until("it waits on all servers", || is_in_line(servers)).await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    let after = guard.passed_on_after();
    guard.release().await.unwrap();
    after
}

#[tokio::test]
async fn whoever_waited_hears_how_long_the_lock_took_from_the_release_to_the_grant() {
    let servers = servers::<3>();
    // By its name: the addresses differ.
    let fleet = |builder: Builder| builder.fleet("near and far");
    let holder = fleet(builder(servers.iter().map(RedisServer::url))).build().unwrap();
    let proxies = far_away(&servers, ROUND_TRIP);
    let events = Arc::new(Mutex::new(vec![]));
    let seen = Arc::clone(&events);
    let observer = move |event: &Event<'_>| {
        if let Event::Acquired { passed_on_after, .. } = event {
            seen.lock().unwrap().push(*passed_on_after);
        }
    };
    let waiter = fleet(builder(proxies.iter().map(Proxy::url))).observer(observer).build().unwrap();

    let plain: Ask = |locks, _| locks.lock("x");
    let asks: [(&str, [Ask; 2]); 4] = [
        ("plain", [plain, plain]),
        ("unfenced", [plain, |locks, _| locks.lock("x").unfenced()]),
        ("reentrant", [|locks, who| locks.lock("x").owner(who), |locks, who| locks.lock("x").owner(who)]),
        ("several", [plain, |locks, _| locks.lock_all(["x", "y"])]),
    ];
    for (kind, ask) in asks {
        let mut tries = 0;
        let after = loop {
            let after = pass_on(&servers, &holder, &waiter, ask).await;
            assert_eq!(events.lock().unwrap().pop(), Some(after), "{kind}: the event says the same");
            tries += 1;
            match after {
                Some(after) => break after,
                None => assert!(tries < 20, "{kind}: it is never told"),
            }
        };
        // It cannot be faster than the way to the waiter and back. Servers count in milliseconds.
        assert!((ROUND_TRIP - ms(1)..=ms(200)).contains(&after), "{kind}: {after:?}");
        println!("{kind}: {after:?}");
    }
}

#[tokio::test]
async fn a_lock_that_was_free_or_expired_was_passed_on_by_nobody() {
    let servers = servers::<3>();
    let (holder, waiter) = (connect(&servers).await, connect(&servers).await);
    let free = waiter.lock("x").acquire().await.unwrap();
    assert_eq!(free.passed_on_after(), None);
    free.release().await.unwrap();
    for _ in 0..3 {
        let gone = holder.lock("x").ttl(ms(400)).renewal(Renewal::Off).acquire().await.unwrap();
        let waiting = tokio::spawn(waiter.lock("x").wait_forever().acquire());
        until("it waits on all servers", || is_in_line(&servers)).await;
        let guard = waiting.await.unwrap().unwrap();
        assert!(!gone.is_valid());
        assert_eq!(guard.passed_on_after(), None);
        guard.release().await.unwrap();
        drop(gone);
    }
}
