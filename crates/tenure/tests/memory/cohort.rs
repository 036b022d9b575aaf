//! Tasks of one manager that pass a lock on among themselves, on every kind of runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tenure::*;
use tokio::runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::*;

const TASKS: usize = 64;

const TTL: Duration = secs(4);

/// How many locks the nodes gave, and how many were passed on.
#[derive(Clone, Default)]
struct Seen {
    acquired: Arc<AtomicUsize>,
    passed_on: Arc<AtomicUsize>,
}

impl Seen {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Acquired { .. } => _ = self.acquired.fetch_add(1, Ordering::Relaxed),
            Event::PassedOn { .. } => _ = self.passed_on.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
    }

    fn counts(&self) -> (usize, usize) {
        (self.acquired.load(Ordering::Relaxed), self.passed_on.load(Ordering::Relaxed))
    }
}

fn seen(nodes: &[MemoryNode]) -> (Locks, Seen) {
    let seen = Seen::default();
    let observer = seen.clone();
    // A machine that is too busy to read its clock in time takes its nodes for untrustworthy, for a
    // quarantine; a short one.
    let builder = builder(nodes).max_ttl(TTL).observer(move |event| observer.observe(event));
    (builder.build().unwrap(), seen)
}

fn lock(locks: &Locks) -> Lock {
    locks.lock("x").ttl(TTL).cohort().wait_forever()
}

/// A resource that notices when two use it at once, or one with a smaller fence than the last.
#[derive(Default)]
struct Resource {
    users: AtomicUsize,
    fence: AtomicU64,
}

impl Resource {
    async fn use_with(&self, guard: &Guard) {
        assert_eq!(self.users.fetch_add(1, Ordering::SeqCst), 0, "two at once");
        let (fence, last) = (guard.fence().get(), self.fence.load(Ordering::SeqCst));
        assert!(fence > last, "fence {fence} after {last}");
        assert!(guard.is_valid());
        self.fence.store(fence, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.users.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Every kind of runtime that the driver may run on.
fn on_every_runtime<F: Future<Output = ()>>(test: impl Fn() -> F) {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test());
    for threads in [1, 2, 4] {
        let mut builder = runtime::Builder::new_multi_thread();
        builder.worker_threads(threads).enable_all().build().unwrap().block_on(test());
    }
}

#[test]
fn many_tasks_take_turns_and_the_nodes_are_asked_for_few_of_them() {
    on_every_runtime(|| async {
        const CYCLES: usize = 50;
        let nodes = nodes::<3>();
        let (locks, seen) = seen(&nodes);
        let (resource, mut tasks) = (Arc::new(Resource::default()), JoinSet::new());
        for _ in 0..TASKS {
            let (lock, resource) = (lock(&locks), Arc::clone(&resource));
            tasks.spawn(async move {
                for cycle in 0..CYCLES {
                    let guard = lock.acquire().await.unwrap();
                    resource.use_with(&guard).await;
                    // Each way to be done with a lock.
                    match cycle % 3 {
                        0 => drop(guard),
                        1 => drop(guard.release()),
                        _ => assert!(guard.release().await.unwrap().votes.granted() >= 2),
                    }
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
        let (acquired, passed_on) = seen.counts();
        assert_eq!(acquired + passed_on, TASKS * CYCLES);
        assert!(acquired * 10 < passed_on, "{acquired} acquired, {passed_on} passed on");
        locks.shutdown().await.unwrap();
        assert_eq!(keys(&nodes), [""; 0]);
    });
}

#[test]
fn waiters_that_go_away_when_it_is_their_turn_hold_up_nobody() {
    on_every_runtime(|| async {
        let nodes = nodes::<3>();
        let (locks, seen) = seen(&nodes);
        let (resource, mut tasks) = (Arc::new(Resource::default()), JoinSet::new());
        for number in 0..TASKS as u64 {
            let (lock, resource) = (lock(&locks), Arc::clone(&resource));
            tasks.spawn(async move {
                for cycle in 0..30_u64 {
                    // A moment at which others pass it on: it may have been passed to this one.
                    let patience = Duration::from_micros((number * 37 + cycle * 101) % 900);
                    if number.is_multiple_of(2) {
                        _ = tokio::time::timeout(patience, lock.acquire()).await;
                    } else {
                        resource.use_with(&lock.acquire().await.unwrap()).await;
                    }
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
        assert!(seen.counts().1 > 100, "{:?}", seen.counts());
        locks.shutdown().await.unwrap();
        assert_eq!(keys(&nodes), [""; 0]);
    });
}

#[test]
fn a_shutdown_tells_all_who_wait() {
    on_every_runtime(|| async {
        let nodes = nodes::<3>();
        let locks = builder(&nodes).build().unwrap();
        let lock = locks.lock("x").cohort().wait_forever();
        let holder = lock.acquire().await.unwrap();
        let mut tasks = JoinSet::new();
        (0..TASKS).for_each(|_| _ = tasks.spawn(lock.acquire()));
        while locks.inspect("x").await.unwrap().waiters != Some(1) {
            // The first of them leads, and is in line at the nodes.
            sleep(ms(1)).await;
        }
        let shutdown = tokio::spawn({
            let locks = locks.clone();
            async move { locks.shutdown().await }
        });
        while let Some(task) = tasks.join_next().await {
            assert!(matches!(task.unwrap(), Err(AcquireError::ShutDown { .. })));
        }
        shutdown.await.unwrap().unwrap();
        assert!(holder.is_valid(), "whoever holds a lock keeps it");
        holder.release().await.unwrap();
        // Until all nodes have confirmed.
        locks.shutdown().await.unwrap();
        assert_eq!(keys(&nodes), [""; 0]);
    });
}

/// A holder, and two more in the range of its round.
async fn held(locks: &Locks) -> (Guard, [tokio::task::JoinHandle<Result<Guard, AcquireError>>; 2]) {
    let lock = locks.lock("x").cohort().wait_forever();
    let first = lock.acquire().await.unwrap();
    let holder = tokio::spawn(lock.acquire());
    tokio::task::yield_now().await;
    let waiting = [tokio::spawn(lock.acquire()), tokio::spawn(lock.acquire())];
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    first.release().await.unwrap();
    (holder.await.unwrap().unwrap(), waiting)
}

#[tokio::test(start_paused = true)]
async fn each_guard_has_a_fence_of_its_own_and_the_validity_of_the_hold() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let (holder, [second, third]) = held(&locks).await;
    let (fence, token) = (holder.fence(), holder.cancellation_token());
    assert!(!token.is_cancelled());
    sleep(ms(4)).await;
    let left = holder.valid_for();
    let released = holder.release().await.unwrap();
    assert_eq!(released.votes.granted(), 3, "the votes that the hold rests on");
    assert!(token.is_cancelled(), "of whoever is done with it");
    let second = second.await.unwrap().unwrap();
    assert_eq!((second.fence().get(), second.valid_for()), (fence.get() + 1, left));
    assert_eq!((second.margin(), second.state()), (1, HoldState::Held));
    drop(second);
    let third = third.await.unwrap().unwrap();
    assert_eq!(third.fence().get(), fence.get() + 2);
    // It is renewed as any other, and hears of its loss.
    sleep(secs(40)).await;
    assert!(third.valid_for() > secs(15));
    fail(&nodes, &Faults::silent());
    third.lost().await;
    assert_eq!(third.state(), HoldState::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_handed_over_or_copied_is_not_passed_on() {
    let nodes = nodes::<3>();
    let seen = Seen::default();
    let told = seen.clone();
    let builder = builder(&nodes).tokio_time().observer(move |event| told.observe(event));
    let locks = builder.build().unwrap();
    let (holder, [second, third]) = held(&locks).await;
    let copy = holder.to_handover();
    holder.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert_eq!(seen.counts(), (3, 0), "by a round of its own");
    assert!(second.fence() > copy.fence);
    assert!(matches!(locks.resume(&copy).await, Err(ExtendError::Lost { .. })), "it was released");
    let handover = second.hand_over();
    sleep(ms(100)).await;
    assert!(!third.is_finished() && keys(&nodes).len() >= 3, "it stays locked");
    locks.resume(&handover).await.unwrap().release().await.unwrap();
    third.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(seen.counts(), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn events_say_that_a_lock_was_passed_on() {
    let nodes = nodes::<1>();
    let events = Arc::new(std::sync::Mutex::new(vec![]));
    let told = Arc::clone(&events);
    let observer = move |event: &Event<'_>| told.lock().unwrap().push(words(event));
    let locks = builder(&nodes).tokio_time().observer(observer).build().unwrap();
    let (holder, [second, third]) = held(&locks).await;
    events.lock().unwrap().clear();
    holder.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
    third.await.unwrap().unwrap().release().await.unwrap();
    insta::assert_snapshot!(events.lock().unwrap().join("\n"), @r#"
    GivenUp { name: "x", fence: Fence(..), held: Some(0ns) }
    PassedOn { name: "x", elapsed: 0ns, valid_for: 29.698s, fence: Fence(..) }
    GivenUp { name: "x", fence: Fence(..), held: Some(0ns) }
    PassedOn { name: "x", elapsed: 0ns, valid_for: 29.698s, fence: Fence(..) }
    GivenUp { name: "x", fence: Fence(..), held: Some(0ns) }
    CleanedUp { name: "x" }
    "#);
}

#[tokio::test]
async fn who_tries_once_or_without_a_fence_or_a_place_asks_the_nodes() {
    let nodes = nodes::<1>();
    let (locks, seen) = seen(&nodes);
    let lock = locks.lock("x").ttl(TTL).cohort();
    let guard = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    for lock in [lock.clone().unfenced(), lock.clone().unqueued()] {
        let first = lock.acquire().await.unwrap();
        let second = tokio::spawn(lock.acquire());
        sleep(ms(5)).await;
        first.release().await.unwrap();
        second.await.unwrap().unwrap().release().await.unwrap();
    }
    assert_eq!(seen.counts(), (5, 0));
}
