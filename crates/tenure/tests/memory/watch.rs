//! One view of the fleet, on memory nodes.

use std::time::Duration;

use tenure::*;
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

/// What is told about a lock: who had it and who has it, by their labels, and how it was found.
#[derive(Debug, PartialEq, Eq)]
struct Told(String, Option<String>, Option<String>, bool);

fn told(name: &str, before: Option<&str>, now: Option<&str>, seen: bool) -> Told {
    Told(name.to_owned(), before.map(str::to_owned), now.map(str::to_owned), seen)
}

/// The next change that is more than an extension.
async fn next(watch: &mut FleetWatch) -> Told {
    loop {
        let news = timeout(secs(30), watch.next()).await.expect("in time").expect("the manager is there");
        let label = |view: &std::sync::Arc<LockView>| {
            view.state().label().map(|label| label.rsplit(' ').next().unwrap_or_default().to_owned())
        };
        let mut changes = news.locks.iter().filter(|change| !change.is_extension());
        if let Some(change) = changes.next() {
            assert!(changes.next().is_none(), "one at a time: {news:?}");
            let (before, now) = (change.before.as_ref().and_then(label), change.now.as_ref().and_then(label));
            return Told(change.name.to_string(), before, now, change.seen);
        }
    }
}

/// Waits until the view is whole.
async fn complete(watch: &mut FleetWatch) -> Vec<LockChange> {
    let mut all = vec![];
    loop {
        let news = timeout(secs(60), watch.next()).await.expect("in time").expect("the manager is there");
        all.extend(news.locks);
        if news.progress.is_some_and(|progress| progress.complete) {
            return all;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_this_process_does_is_known_and_what_others_do_is_seen() {
    let nodes = nodes::<3>();
    let (ours, theirs) = (paused(&nodes), paused(&nodes));
    let mut watch = ours.watch();
    assert!(complete(&mut watch).await.is_empty());
    let begun = Instant::now();
    let guard = ours.lock("a").label("us").acquire().await.unwrap();
    assert_eq!(next(&mut watch).await, told("a", None, Some("us"), false));
    assert!(begun.elapsed() < ms(100), "without a walk: {:?}", begun.elapsed());
    guard.release().await.unwrap();
    assert_eq!(next(&mut watch).await, told("a", Some("us"), None, false));

    let guard = theirs.lock("a").ttl(secs(10)).label("them").acquire().await.unwrap();
    let begun = Instant::now();
    assert_eq!(next(&mut watch).await, told("a", None, Some("them"), true));
    assert!(begun.elapsed() <= FleetWatch::LOOK_EVERY * 2, "{:?}", begun.elapsed());
    guard.release().await.unwrap();
    assert_eq!(next(&mut watch).await, told("a", Some("them"), None, true));
}

#[tokio::test(start_paused = true)]
async fn a_view_of_a_lock_counts_up_and_down_by_itself() {
    let nodes = nodes::<3>();
    let (ours, theirs) = (paused(&nodes), paused(&nodes));
    let guard = theirs.lock("a").ttl(secs(10)).renewal(Renewal::Off).acquire().await.unwrap();
    sleep(secs(2)).await;
    let mut watch = ours.watch();
    let found = complete(&mut watch).await;
    let view = found[0].now.clone().unwrap();
    assert_eq!((view.name(), view.margin(), view.agree(), view.others()), ("a", Some(1), 3, 0));
    assert_eq!((view.waiters(), view.disagree()), (Some(0), 0));
    assert!(view.held_for_is_known(), "by its fence");
    assert!((ms(1_900)..ms(2_500)).contains(&view.held_for()), "{:?}", view.held_for());
    let left = view.left().unwrap();
    sleep(ms(500)).await;
    assert_eq!(left - view.left().unwrap(), ms(500));
    assert_eq!(view.state().fence(), Some(guard.fence()));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_told_as_an_extension() {
    let nodes = nodes::<3>();
    let (ours, theirs) = (paused(&nodes), paused(&nodes));
    let _guard = theirs.lock("a").ttl(secs(6)).acquire().await.unwrap();
    let mut watch = ours.watch();
    complete(&mut watch).await;
    let begun = Instant::now();
    loop {
        let news = watch.next().await.unwrap();
        if let [change] = &news.locks[..] {
            assert!(change.is_extension() && !change.changes_hands(), "{change:?}");
            break;
        }
        assert!(begun.elapsed() < secs(6));
    }
}

#[tokio::test(start_paused = true)]
async fn only_names_under_the_prefix_are_told_and_a_later_watcher_gets_all_of_its_own() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let mut guards = vec![];
    for name in ["a/1", "a/2", "b/1"] {
        guards.push(locks.lock(name).acquire().await.unwrap());
    }
    let names = |changes: Vec<LockChange>| -> Vec<String> {
        let mut names: Vec<String> = changes.into_iter().map(|change| change.name.to_string()).collect();
        names.sort();
        names
    };
    let mut some = locks.watch().prefix("a/");
    assert_eq!(names(complete(&mut some).await), ["a/1", "a/2"]);
    // The looker has to begin again for more, and the first watcher does not lose anything by that.
    let mut all = locks.watch();
    let mut found = vec![];
    while found.len() < 3 {
        found.extend(timeout(secs(30), all.next()).await.unwrap().unwrap().locks);
    }
    assert_eq!(names(found), ["a/1", "a/2", "b/1"]);
    guards.pop().unwrap().release().await.unwrap();
    guards.pop().unwrap().release().await.unwrap();
    let gone = next(&mut some).await;
    assert_eq!((gone.0.as_str(), gone.2), ("a/2", None));
}

#[tokio::test(start_paused = true)]
async fn one_lock_is_watched_in_full_and_without_a_walk() {
    let nodes = nodes::<3>();
    let (ours, theirs) = (paused(&nodes), paused(&nodes));
    let mut watch = ours.watch().lock("a");
    let mut states = vec![];
    let guard = theirs.lock("a").label("them").acquire().await.unwrap();
    let mut guard = Some(guard);
    while states.len() < 2 {
        let news = timeout(secs(10), watch.next()).await.unwrap().unwrap();
        assert!(news.locks.is_empty());
        if let Some(report) = news.lock {
            assert_eq!((&*report.name, report.nodes.len()), ("a", 3));
            if states.is_empty() && report.state == LockState::Free {
                continue;
            }
            states.push(report.state.clone());
            if let Some(guard) = guard.take() {
                guard.release().await.unwrap();
            }
        }
    }
    assert!(matches!(&states[0], LockState::Held { .. }), "{states:?}");
    assert_eq!(states[1], LockState::Free);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_fails_is_told_and_the_view_goes_on() {
    let nodes = nodes::<3>();
    let (ours, theirs) = (paused(&nodes), paused(&nodes));
    let _guard = theirs.lock("a").acquire().await.unwrap();
    let mut watch = ours.watch();
    complete(&mut watch).await;
    nodes[2].set_faults(Faults::unreachable());
    let (mut error, mut margin) = (None, None);
    let begun = Instant::now();
    while error.is_none() || margin != Some(0) {
        assert!(begun.elapsed() < secs(20), "{error:?} {margin:?}");
        let news = watch.next().await.unwrap();
        error = news.progress.and_then(|progress| progress.nodes[2].error.clone()).or(error);
        margin = news.locks.first().map(|change| change.now.as_ref().unwrap().margin()).unwrap_or(margin);
    }
    nodes[2].set_faults(Faults::none());
    let begun = Instant::now();
    while margin != Some(1) {
        assert!(begun.elapsed() < secs(30), "{margin:?}");
        let news = watch.next().await.unwrap();
        margin = news.locks.first().map(|change| change.now.as_ref().unwrap().margin()).unwrap_or(margin);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_manager() {
    let locks = Locks::builder().node(MemoryNode::new("alone")).tokio_time().build().unwrap();
    let mut watch = locks.watch();
    complete(&mut watch).await;
    locks.shutdown().await.unwrap();
    // Those who are left can still look: a shutdown gives no new locks, and nothing else.
    assert!(timeout(Duration::from_secs(3), watch.next()).await.is_err());
}
