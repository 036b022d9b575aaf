//! Acquire, extend and release on memory nodes, under paused time.

use tenure::*;
use tokio::time::{Instant, advance, sleep};

use crate::support::*;

/// 32 tasks with a manager each take turns at a counter that only the lock protects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_increments_under_the_lock_are_all_counted() {
    let nodes = nodes::<5>();
    let counter = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let (locks, counter) = (builder(&nodes).build().unwrap(), counter.clone());
            tokio::spawn(async move {
                let retry = Retry::default().delay(ms(1)).jitter(ms(3));
                for _ in 0..20 {
                    let lock = locks.lock("counter").retry(retry).wait_forever();
                    let guard = lock.acquire().await.unwrap();
                    // Read, be interrupted, write: without the lock this loses updates.
                    let seen = counter.load(std::sync::atomic::Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    counter.store(seen + 1, std::sync::atomic::Ordering::Relaxed);
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.load(std::sync::atomic::Ordering::Relaxed), 32 * 20);
}

#[tokio::test(start_paused = true)]
async fn the_validity_counts_down_to_its_last_millisecond() {
    let nodes = nodes::<5>();
    fail(&nodes, &Faults::none().delay(ms(5)..=ms(5)));
    let lock = paused(&nodes).lock("x").ttl(secs(10)).renewal(Renewal::Off);
    let guard = lock.acquire().await.unwrap();
    // Ten milliseconds for the round, 1 % and 2 ms for drift.
    assert_eq!(guard.valid_for(), ms(10_000 - 10 - 100 - 2));
    advance(secs(3)).await;
    assert_eq!(guard.valid_for(), ms(6_888));
    advance(ms(6_887)).await;
    assert!(guard.is_valid());
    advance(ms(1)).await;
    assert_eq!((guard.valid_for(), guard.is_valid()), (ms(0), false));
}

#[tokio::test(start_paused = true)]
async fn with_a_majority_up_locks_are_acquired_extended_and_released() {
    for (down, hung) in [(0, 1), (1, 2), (3, 4), (2, 0)] {
        let nodes = nodes::<5>();
        let locks = paused(&nodes);
        locks.ready().await;
        nodes[down].set_faults(Faults::unreachable());
        nodes[hung].set_faults(Faults::silent());
        let start = Instant::now();
        let mut guard = locks.lock("x").acquire().await.unwrap();
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(start.elapsed(), ms(0), "a failed node delays nobody");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_the_error_is_unavailable_and_comes_in_time() {
    for faults in
        [Faults::silent(), Faults::unreachable(), Faults::error("LOADING"), Faults::none().reply_loss(1.0)]
    {
        let nodes = nodes::<5>();
        let locks = paused(&nodes);
        locks.ready().await;
        fail(&nodes[..3], &faults);
        let start = Instant::now();
        let error = locks.lock("x").try_acquire().await.unwrap_err();
        assert!(matches!(error, AcquireError::Unavailable { .. }), "{error}");
        assert!(start.elapsed() <= ms(51), "one node timeout");
        for node in &nodes[..3] {
            assert!(error.to_string().contains(node.address()), "{error}");
        }
        fail(&nodes, &Faults::none());
        sleep(ms(300)).await;
        assert_eq!(keys(&nodes), [""; 0], "no key is left");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_limit() {
    let nodes = nodes::<3>();
    let (holder, waiter) = (paused(&nodes), paused(&nodes));
    let _guard = holder.lock("x").acquire().await.unwrap();
    let start = Instant::now();
    let error = waiter.lock("x").wait(secs(2)).acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Contended { attempts: 8..=14, .. }), "{error}");
    assert!((secs(2)..secs(2) + ms(5)).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_over_when_the_holder_releases() {
    let nodes = nodes::<3>();
    let (holder, waiter) = (paused(&nodes), paused(&nodes));
    let guard = holder.lock("x").acquire().await.unwrap();
    let waiting = tokio::spawn(waiter.lock("x").wait(secs(60)).acquire());
    sleep(secs(5)).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    let start = Instant::now();
    assert!(waiting.await.unwrap().unwrap().is_valid());
    assert_eq!(start.elapsed(), ms(0), "it is woken at once");
}

#[tokio::test(start_paused = true)]
async fn the_pause_between_attempts_is_random_and_configurable() {
    let nodes = nodes::<3>();
    let holder = paused(&nodes);
    let _guard = holder.lock("x").acquire().await.unwrap();
    let pauses = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let seen = pauses.clone();
    let observer = move |event: &Event<'_>| {
        if let Event::Retrying { pause, .. } = event {
            seen.lock().unwrap().push(*pause);
        }
    };
    let waiter = builder(&nodes).tokio_time().observer(observer).build().unwrap();
    let retry = Retry::default().tries_max(8).delay(ms(200)).jitter(ms(100));
    let error = waiter.lock("x").unqueued().retry(retry).wait_forever().acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Contended { attempts: 8, .. }), "{error}");
    let pauses = pauses.lock().unwrap();
    assert_eq!(pauses.len(), 7);
    assert!(pauses.iter().all(|pause| (ms(200)..ms(300)).contains(pause)), "{pauses:?}");
    assert!(pauses.windows(2).any(|pair| pair[0] != pair[1]), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn margin_and_votes_show_the_nodes_behind_the_lock() {
    let nodes = nodes::<5>();
    nodes[3].set_faults(Faults::none().delay(ms(10)..=ms(10)));
    nodes[4].set_faults(Faults::unreachable());
    let locks = paused(&nodes);
    let guard = locks.lock("x").acquire().await.unwrap();
    assert_eq!((guard.margin(), guard.votes().granted()), (0, 3));
    sleep(ms(25)).await;
    assert_eq!((guard.margin(), guard.votes().granted()), (1, 4));
    let votes = guard.votes();
    let by_node: Vec<_> = votes.iter().map(|vote| (&*vote.node, vote.vote.clone().unwrap())).collect();
    assert_eq!(by_node[3], ("memory:3", Vote::Granted));
    assert_eq!(by_node[4], ("memory:4", Vote::Unknown(Fault::Unreachable("connection refused".into()))));
    assert_eq!(votes.iter().map(|vote| vote.elapsed).collect::<Vec<_>>()[3], ms(20));
}

#[tokio::test(start_paused = true)]
async fn late_votes_are_waited_for_until_the_last_has_come_and_no_longer() {
    let nodes = nodes::<5>();
    nodes[3].set_faults(Faults::none().delay(ms(10)..=ms(10)));
    let locks = paused(&nodes);
    let guard = locks.lock("x").acquire().await.unwrap();
    let start = Instant::now();
    guard.late_votes(secs(1)).await;
    assert_eq!((start.elapsed(), guard.margin()), (ms(20), 2));
    guard.late_votes(secs(1)).await;
    assert_eq!(start.elapsed(), ms(20), "there is nothing to wait for");
    nodes[4].set_faults(Faults::none().delay(ms(40)..=ms(40)));
    let guard = locks.lock("y").acquire().await.unwrap();
    let start = Instant::now();
    guard.late_votes(ms(30)).await;
    assert_eq!((start.elapsed(), guard.margin()), (ms(30), 1));
    guard.late_votes(secs(1)).await;
    assert_eq!((start.elapsed(), guard.margin()), (ms(80), 2), "who gave up may wait again");
}

#[tokio::test(start_paused = true)]
async fn a_release_by_handover_waits_for_a_majority_and_if_asked_a_moment_for_all() {
    let nodes = nodes::<5>();
    nodes.iter().for_each(|node| node.set_faults(Faults::none().delay(ms(2)..=ms(2))));
    nodes[3].set_faults(Faults::none().delay(ms(3)..=ms(3)));
    nodes[4].set_faults(Faults::none().delay(ms(20)..=ms(20)));
    let locks = paused(&nodes);
    let lock = locks.lock("x");
    let hand_over = async || lock.acquire().await.unwrap().hand_over();
    let handover = hand_over().await;
    let start = Instant::now();
    assert_eq!(locks.release(&handover).await.unwrap().votes.granted(), 3);
    assert_eq!(start.elapsed(), ms(4));
    sleep(secs(1)).await;
    let handover = hand_over().await;
    let start = Instant::now();
    assert_eq!(locks.release_everywhere(&handover).await.unwrap().votes.granted(), 4);
    assert_eq!(start.elapsed(), ms(8), "as long again as the majority took");
}

#[tokio::test(start_paused = true)]
async fn an_extension_starts_the_term_anew() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let mut guard = locks.lock("x").ttl(secs(10)).renewal(Renewal::Off).acquire().await.unwrap();
    for _ in 0..10 {
        sleep(secs(6)).await;
        guard.extend().await.unwrap();
        assert_eq!(guard.valid_for(), ms(9_898));
    }
    guard.extend_for(secs(20)).await.unwrap();
    assert_eq!(guard.valid_for(), ms(19_798));
    guard.extend_for(secs(1)).await.unwrap();
    assert_eq!(guard.valid_for(), ms(19_798), "a shorter extension shortens nothing");
}

#[tokio::test(start_paused = true)]
async fn a_failed_extension_neither_releases_nor_shortens() {
    let nodes = nodes::<5>();
    let locks = paused(&nodes);
    let mut guard = locks.lock("x").ttl(secs(10)).acquire().await.unwrap();
    sleep(secs(1)).await;
    fail(&nodes[..3], &Faults::silent());
    let error = guard.extend().await.unwrap_err();
    assert!(matches!(error, ExtendError::Unavailable { .. }), "{error}");
    assert_eq!(guard.valid_for(), ms(9_898 - 1_050), "one second and one node timeout have passed");
    fail(&nodes, &Faults::none());
    assert_eq!(keys(&nodes).len(), 5);
    assert!(paused(&nodes).lock("x").try_acquire().await.unwrap().is_none());
    guard.extend().await.unwrap();
    assert_eq!(guard.valid_for(), ms(9_898));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_majority_forgot_is_lost() {
    let nodes = nodes::<5>();
    let locks = paused(&nodes);
    let mut guard = locks.lock("x").acquire().await.unwrap();
    nodes[..3].iter().for_each(MemoryNode::forget);
    let error = guard.extend().await.unwrap_err();
    assert!(matches!(error, ExtendError::Lost { .. }), "{error}");
    assert!(!guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn an_expired_lock_is_not_extended() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let mut guard = locks.lock("x").ttl(secs(1)).renewal(Renewal::Off).acquire().await.unwrap();
    sleep(ms(1_000)).await;
    assert_eq!(keys(&nodes).len(), 3, "the nodes still have it, in the guard band");
    let error = guard.extend().await.unwrap_err();
    assert!(matches!(error, ExtendError::Expired { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn extensions_are_limited_by_max_hold() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let lock = locks.lock("x").ttl(secs(10)).max_hold(MaxHold::AtMost(secs(15)));
    let mut guard = lock.acquire().await.unwrap();
    sleep(secs(5)).await;
    guard.extend().await.unwrap();
    sleep(ms(1)).await;
    let error = guard.extend().await.unwrap_err();
    assert!(matches!(error, ExtendError::MaxHold { .. }), "{error}");
    assert!(guard.is_valid(), "what was granted stands");
    let unlimited = locks.lock("y").ttl(secs(10)).max_hold(MaxHold::Unlimited);
    let mut guard = unlimited.acquire().await.unwrap();
    for _ in 0..1_000 {
        sleep(secs(9)).await;
        guard.extend().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_no_majority_answers_says_so_and_goes_on() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").ttl(secs(10)).acquire().await.unwrap();
    fail(&nodes, &Faults::silent());
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::Unavailable { .. }), "{error}");
    fail(&nodes, &Faults::none());
    sleep(ms(300)).await;
    assert_eq!(keys(&nodes), [""; 0]);
}

/// The nodes grant quickly, but this task does not run until the lock is over.
#[tokio::test(start_paused = true)]
async fn a_won_round_whose_validity_is_over_when_it_is_returned_is_not_a_lock() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let mut acquire = Box::pin(locks.lock("x").ttl(secs(1)).try_acquire());
    assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(acquire.as_mut().poll(cx))).await.is_pending());
    tokio::task::yield_now().await;
    assert_eq!(keys(&nodes).len(), 3, "granted by all");
    advance(ms(990)).await;
    let error = acquire.await.unwrap_err();
    assert!(matches!(error, AcquireError::TooLate { .. }), "{error}");
    sleep(ms(1)).await;
    assert_eq!(keys(&nodes), [""; 0], "and it was given back");
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_was_shut_down_gives_no_locks_and_keeps_the_held_ones() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let mut guard = locks.lock("x").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("x").wait_forever().acquire());
    sleep(secs(1)).await;
    locks.shutdown().await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(AcquireError::ShutDown { .. })));
    assert!(matches!(locks.lock("y").acquire().await, Err(AcquireError::ShutDown { .. })));
    guard.extend().await.unwrap();
    guard.release().await.unwrap();
    locks.shutdown().await.unwrap();
    assert_eq!(keys(&nodes), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_at_its_limit_and_says_what_is_left_where() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").ttl(secs(10)).acquire().await.unwrap();
    nodes[1].set_faults(Faults::silent());
    drop(guard);
    let start = Instant::now();
    let error = locks.shutdown_within(secs(5)).await.unwrap_err();
    assert!((secs(5)..secs(5) + ms(2)).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!((error.keys, error.nodes), (1, vec!["memory:1".to_owned()]));
    assert!(error.frees_within < secs(7), "{:?}", error.frees_within);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_a_node_that_does_not_answer_for_a_moment_only() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").ttl(secs(10)).acquire().await.unwrap();
    nodes[1].set_faults(Faults::silent());
    drop(guard);
    let start = Instant::now();
    let error = locks.shutdown().await.unwrap_err();
    assert!((ms(500)..ms(502)).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!((error.keys, error.nodes), (1, vec!["memory:1".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_a_node_that_answers_again_in_time() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").ttl(secs(10)).acquire().await.unwrap();
    nodes[1].set_faults(Faults::silent());
    drop(guard);
    let node = nodes[1].clone();
    tokio::spawn(async move {
        sleep(ms(200)).await;
        node.set_faults(Faults::none());
    });
    locks.shutdown().await.unwrap();
    assert_eq!(keys(&nodes), [""; 0]);
}

#[test]
fn a_runtime_that_has_ended_is_an_error_not_a_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let nodes = nodes::<1>();
    let (locks, mut guard) = runtime.block_on(async {
        let locks = builder(&nodes).build().unwrap();
        let guard = locks.lock("x").acquire().await.unwrap();
        (locks, guard)
    });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        assert!(matches!(locks.lock("y").acquire().await, Err(AcquireError::ShutDown { .. })));
        assert!(matches!(guard.extend().await, Err(ExtendError::ShutDown { .. })));
        assert!(guard.is_valid(), "what was granted stands");
        assert!(matches!(guard.release().await, Err(ReleaseError::ShutDown { .. })));
        locks.shutdown().await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn every_shutdown_call_keeps_its_own_limit() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").acquire().await.unwrap();
    fail(&nodes, &Faults::silent());
    drop(guard);
    let start = Instant::now();
    let shutdown = |limit| {
        let locks = locks.clone();
        tokio::spawn(
            async move { (locks.shutdown_within(limit).await.is_err(), start.elapsed().as_millis()) },
        )
    };
    let (short, long) = (shutdown(ms(100)), shutdown(secs(20)));
    assert!(matches!(short.await.unwrap(), (true, 100..=102)));
    assert!(matches!(long.await.unwrap(), (true, 20_000..=20_002)));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_nodes_that_cannot_have_a_key() {
    let nodes = nodes::<3>();
    let (locks, other) = (paused(&nodes), paused(&nodes));
    let _held = other.lock("x").acquire().await.unwrap();
    fail(&nodes, &Faults::none().delay(ms(5)..=ms(5)));
    assert!(locks.lock("x").try_acquire().await.unwrap().is_none());
    locks.shutdown_within(ms(0)).await.unwrap();
}

/// A thousand waiters without any pause of their own must not keep the runtime from everything
/// else.
#[tokio::test(start_paused = true)]
async fn waiters_without_a_pause_let_others_run() {
    let nodes = nodes::<1>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").acquire().await.unwrap();
    let lock = locks.lock("x").retry(Retry::default().delay(ms(0)).jitter(ms(0))).wait_forever();
    let cycle = async |lock: Lock| lock.acquire().await.unwrap().release().await.unwrap();
    let waiters: Vec<_> = (0..1_000).map(|_| tokio::spawn(cycle(lock.clone()))).collect();
    sleep(ms(20)).await;
    guard.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
}

/// Each cycle leaves a release that the silent node owes. That must not go on without end.
#[tokio::test(start_paused = true)]
async fn a_silent_node_is_skipped_when_it_owes_too_much() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    locks.ready().await;
    nodes[2].set_faults(Faults::silent());
    for number in 0..20_000 {
        if number % 100 == 0 {
            sleep(ms(10)).await;
        }
        locks.lock(format!("x{number}")).acquire().await.unwrap().release().await.unwrap();
    }
    let guard = locks.lock("x").acquire().await.unwrap();
    assert_eq!(guard.votes().iter().next_back().unwrap().vote, Some(Vote::Unknown(Fault::Busy)));
    drop(guard);
    let debt = locks.shutdown_within(ms(100)).await.unwrap_err().keys;
    assert!(debt < 2_500, "{debt} releases");
    // The node wakes up, and is asked again once it has caught up.
    nodes[2].set_faults(Faults::none());
    sleep(ms(600)).await;
    locks.shutdown().await.unwrap();
    assert_eq!(keys(&nodes), [""; 0]);
}

#[tokio::test]
async fn a_delay_without_end_is_a_node_that_never_answers() {
    let nodes = nodes::<3>();
    let locks = builder(&nodes).build().unwrap();
    nodes[0].set_faults(Faults::none().delay(std::time::Duration::MAX..=std::time::Duration::MAX));
    assert!(locks.lock("x").acquire().await.unwrap().is_valid());
}

/// Memory nodes vote without a first start, so being new says nothing about them.
#[tokio::test]
async fn a_memory_node_that_forgot_does_not_vote_for_a_new_manager_either() {
    let nodes = nodes::<3>();
    let old = builder(&nodes).build().unwrap();
    nodes[0].set_faults(Faults::unreachable());
    let guard = old.lock("x").acquire().await.unwrap();
    nodes[0].set_faults(Faults::none());
    nodes[2].forget();
    let new = builder(&nodes).build().unwrap();
    assert!(!matches!(new.lock("x").try_acquire().await, Ok(Some(_))), "two holders");
    assert!(guard.is_valid());
}
