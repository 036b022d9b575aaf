//! Promises that hold wherever the locks are: one suite for memory nodes, an embedded store and
//! Redis servers. What is special about one of these has tests of its own beside it.
//!
//! Time is tokio's, so that the memory nodes run through it under a clock that is paused.

use std::time::Duration;

use tenure::*;
use tokio::time::{Instant, sleep};

/// Where the locks are.
pub(crate) trait Deployment {
    /// How many nodes there are.
    const NODES: usize;

    /// How late something may be noticed here.
    const SLACK: Duration;

    /// A manager of its own, as another program has it.
    fn client(&self) -> impl Future<Output = Locks>;
}

/// Runs every promise on this deployment, as tests with this attribute.
macro_rules! promises {
    (#[$test:meta] $deployment:expr) => {
        crate::promises::promises! { #[$test] $deployment =>
            one_client_at_a_time_has_the_lock
            the_validity_is_ttl_less_elapsed_less_drift_and_counts_down
            a_lock_frees_itself_when_its_holder_is_gone
            a_release_after_expiry_does_not_touch_the_next_holder
            whoever_asks_is_told_who_has_the_lock_and_how_many_wait
        }
    };
    (#[$test:meta] $deployment:expr => $($promise:ident)*) => {
        $(
            #[$test]
            async fn $promise() {
                crate::promises::$promise(&$deployment).await;
            }
        )*
    };
}
pub(crate) use promises;

pub(crate) async fn one_client_at_a_time_has_the_lock(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let mut guard = first.lock("x").acquire().await.unwrap();
    assert!(second.lock("x").try_acquire().await.unwrap().is_none());
    assert!(second.lock("y").try_acquire().await.unwrap().is_some(), "another name is another lock");
    guard.extend().await.unwrap();
    let waiting = tokio::spawn(second.lock("x").acquire());
    sleep(Duration::from_millis(120)).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_valid());
    let guard = second.lock("x").acquire().await.unwrap();
    guard.release().await.unwrap();
    assert!(first.lock("x").try_acquire().await.unwrap().is_some());
}

pub(crate) async fn the_validity_is_ttl_less_elapsed_less_drift_and_counts_down(
    deployment: &impl Deployment,
) {
    let locks = deployment.client().await;
    let before = Instant::now();
    let mut guard = locks.lock("x").ttl(Duration::from_secs(10)).acquire().await.unwrap();
    let check = |guard: &Guard, begun: Instant| {
        let left = guard.valid_for();
        // 10 s less 1 % less 2 ms, less what has passed since the round began, which was after
        // `begun`.
        assert!(left <= Duration::from_millis(9_898), "{left:?}");
        assert!(
            left + begun.elapsed() >= Duration::from_millis(9_897),
            "{left:?} after {:?}",
            begun.elapsed()
        );
        left
    };
    let first = check(&guard, before);
    sleep(Duration::from_millis(300)).await;
    assert!(check(&guard, before) <= first - Duration::from_millis(299));
    let before = Instant::now();
    guard.extend().await.unwrap();
    check(&guard, before);
}

pub(crate) async fn a_lock_frees_itself_when_its_holder_is_gone<P: Deployment>(deployment: &P) {
    let (crashed, next) = (deployment.client().await, deployment.client().await);
    let start = Instant::now();
    // The worker lives on here, so it is told to renew nothing.
    let lock = crashed.lock("x").ttl(Duration::from_millis(400)).renewal(Renewal::Off);
    std::mem::forget(lock.acquire().await.unwrap());
    next.lock("x").wait_forever().acquire().await.unwrap().release().await.unwrap();
    let freed = Duration::from_millis(500);
    assert!(start.elapsed() >= freed, "ttl and guard band: {:?}", start.elapsed());
    assert!(start.elapsed() < freed + P::SLACK, "and a retry: {:?}", start.elapsed());
}

pub(crate) async fn a_release_after_expiry_does_not_touch_the_next_holder(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let lock = first.lock("x").ttl(Duration::from_millis(500)).renewal(Renewal::Off);
    let late = lock.acquire().await.unwrap();
    let guard = second.lock("x").wait_forever().acquire().await.unwrap();
    held_everywhere(&second, &guard, deployment).await;
    let error = late.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::NotHeld { .. }), "{error}");
    held_everywhere(&second, &guard, deployment).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

pub(crate) async fn whoever_asks_is_told_who_has_the_lock_and_how_many_wait<P: Deployment>(deployment: &P) {
    let (holder, asker) = (deployment.client().await, deployment.client().await);
    let lock = holder.lock("x").ttl(Duration::from_secs(60)).label("nightly import");
    let guard = lock.acquire().await.unwrap();
    let waiting = tokio::spawn(holder.lock("x").wait_forever().acquire());
    let begun = Instant::now();
    let report = loop {
        let report = asker.inspect("x").await.unwrap();
        if report.waiters == Some(1) && report.agree.len() == P::NODES {
            break report;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{report:?}");
        sleep(Duration::from_millis(5)).await;
    };
    let LockState::Held { owner, label, left, fence, .. } = &report.state else { panic!("{report:?}") };
    assert_eq!(owner.len(), 40);
    let label = label.as_deref().unwrap();
    assert!(label.starts_with(&std::process::id().to_string()), "{label}");
    assert!(label.ends_with(" nightly import"), "{label}");
    assert!(left.unwrap() <= Duration::from_secs(66), "{left:?}");
    assert_eq!((*fence, &*report.name), (Some(guard.fence()), "x"));
    let error = asker.lock("x").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert!(error.to_string().contains("nightly import\", 1 ahead of us in a line of 1)"), "{error}");
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    holder.shutdown().await.unwrap();
    assert_eq!(asker.inspect("x").await.unwrap().state, LockState::Free);
}

/// Waits until all nodes say that this guard has the lock.
async fn held_everywhere<P: Deployment>(asker: &Locks, guard: &Guard, _: &P) {
    let begun = Instant::now();
    loop {
        let report = asker.inspect("x").await.unwrap();
        match &report.state {
            LockState::Held { fence, .. } => assert_eq!(*fence, Some(guard.fence()), "{report:?}"),
            // A busy machine did not let enough of them answer.
            LockState::Unknown => {}
            _ => panic!("{report:?}"),
        }
        if report.agree.len() == P::NODES {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{report:?}");
        sleep(Duration::from_millis(5)).await;
    }
}
