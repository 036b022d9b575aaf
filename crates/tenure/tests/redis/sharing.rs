//! What is special about shared locks on servers.

use tenure::*;
use tokio::time::sleep;

use crate::support::*;

async fn held(locks: &Locks) -> Vec<Guard> {
    let lock = |name: &str| locks.lock(name).ttl(secs(2));
    let mut guards = vec![];
    for name in ["a", "b", "read", "c"] {
        let lock = if name == "read" { lock(name).shared() } else { lock(name) };
        guards.push(lock.acquire().await.unwrap());
    }
    guards
}

fn valid(guards: &[Guard]) -> Vec<&str> {
    guards.iter().filter(|guard| guard.is_valid()).map(Guard::name).collect()
}

#[tokio::test]
async fn a_server_whose_memory_is_full_renews_readers_as_well_as_writers() {
    let servers = servers::<1>();
    let locks = connect(&servers).await;
    let guards = held(&locks).await;
    servers[0].execute(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    servers[0].execute(&["CONFIG", "SET", "maxmemory", "1"]);
    sleep(secs(4)).await;
    assert_eq!(valid(&guards), ["a", "b", "read", "c"]);
}

/// Renewals leave together. What is wrong with one lock must not stop the others.
#[tokio::test]
async fn whatever_lies_where_the_holds_of_a_lock_belong_costs_no_other_lock_its_renewal() {
    let servers = servers::<1>();
    let locks = connect(&servers).await;
    let guards = held(&locks).await;
    servers[0].execute(&["SET", "tenure~holds:{tenure:read}", "x"]);
    sleep(secs(4)).await;
    assert_eq!(valid(&guards), ["a", "b", "c"]);
}

/// From the same rack to the other side of the world, on two threads, with nothing set for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_take_turns_however_far_the_nodes_are() {
    for round_trip_ms in [1, 48, 180] {
        let servers = servers::<3>();
        let proxies = far_away(&servers, ms(round_trip_ms));
        let (first, second) = (connect_through(&proxies).await, connect_through(&proxies).await);
        let (table, same) = (first.rwlock("t"), second.rwlock("t"));
        // Shorter than what is done while they are held: they are renewed.
        let mut one = table.read().ttl(secs(3)).acquire().await.unwrap();
        let two = same.read().ttl(secs(3)).acquire().await.unwrap();
        let writing = tokio::spawn(same.write().wait(secs(30)).acquire());
        sleep(ms(1_500)).await;
        assert!(!writing.is_finished() && one.is_valid() && two.is_valid(), "{round_trip_ms} ms");
        let reading = tokio::spawn(table.read().wait(secs(30)).acquire());
        sleep(ms(1_500)).await;
        assert!(!reading.is_finished(), "it gives way");
        one.extend().await.unwrap();
        one.release().await.unwrap();
        two.release().await.unwrap();
        let mut writer = writing.await.unwrap().unwrap();
        assert!(!reading.is_finished(), "somebody writes");
        writer.downgrade().await.unwrap();
        let reader = reading.await.unwrap().unwrap();
        assert!(writer.is_valid() && reader.fence() > writer.fence(), "{round_trip_ms} ms");
    }
}
