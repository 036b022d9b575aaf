//! What an observer gets to see.

use std::sync::{Arc, Mutex};

use tenure::*;
use tokio::time::sleep;

use crate::support::*;

/// An event without the votes, which have a page of their own.
fn brief(event: &Event<'_>) -> String {
    let text = words(event);
    text.split_once(", votes: ").map_or_else(|| text.clone(), |(before, _)| format!("{before} }}"))
}

#[tokio::test(start_paused = true)]
async fn events_tell_the_story_of_a_lock() {
    let nodes = nodes::<3>();
    let events = Arc::new(Mutex::new(vec![]));
    let seen = events.clone();
    let observer = move |event: &Event<'_>| seen.lock().unwrap().push(brief(event));
    let locks = builder(&nodes).tokio_time().observer(observer).build().unwrap();

    let mut guard = locks.lock("x").acquire().await.unwrap();
    guard.extend().await.unwrap();
    let retry = Retry::default().tries_max(2).delay(ms(100)).jitter(ms(0));
    locks.lock("x").unqueued().retry(retry).wait_forever().acquire().await.unwrap_err();
    fail(&nodes, &Faults::silent());
    guard.extend().await.unwrap_err();
    fail(&nodes, &Faults::none());
    guard.release().await.unwrap();
    nodes[2].set_faults(Faults::silent());
    drop(locks.lock("y").ttl(secs(1)).acquire().await.unwrap());
    sleep(secs(3)).await;
    insta::assert_snapshot!(events.lock().unwrap().join("\n"), @r#"
    Acquired { name: "x", attempts: 1, elapsed: 0ns, margin: 0, fence: Fence(..), passed_on_after: None }
    Extended { name: "x", valid_for: 29.698s, fence: Fence(..) }
    Retrying { name: "x", cause: Contended { retry_after: Some(33s) }, pause: 100ms }
    CleanedUp { name: "x" }
    NotAcquired { name: "x", cause: Contended { retry_after: Some(32.9s) }, attempts: 2, elapsed: 100ms }
    CleanedUp { name: "x" }
    NotExtended { name: "x", lost: false, valid_for: 29.548s, fence: Fence(..) }
    AtRisk { name: "x", valid_for: 29.548s, fence: Fence(..) }
    GivenUp { name: "x", fence: Fence(..), held: Some(150ms) }
    CleanedUp { name: "x" }
    Acquired { name: "y", attempts: 1, elapsed: 0ns, margin: 0, fence: Fence(..), passed_on_after: None }
    GivenUp { name: "y", fence: Fence(..), held: Some(0ns) }
    NotCleanedUp { name: "y", nodes: 1 }
    "#);
}

/// From a release to the grant of whoever waited, by the nodes' clocks; and nothing where nobody
/// passed the lock on: it was free, or expired.
#[tokio::test(start_paused = true)]
async fn an_acquisition_tells_how_long_the_lock_took_from_the_holder_before() {
    let nodes = nodes::<3>();
    let told = Arc::new(Mutex::new(vec![]));
    let seen = told.clone();
    let observer = move |event: &Event<'_>| {
        if let Event::Acquired { passed_on_after, .. } = event {
            seen.lock().unwrap().push(*passed_on_after);
        }
    };
    let [first, second] =
        [(); 2].map(|()| builder(&nodes).tokio_time().observer(observer.clone()).build().unwrap());
    let guard = first.lock("x").acquire().await.unwrap();
    let waiting = tokio::spawn(async move {
        let guard = second.lock("x").wait_forever().acquire().await.unwrap();
        (second, guard)
    });
    sleep(ms(500)).await;
    // The claim takes 10 ms to the nodes.
    fail(&nodes, &Faults::none().delay(ms(10)..=ms(10)));
    guard.release().await.unwrap();
    let (second, guard) = waiting.await.unwrap();
    fail(&nodes, &Faults::none());
    guard.release().await.unwrap();
    // A holder that is gone, and a lock that expires.
    let gone = first.lock("y").ttl(secs(1)).renewal(Renewal::Off).acquire().await.unwrap();
    let late = second.lock("y").wait_forever().acquire().await.unwrap();
    assert!(!gone.is_valid());
    drop(late);
    let told = told.lock().unwrap().clone();
    assert_eq!((told.len(), told[0], told[2], told[3]), (4, None, None, None), "{told:?}");
    let passed_on = told[1].expect("it was passed on");
    assert!((ms(10)..=ms(12)).contains(&passed_on), "{passed_on:?}");
}

#[tokio::test]
async fn an_observer_that_panics_costs_nobody_a_lock() {
    let nodes = nodes::<3>();
    let locks = builder(&nodes).observer(|_| panic!("on purpose")).build().unwrap();
    let guard = locks.lock("x").acquire().await.unwrap();
    guard.release().await.unwrap();
}

/// An observer that looks at the guard the event is about, while the worker has just moved it on.
#[tokio::test(start_paused = true)]
async fn an_observer_may_look_at_guards() {
    let nodes = nodes::<1>();
    let slot: Arc<Mutex<Option<Guard>>> = Arc::default();
    let (seen, looked) = (slot.clone(), Arc::new(Mutex::new(0)));
    let count = looked.clone();
    let observer = move |event: &Event<'_>| {
        if let (Event::Extended { .. }, Some(guard)) = (event, &*seen.lock().unwrap()) {
            *count.lock().unwrap() += usize::from(guard.is_valid());
        }
    };
    let locks = builder(&nodes).tokio_time().observer(observer).build().unwrap();
    let mut guard = locks.lock("x").acquire().await.unwrap();
    nodes[0].set_faults(Faults::none().delay(ms(10)..=ms(10)));
    assert!(tokio::time::timeout(ms(2), guard.extend()).await.is_err(), "cancelled, and it goes on");
    *slot.lock().unwrap() = Some(guard);
    sleep(ms(100)).await;
    assert_eq!(*looked.lock().unwrap(), 1);
}
