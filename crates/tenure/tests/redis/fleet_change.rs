//! The node list is changed on real servers while clients of either list work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::*;
use tenure_testkit::RedisServer;
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

const MAX_TTL: Duration = secs(1);
const QUARANTINE: Duration = ms(1_100);
const CLIENTS: u64 = 16;

/// What all clients work on: a counter that two at a time would spoil.
#[derive(Default)]
struct Work {
    counter: Mutex<u64>,
    done: AtomicU64,
    inside: AtomicU64,
    overlaps: AtomicU64,
    /// The new nodes are ready: clients may be given the new list.
    prepared: AtomicBool,
    over: AtomicBool,
    last: Mutex<Option<Instant>>,
    /// The longest time without a lock.
    longest: Mutex<Duration>,
}

struct Inside<'a>(&'a Work);

impl<'a> Inside<'a> {
    fn enter(work: &'a Work) -> Self {
        if work.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            work.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        let now = Instant::now();
        if let Some(last) = work.last.lock().unwrap().replace(now) {
            let mut longest = work.longest.lock().unwrap();
            *longest = longest.max(now - last);
        }
        Self(work)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

fn locks(urls: &[String]) -> Locks {
    builder(urls).max_ttl(MAX_TTL).build().unwrap()
}

/// Counts under the lock, with the old list first and with the new one from some moment on.
async fn client(number: u64, old: Vec<String>, new: Vec<String>, work: Arc<Work>) {
    let mut current = locks(&old);
    let (mut switched, mut dice) = (false, number * 7 + 3);
    while !work.over.load(Ordering::SeqCst) {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number | 1);
        if !switched && work.prepared.load(Ordering::SeqCst) && dice >> 60 == 0 {
            (current, switched) = (locks(&new), true);
        }
        let lock = current.lock("counter").ttl(MAX_TTL).wait(ms(200));
        let Ok(guard) = lock.acquire().await else {
            sleep(ms(dice >> 59)).await;
            continue;
        };
        tokio::select! {
            biased;
            // Stopped because the lock was taken away.
            () = guard.lost() => {}
            () = count(&work) => {}
        }
        let _ = guard.release().await;
    }
}

async fn count(work: &Work) {
    let _inside = Inside::enter(work);
    let before = *work.counter.lock().unwrap();
    sleep(ms(2)).await;
    *work.counter.lock().unwrap() = before + 1;
    work.done.fetch_add(1, Ordering::SeqCst);
}

/// Changes the list under load, killed in the middle if `killed`, and tells how long no lock was
/// given.
async fn change(old: &[String], new: &[String], killed: Option<Duration>) -> Duration {
    let work = Arc::new(Work::default());
    let clients = (0..CLIENTS)
        .map(|number| tokio::spawn(client(number, old.to_vec(), new.to_vec(), Arc::clone(&work))));
    let clients: Vec<_> = clients.collect();
    until("the old list is in use", || work.done.load(Ordering::SeqCst) > 20).await;
    let run = || {
        let (from, to) = (builder(old).max_ttl(MAX_TTL), builder(new).max_ttl(MAX_TTL));
        FleetChange::new(from, to).run(|progress| {
            if *progress == FleetProgress::Prepared {
                work.prepared.store(true, Ordering::SeqCst);
            }
        })
    };
    if let Some(after) = killed {
        let _ = timeout(after, run()).await;
    }
    run().await.unwrap();
    let before = work.done.load(Ordering::SeqCst);
    let start = Instant::now();
    while work.done.load(Ordering::SeqCst) < before + 20 {
        assert!(start.elapsed() < secs(30), "the new list grants no locks: {:?}", locks(new).nodes().await);
        sleep(ms(5)).await;
    }
    work.over.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(work.overlaps.load(Ordering::SeqCst), 0, "two at a time");
    assert_eq!(*work.counter.lock().unwrap(), work.done.load(Ordering::SeqCst), "an update was lost");
    let error = locks(old).lock("counter").try_acquire().await.unwrap_err().to_string();
    assert!(error.contains("has changed"), "{error}");
    *work.longest.lock().unwrap()
}

/// `TENURE_FLEET_CHANGES` says how often each; every other one is killed in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_changes_under_load_and_nobody_holds_a_lock_twice() {
    let runs: u32 = std::env::var("TENURE_FLEET_CHANGES").map_or(1, |runs| runs.parse().unwrap());
    // Each comes back to where it began, so that the next one can begin.
    let changes: [(&str, &[usize], &[usize]); 3] = [
        ("replace one of three", &[0, 1, 2], &[0, 1, 3]),
        ("grow and shrink", &[0, 1, 2], &[0, 1, 2, 3, 4]),
        ("exchange all of three", &[0, 1, 2], &[3, 4, 5]),
    ];
    for (what, here, there) in changes {
        let servers = servers::<6>();
        let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
        let list =
            |nodes: &[usize]| -> Vec<String> { nodes.iter().map(|node| urls[*node].clone()).collect() };
        let mut worst = Duration::ZERO;
        for run in 0..runs {
            let killed = (run % 2 == 1).then(|| ms(u64::from(run) * 97 % 900));
            for (old, new) in [(here, there), (there, here)] {
                worst = worst.max(change(&list(old), &list(new), killed).await);
            }
        }
        println!("{what}: {} changes, {CLIENTS} clients, longest time without a lock {worst:?}", 2 * runs);
        // A busy machine is not measured here; without an end it must not be.
        assert!(worst < QUARANTINE + secs(10), "{what}: {worst:?}");
    }
}

#[tokio::test]
async fn a_change_says_why_it_cannot_be_done_and_can_be_taken_back() {
    let mut servers = servers::<5>();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let fleet = |nodes: &[usize]| builder(nodes.iter().map(|node| &urls[*node])).max_ttl(MAX_TTL);
    let old = fleet(&[0, 1, 2]).build().unwrap();
    all_vote(&old).await;
    // A node of somebody else.
    let other = fleet(&[4]).build().unwrap();
    all_vote(&other).await;
    let error = FleetChange::new(fleet(&[0, 1, 2]), fleet(&[0, 1, 4])).run(|_| ()).await.unwrap_err();
    assert!(
        matches!(&error, FleetError::Foreign { node } if urls[4].starts_with(node.trim_end_matches("/0"))),
        "{error}"
    );
    assert!(answer_of(&old.lock("x")).await.is_some(), "nothing has happened");
    let wrong = FleetChange::new(fleet(&[0, 1, 2]), fleet(&[0, 1, 3]).max_ttl(secs(2))).run(|_| ()).await;
    assert!(matches!(wrong, Err(FleetError::Settings)));
    // One node is dead, and said to be.
    let guard = old.lock("y").ttl(MAX_TTL).acquire().await.unwrap();
    servers[2].kill();
    let gone = RedisNode::parse(&urls[2]).unwrap();
    let began = Instant::now();
    FleetChange::new(fleet(&[0, 1, 2]), fleet(&[0, 1, 3])).gone(gone).run(|_| ()).await.unwrap();
    assert!(began.elapsed() >= QUARANTINE - ms(50), "its locks are waited for");
    assert!(!guard.is_valid(), "its holder was told");
    let new = fleet(&[0, 1, 3]).build().unwrap();
    assert!(new.lock("y").wait(secs(5)).acquire().await.is_ok());
    // Too late to take back.
    let error = FleetChange::new(fleet(&[0, 1, 2]), fleet(&[0, 1, 3])).abort().run(|_| ()).await.unwrap_err();
    assert!(matches!(error, FleetError::Unreachable { .. } | FleetError::TooLate), "{error}");
}

#[tokio::test]
async fn a_change_that_is_taken_back_leaves_the_old_list_in_use() {
    let servers = servers::<4>();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let fleet = |nodes: &[usize]| builder(nodes.iter().map(|node| &urls[*node])).max_ttl(MAX_TTL);
    let old = fleet(&[0, 1, 2]).build().unwrap();
    all_vote(&old).await;
    // Ended as soon as the new node is ready.
    let prepared = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&prepared);
    let change = FleetChange::new(fleet(&[0, 1, 2]), fleet(&[0, 1, 3]));
    let run = tokio::spawn(change.run(move |progress| {
        if *progress == FleetProgress::Prepared {
            told.notify_one();
        }
    }));
    prepared.notified().await;
    run.abort();
    let _ = run.await;
    match FleetChange::new(fleet(&[0, 1, 2]), fleet(&[0, 1, 3])).abort().run(|_| ()).await {
        Ok(()) => {
            all_vote(&old).await;
            assert!(answer_of(&old.lock("x")).await.is_some());
        }
        // It was faster than we were.
        Err(FleetError::TooLate) => {
            FleetChange::new(fleet(&[0, 1, 2]), fleet(&[0, 1, 3])).run(|_| ()).await.unwrap();
        }
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_node_that_is_forgotten_serves_another_fleet_after_a_quarantine() {
    let servers = servers::<2>();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let first = builder(&urls[..1]).max_ttl(MAX_TTL).build().unwrap();
    first.lock("x").ttl(MAX_TTL).acquire().await.unwrap().release().await.unwrap();
    let second = || builder(&urls).max_ttl(MAX_TTL).build().unwrap();
    let refused = second().lock("x").try_acquire().await.unwrap_err().to_string();
    assert!(refused.contains("belongs to a fleet with other settings"), "{refused}");
    // Its clients are stopped first.
    first.shutdown().await.unwrap();
    drop(first);
    forget_nodes(builder(&urls[..1]).max_ttl(MAX_TTL)).await.unwrap();
    let began = Instant::now();
    let second = second();
    let guard = loop {
        match second.lock("x").try_acquire().await {
            Ok(Some(guard)) => break guard,
            _ => sleep(ms(10)).await,
        }
        assert!(began.elapsed() < secs(20), "{:?}", second.nodes().await);
    };
    assert!(began.elapsed() > QUARANTINE / 2, "locks of the old fleet may have been held");
    assert!(guard.is_valid());
}
