//! Whoever goes away, whenever and wherever, leaves no key behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tenure::*;
use tokio::time::{sleep, timeout};

use crate::support::*;

/// A small generator, so that a failing run can be repeated with its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn time(&mut self, micros_max: u64) -> Duration {
        Duration::from_micros(self.roll(micros_max))
    }
}

/// Five nodes that delay and lose commands and answers. Under load, order makes everything as slow
/// as the slowest, so a delay of half the node timeout each way lets nothing through.
fn bad_weather(seed: u64, delay_max: Duration) -> [MemoryNode; 5] {
    let nodes = nodes::<5>();
    for (index, node) in nodes.iter().enumerate() {
        node.seed(seed * 5 + index as u64);
        node.set_faults(Faults::none().delay(ms(0)..=delay_max).request_loss(0.1).reply_loss(0.1));
    }
    nodes
}

/// Waits until every node has confirmed. A node that loses a fifth of the messages may be silent
/// for a while, and is waited for here.
async fn clean_up(locks: &Locks) -> Result<(), ShutdownError> {
    locks.shutdown_within(secs(5)).await
}

#[tokio::test(start_paused = true)]
async fn a_thousand_acquires_dropped_at_random_moments_leave_no_key() {
    let nodes = bad_weather(1, ms(30));
    let locks = paused(&nodes);
    let mut dice = Dice(42);
    let (mut dropped, mut acquired) = (0, 0);
    for number in 0..1_000 {
        // Few names, so that attempts also meet each other; several attempts, so that retries are
        // cut, too.
        let lock = locks.lock(format!("x{}", number % 100)).wait(ms(500));
        match timeout(dice.time(150_000), lock.acquire()).await {
            Err(_) => dropped += 1,
            Ok(Ok(guard)) => {
                acquired += 1;
                drop(guard);
            }
            Ok(Err(error)) => panic!("{error}"),
        }
    }
    assert!(dropped > 300 && acquired > 300, "{dropped} dropped, {acquired} acquired");
    clean_up(&locks).await.unwrap();
    assert_eq!(keys(&nodes), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_concurrent_acquires_dropped_at_random_moments_leave_no_key() {
    let nodes = bad_weather(2, ms(20));
    let locks = paused(&nodes);
    let mut dice = Dice(43);
    let calls = (0..1_000).map(|number| {
        let lock = locks.lock(format!("x{}", number % 200)).wait_forever();
        (dice.time(2_000_000), lock)
    });
    let tasks: Vec<_> = calls
        .map(|(patience, lock)| tokio::spawn(async move { timeout(patience, lock.acquire()).await.is_ok() }))
        .collect();
    let mut acquired = 0;
    for task in tasks {
        acquired += u32::from(task.await.unwrap());
    }
    assert!((200..900).contains(&acquired), "{acquired}");
    clean_up(&locks).await.unwrap();
    assert_eq!(keys(&nodes), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_guards_dropped_without_release_leave_no_key() {
    let nodes = bad_weather(3, ms(20));
    let locks = paused(&nodes);
    let lock = |number| locks.lock(format!("x{number}")).acquire();
    let tasks: Vec<_> = (0..1_000).map(|number| tokio::spawn(lock(number))).collect();
    let mut guards = vec![];
    for task in tasks {
        guards.push(task.await.unwrap().unwrap());
    }
    assert!(keys(&nodes).len() >= 3_000);
    drop(guards);
    clean_up(&locks).await.unwrap();
    assert_eq!(keys(&nodes), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn extensions_and_releases_dropped_at_random_moments_leave_no_key() {
    let nodes = bad_weather(4, ms(30));
    let locks = paused(&nodes);
    let mut dice = Dice(44);
    for number in 0..300 {
        let mut guard = locks.lock(format!("x{number}")).acquire().await.unwrap();
        let _ = timeout(dice.time(60_000), guard.extend()).await;
        let _ = timeout(dice.time(60_000), guard.extend()).await;
        let _ = timeout(dice.time(60_000), guard.release()).await;
    }
    // Never polled at all.
    let guard = locks.lock("unpolled").acquire().await.unwrap();
    drop(guard.release());
    clean_up(&locks).await.unwrap();
    assert_eq!(keys(&nodes), [""; 0]);
}

/// The same in real time, on two threads, with the worker on a thread of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_in_real_time_leave_no_key_either() {
    for worker in [Worker::CurrentRuntime, Worker::OwnThread] {
        let nodes = bad_weather(5, ms(3));
        let locks = builder(&nodes).worker(worker).build().unwrap();
        let mut dice = Dice(45);
        let tasks: Vec<_> = (0..1_000)
            .map(|number| {
                let (lock, patience) =
                    (locks.lock(format!("x{}", number % 50)).ttl(secs(20)), dice.time(40_000));
                tokio::spawn(async move { timeout(patience, lock.acquire()).await.is_ok() })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        locks.shutdown().await.unwrap();
        assert_eq!(keys(&nodes), [""; 0]);
    }
}

#[test]
fn a_guard_dropped_outside_a_runtime_leaves_no_key() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for worker in [Worker::CurrentRuntime, Worker::OwnThread] {
        let nodes = nodes::<5>();
        let (locks, guard, acquire) = runtime.block_on(async {
            let locks = builder(&nodes).worker(worker).build().unwrap();
            let guard = locks.lock("x").acquire().await.unwrap();
            // A call that has begun, and is waiting for the lock.
            let mut acquire = Box::pin(locks.lock("x").wait_forever().acquire());
            assert!(timeout(ms(1), acquire.as_mut()).await.is_err());
            (locks, guard, acquire)
        });
        assert!(tokio::runtime::Handle::try_current().is_err());
        std::thread::spawn(move || drop((guard, acquire))).join().unwrap();
        runtime.block_on(locks.shutdown()).unwrap();
        assert_eq!(keys(&nodes), [""; 0]);
    }
}

#[test]
fn a_guard_dropped_while_panicking_leaves_no_key() {
    let nodes = nodes::<5>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let locks = runtime.block_on(async { builder(&nodes).build().unwrap() });
    // Inside the runtime, in a task of it, and outside.
    let panics = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let _guard = locks.lock("inside").acquire().await.unwrap();
            panic!("on purpose");
        });
    }));
    assert!(panics.is_err());
    let lock = locks.lock("task");
    let task = runtime.spawn(async move {
        let _guard = lock.acquire().await.unwrap();
        panic!("on purpose");
    });
    assert!(runtime.block_on(task).unwrap_err().is_panic());
    let guard = runtime.block_on(locks.lock("outside").acquire()).unwrap();
    let panics = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        panic!("on purpose");
    }));
    assert!(panics.is_err());
    runtime.block_on(locks.shutdown()).unwrap();
    assert_eq!(keys(&nodes), [""; 0]);
}

/// The worker goes on after the last handle is gone.
#[tokio::test(start_paused = true)]
async fn the_last_handle_may_go_before_the_clean_up_is_done() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").acquire().await.unwrap();
    nodes[0].set_faults(Faults::silent());
    drop((guard, locks));
    sleep(secs(3)).await;
    assert_eq!(keys(&nodes), ["tenure:x"]);
    nodes[0].set_faults(Faults::none());
    sleep(ms(251)).await;
    assert_eq!(keys(&nodes), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_waiter_asks_no_more() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let _guard = locks.lock("x").acquire().await.unwrap();
    let retries = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let seen = retries.clone();
    let observer = move |event: &Event<'_>| {
        if matches!(event, Event::Waiting { .. }) {
            seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let waiter = builder(&nodes).tokio_time().observer(observer).build().unwrap();
    assert!(timeout(secs(1), waiter.lock("x").wait_forever().acquire()).await.is_err());
    let before = retries.load(std::sync::atomic::Ordering::Relaxed);
    assert!(before > 3, "{before}");
    sleep(secs(10)).await;
    assert_eq!(retries.load(std::sync::atomic::Ordering::Relaxed), before);
}
