//! Lists of nodes in memory: clients of different lists, and changes from one to another.

use std::time::Duration;

use tenure::*;

const MAX_TTL: Duration = Duration::from_secs(1);

fn fleet<const N: usize>(nodes: [&MemoryNode; N]) -> Builder {
    Locks::builder().nodes(nodes).max_ttl(MAX_TTL)
}

/// Nodes in memory know that they have forgotten nothing, so they vote at once. But not for a list
/// of which another one has a node.
#[tokio::test]
async fn a_list_that_shares_a_node_with_another_gives_no_locks() {
    let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(MemoryNode::new);
    let first = fleet([&a, &b, &c]).build().unwrap();
    let guard = first.lock("x").ttl(MAX_TTL).acquire().await.unwrap();
    let second = fleet([&a, &d, &e]).build().unwrap();
    let error = second.lock("x").ttl(MAX_TTL).try_acquire().await.unwrap_err().to_string();
    assert!(guard.is_valid());
    assert!(error.contains("belongs to a fleet with other settings"), "{error}");
}

#[tokio::test]
async fn a_list_of_nodes_in_memory_is_changed_though_one_of_them_is_emptied() {
    let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(MemoryNode::new);
    let (old, new) = (|| fleet([&a, &b, &c]), || fleet([&a, &d, &e]));
    let before = old().build().unwrap();
    let guard = before.lock("x").ttl(MAX_TTL).acquire().await.unwrap();
    let early = new().build().unwrap();
    assert!(early.lock("x").ttl(MAX_TTL).try_acquire().await.is_err(), "its list is not open");
    let change = FleetChange::new(old(), new()).run(|progress| {
        if *progress == FleetProgress::Closed {
            d.forget();
        }
    });
    change.await.unwrap();
    assert!(!guard.is_valid(), "its holder was told");
    let error = before.lock("x").ttl(MAX_TTL).try_acquire().await.unwrap_err().to_string();
    assert!(error.contains("has changed"), "{error}");
    let after = early.lock("x").ttl(MAX_TTL).wait(Duration::from_secs(10)).acquire().await.unwrap();
    assert!(after.is_valid());
}

/// A token that was written down before a change: its lock was taken away with all others.
#[tokio::test]
async fn a_token_from_before_a_change_says_what_happened() {
    let [a, b, c, d] = ["a", "b", "c", "d"].map(MemoryNode::new);
    let (old, new) = (|| fleet([&a, &b, &c]), || fleet([&a, &b, &d]));
    let before = old().build().unwrap();
    let handover = before.lock("x").ttl(MAX_TTL).acquire().await.unwrap().hand_over();
    FleetChange::new(old(), new()).run(|_| ()).await.unwrap();
    // The nodes tell their clients, which takes a moment on a busy machine.
    let begun = std::time::Instant::now();
    loop {
        let error = before.lock("y").ttl(MAX_TTL).try_acquire().await.unwrap_err().to_string();
        if error.contains("has changed") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{error}");
    }
    for locks in [before, new().build().unwrap()] {
        let error = locks.resume(&handover).await.unwrap_err();
        assert!(matches!(error, ExtendError::Outdated { left: 0, .. }), "{error:?}");
        assert!(error.to_string().contains("the node list was changed, which ends all locks"), "{error}");
        let error = locks.release(&handover).await.unwrap_err();
        assert!(matches!(error, ReleaseError::NotHeld { .. }), "{error:?}");
        assert!(error.to_string().contains("was ended by a change of the node list"), "{error}");
    }
}
