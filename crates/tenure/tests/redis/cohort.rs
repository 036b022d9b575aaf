//! Tasks of one manager that pass a lock on among themselves, beside others on the same servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use tenure::*;
use tenure_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::support::*;

const TASKS: usize = 64;

/// How often the other manager is to wait in line.
const WAITS: usize = 12;

/// What all tasks of all managers share: how many have the lock, and the last fence.
#[derive(Default)]
struct Resource {
    holders: AtomicUsize,
    fence: AtomicU64,
    uses: AtomicUsize,
    done: AtomicBool,
}

impl Resource {
    fn use_with(&self, guard: &Guard) {
        assert_eq!(self.holders.fetch_add(1, Ordering::SeqCst), 0, "two holders");
        let (fence, last) = (guard.fence().get(), self.fence.load(Ordering::SeqCst));
        assert!(fence > last, "fence {fence} after {last}");
        self.fence.store(fence, Ordering::SeqCst);
        self.uses.fetch_add(1, Ordering::SeqCst);
        self.holders.fetch_sub(1, Ordering::SeqCst);
    }

    async fn use_until_done(&self, lock: Lock) {
        while !self.done.load(Ordering::Relaxed) {
            let guard = lock.acquire().await.unwrap();
            self.use_with(&guard);
            let _ = guard.release().await;
        }
    }
}

/// How many locks the nodes have given to a manager.
#[derive(Clone, Default)]
struct Acquired(Arc<AtomicUsize>);

fn counting(servers: &[RedisServer]) -> (Locks, Acquired) {
    let acquired = Acquired::default();
    let count = acquired.clone();
    let observer = move |event: &Event<'_>| {
        if matches!(event, Event::Acquired { .. }) {
            count.0.fetch_add(1, Ordering::Relaxed);
        }
    };
    let locks = builder(servers.iter().map(RedisServer::url)).observer(observer).build().unwrap();
    (locks, acquired)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_tasks_cost_the_servers_one_acquisition_in_twenty_or_more() {
    let servers = servers::<5>();
    let (locks, acquired) = counting(&servers);
    let (resource, mut tasks) = (Arc::new(Resource::default()), JoinSet::new());
    for _ in 0..TASKS {
        let (lock, resource) = (locks.lock("x").cohort().wait_forever(), Arc::clone(&resource));
        tasks.spawn(async move { resource.use_until_done(lock).await });
    }
    until("they had enough turns", || resource.uses.load(Ordering::SeqCst) > 5_000).await;
    resource.done.store(true, Ordering::Relaxed);
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let (asked, uses) = (acquired.0.load(Ordering::Relaxed), resource.uses.load(Ordering::SeqCst));
    assert!(asked * 20 <= uses, "{asked} acquisitions for {uses} holds");
    locks.shutdown().await.unwrap();
    assert_eq!(keys(&servers).iter().filter(|key| key.starts_with("tenure:")).count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_manager_has_its_turn_within_the_bound_and_its_fences_are_in_order() {
    let servers = servers::<3>();
    let crowd = connect(&servers).await;
    let (resource, mut tasks) = (Arc::new(Resource::default()), JoinSet::new());
    for _ in 0..TASKS {
        let (lock, resource) = (crowd.lock("x").cohort().wait_forever(), Arc::clone(&resource));
        tasks.spawn(async move { resource.use_until_done(lock).await });
    }
    let in_line: Arc<std::sync::Mutex<Option<Instant>>> = Arc::default();
    let told = Arc::clone(&in_line);
    let observer = move |event: &Event<'_>| {
        if matches!(event, Event::Waiting { .. }) {
            told.lock().unwrap().get_or_insert_with(Instant::now);
        }
    };
    let other = builder(servers.iter().map(RedisServer::url)).observer(observer).build().unwrap();
    let lateness = Lateness::watch();
    // One that waits in line, and one that passes on what it has as well.
    let locks = [other.lock("x").wait_forever(), other.lock("x").cohort().wait_forever()];
    let waited = AtomicUsize::new(0);
    let longest = shortest(COHORT_TIME, || {
        let (locks, resource, in_line) = (locks.clone(), Arc::clone(&resource), Arc::clone(&in_line));
        let waited = &waited;
        async move {
            let mut longest = std::time::Duration::ZERO;
            let enough = waited.load(Ordering::Relaxed) + WAITS;
            // On a busy machine it often finds the lock free.
            for turn in 0..100 * WAITS {
                if waited.load(Ordering::Relaxed) >= enough {
                    break;
                }
                *in_line.lock().unwrap() = None;
                let guard = locks[turn % 2].acquire().await.unwrap();
                if let Some(since) = in_line.lock().unwrap().take() {
                    longest = longest.max(since.elapsed());
                    waited.fetch_add(1, Ordering::Relaxed);
                }
                resource.use_with(&guard);
                let _ = guard.release().await;
                tokio::time::sleep(ms(1)).await;
            }
            longest
        }
    })
    .await;
    resource.done.store(true, Ordering::Relaxed);
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    // 10 ms, no hold, and a hand-over, which a busy machine makes longer.
    let bound = COHORT_TIME + ms(5) + 4 * lateness.worst();
    let waited = waited.into_inner();
    println!("waited {waited} times, at most {longest:?} of {bound:?}");
    assert!(waited >= WAITS, "it was in line only {waited} times");
    assert!(longest < bound, "{longest:?}, and the bound is {bound:?}");
}

#[tokio::test]
async fn a_forced_release_ends_whoever_holds_and_nobody_is_passed_what_is_lost() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    let lock = locks.lock("x").cohort().ttl(secs(1)).wait_forever();
    let first = lock.acquire().await.unwrap();
    let holder = tokio::spawn(lock.acquire());
    tokio::task::yield_now().await;
    let waiting = tokio::spawn(lock.acquire());
    tokio::time::sleep(ms(2)).await;
    first.release().await.unwrap();
    let holder = holder.await.unwrap().unwrap();
    servers.iter().for_each(|server| _ = server.execute(&["DEL", "tenure:x"]));
    holder.lost().await;
    let fence = holder.fence();
    // The one behind it asks the nodes, and does not wait for a holder that has nothing.
    let waiting = waiting.await.unwrap().unwrap();
    assert!(waiting.fence() > fence && waiting.is_valid());
    assert!(matches!(holder.release().await, Err(ReleaseError::NotHeld { .. })));
    assert!(waiting.is_valid());
}
