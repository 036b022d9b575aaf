//! Nodes in other regions, with the default settings: real servers behind proxies that hold
//! everything back.
//!
//! A short slice runs with every change. `TENURE_DISTANCE_TERMS=10` holds the locks for ten terms,
//! and `TENURE_DISTANCE_ACQUIRES=200` measures so many acquires beside a node that hangs.

use std::time::{Duration, Instant};

use tenure::*;
use tenure_testkit::{Mode, Proxy, RedisServer};

use crate::support::*;

const TTL: Duration = secs(3);

/// How long a command takes to a node and back, in milliseconds: the same rack to the other side of
/// the world.
const ROUND_TRIPS_MS: [u64; 6] = [1, 12, 35, 48, 90, 180];

/// How often, unless somebody has time for more.
fn from_env(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |count| count.parse().unwrap())
}

/// The way to the servers, so long there and back.
fn far_away(servers: &[RedisServer], round_trip: Duration) -> Vec<Proxy> {
    let far = |server: &RedisServer| {
        let proxy = Proxy::start_forgetful(server.port());
        proxy.set_both(Mode::Delay(round_trip / 2));
        proxy
    };
    servers.iter().map(far).collect()
}

/// A manager with nothing set but what keeps the clients of one test apart.
fn locks_behind(proxies: &[Proxy], prefix: &str) -> Locks {
    builder(proxies.iter().map(Proxy::url)).prefix(prefix).build().unwrap()
}

/// Holds a lock for these many terms. Tells how that went, if it was lost.
async fn hold(locks: Locks, terms: u32) -> Result<(), String> {
    let begun = Instant::now();
    let guard = locks.lock("x").ttl(TTL).acquire().await.map_err(|error| error.to_string())?;
    tokio::select! {
        () = guard.lost() => return Err(format!("lost after {:?}", begun.elapsed())),
        () = tokio::time::sleep(TTL * terms) => {}
    }
    // The last renewal may be under way.
    let held = Instant::now();
    while guard.margin() == 0 {
        if held.elapsed() > TTL {
            return Err(format!("the margin is gone: {:?}", guard.votes()));
        }
        tokio::time::sleep(ms(5)).await;
    }
    drop(guard);
    Ok(())
}

#[test]
fn a_lock_is_held_on_nodes_however_far_they_are_with_nothing_set() {
    let (servers, terms) = (servers::<3>(), from_env("TENURE_DISTANCE_TERMS", 3));
    let mut holders = vec![];
    for round_trip_ms in ROUND_TRIPS_MS {
        for threads in [0, 2] {
            let proxies = far_away(&servers, ms(round_trip_ms));
            let prefix = format!("{round_trip_ms}-{threads}:");
            let what = format!("{round_trip_ms} ms, {threads} threads beside the runtime's own");
            holders.push((
                what,
                std::thread::spawn(move || {
                    let mut runtime = match threads {
                        0 => tokio::runtime::Builder::new_current_thread(),
                        _ => tokio::runtime::Builder::new_multi_thread(),
                    };
                    let runtime = runtime.worker_threads(threads.max(1)).enable_all().build().unwrap();
                    runtime.block_on(async { hold(locks_behind(&proxies, &prefix), terms).await })
                }),
            ));
        }
    }
    let problems: Vec<String> = holders
        .into_iter()
        .filter_map(|(what, holder)| holder.join().unwrap().err().map(|problem| format!("{what}: {problem}")))
        .collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// The time that half, and nearly all, of these many acquires take.
async fn acquires(locks: &Locks, count: u32) -> (Duration, Duration) {
    let mut took = vec![];
    for number in 0..count {
        let begun = Instant::now();
        let acquired = locks.lock(format!("{number}")).ttl(TTL).acquire().await;
        took.push(begun.elapsed());
        // On a starved machine the answers may come too late to tell; the lock is free all the
        // same.
        let _ = acquired.unwrap().release().await;
    }
    took.sort_unstable();
    (took[took.len() / 2], took[took.len() * 99 / 100])
}

#[tokio::test]
async fn a_node_that_hangs_delays_nobody_however_far_the_others_are() {
    let (servers, count) = (servers::<3>(), from_env("TENURE_DISTANCE_ACQUIRES", 5));
    for round_trip_ms in [1, 35, 180] {
        let proxies = far_away(&servers, ms(round_trip_ms));
        let locks = locks_behind(&proxies, &format!("{round_trip_ms}:"));
        all_vote(&locks).await;
        let (healthy, healthy_most) = acquires(&locks, count).await;
        proxies[2].set_both(Mode::Stall);
        let (hung, hung_most) = acquires(&locks, count).await;
        println!(
            "{round_trip_ms} ms: p50 {healthy:.1?}, p99 {healthy_most:.1?}; one hangs: {hung:.1?}, {hung_most:.1?}"
        );
        assert!(hung < healthy * 3 / 2 + ms(45), "{round_trip_ms} ms: {healthy:?}, one hangs: {hung:?}");
    }
}
