//! Reentrant locks: several clients of one owner, each with a majority of its own.

use tenure_core::client::News;
use tenure_core::*;

use crate::support::cluster::*;

/// A lock with a fence that this owner may hold again.
fn owned(owner: &str) -> Options {
    let mut options = options();
    (options.fenced, options.mode) = (true, Mode::Owned(OwnerId::new(owner).unwrap()));
    options
}

fn waiting(owner: &str) -> Options {
    let mut options = owned(owner);
    (options.queued, options.wait) = (true, Wait::Forever);
    options
}

fn fence(cluster: &Cluster, client: usize) -> Fence {
    cluster.standing(client).fence().unwrap()
}

#[test]
fn another_client_of_the_owner_joins_with_the_same_fence_and_a_new_token() {
    let mut cluster = Cluster::of(5);
    let first = cluster.acquire(&owned("job"));
    cluster.run(ms(5));
    let second = cluster.acquire(&owned("job"));
    cluster.run(ms(10));
    assert_eq!(fence(&cluster, second), fence(&cluster, first));
    // Proposed, heard with which fence it is held, proposed again with that: two round trips.
    assert_eq!(cluster.clients[second].tokens.len(), 2);
    assert_ne!(cluster.clients[second].tokens[0], cluster.clients[second].tokens[1]);
    let now = cluster.node_time();
    for node in &cluster.nodes {
        assert_eq!(node.table.holds(now, &key("x")).len(), 2);
        let group = node.table.group(now, &key("x")).unwrap();
        assert_eq!(group.fence, Some(fence(&cluster, first)));
    }
    let rival = cluster.acquire(&owned("other"));
    cluster.run(ms(10));
    assert!(matches!(
        cluster.told(rival),
        Some(News::NotAcquired(NotAcquired { cause: Cause::Contended { .. }, .. }))
    ));
    cluster.release(first);
    cluster.run(ms(10));
    assert_eq!(cluster.holders(), [second]);
    let joined = fence(&cluster, second);
    cluster.release(second);
    cluster.run(ms(10));
    let rival = cluster.acquire(&owned("other"));
    cluster.run(ms(10));
    assert!(fence(&cluster, rival) > joined);
}

/// The first proposal of a joiner is granted by nodes that its owner does not hold, and raises
/// their fences. That must not keep them from the fence that all holds have.
#[test]
fn what_a_joiner_proposed_first_does_not_keep_nodes_from_the_fence_of_its_owner() {
    let mut cluster = Cluster::of(5);
    (3..5).for_each(|node| cluster.nodes[node].mode = Behaviour::Silent);
    let first = cluster.acquire(&owned("job"));
    cluster.run(ms(5));
    (3..5).for_each(|node| cluster.nodes[node].mode = Behaviour::Up);
    cluster.run(STALL + ms(100));
    let second = cluster.acquire(&owned("job"));
    cluster.run(ms(100));
    assert_eq!(fence(&cluster, second), fence(&cluster, first));
    assert_eq!(cluster.standing(second).members().len(), 5, "also those that it had asked with a larger one");
    cluster.extend(first, &owned("job"));
    cluster.run(ms(100));
    let held =
        |cluster: &Cluster, node: usize| cluster.nodes[node].table.holds(cluster.node_time(), &key("x"));
    assert_eq!(held(&cluster, 4).len(), 2, "the first one is put back there, too");
}

/// Whoever was in between has a larger fence, and then the old one is not granted any more.
#[test]
fn a_fence_that_a_rival_has_passed_is_not_joined() {
    let mut table = LockTable::default();
    let bounds = FenceBounds { slack_us: 1_000_000, retention_us: 10_000_000 };
    let mut ask = |owner: &str, byte: u8, number: u64, joins: bool| {
        let mode = Mode::Owned(OwnerId::new(owner).unwrap());
        let beside = Some(std::sync::Arc::new(Beside { mode, joins, ..Beside::default() }));
        let fence = Some(ProposedFence::new(Fence::new(number), bounds));
        let (key, token, nonce, node_ttl_ms) = (key("x"), token(byte), None, 100);
        let acquire = Command::Acquire { key: key.clone(), token, node_ttl_ms, nonce, fence, beside };
        let now = NodeTime::from_micros(500_000);
        let answer = table.execute(now, &acquire).answer;
        if answer == Answer::Granted {
            table.execute(now, &Command::Undo { key, token, requeue: None });
        }
        answer
    };
    let behind = Answer::Refused(Refusal::Behind);
    assert_eq!(ask("job", 1, 10, false), Answer::Granted);
    assert_eq!(ask("job", 2, 20, false), Answer::Granted);
    assert_eq!(ask("job", 3, 10, false), behind, "a new hold needs a new fence");
    assert_eq!(ask("job", 3, 10, true), Answer::Granted, "nobody else was in between");
    assert_eq!(ask("other", 4, 15, true), behind, "it is not the other's");
    assert_eq!(ask("other", 4, 30, false), Answer::Granted);
    assert_eq!(ask("job", 5, 20, true), behind, "somebody was in between");
    assert_eq!(ask("job", 5, 40, false), Answer::Granted);
}

#[test]
fn an_owner_that_holds_the_lock_goes_past_those_in_line() {
    let mut cluster = Cluster::of(3);
    let first = cluster.acquire(&owned("job"));
    cluster.run(ms(10));
    let rival = cluster.acquire(&waiting("other"));
    cluster.run(ms(50));
    assert!(cluster.lease(rival).place().is_some());
    let second = cluster.acquire(&waiting("job"));
    cluster.run(ms(10));
    assert_eq!(cluster.holders(), [first, second]);
    cluster.release(first);
    cluster.run(ms(50));
    assert_eq!(cluster.holders(), [second]);
    let joined = fence(&cluster, second);
    cluster.release(second);
    cluster.run(ms(50));
    assert_eq!(cluster.holders(), [rival], "then those who waited");
    assert!(fence(&cluster, rival) > joined);
}

/// A node that does not have the owner's holds cannot know that the rival it has in line waits for
/// that owner.
#[test]
fn a_node_that_missed_the_holds_of_an_owner_makes_no_joiner_yield() {
    let mut cluster = Cluster::of(5);
    let before = cluster.acquire(&owned("before"));
    cluster.run(ms(10));
    let [first, rival, second] = ["job", "other", "job"].map(|owner| {
        let client = cluster.acquire(&waiting(owner));
        cluster.run(ms(50));
        client
    });
    (0..2).for_each(|node| cluster.nodes[node].mode = Behaviour::Silent);
    cluster.release(before);
    cluster.run(ms(100));
    assert_eq!(cluster.holders(), [first]);
    (0..2).for_each(|node| cluster.nodes[node].mode = Behaviour::Up);
    cluster.run(STALL + ms(2_500));
    assert_eq!(cluster.holders(), [first, second]);
    assert_eq!(fence(&cluster, second), fence(&cluster, first));
    assert!(cluster.lease(rival).place().is_some());
}

/// An answer that is lost, a node that is missed: the count follows from who is there.
#[test]
fn counts_do_not_drift_whatever_is_lost() {
    let mut cluster = Cluster::of(3);
    let outer = cluster.acquire(&owned("job"));
    cluster.run(ms(5));
    for missed in [2, 1] {
        cluster.nodes[missed].mode = Behaviour::Deaf;
        let inner = cluster.acquire(&owned("job"));
        cluster.run(ms(100));
        assert!(cluster.holders().contains(&inner));
        cluster.release(inner);
        cluster.run(ms(100));
        cluster.nodes[missed].mode = Behaviour::Up;
        cluster.run(STALL + ms(1_000));
    }
    let rival = cluster.acquire(&owned("other"));
    cluster.run(ms(100));
    assert_eq!(cluster.holders(), [outer]);
    assert!(matches!(cluster.told(rival), Some(News::NotAcquired(_))));
}

#[test]
fn a_lock_of_another_kind_ends_the_acquire_at_once_however_long_it_may_wait() {
    for (there, asked) in [(waiting("job"), Mode::Exclusive), (options(), Mode::Shared)] {
        let mut cluster = Cluster::of(3);
        let plain = there.mode.is_exclusive();
        let holder = cluster.acquire(&there);
        cluster.run(ms(10));
        let mut options = waiting("job");
        if !plain {
            options.mode = asked;
        }
        let other = cluster.acquire(&options);
        cluster.run(ms(10));
        let found = if plain { Kind::Plain } else { Kind::Reentrant };
        let told = cluster.told(other);
        let Some(News::NotAcquired(NotAcquired { cause, .. })) = told else { panic!("{told:?}") };
        assert_eq!(cause, Cause::OtherKind { found });
        assert_eq!(cluster.holders(), [holder]);
        let in_line = cluster.nodes.iter().flat_map(|node| &node.log);
        assert!(!in_line.clone().any(|command| matches!(command, Command::Enqueue { .. })));
    }
}
