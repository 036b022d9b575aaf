//! Looking at locks without touching them, on real servers.

use std::collections::BTreeSet;

use tenure::*;
use tenure_testkit::RedisServer;

use crate::support::*;

#[tokio::test]
async fn the_majority_decides_who_has_a_lock_and_who_says_otherwise_is_named() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    let guard = locks.lock("x").ttl(secs(10)).label("nightly import").acquire().await.unwrap();
    until("all three have it", || keys(&servers).len() == 3).await;
    servers[2].execute(&["SET", "tenure:x", "foreign"]);
    let report = locks.inspect("x").await.unwrap();
    let LockState::Held { owner, label, left, fence, .. } = &report.state else { panic!("{report:?}") };
    assert_eq!(Some(owner.to_string()), servers[0].get("tenure:x"));
    assert!(label.as_deref().unwrap().ends_with(" nightly import"), "{label:?}");
    assert!(left.unwrap() > secs(5) && left.unwrap() <= secs(11), "{left:?}");
    assert_eq!(*fence, Some(guard.fence()));
    let address = |index: usize| locks.node_addresses().nth(index).unwrap().into();
    assert_eq!((report.agree, report.disagree), (vec![address(0), address(1)], vec![address(2)]));
    let other = report.nodes[2].holding.as_ref().unwrap().as_ref().unwrap();
    assert_eq!((&*other.owner, other.left), ("foreign", None));
    assert_eq!(other.label, None, "that is another's");
    // Each node has another owner, then only one has any.
    servers[1].execute(&["SET", "tenure:x", "another"]);
    assert_eq!(locks.inspect("x").await.unwrap().state, LockState::Disputed);
    let list = locks.list().await.unwrap();
    assert_eq!((list.locks.len(), &list.locks[0].state), (1, &LockState::Disputed));
    servers[1].execute(&["DEL", "tenure:x"]);
    servers[2].execute(&["DEL", "tenure:x"]);
    let report = locks.inspect("x").await.unwrap();
    assert_eq!((report.state, report.disagree), (LockState::Free, vec![address(0)]));
}

#[tokio::test]
async fn a_lock_of_another_librarys_client_is_held_as_well() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    // Ours before it: its fence and label are not the other client's, but the fence is the last one
    // there was.
    let guard = locks.lock("x").label("ours").acquire().await.unwrap();
    let ours = guard.fence();
    until("all three have it", || keys(&servers).len() == 3).await;
    for server in &servers {
        server.execute(&["SET", "tenure:x", "my_random_value", "PX", "30000"]);
    }
    let report = locks.inspect("x").await.unwrap();
    let LockState::Held { owner, label, left, fence, .. } = report.state else { panic!("{report:?}") };
    assert_eq!((&*owner, label, fence), ("my_random_value", None, Some(ours)));
    assert!(left.unwrap() > secs(20) && left.unwrap() <= secs(30), "{left:?}");
    let error = locks.lock("x").wait(ms(0)).acquire().await.unwrap_err();
    let AcquireError::Contended { place: Some(place), .. } = error else { panic!("{error:?}") };
    assert_eq!((place.holder, place.waiters), (None, 0));
    drop(guard);
}

#[tokio::test]
async fn waiters_are_counted_and_a_reservation_is_no_holder() {
    let servers = servers::<3>();
    let (holder, asker) = (connect(&servers).await, connect(&servers).await);
    let guard = holder.lock("x").label("nightly import").acquire().await.unwrap();
    let mut waiting = vec![];
    for _ in 0..2 {
        waiting.push(tokio::spawn(asker.lock("x").wait(secs(30)).acquire()));
    }
    let begun = std::time::Instant::now();
    while holder.inspect("x").await.unwrap().waiters != Some(2) {
        assert!(begun.elapsed() < secs(60), "they are not in line");
        tokio::time::sleep(ms(5)).await;
    }
    let error = holder.lock("x").wait(ms(0)).acquire().await.unwrap_err();
    assert!(error.to_string().contains("nightly import\", 2 ahead of us, 2 in line)"), "{error}");
    drop(guard);
    for server in &servers {
        server.execute(&["SET", "tenure:y", "rsv:7:00000000000000ab", "PX", "30000"]);
    }
    let report = holder.inspect("y").await.unwrap();
    assert!(matches!(report.state, LockState::Reserved { left: Some(_), .. }), "{report:?}");
    for waiting in waiting {
        let guard = waiting.await.unwrap().unwrap();
        let label = servers[0].get("tenure~label:{tenure:x}").unwrap_or_default();
        assert!(!label.contains("nightly import"), "it went with its lock: {label}");
        drop(guard);
    }
    let is_label = |server: &RedisServer| server.get("tenure~label:{tenure:x}").is_none();
    until("no label is left", || servers.iter().all(is_label)).await;
}

#[tokio::test]
async fn a_node_that_does_not_answer_is_named() {
    let mut servers = servers::<3>();
    let locks = connect(&servers).await;
    servers[1].kill();
    tokio::time::sleep(ms(50)).await;
    let report = locks.inspect("x").await.unwrap();
    let answered: Vec<bool> = report.nodes.iter().map(|node| node.holding.is_ok()).collect();
    assert_eq!((answered, report.state), (vec![true, false, true], LockState::Free));
}

/// More than fit in one page, beside keys of other prefixes and kinds.
#[tokio::test]
async fn all_locks_under_the_prefix_are_listed() {
    let server = RedisServer::start(&[]);
    let locks = builder([server.url()]).prefix("a*b:").build().unwrap();
    server.execute(&["SET", "axb:other", "1"]);
    server.execute(&["HSET", "a*b:hash", "field", "1"]);
    let mut guards = vec![];
    for number in 0..350 {
        guards.push(locks.lock(number.to_string()).acquire().await.unwrap());
    }
    let list = locks.list().await.unwrap();
    let listed: BTreeSet<String> = list.locks.iter().map(|lock| lock.name.clone()).collect();
    assert_eq!(listed, (0..350).map(|number| number.to_string()).collect());
    assert_eq!((list.nodes[0].told.clone(), list.nodes[0].cut_short), (Ok(350), false));
}
