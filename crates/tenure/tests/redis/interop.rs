//! A foreign client with the plain commands of the Redlock page, on the same name and nodes.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use tenure::*;
use tenure_testkit::RedisServer;

use crate::support::*;

const RELEASE: &str =
    r#"if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end"#;

/// `redis-cli` with these arguments: what it prints.
fn redis_cli(server: &RedisServer, arguments: &[&str]) -> String {
    let port = server.port().to_string();
    let output = Command::new("redis-cli").args(["-p", &port]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// On how many servers the foreign client gets the lock.
fn foreign_acquire(servers: &[RedisServer], key: &str) -> usize {
    let set = |server: &&RedisServer| {
        redis_cli(server, &["SET", key, "my_random_value", "NX", "PX", "30000"]) == "OK"
    };
    servers.iter().filter(set).count()
}

fn foreign_release(servers: &[RedisServer], key: &str) -> usize {
    let release =
        |server: &&RedisServer| redis_cli(server, &["EVAL", RELEASE, "1", key, "my_random_value"]) == "1";
    servers.iter().filter(release).count()
}

#[tokio::test]
async fn we_and_a_foreign_client_exclude_each_other() {
    let servers = servers::<5>();
    let locks = builder(servers.iter().map(RedisServer::url)).prefix("").build().unwrap();
    let guard = locks.lock("resource_name").acquire().await.unwrap();
    until("all five have it", || keys(&servers).len() == 5).await;
    assert_eq!(foreign_acquire(&servers, "resource_name"), 0, "we hold it");
    assert_eq!(foreign_release(&servers, "resource_name"), 0, "it cannot release ours");
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    until("free again", || keys(&servers).is_empty()).await;

    assert_eq!(foreign_acquire(&servers, "resource_name"), 5, "now it holds it");
    let error = locks.lock("resource_name").wait(ms(100)).acquire().await.unwrap_err();
    let AcquireError::Contended { retry_after: Some(left), .. } = error else { panic!("{error}") };
    assert!(left > secs(20) && left <= secs(30), "{left:?}");
    assert_eq!(foreign_release(&servers, "resource_name"), 5, "we did not touch its keys");
    assert!(answer_of(&locks.lock("resource_name")).await.is_some());
}

/// Nobody wakes the waiters when a foreign holder releases, with a script or a plain `DEL`: the
/// first in line asks, the others are woken by the one before them.
#[tokio::test]
async fn waiting_for_a_foreign_client_works_by_asking() {
    let servers = servers::<3>();
    let locks = builder(servers.iter().map(RedisServer::url)).prefix("").build().unwrap();
    for plain in [false, true] {
        assert_eq!(foreign_acquire(&servers, "x"), 3);
        let mut waiting = vec![];
        for _ in 0..3 {
            let lock = locks.lock("x").wait(secs(10));
            waiting.push(tokio::spawn(async move { lock.acquire().await.unwrap().release().await }));
        }
        while locks.inspect("x").await.unwrap().waiters != Some(3) {
            tokio::time::sleep(ms(5)).await;
        }
        assert!(!waiting.iter().any(tokio::task::JoinHandle::is_finished));
        let released = Instant::now();
        if plain {
            servers.iter().for_each(|server| assert_eq!(redis_cli(server, &["DEL", "x"]), "1"));
        } else {
            assert_eq!(foreign_release(&servers, "x"), 3);
        }
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
        let took = released.elapsed();
        assert!(took < secs(2) + allowance(&servers), "no later than the backstop: {took:?}");
    }
}

/// The waiter lives on a runtime of its own, which stands still when it is its turn.
#[test]
fn a_reservation_keeps_a_foreign_client_out_for_its_200_milliseconds_only() {
    let servers = servers::<3>();
    let client = || builder(servers.iter().map(RedisServer::url)).prefix("").build().unwrap();
    let [here, there] =
        [(); 2].map(|()| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
    let (locks, guard) = here.block_on(async {
        let locks = client();
        let guard = locks.lock("x").acquire().await.unwrap();
        (locks, guard)
    });
    let lock = there.block_on(async { client().lock("x").wait(secs(20)) });
    let waiting = there.spawn(lock.acquire());
    there.block_on(async { tokio::time::sleep(ms(100)).await });
    // Quicker than a process each.
    let foreign = || {
        let set = ["SET", "x", "my_random_value", "NX", "PX", "30000"];
        servers
            .iter()
            .filter(|server| format!("{:?}", server.execute(&set)).to_lowercase().contains("ok"))
            .count()
    };
    here.block_on(async {
        let released = Instant::now();
        guard.release().await.unwrap();
        until("set aside", || {
            servers.iter().all(|server| server.get("x").is_none_or(|it| it.starts_with("rsv:")))
        })
        .await;
        let taken = foreign();
        assert!(taken == 0 || released.elapsed() > ms(190), "{taken} after {:?}", released.elapsed());
        let report = locks.inspect("x").await.unwrap();
        if released.elapsed() < ms(190) {
            assert!(matches!(report.state, LockState::Reserved { .. }), "{report:?}");
        }
        until("it is over", || released.elapsed() > ms(210)).await;
        assert_eq!(taken + foreign(), 3, "whoever comes first");
    });
    // The one whose turn it was goes on, and waits for the foreign client.
    there.block_on(async {
        tokio::time::sleep(ms(300)).await;
        assert!(!waiting.is_finished());
        assert_eq!(foreign_release(&servers, "x"), 3);
        assert!(waiting.await.unwrap().unwrap().is_valid());
    });
}

/// The key that Yii2's mutex uses, and its plain commands on it.
#[tokio::test]
async fn we_and_a_yii2_mutex_exclude_each_other() {
    let servers = servers::<1>();
    let locks = builder([servers[0].url()]).prefix("prefix").key_scheme(KeyScheme::Yii2).build().unwrap();
    let key = "prefix423a00e308252b5e8cf4af55c7541d01";
    let guard = locks.lock("testmutex").acquire().await.unwrap();
    assert_eq!((guard.name(), servers[0].keys()), ("testmutex", vec![key.to_owned()]));
    assert_eq!(foreign_acquire(&servers, key), 0);
    guard.release().await.unwrap();
    assert_eq!(foreign_acquire(&servers, key), 1);
    assert!(answer_of(&locks.lock("testmutex")).await.is_none());
}

/// One round of a foreign client over connections of its own: whether it got the lock on a
/// majority. If so it holds it for a moment; in any case it deletes what it has set.
fn foreign_turn(connections: &mut [redis::Connection]) -> bool {
    let set = |connection: &mut redis::Connection| {
        let command = redis::cmd("SET").arg(&["x", "my_random_value", "NX", "PX", "3000"]).to_owned();
        command.query::<Option<String>>(connection).unwrap().is_some()
    };
    let granted = connections.iter_mut().filter_map(|connection| set(connection).then_some(())).count();
    let won = granted > connections.len() / 2;
    if won {
        std::thread::sleep(ms(2));
    }
    for connection in connections {
        redis::cmd("EVAL").arg(&[RELEASE, "1", "x", "my_random_value"]).query::<()>(connection).unwrap();
    }
    won
}

/// Five clients pass the lock on to each other without an end. A client of another library polls as
/// it always did, and another one of ours does not wait in line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_again_and_again_gets_a_turn_beside_a_line_that_never_empties() {
    for servers in [Vec::from(servers::<1>()), Vec::from(servers::<3>())] {
        let client = || builder(servers.iter().map(RedisServer::url)).prefix("").build().unwrap();
        let (done, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let queued = async |locks: Locks, done: Arc<AtomicBool>, served: Arc<AtomicU32>| {
            let lock = locks.lock("x").ttl(secs(5)).wait_forever();
            while !done.load(Ordering::Relaxed) {
                let guard = lock.acquire().await.unwrap();
                served.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(ms(1)).await;
                guard.release().await.unwrap();
            }
        };
        let loops: Vec<_> =
            (0..5).map(|_| tokio::spawn(queued(client(), done.clone(), served.clone()))).collect();
        until("they are at it", || served.load(Ordering::Relaxed) > 20).await;
        let mut connections: Vec<_> = servers.iter().map(RedisServer::connection).collect();
        let foreign = tokio::task::spawn_blocking(move || {
            let (start, mut tries) = (Instant::now(), 1);
            while !foreign_turn(&mut connections) && start.elapsed() < secs(30) {
                std::thread::sleep(ms(35));
                tries += 1;
            }
            (start.elapsed(), tries)
        });
        let unqueued = client();
        let start = Instant::now();
        let guard = unqueued.lock("x").unqueued().wait(secs(30)).acquire().await;
        let ours = start.elapsed();
        drop(guard.map(|guard| tokio::spawn(guard.release())));
        let (theirs, tries) = foreign.await.unwrap();
        done.store(true, Ordering::Relaxed);
        for queued in loops {
            queued.await.unwrap();
        }
        let nodes = servers.len();
        println!("{nodes} nodes: foreign after {theirs:?} and {tries} tries, unqueued after {ours:?}");
        // Every five seconds, and a busy machine may miss a turn.
        assert!(theirs < secs(16), "{nodes} nodes: {theirs:?}");
        assert!(ours < secs(16), "{nodes} nodes: {ours:?}");
    }
}
