//! Looking at locks without touching them, on memory nodes.

use tenure::*;
use tokio::time::sleep;

use crate::support::*;

/// The addresses of the nodes with these numbers.
fn addresses(numbers: &[usize]) -> Vec<String> {
    numbers.iter().map(|number| format!("memory:{number}")).collect()
}

fn sides(report: &LockReport) -> [Vec<String>; 2] {
    [&report.agree, &report.disagree].map(|nodes| nodes.iter().map(ToString::to_string).collect())
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_all_nodes_have_is_held_and_tells_by_whom_and_for_how_long() {
    let nodes = nodes::<3>();
    let (holder, asker) = (paused(&nodes), paused(&nodes));
    let guard = holder.lock("x").ttl(secs(10)).label("nightly import").acquire().await.unwrap();
    let report = asker.inspect("x").await.unwrap();
    let LockState::Held { owner, label, left, fence, .. } = &report.state else { panic!("{report:?}") };
    assert_eq!(owner.len(), 40);
    let label = label.as_deref().unwrap();
    assert!(
        label.starts_with(&std::process::id().to_string()) && label.ends_with(" nightly import"),
        "{label}"
    );
    assert!(left.unwrap() > secs(10) && left.unwrap() <= secs(11));
    assert_eq!(*fence, Some(guard.fence()));
    assert_eq!((&*report.name, report.waiters), ("x", Some(0)));
    assert_eq!(sides(&report), [addresses(&[0, 1, 2]), vec![]]);
    assert!(report.nodes.iter().all(|node| node.votes && node.holding.as_ref().unwrap().is_some()));
    guard.release().await.unwrap();
    let report = asker.inspect("x").await.unwrap();
    assert_eq!((&report.state, report.agree.len()), (&LockState::Free, 3));
    assert!(matches!(asker.inspect("").await, Err(AcquireError::InvalidName { .. })));
}

/// It has a key that a lost release left behind; a key of a few nodes keeps nobody out.
#[tokio::test(start_paused = true)]
async fn a_key_that_a_minority_still_has_is_a_free_lock_with_disagreement() {
    let nodes = nodes::<3>();
    let (holder, asker) = (paused(&nodes), paused(&nodes));
    tokio::join!(holder.ready(), asker.ready());
    let guard = holder.lock("x").acquire().await.unwrap();
    nodes[2].set_faults(Faults::silent());
    guard.release().await.unwrap();
    nodes[2].set_faults(Faults::none());
    let report = asker.inspect("x").await.unwrap();
    assert_eq!(report.state, LockState::Free, "{report:?}");
    assert_eq!(sides(&report), [addresses(&[0, 1]), addresses(&[2])]);
    assert!(report.nodes[2].holding.as_ref().unwrap().is_some(), "what it says is shown");
}

#[tokio::test(start_paused = true)]
async fn a_release_by_force_is_of_one_holder_also_if_a_minority_has_it_and_of_no_later_one() {
    let nodes = nodes::<3>();
    let (holder, operator) = (paused(&nodes), paused(&nodes));
    tokio::join!(holder.ready(), operator.ready());
    let guard = holder.lock("x").acquire().await.unwrap();
    let report = operator.inspect("x").await.unwrap();
    let owners = report.owners();
    let [owner] = *owners.iter().collect::<Vec<_>>() else { panic!("{owners:?}") };
    // Only one node has it any more.
    nodes[2].set_faults(Faults::silent());
    guard.release().await.unwrap();
    nodes[2].set_faults(Faults::none());
    operator.release_by_force("x", owner).await.unwrap();
    sleep(ms(50)).await;
    assert_eq!(keys(&nodes), [""; 0]);
    let next = holder.lock("x").acquire().await.unwrap();
    operator.release_by_force("x", owner).await.unwrap();
    sleep(ms(50)).await;
    assert_eq!((keys(&nodes).len(), next.is_valid()), (3, true), "the next holder keeps it");
    let foreign = operator.release_by_force("x", "somebody").await.unwrap_err();
    assert!(matches!(foreign, ReleaseError::Foreign { .. }), "{foreign}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_answer_is_named_and_without_a_majority_nothing_is_known() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let _guard = locks.lock("x").ttl(secs(60)).acquire().await.unwrap();
    nodes[0].set_faults(Faults::silent());
    let report = locks.inspect("x").await.unwrap();
    assert!(matches!(report.state, LockState::Held { .. }), "{report:?}");
    assert_eq!(report.nodes[0].holding, Err(Fault::Timeout));
    assert_eq!(sides(&report), [addresses(&[1, 2]), vec![]]);
    nodes[1].set_faults(Faults::unreachable());
    let report = locks.inspect("x").await.unwrap();
    assert_eq!((&report.state, sides(&report)), (&LockState::Unknown, [vec![], vec![]]), "{report:?}");
    let list = locks.list().await.unwrap();
    assert_eq!(list.locks[0].state, LockState::Unknown);
    assert_eq!(list.nodes.iter().map(|node| node.told.is_ok()).collect::<Vec<_>>(), [false, false, true]);
}

/// It calls every lock free, because it forgot all of them.
#[tokio::test(start_paused = true)]
async fn nodes_in_quarantine_are_shown_and_not_counted() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let _guard = locks.lock("x").renewal(Renewal::Off).acquire().await.unwrap();
    nodes[..2].iter().for_each(MemoryNode::forget);
    // Whoever asks finds out that they are new.
    let _ = locks.lock("y").try_acquire().await;
    let report = locks.inspect("x").await.unwrap();
    assert_eq!(report.state, LockState::Unknown, "{report:?}");
    assert_eq!(report.nodes.iter().map(|node| node.votes).collect::<Vec<_>>(), [false, false, true]);
}

/// The waiters live on a runtime of their own that stands still while we look.
#[test]
fn those_in_line_are_counted_and_a_lock_that_is_set_aside_is_nobodys() {
    let nodes = nodes::<3>();
    let [here, there] =
        [(); 2].map(|()| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
    let guard = here.block_on(async {
        let locks = builder(&nodes).build().unwrap();
        locks.lock("x").acquire().await.unwrap()
    });
    let _waiting = there.block_on(async {
        let locks = builder(&nodes).build().unwrap();
        let mut waiting = vec![];
        for _ in 0..3 {
            waiting.push(tokio::spawn(locks.lock("x").wait(secs(60)).acquire()));
            tokio::time::sleep(ms(20)).await;
        }
        waiting
    });
    here.block_on(async {
        let locks = builder(&nodes).build().unwrap();
        let report = locks.inspect("x").await.unwrap();
        assert!(matches!(report.state, LockState::Held { .. }), "{report:?}");
        assert_eq!(report.waiters, Some(3));
        let released = std::time::Instant::now();
        guard.release().await.unwrap();
        let report = locks.inspect("x").await.unwrap();
        if released.elapsed() > ms(190) {
            // This machine was held up until it was over.
            return;
        }
        let LockState::Reserved { left, .. } = report.state else { panic!("{report:?}") };
        assert!(left.unwrap() <= ms(200), "{left:?}");
        assert_eq!((report.waiters, report.agree.len()), (Some(2), 3), "one of them is next");
    });
}

#[tokio::test(start_paused = true)]
async fn a_list_has_one_entry_per_lock_with_what_a_majority_says() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    tokio::join!(locks.ready());
    let _held = locks.lock("held").label("not looked at").acquire().await.unwrap();
    let stale = locks.lock("stale").acquire().await.unwrap();
    nodes[0].set_faults(Faults::silent());
    stale.release().await.unwrap();
    nodes[0].set_faults(Faults::none());
    let list = locks.list().await.unwrap();
    assert_eq!(list.locks.iter().map(|lock| &*lock.name).collect::<Vec<_>>(), ["held", "stale"]);
    let LockState::Held { label: None, fence: None, left: Some(_), .. } = list.locks[0].state else {
        panic!("{list:?}")
    };
    assert_eq!(list.locks[1].state, LockState::Free);
    assert_eq!(sides(&list.locks[1]), [addresses(&[1, 2]), addresses(&[0])]);
    let told: Vec<_> = list.nodes.iter().map(|node| node.told.clone().unwrap()).collect();
    assert_eq!(told, [2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_wait_is_told_who_has_the_lock_and_how_many_wait() {
    let nodes = nodes::<3>();
    let (holder, asker) = (paused(&nodes), paused(&nodes));
    tokio::join!(holder.ready(), asker.ready());
    let _guard = holder.lock("x").label("nightly import").acquire().await.unwrap();
    let _waiting = tokio::spawn(holder.lock("x").wait(secs(60)).acquire());
    tokio::time::sleep(ms(20)).await;
    for lock in [asker.lock("x").wait(ms(0)), asker.lock("x").unqueued().wait(ms(10))] {
        let error = lock.acquire().await.unwrap_err();
        let message = error.to_string();
        let AcquireError::Contended { place: Some(place), .. } = error else { panic!("{error:?}") };
        assert!(place.holder.as_deref().unwrap().ends_with("nightly import"), "{place:?}");
        assert_eq!((place.ahead, place.waiters, place.nodes), (1, 1, 3));
        assert!(message.contains("nightly import\", 1 ahead of us, 1 in line)"), "{message}");
    }
    let free = asker.lock("x").wait(ms(0));
    assert_eq!(holder.inspect("x").await.unwrap().waiters, Some(1), "nothing was changed");
    // A node that is silent costs a node timeout, and no more.
    nodes[0].set_faults(Faults::silent());
    let begun = tokio::time::Instant::now();
    let error = free.clone().acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Contended { place: Some(_), .. }), "{error:?}");
    assert!(begun.elapsed() <= ms(50), "{:?}", begun.elapsed());
    let begun = tokio::time::Instant::now();
    assert!(free.try_acquire().await.unwrap().is_none());
    assert_eq!(begun.elapsed(), ms(0), "which nobody pays who only wants to know whether it is free");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_answer_holds_up_no_question() {
    let nodes = nodes::<5>();
    let locks = paused(&nodes);
    let _guard = locks.lock("x").acquire().await.unwrap();
    nodes[4].set_faults(Faults::silent());
    let begun = tokio::time::Instant::now();
    let report = locks.inspect("x").await.unwrap();
    let list = locks.list().await.unwrap();
    assert!(begun.elapsed() <= ms(205), "{:?}", begun.elapsed());
    assert_eq!((report.agree.len(), list.locks.len()), (4, 1));
    assert_eq!(report.nodes[4].holding, Err(Fault::Timeout));
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_slower_than_a_majority_are_waited_for_twice_as_long_again() {
    let nodes = nodes::<5>();
    let locks = paused(&nodes);
    let _guard = locks.lock("x").acquire().await.unwrap();
    for (node, delay) in nodes.iter().zip([100, 100, 100, 280, 700]) {
        node.set_faults(Faults::none().delay(ms(delay)..=ms(delay)));
    }
    let report = locks.inspect("x").await.unwrap();
    let answered: Vec<bool> = report.nodes.iter().map(|node| node.holding.is_ok()).collect();
    assert_eq!(answered, [true, true, true, true, false]);
}
