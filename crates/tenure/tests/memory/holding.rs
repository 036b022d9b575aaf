//! A lock while it is held, on memory nodes: renewal, what the holder is told, work under it, and
//! changing hands.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::*;
use tokio::time::{Instant, advance, sleep, timeout};

use crate::support::*;

/// With this ttl, validity lasts for 9,898 ms, and the loss is told 500 ms before that.
const TTL: Duration = secs(10);
const LOSS: Duration = ms(9_398);

/// A manager that writes down the kinds of its events.
fn observed(nodes: &[MemoryNode]) -> (Locks, Arc<Mutex<Vec<String>>>) {
    let events = Arc::new(Mutex::new(vec![]));
    let seen = events.clone();
    let observer = move |event: &Event<'_>| {
        let text = format!("{event:?}");
        seen.lock().unwrap().push(text.split(' ').next().unwrap().to_owned());
    };
    (builder(nodes).tokio_time().observer(observer).build().unwrap(), events)
}

fn count(events: &Mutex<Vec<String>>, kind: &str) -> usize {
    events.lock().unwrap().iter().filter(|event| *event == kind).count()
}

/// Tells when it is dropped, as work that is cancelled is.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_held_for_as_long_as_its_guard_lives() {
    let nodes = nodes::<5>();
    let (locks, events) = observed(&nodes);
    let guard = locks.lock("x").ttl(TTL).acquire().await.unwrap();
    drop(locks);
    let other = paused(&nodes);
    for _ in 0..100 {
        sleep(secs(1)).await;
        assert!(guard.valid_for() > ms(6_500), "{:?}", guard.valid_for());
        assert!(other.lock("x").try_acquire().await.unwrap().is_none());
    }
    assert_eq!((guard.state(), guard.margin()), (HoldState::Held, 2));
    assert!((29..=31).contains(&count(&events, "Extended")), "{:?}", events.lock().unwrap());
    guard.release().await.unwrap();
    assert!(other.lock("x").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_renews_nothing_any_more() {
    let nodes = nodes::<3>();
    let (locks, events) = observed(&nodes);
    for end in ["drop", "release", "hand over"] {
        let guard = locks.lock(end).ttl(TTL).acquire().await.unwrap();
        sleep(secs(5)).await;
        match end {
            "drop" => drop(guard),
            "release" => drop(guard.release().await.unwrap()),
            _ => drop(guard.hand_over()),
        }
        let before = count(&events, "Extended");
        sleep(secs(60)).await;
        assert_eq!((count(&events, "Extended"), count(&events, "NotExtended")), (before, 0), "{end}");
        assert_eq!(keys(&nodes), [""; 0], "{end}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_states_tell_of_risk_of_its_end_and_of_loss() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").ttl(TTL).acquire().await.unwrap();
    let (start, mut states) = (Instant::now(), guard.states());
    assert_eq!(states.next().await, Some(HoldState::Held));
    fail(&nodes[..2], &Faults::silent());
    assert_eq!(states.next().await, Some(HoldState::AtRisk));
    let first_miss = start.elapsed();
    assert!((ms(3_375)..ms(3_390)).contains(&first_miss), "a third and a node timeout: {first_miss:?}");
    assert!(guard.is_valid());
    fail(&nodes, &Faults::none());
    assert_eq!(states.next().await, Some(HoldState::Held));
    assert!(start.elapsed() < ms(4_300), "tried again soon: {:?}", start.elapsed());
    fail(&nodes[1..], &Faults::unreachable());
    assert_eq!(states.next().await, Some(HoldState::AtRisk));
    assert_eq!(guard.state(), HoldState::AtRisk);
    assert_eq!(states.next().await, Some(HoldState::Lost));
    assert_eq!(guard.valid_for(), ms(500), "there is time to stop");
    assert_eq!((states.next().await, guard.state()), (None, HoldState::Lost));
    fail(&nodes, &Faults::none());
    sleep(ms(100)).await;
    assert_eq!(guard.state(), HoldState::Lost, "what is lost stays lost");
}

#[tokio::test(start_paused = true)]
async fn changes_tell_of_renewals_besides_the_states() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").ttl(TTL).acquire().await.unwrap();
    let (mut changes, mut states) = (guard.changes(), guard.states());
    assert_eq!(states.next().await, Some(HoldState::Held));
    let mut left = guard.valid_for();
    for _ in 0..3 {
        assert!(changes.next().await);
        assert!(guard.valid_for() >= left, "a renewal: {:?}", guard.valid_for());
        left = guard.valid_for();
    }
    fail(&nodes, &Faults::silent());
    assert_eq!(states.next().await, Some(HoldState::AtRisk), "renewals are no change of state");
    assert!(changes.next().await);
    assert_eq!(guard.state(), HoldState::AtRisk);
    while guard.state() != HoldState::Lost {
        assert!(changes.next().await);
    }
    drop(guard);
    while changes.next().await {}
}

#[tokio::test(start_paused = true)]
async fn loss_is_told_in_time_in_every_way() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").ttl(TTL).acquire().await.unwrap();
    let (start, token, lost) = (Instant::now(), guard.cancellation_token(), guard.lost());
    let elsewhere = tokio::spawn(guard.lost());
    fail(&nodes, &Faults::silent());
    assert!(!token.is_cancelled());
    lost.await;
    assert_eq!(start.elapsed(), LOSS);
    assert_eq!(guard.valid_for(), ms(500));
    elsewhere.await.unwrap();
    token.cancelled().await;
    guard.lost().await;
    guard.cancellation_token().cancelled().await;
    assert_eq!(start.elapsed(), LOSS, "all at once, also for those who ask later");
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_gone_is_a_lock_that_is_lost() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    for end in ["drop", "release", "hand over"] {
        let guard = locks.lock(end).ttl(TTL).acquire().await.unwrap();
        let (start, token, lost, mut states) =
            (Instant::now(), guard.cancellation_token(), guard.lost(), guard.states());
        assert_eq!(states.next().await, Some(HoldState::Held));
        match end {
            "drop" => drop(guard),
            "release" => drop(guard.release().await.unwrap()),
            _ => drop(guard.hand_over()),
        }
        lost.await;
        token.cancelled().await;
        assert_eq!((states.next().await, states.next().await), (Some(HoldState::Lost), None), "{end}");
        assert!(start.elapsed() < ms(5), "{end}: {:?}", start.elapsed());
    }
}

/// As after a pause of the process: nobody had a chance to tell.
#[tokio::test(start_paused = true)]
async fn the_first_look_after_a_long_pause_says_lost() {
    let nodes = nodes::<3>();
    let (locks, events) = observed(&nodes);
    let guard = locks.lock("x").ttl(TTL).acquire().await.unwrap();
    fail(&nodes, &Faults::silent());
    assert_eq!(guard.state(), HoldState::Held);
    // The clock moves at the first poll, before any other task runs.
    let mut pause = std::pin::pin!(advance(secs(20)));
    std::future::poll_fn(|cx| std::task::Poll::Ready(pause.as_mut().poll(cx).is_ready())).await;
    assert_eq!(count(&events, "Lost"), 0, "nobody was told");
    assert_eq!((guard.state(), guard.is_valid()), (HoldState::Lost, false));
    pause.await;
    sleep(ms(1)).await;
    assert_eq!(count(&events, "Lost"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_majority_that_says_no_is_a_loss_at_once() {
    let nodes = nodes::<5>();
    let locks = paused(&nodes);
    let guard = locks.lock("x").ttl(TTL).acquire().await.unwrap();
    let start = Instant::now();
    nodes[..3].iter().for_each(MemoryNode::forget);
    guard.lost().await;
    assert!(start.elapsed() < ms(3_400), "with the next renewal: {:?}", start.elapsed());
    assert!(!guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_held_no_longer_than_is_allowed() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let start = Instant::now();
    let capped = locks.lock("x").ttl(TTL).max_hold(MaxHold::AtMost(secs(30))).acquire().await.unwrap();
    capped.lost().await;
    assert!((secs(20)..secs(30)).contains(&start.elapsed()), "{:?}", start.elapsed());
    let start = Instant::now();
    let counted = locks.lock("y").ttl(TTL).renewals_max(1).acquire().await.unwrap();
    counted.lost().await;
    let expected = TTL / 3 + LOSS;
    assert!((expected - ms(10)..=expected).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lock_has_it_for_as_long_as_it_takes() {
    let nodes = nodes::<3>();
    let (locks, other) = (paused(&nodes), paused(&nodes));
    let lock = locks.lock("x").ttl(TTL);
    let fence = lock
        .with(async |guard| {
            for _ in 0..10 {
                sleep(secs(10)).await;
                assert!(guard.is_valid() && other.lock("x").try_acquire().await.unwrap().is_none());
            }
            guard.fence()
        })
        .await
        .unwrap();
    assert!(other.lock("x").try_acquire().await.unwrap().unwrap().fence() > fence);
}

#[tokio::test(start_paused = true)]
async fn work_returns_its_own_result_and_the_lock_is_gone() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    assert_eq!(locks.lock("x").with(async |_| "value").await.unwrap(), "value");
    sleep(ms(1)).await;
    assert_eq!(keys(&nodes), [""; 0]);
    let failed: Result<(), &str> = locks.lock("x").with(async |_| Err("its own")).await.unwrap();
    assert_eq!(failed, Err("its own"));
    sleep(ms(1)).await;
    assert_eq!(keys(&nodes), [""; 0]);
    let _guard = locks.lock("x").acquire().await.unwrap();
    let not_begun = locks.lock("x").wait(ms(10)).with(async |_| unreachable!("the lock is held")).await;
    assert!(matches!(not_begun, Err::<(), _>(WithError::Acquire(AcquireError::Contended { .. }))));
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_or_is_cancelled_leaves_no_lock() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let lock = locks.lock("x");
    let panicking = tokio::spawn(async move { lock.with(async |_| panic!("on purpose")).await });
    let end: Result<Result<(), _>, _> = panicking.await;
    assert!(end.unwrap_err().is_panic());
    sleep(ms(1)).await;
    assert_eq!(keys(&nodes), [""; 0]);

    let dropped = Arc::new(AtomicBool::new(false));
    let (lock, on_drop) = (locks.lock("x"), Dropped(dropped.clone()));
    let work = lock.with(async move |_| {
        let _dropped = on_drop;
        pending::<()>().await;
    });
    assert!(timeout(secs(100), work).await.is_err());
    assert!(dropped.load(Ordering::Relaxed));
    sleep(ms(1)).await;
    assert_eq!(keys(&nodes), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn work_is_cancelled_before_its_lock_can_be_anothers() {
    let nodes = nodes::<3>();
    let (locks, other) = (paused(&nodes), paused(&nodes));
    let dropped = Arc::new(AtomicBool::new(false));
    let on_drop = Dropped(dropped.clone());
    let lock = locks.lock("x").ttl(TTL);
    let work = tokio::spawn(async move {
        lock.with(async |_| {
            let _dropped = on_drop;
            loop {
                sleep(ms(1)).await;
            }
        })
        .await
    });
    sleep(ms(10)).await;
    let start = Instant::now();
    fail(&nodes, &Faults::silent());
    let end: Result<(), _> = work.await.unwrap();
    assert!(start.elapsed() < LOSS, "{:?}", start.elapsed());
    assert!(matches!(end, Err(WithError::Lost { .. })), "{end:?}");
    assert!(dropped.load(Ordering::Relaxed));
    insta::assert_snapshot!(end.unwrap_err(), @r#"lock "x" was lost during the work it protects; the work was cancelled. Find out why it could not be renewed: its nodes may be down, or its max_hold too short"#);
    fail(&nodes, &Faults::none());
    assert_eq!(keys(&nodes).len(), 3, "the nodes still have it");
    sleep(ms(500)).await;
    assert!(other.lock("x").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lock_changes_hands_and_keeps_its_fence() {
    let nodes = nodes::<5>();
    let (first, second, other) = (paused(&nodes), paused(&nodes), paused(&nodes));
    let guard = first.lock("x").ttl(TTL).acquire().await.unwrap();
    let fence = guard.fence();
    sleep(secs(5)).await;
    let text = guard.hand_over().to_string();
    sleep(secs(5)).await;
    let handover: Handover = text.parse().unwrap();
    assert_eq!((handover.fence, handover.held, handover.lives.len()), (fence, secs(5), 5));
    let mut guard = second.resume(&handover).await.unwrap();
    assert_eq!((guard.name(), guard.fence(), guard.state()), ("x", fence, HoldState::Held));
    assert!(guard.valid_for() > ms(9_800), "{:?}", guard.valid_for());
    for _ in 0..10 {
        sleep(secs(10)).await;
        assert!(guard.is_valid() && other.lock("x").try_acquire().await.unwrap().is_none());
    }
    guard.extend().await.unwrap();
    assert_eq!(guard.margin(), 2);
    guard.release().await.unwrap();
    sleep(ms(1)).await;
    assert_eq!(keys(&nodes), [""; 0]);
}

/// Whoever goes on with a lock keeps it from others as it was acquired, whatever its own defaults.
#[tokio::test(start_paused = true)]
async fn a_lock_is_resumed_with_its_own_period() {
    let nodes = nodes::<5>();
    let first = paused(&nodes);
    let mut defaults = Options::default();
    defaults.at_least = secs(20);
    let second = builder(&nodes).tokio_time().defaults(defaults).build().unwrap();
    let plain = first.lock("x").acquire().await.unwrap().hand_over();
    second.resume(&plain).await.unwrap().release().await.unwrap();
    assert!(first.lock("x").try_acquire().await.unwrap().is_some(), "nobody asked for a period");
    let reader = first.lock("y").shared().acquire().await.unwrap().hand_over();
    assert!(!second.resume(&reader).await.unwrap().mode().is_exclusive());
    let kept = first.lock("z").at_least(secs(5)).acquire().await.unwrap().hand_over();
    second.resume(&kept).await.unwrap().release().await.unwrap();
    let begun = Instant::now();
    let next = first.lock("z").wait_forever().acquire().await.unwrap();
    assert!((secs(4)..secs(6)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_on_with_a_lock_keeps_to_the_limit_it_was_acquired_with() {
    let nodes = nodes::<3>();
    let (first, second) = (paused(&nodes), paused(&nodes));
    let lock = first.lock("x").ttl(secs(10)).max_hold(MaxHold::AtMost(secs(15)));
    let guard = lock.acquire().await.unwrap();
    sleep(secs(4)).await;
    let token: LeaseToken = LeaseToken::of(&guard.hand_over()).to_string().parse().unwrap();
    let mut guard = second.resume(&token.handover("x", token.ttl())).await.unwrap();
    sleep(secs(2)).await;
    let error = guard.extend().await.unwrap_err();
    assert!(matches!(error, ExtendError::MaxHold { .. }), "{error}");
    assert!(guard.is_valid(), "what was granted stands");
}

/// The wall clock, which no test turns, is a clock that stands still here. And the machine on which
/// the lock was acquired may have had quite another one.
#[tokio::test(start_paused = true)]
async fn no_wall_clock_and_no_old_token_makes_a_hold_longer_or_shorter() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let limit = MaxHold::AtMost(secs(30));
    let first = locks.lock("x").ttl(secs(10)).max_hold(limit).acquire().await.unwrap().hand_over();
    let first = LeaseToken::of(&first).to_string();
    let with_since = |since: &str| -> Handover {
        let mut parts: Vec<&str> = first.split('.').collect();
        parts[3] = since;
        let token: LeaseToken = parts.join(".").parse().unwrap();
        token.handover("x", token.ttl())
    };
    for since in ["0", "18f000000000", "ffffffffffff"] {
        sleep(secs(6)).await;
        let _ = locks.resume(&with_since(since)).await.unwrap().hand_over();
    }
    // It has been held for 21 s, and would be for 31.
    sleep(secs(3)).await;
    for since in ["0", "18f000000000", "ffffffffffff"] {
        let error = locks.resume(&with_since(since)).await.unwrap_err();
        assert!(matches!(error, ExtendError::MaxHold { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handover_that_nobody_takes_ends_with_its_ttl() {
    let nodes = nodes::<3>();
    let (first, second) = (paused(&nodes), paused(&nodes));
    let handover = first.lock("x").ttl(TTL).acquire().await.unwrap().hand_over();
    let start = Instant::now();
    let guard = second.lock("x").wait_forever().acquire().await.unwrap();
    assert!((secs(11)..ms(11_200)).contains(&start.elapsed()), "{:?}", start.elapsed());
    let error = first.resume(&handover).await.unwrap_err();
    assert!(matches!(error, ExtendError::Lost { .. }), "{error}");
    sleep(secs(1)).await;
    assert_eq!(keys(&nodes).len(), 3, "the next holder's lock is not touched");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handover_that_fails_can_be_tried_again() {
    let nodes = nodes::<3>();
    let (first, second) = (paused(&nodes), paused(&nodes));
    let handover = first.lock("x").ttl(TTL).acquire().await.unwrap().hand_over();
    second.ready().await;
    fail(&nodes[..2], &Faults::silent());
    let error = second.resume(&handover).await.unwrap_err();
    assert!(matches!(error, ExtendError::Unavailable { .. }), "{error}");
    // Neither the failure nor a call that is given up releases anything.
    assert!(timeout(ms(10), second.resume(&handover)).await.is_err());
    fail(&nodes, &Faults::none());
    sleep(ms(500)).await;
    assert_eq!(keys(&nodes).len(), 3);
    assert!(second.resume(&handover).await.unwrap().is_valid());
}

#[cfg(feature = "blocking")]
#[test]
fn without_a_runtime_a_lock_is_renewed_and_its_state_is_seen() {
    let nodes = nodes::<3>();
    let locks = blocking::Locks::build(builder(&nodes)).unwrap();
    let guard = locks.lock_with("x", |lock| lock.ttl(ms(900))).acquire().unwrap();
    std::thread::sleep(ms(1_500));
    assert_eq!(guard.state(), HoldState::Held);
    fail(&nodes, &Faults::silent());
    let (start, valid_for) = (std::time::Instant::now(), guard.valid_for());
    loop {
        let looked = start.elapsed();
        if guard.state() == HoldState::Lost {
            break;
        }
        assert!(looked < valid_for, "told before the end");
        std::thread::sleep(ms(1));
    }
}

/// The worker lives on the runtime that the manager was built in. When that is gone, nobody renews
/// any more.
#[test]
fn a_holder_is_told_when_the_runtime_of_its_manager_is_gone() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for asked_before in [true, false] {
        let first = runtime();
        let guard = first.block_on(async { Locks::memory().lock("x").acquire().await.unwrap() });
        let early = asked_before.then(|| (guard.lost(), guard.cancellation_token()));
        drop(first);
        let (lost, token) = early.unwrap_or_else(|| (guard.lost(), guard.cancellation_token()));
        runtime().block_on(async { tokio::time::timeout(secs(60), lost).await.expect("it is told") });
        assert!(token.is_cancelled());
    }
}
