//! What goes over the wire: in the order in which it was asked for, and nothing twice.

use std::collections::HashMap;

use tenure_testkit::{Direction, Mode, Proxy, RedisServer};

use crate::support::*;

#[tokio::test]
async fn commands_of_2000_callers_arrive_in_the_order_they_were_asked_for_and_once() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.port());
    let locks = connect_through(std::slice::from_ref(&proxy)).await;
    let greeting = commands(&proxy.requests()).len();
    // On one thread, tasks run in the order they were made.
    let callers: Vec<_> = (0..2_000)
        .map(|number| {
            let lock = locks.lock(format!("{number:04}")).node_timeout(secs(5)).ttl(secs(20));
            tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    locks.shutdown().await.unwrap();

    let mut sent = commands(&proxy.requests()).split_off(greeting);
    // Not what is asked about the node itself now and then.
    sent.retain(|command| command.len() > 3 && command[3].starts_with("tenure:"));
    assert_eq!(sent.len(), 4_000, "one acquire and one release each");
    // EVALSHA sha 4 key fence fences record owner ..; EVALSHA sha 3 key queue open owner.
    let is_acquire = |command: &Vec<String>| command[2] == "4";
    let lock_of = |command: &Vec<String>| {
        let owner = if is_acquire(command) { 7 } else { 6 };
        (command[3].clone(), command[owner].clone())
    };
    let acquires = sent.iter().filter(|command| is_acquire(command)).map(|command| lock_of(command).0);
    let expected = (0..2_000).map(|number| format!("tenure:{number:04}"));
    assert!(acquires.eq(expected), "in order");
    let mut places: HashMap<(String, String), Vec<usize>> = HashMap::new();
    for (place, command) in sent.iter().enumerate() {
        places.entry(lock_of(command)).or_default().push(place);
    }
    assert_eq!(places.len(), 2_000, "every lock has its own owner, and nothing was sent twice");
    for ((key, _), places) in places {
        let [acquire, release] = places[..] else { panic!("{key}: {places:?}") };
        assert!(acquire < release && is_acquire(&sent[acquire]) && !is_acquire(&sent[release]), "{key}");
    }
}

/// Connections that break in the middle of everything: what was sent is not sent again by itself.
#[tokio::test]
async fn no_acquire_is_ever_sent_twice_over_broken_connections() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.port());
    let locks = connect_through(std::slice::from_ref(&proxy)).await;
    let callers: Vec<_> = (0..500)
        .map(|number| {
            let lock = locks.lock(format!("{number}")).wait(secs(5));
            tokio::spawn(async move {
                tokio::time::sleep(ms(number)).await;
                lock.acquire().await.is_ok()
            })
        })
        .collect();
    for _ in 0..20 {
        tokio::time::sleep(ms(25)).await;
        proxy.cut();
    }
    for caller in callers {
        assert!(caller.await.unwrap(), "every caller gets its lock in the end");
    }
    locks.shutdown().await.unwrap();
    // Requests of several connections follow each other; each is whole, or cut off at its end.
    let requests = proxy.requests();
    let text = String::from_utf8_lossy(&requests);
    // The owner is the second text of forty characters, after the name of the script.
    let pieces = text.split("*13\r\n$7\r\nEVALSHA").skip(1).filter_map(|piece| piece.split("$40\r\n").nth(2));
    let mut acquires: Vec<&str> = pieces.filter_map(|piece| piece.get(..40)).collect();
    let sent = acquires.len();
    assert!(sent >= 500, "{sent}");
    acquires.sort_unstable();
    acquires.dedup();
    assert_eq!(acquires.len(), sent, "no acquire twice");
    assert_eq!(server.keys(), [""; 0]);
}

/// An acquire is under way when its connection breaks, and the network brings it to the server
/// after all, when its release has long been there over a new connection.
#[tokio::test]
async fn what_comes_late_over_a_connection_that_was_replaced_is_not_executed() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.port());
    let locks = connect_through(std::slice::from_ref(&proxy)).await;
    all_vote(&locks).await;
    for fenced in [true, false] {
        let name = format!("late-{fenced}");
        let asked = format!("tenure:{name}");
        proxy.set(Direction::Requests, Mode::Stall);
        let lock = locks.lock(&name).node_timeout(secs(2));
        let lock = if fenced { lock } else { lock.unfenced() };
        let acquire = tokio::spawn(lock.try_acquire());
        until("the acquire is under way", || String::from_utf8_lossy(&proxy.requests()).contains(&asked))
            .await;
        let parted = proxy.part();
        proxy.set(Direction::Requests, Mode::Pass);
        assert!(acquire.await.unwrap().is_err(), "its connection broke");
        // The new connection works, so whatever it has to say at first was said.
        all_vote(&locks).await;
        locks.lock("other").acquire().await.unwrap().release().await.unwrap();
        parted.arrive();
        for _ in 0..30 {
            tokio::time::sleep(ms(10)).await;
            assert_eq!(server.keys(), [""; 0], "executed after its release (fenced: {fenced})");
        }
    }
}
