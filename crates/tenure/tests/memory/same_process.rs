//! A lock that this very process holds is told as such, and no other one is.

use tenure::*;

use crate::support::*;

async fn refused(locks: &Locks, options: impl FnOnce(Lock) -> Lock) -> (bool, String) {
    let error = options(locks.lock("x")).acquire().await.unwrap_err();
    let message = error.to_string();
    let AcquireError::Contended { held_here, .. } = error else { panic!("{error}") };
    (held_here, message)
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_this_process_holds_is_told_as_such() {
    let nodes = nodes::<3>();
    let (holder, other) = (paused(&nodes), paused(&nodes));
    let guard = holder.lock("x").acquire().await.unwrap();
    for (which, locks) in [("the same manager", &holder), ("another manager of the process", &other)] {
        for (held_here, message) in
            [refused(locks, Lock::no_wait).await, refused(locks, |lock| lock.wait(ms(80))).await]
        {
            assert!(
                held_here && message.contains("lock \"x\" is held by this process"),
                "{which}: {message}"
            );
        }
        assert_eq!(locks.inspect("x").await.unwrap().held_here, Some(true), "{which}");
        assert_eq!(locks.list().await.unwrap().locks[0].held_here, None, "a list does not look");
    }
    guard.release().await.unwrap();
    assert_eq!(holder.inspect("x").await.unwrap().held_here, Some(false), "nobody holds it");
}

/// The label names this process and machine, but the token is nobody's here.
#[tokio::test(start_paused = true)]
async fn a_label_of_this_process_proves_nothing() {
    let nodes = nodes::<3>();
    let (holder, other) = (paused(&nodes), paused(&nodes));
    let handover = holder.lock("x").label("job").acquire().await.unwrap().hand_over();
    for locks in [&holder, &other] {
        let (held_here, message) = refused(locks, Lock::no_wait).await;
        assert!(!held_here && message.contains("is held by another"), "{message}");
        assert!(message.contains(&format!("{}@", std::process::id())), "its label is told: {message}");
        assert_eq!(locks.inspect("x").await.unwrap().held_here, Some(false));
    }
    let guard = other.resume(&handover).await.unwrap();
    assert!(refused(&holder, Lock::no_wait).await.0, "resumed in this process");
    drop(guard);
}

/// Managers whose nodes are called the same need not have the same nodes.
#[tokio::test(start_paused = true)]
async fn the_same_name_on_other_nodes_is_another_lock() {
    let (ours, theirs) = (nodes::<3>(), nodes::<3>());
    let (holder, asker) = (paused(&ours), paused(&theirs));
    let _guard = holder.lock("x").acquire().await.unwrap();
    let _elsewhere = paused(&theirs).lock("x").acquire().await.unwrap().hand_over();
    let (held_here, message) = refused(&asker, Lock::no_wait).await;
    assert!(!held_here, "{message}");
}

#[tokio::test(start_paused = true)]
async fn shared_reentrant_and_joint_holds_are_known_too() {
    let nodes = nodes::<3>();
    let (holder, other) = (paused(&nodes), paused(&nodes));
    let reader = holder.lock("x").shared().acquire().await.unwrap();
    assert!(refused(&other, Lock::no_wait).await.0, "a reader");
    reader.release().await.unwrap();
    let owned = holder.lock("x").owner("deploy").acquire().await.unwrap();
    assert!(refused(&other, |lock| lock.owner("other").no_wait()).await.0, "an owner");
    owned.release().await.unwrap();
    let both = holder.lock_all(["w", "x"]).acquire().await.unwrap();
    assert!(refused(&other, Lock::no_wait).await.0, "one of several");
    both.release().await.unwrap();
}
