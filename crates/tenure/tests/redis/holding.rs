//! Locks while they are held, on five real servers: renewed over failures, lost in time, gone when
//! given up.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure::*;
use tenure_testkit::{Direction, Mode, Proxy, RedisServer};
use tokio::time::sleep;

use crate::support::*;

fn proxies(servers: &[RedisServer]) -> Vec<Proxy> {
    servers.iter().map(|server| Proxy::start(server.port())).collect()
}

/// Two nodes lose their memory, and when they count again, two others do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_of_ten_terms_keeps_its_lock_while_two_of_five_nodes_are_killed_at_a_time() {
    const TTL: Duration = secs(2);
    let mut servers = servers::<5>();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    // A restarted node counts again after this and a guard band.
    let client = || builder(&urls).max_ttl(TTL).build().unwrap();
    let (locks, other) = (client(), client());
    all_vote(&locks).await;
    let done = Arc::new(AtomicBool::new(false));
    let asking = done.clone();
    let (asked, begun) = (Arc::new(AtomicU32::new(0)), Arc::new(tokio::sync::Notify::new()));
    let (count, begins) = (asked.clone(), begun.clone());
    let asker = tokio::spawn(async move {
        begins.notified().await;
        while !asking.load(Ordering::SeqCst) {
            let taken = other.lock("x").ttl(TTL).try_acquire().await;
            // The work may have ended meanwhile, which is the only way to get the lock.
            assert!(!matches!(taken, Ok(Some(_))) || asking.load(Ordering::SeqCst), "a second holder");
            count.fetch_add(1, Ordering::Relaxed);
            sleep(ms(20)).await;
        }
    });
    // How often two were killed, and how often the lock was on all nodes again after that.
    let (killed, whole) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (kills, recovered) = (killed.clone(), whole.clone());
    let killer = std::thread::spawn(move || {
        std::thread::sleep(secs(1));
        for pair in [0..2, 2..4] {
            while recovered.load(Ordering::SeqCst) < kills.load(Ordering::SeqCst) {
                std::thread::sleep(ms(5));
            }
            servers[pair.clone()].iter_mut().for_each(RedisServer::kill);
            std::thread::sleep(secs(2));
            servers[pair].iter_mut().for_each(RedisServer::restart);
            kills.fetch_add(1, Ordering::SeqCst);
        }
        servers
    });
    // Three nodes of three have to answer every renewal, also on a busy machine.
    let lock = locks.lock("x").ttl(TTL).node_timeout(ms(400));
    let worked = lock.with(async |guard| {
        begun.notify_one();
        let (start, fence) = (Instant::now(), guard.fence());
        while start.elapsed() < TTL * 10 || killed.load(Ordering::SeqCst) < 2 {
            assert!(guard.is_valid() && guard.fence() == fence);
            if guard.margin() == 2 {
                whole.store(killed.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            sleep(ms(5)).await;
        }
        done.store(true, Ordering::SeqCst);
    });
    worked.await.unwrap();
    asker.await.unwrap();
    assert!(asked.load(Ordering::Relaxed) > 50, "{asked:?}");
    let servers = killer.join().unwrap();
    locks.shutdown().await.unwrap();
    assert_eq!(keys(&servers), [""; 0]);
}

/// What became of one lock: when it was at risk and when lost, after the cut, and how long it was
/// valid then.
#[derive(Debug)]
struct Story {
    at_risk: Duration,
    lost: Duration,
    valid_for: Duration,
    /// When it was over.
    end: Duration,
}

/// A hundred locks at once, acquired over the time between two renewals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_partition_a_hundred_of_a_hundred_locks_are_told_in_time() {
    const TTL: Duration = secs(3);
    const RUNS: u32 = 100;
    let servers = servers::<5>();
    let proxies = proxies(&servers);
    let locks = connect_through(&proxies).await;
    let mut guards = vec![];
    for run in 0..RUNS {
        guards.push(locks.lock(format!("{run}")).ttl(TTL).acquire().await.unwrap());
        sleep(TTL / 3 / RUNS).await;
    }
    proxies[..3].iter().for_each(|proxy| proxy.set_both(Mode::Stall));
    let (cut, lateness) = (Instant::now(), Lateness::watch());
    let watch = |guard: Guard| async move {
        let mut states = guard.states();
        assert_eq!(states.next().await, Some(HoldState::Held));
        assert_eq!(states.next().await, Some(HoldState::AtRisk));
        let at_risk = cut.elapsed();
        let end = at_risk + guard.valid_for();
        guard.lost().await;
        Story { at_risk, lost: cut.elapsed(), valid_for: guard.valid_for(), end }
    };
    let watchers: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(watch(guard))).collect();
    let mut stories = vec![];
    for watcher in watchers {
        stories.push(watcher.await.unwrap());
    }
    // A renewal that was under way may have won, so the first that was missed began a third of a
    // term later.
    let at_risk = stories.iter().map(|story| story.at_risk).max().unwrap();
    // The next one would be at risk a third of a term later.
    assert!(at_risk < TTL / 3 + ms(800), "the first missed renewal and its timeout: {at_risk:?}");
    // A task that was not woken in time for another reason is not told in time either.
    let late = lateness.worst();
    let is_told = |story: &&Story| !story.valid_for.is_zero() || story.lost < story.end + late;
    let in_time = stories.iter().filter(is_told).count();
    println!(
        "{in_time} of {RUNS} told in time (tasks late by {late:?} at worst); at risk after {at_risk:?} at most, least time left {:?}, lost {:?} to {:?} after the cut",
        stories.iter().map(|story| story.valid_for).min().unwrap(),
        stories.iter().map(|story| story.lost).min().unwrap(),
        stories.iter().map(|story| story.lost).max().unwrap()
    );
    assert_eq!(in_time, 100, "{stories:?}");
}

/// Writes down what was left of the lock when the work was dropped.
struct Looker<'a>(&'a Guard, &'a Mutex<Vec<Duration>>);

impl Drop for Looker<'_> {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.valid_for());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_partition_work_is_cancelled_while_its_lock_is_still_valid() {
    const TTL: Duration = secs(2);
    let servers = servers::<5>();
    let proxies = proxies(&servers);
    let locks = connect_through(&proxies).await;
    let left = Arc::new(Mutex::new(vec![]));
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let (lock, left) = (locks.lock(format!("{number}")).ttl(TTL), left.clone());
            tokio::spawn(async move {
                let work = async |guard: &Guard| {
                    let _looker = Looker(guard, &left);
                    pending::<()>().await;
                };
                lock.with(work).await
            })
        })
        .collect();
    until("all have begun", || keys(&servers).len() == 100).await;
    let lateness = Lateness::watch();
    proxies[..3].iter().for_each(|proxy| proxy.set_both(Mode::Swallow));
    for task in tasks {
        assert!(matches!(task.await.unwrap(), Err(WithError::Lost { .. })));
    }
    let left = std::mem::take(&mut *left.lock().unwrap());
    // How late one was is not known; a twentieth of a term is there for it.
    let in_time = |left: &Duration| !left.is_zero() || lateness.worst() > TTL / 20;
    assert!(left.len() == 20 && left.iter().all(in_time), "{left:?}");
    // Afterwards the keys are gone, or go when the nodes can be reached.
    proxies.iter().for_each(|proxy| proxy.set_both(Mode::Pass));
    until("no key is left", || keys(&servers).is_empty()).await;
}

/// The ttl is long, so that a key that was left would be seen in the end. The nodes are at
/// different distances, so that a renewal has reached some of them and not the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_races_a_renewal_leaves_no_key() {
    const ROUNDS: u64 = 40;
    let servers = servers::<5>();
    let proxies = proxies(&servers);
    for (proxy, delay_ms) in proxies.iter().zip([0, 1, 3, 6, 10]) {
        proxy.set(Direction::Requests, Mode::Delay(ms(delay_ms)));
    }
    let extended = Arc::new(AtomicU32::new(0));
    let count = extended.clone();
    let observer = move |event: &Event<'_>| {
        count.fetch_add(u32::from(matches!(event, Event::Extended { .. })), Ordering::Relaxed);
    };
    let locks = builder(proxies.iter().map(Proxy::url)).observer(observer).build().unwrap();
    all_vote(&locks).await;
    let task = |task: u64| {
        let locks = locks.clone();
        async move {
            for round in 0..ROUNDS {
                // Renewed after 60 ms; given up 15 ms before to 25 ms after that.
                let lock = locks.lock(format!("{task}-{round}")).renewal(Renewal::Every(ms(60)));
                let guard = lock.acquire().await.unwrap();
                sleep(ms(45) + ms((task * 7 + round * 3) % 40)).await;
                if round % 2 == 0 {
                    // On a busy machine the answers may come too late; the key goes all the same.
                    let released = guard.release().await;
                    assert!(
                        matches!(released, Ok(_) | Err(ReleaseError::Unavailable { .. })),
                        "{released:?}"
                    );
                } else {
                    drop(guard);
                }
            }
        }
    };
    let tasks: Vec<_> = (0..25).map(|number| tokio::spawn(task(number))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    locks.shutdown().await.unwrap();
    assert_eq!(keys(&servers), [""; 0]);
    let extended = extended.load(Ordering::Relaxed);
    assert!(extended > 100, "{extended} of 1,000 were renewed: the race was not run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_short_locks_with_renewal_leave_no_key() {
    let servers = servers::<5>();
    let locks = connect(&servers).await;
    let task = |task: u32| {
        let locks = locks.clone();
        async move {
            for round in 0..200 {
                let lock = locks.lock(format!("{task}-{round}")).node_timeout(secs(2));
                let guard = lock.acquire().await.unwrap();
                if round % 2 == 0 {
                    guard.release().await.unwrap();
                }
            }
        }
    };
    let tasks: Vec<_> = (0..50).map(|number| tokio::spawn(task(number))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    locks.shutdown().await.unwrap();
    assert_eq!(keys(&servers), [""; 0]);
}

/// As many as go into several messages, with a node that refuses a part of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_locks_are_renewed_together_and_each_by_itself() {
    const TTL: Duration = secs(2);
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    let mut guards = vec![];
    for number in 0..1_000 {
        let lock = locks.lock(format!("{number}")).ttl(TTL).node_timeout(ms(500));
        guards.push(lock.acquire().await.unwrap());
    }
    // These are lost, and the locks beside them in the same messages are not.
    for number in (0..1_000).step_by(100) {
        let key = format!("tenure:{number}");
        servers[..2].iter().for_each(|server| drop(server.execute(&["DEL", &key])));
    }
    sleep(TTL * 2).await;
    let lost: Vec<usize> = (0..1_000).filter(|number| guards[*number].state() == HoldState::Lost).collect();
    assert_eq!(lost, (0..1_000).step_by(100).collect::<Vec<_>>());
    assert!(guards.iter().all(|guard| guard.is_valid() == (guard.state() != HoldState::Lost)));
    drop(guards);
    locks.shutdown().await.unwrap();
    assert_eq!(keys(&servers), [""; 0]);
}

/// As many locks as go into one message to a node. On two of three nodes somebody has put a list in
/// the place of one of them, each time of another one: both are still held by a majority, and so
/// are all that travel with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_another_kind_costs_the_locks_beside_it_nothing() {
    const TTL: Duration = secs(2);
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    let mut guards = vec![];
    for number in 0..64 {
        let lock = locks.lock(format!("{number}")).ttl(TTL).node_timeout(ms(500));
        guards.push(lock.acquire().await.unwrap());
    }
    until("all have them", || keys(&servers).len() == 3 * 64).await;
    for (server, number) in servers.iter().zip([7, 11]) {
        let key = format!("tenure:{number}");
        server.execute(&["DEL", &key]);
        server.execute(&["RPUSH", &key, "not a lock"]);
    }
    sleep(TTL * 2).await;
    let lost: Vec<usize> = (0..64).filter(|number| !guards[*number].is_valid()).collect();
    assert_eq!(lost, [0; 0]);
    // A third list, and the one lock that it costs a majority is told to its holder. Given up, it
    // is gone from where it was.
    servers[1].execute(&["DEL", "tenure:7"]);
    servers[1].execute(&["RPUSH", "tenure:7", "not a lock"]);
    until("one is lost", || guards[7].state() == HoldState::Lost).await;
    assert_eq!(guards.iter().filter(|guard| guard.is_valid()).count(), 63);
    let released = Instant::now();
    for guard in guards {
        drop(guard.release().await);
    }
    locks.shutdown().await.unwrap();
    assert!(released.elapsed() < TTL, "nobody waits for what is not ours: {:?}", released.elapsed());
    let left = keys(&servers);
    assert_eq!(left, ["tenure:7", "tenure:11", "tenure:7"], "the lists are not ours to delete");
}
