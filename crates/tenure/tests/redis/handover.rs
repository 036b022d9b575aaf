//! Locks that go on in another process, on real servers whose memory is not what it was.
//!
//! A handover may be copied, and an earlier copy must prove no more than a later one: the nodes
//! know where a lock was put back, and a handover names nodes by the life of their memory.

use std::time::{Duration, Instant};

use tenure::*;
use tenure_testkit::{Proxy, RedisServer};
use tokio::time::sleep;

use crate::support::*;

/// The quarantine is a tenth longer.
const MAX_TTL: Duration = secs(3);
const QUARANTINE: Duration = ms(3_300);

async fn client(servers: &[RedisServer]) -> Locks {
    let locks = builder(servers.iter().map(RedisServer::url)).max_ttl(MAX_TTL).build().unwrap();
    all_vote(&locks).await;
    locks
}

fn has_lock(server: &RedisServer) -> bool {
    server.get("tenure:x").is_some_and(|owner| !owner.starts_with("another"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_handover_counts_a_healed_node_no_sooner_than_a_later_one() {
    let servers = servers::<3>();
    let locks = client(&servers).await;
    let lock = locks.lock("x").ttl(MAX_TTL).renewal(Renewal::Off).node_timeout(secs(1));
    let mut guard = lock.acquire().await.unwrap();
    until("all nodes have it, and it knows", || servers.iter().all(has_lock) && guard.margin() == 1).await;
    let earlier = guard.to_handover();
    // Node 2 loses the lock, and an extension puts it back.
    servers[2].execute(&["DEL", "tenure:x"]);
    let before_heal = Instant::now();
    guard.extend().await.unwrap();
    until("it was put back", || has_lock(&servers[2])).await;
    let healed = Instant::now();
    let later = guard.hand_over();
    assert_eq!((earlier.lives.len(), later.lives.len()), (3, 2));
    // Node 0 loses it, too. Now node 2 would have to prove that nobody else had the lock.
    servers[0].execute(&["DEL", "tenure:x"]);
    servers[0].execute(&["SET", "tenure:x", "another"]);
    loop {
        let (asked, resumed) = (Instant::now(), locks.resume(&earlier).await);
        if let Ok(guard) = resumed {
            assert!(before_heal.elapsed() >= QUARANTINE, "counted {:?} after the heal", healed.elapsed());
            assert_eq!(guard.fence(), earlier.fence);
            break;
        }
        assert!(asked < healed + QUARANTINE + secs(1), "it counts in the end: {resumed:?}");
        assert!(locks.resume(&later).await.is_err(), "the later one does not count it before either");
        sleep(ms(100)).await;
    }
    until("given back", || !servers.iter().any(has_lock)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handover_means_the_same_nodes_for_whoever_reaches_them_under_other_addresses() {
    let servers = servers::<3>();
    let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.port())).collect();
    let list = |urls: Vec<String>| builder(urls).fleet("three").build().unwrap();
    let direct = list(servers.iter().map(RedisServer::url).collect());
    let proxied = list(proxies.iter().map(Proxy::url).collect());
    all_vote(&direct).await;
    all_vote(&proxied).await;
    let guard = direct.lock("x").acquire().await.unwrap();
    until("all nodes have it", || servers.iter().all(has_lock)).await;
    let (fence, text) = (guard.fence(), guard.hand_over().to_string());
    let guard = proxied.resume(&text.parse().unwrap()).await.unwrap();
    assert_eq!((guard.fence(), guard.margin() <= 1), (fence, true));
    guard.release().await.unwrap();
}

/// It need not wait for the nodes to be known: they are asked who they are before anything is
/// counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_resumed_by_a_manager_that_has_just_been_made() {
    let servers = servers::<3>();
    let locks = client(&servers).await;
    let handover = locks.lock("x").ttl(MAX_TTL).acquire().await.unwrap().hand_over();
    let new = builder(servers.iter().map(RedisServer::url)).max_ttl(MAX_TTL).build().unwrap();
    new.resume(&handover).await.unwrap().release().await.unwrap();
}

/// All nodes lose their memory, one after another: the lock is put back each time, and a copy from
/// before that says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handover_from_before_a_majority_forgot_is_out_of_date_and_a_new_one_is_not() {
    const TTL: Duration = secs(1);
    let servers = servers::<3>();
    let locks = builder(servers.iter().map(RedisServer::url)).max_ttl(TTL).build().unwrap();
    all_vote(&locks).await;
    let guard = locks.lock("x").ttl(TTL).node_timeout(ms(300)).acquire().await.unwrap();
    until("all nodes have it", || guard.margin() == 1).await;
    let earlier = guard.to_handover();
    for server in &servers {
        server.execute(&["FLUSHALL"]);
        until("its loss is known", || guard.margin() == 0).await;
        until("it was put back and counts again", || guard.margin() == 1).await;
    }
    let latest = guard.hand_over();
    let error = locks.resume(&earlier).await.unwrap_err();
    assert!(matches!(error, ExtendError::Outdated { left: 0, .. }), "{error:?}");
    assert!(error.to_string().contains("out of date"), "{error}");
    locks.resume(&latest).await.unwrap().release().await.unwrap();
}

/// A copy of a handover is left when the lock has been released. A majority of nodes is restored
/// from before that: they have its keys, and have forgotten the present holder's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_a_restore_brings_back_give_no_second_holder() {
    let mut servers = RedisServer::start_many::<3>(&["--dbfilename", "dump.rdb"]);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let locks = builder(&urls).build().unwrap();
    all_vote(&locks).await;
    let guard = locks.lock("x").ttl(secs(40)).acquire().await.unwrap();
    until("all nodes have it", || servers.iter().all(has_lock)).await;
    let copy = guard.to_handover();
    servers[..2].iter().for_each(|server| drop(server.execute(&["SAVE"])));
    guard.release().await.unwrap();
    let holder = locks.lock("x").ttl(secs(40)).renewal(Renewal::Off).acquire().await.unwrap();
    // All have answered, the release before it, too: otherwise that would be sent again.
    until("all nodes count", || holder.margin() == 1).await;
    for server in &mut servers[..2] {
        server.kill();
        server.restart();
    }
    let brought_back = copy.token.to_string();
    assert!(servers[..2].iter().all(|server| server.get("tenure:x") == Some(brought_back.clone())));
    let other = builder(&urls).build().unwrap();
    other.ready().await;
    let resumed = other.resume(&copy).await;
    assert!(holder.is_valid() && resumed.is_err(), "two holders: {resumed:?}");
}
