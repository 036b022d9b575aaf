//! One test per sentence of the Redlock page, for its chapters on acquiring, retrying, releasing
//! and extending. Each test quotes the sentence it stands for.

use tenure_core::client::News;
use tenure_core::*;

use crate::support::cluster::*;

// ---- The Redlock algorithm
// ------------------------------------------------------------------------

/// "In the distributed version of the algorithm we assume to have N Redis masters."
#[test]
fn n_is_a_setting() {
    for nodes in 1..=NODES_MAX {
        let mut cluster = Cluster::of(nodes);
        let client = cluster.acquire(&options());
        cluster.run(ms(5));
        assert_eq!(cluster.holders(), [client], "N = {nodes}");
        assert_eq!(cluster.keys(), nodes);
    }
}

/// "Those nodes are totally independent, so we don't use replication or any other implicit
/// coordination system."
#[test]
fn nodes_know_nothing_of_each_other() {
    let mut cluster = Cluster::of(3);
    cluster.occupy(0, token(9), 60_000);
    assert_eq!(cluster.owners(), [Some(token(9)), None, None]);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    // Node 0 refused and still has the other's key; nodes 1 and 2 decided by themselves.
    let ours = Some(cluster.clients[client].tokens[0]);
    assert_eq!(cluster.owners(), [Some(token(9)), ours, ours]);
}

/// "We already described how to acquire and release the lock safely in a single instance."
#[test]
fn one_instance_is_a_redlock_too() {
    let mut cluster = Cluster::of(1);
    let first = cluster.acquire(&options());
    cluster.run(ms(5));
    let second = cluster.acquire(&options());
    cluster.run(ms(5));
    assert_eq!(cluster.holders(), [first]);
    assert!(matches!(cluster.cause(second), Some(Cause::Contended { .. })));
    cluster.release(first);
    cluster.run(ms(5));
    assert_eq!(cluster.keys(), 0);
}

/// "We give for granted that the algorithm will use this method to acquire and release the lock in
/// a single instance."
#[test]
fn every_node_gets_the_commands_of_the_single_instance() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.release(client);
    cluster.run(ms(5));
    let (key, token) = (key("x"), cluster.clients[client].tokens[0]);
    let release = Command::Release { key: key.clone(), token, labelled: false, next: Next::InLine };
    let expected = vec![Command::plain_acquire(key, token, 11_000), release];
    for node in &mut cluster.nodes {
        // Beside the key and its value it is asked in which life of its memory it is.
        if let Some(Command::Acquire { nonce, .. }) = node.log.first_mut() {
            assert!(nonce.take().is_some());
        }
        assert_eq!(node.log, expected);
    }
}

/// "In our examples we set N=5, which is a reasonable value, so we need to run 5 Redis masters in
/// different computers or virtual machines in order to ensure that they'll fail in a mostly
/// independent way."
#[test]
fn with_five_nodes_any_two_may_fail() {
    for first in 0..5 {
        for second in first + 1..5 {
            let mut cluster = Cluster::of(5);
            cluster.nodes[first].mode = Behaviour::Down;
            cluster.nodes[second].mode = Behaviour::Silent;
            let client = cluster.acquire(&options());
            cluster.run(ms(5));
            assert_eq!(cluster.holders(), [client], "nodes {first} and {second} failed");
        }
    }
}

/// "In order to acquire the lock, the client performs the following operations: 1. It gets the
/// current time in milliseconds."
#[test]
fn the_time_is_taken_before_the_first_command_leaves() {
    let mut cluster = Cluster::of(5);
    let before = cluster.now;
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    assert!(cluster.clients[client].sent.iter().all(|(sent, ..)| *sent >= before));
    // The validity counts from there: 10 s less 1 % less 2 ms.
    assert_eq!(cluster.standing(client).validity().end(), before + ms(9_898));
}

/// "2. It tries to acquire the lock in all the N instances sequentially, using the same key name
/// and random value in all the instances."
#[test]
fn all_nodes_are_asked_with_the_same_key_and_value() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    let sent = &cluster.clients[client].sent;
    let nodes: Vec<usize> = sent.iter().map(|(_, node, _)| node.get()).collect();
    assert_eq!(nodes, [0, 1, 2, 3, 4]);
    let token = cluster.clients[client].tokens[0];
    let asks = |command: &Command| matches!(command, Command::Acquire { key: k, token: t, .. } if *k == key("x") && *t == token);
    assert!(sent.iter().all(|(_, _, command)| asks(command)));
}

/// "During the step 2, when setting the lock in each instance, the client uses a timeout which is
/// small compared to the total lock auto-release time in order to acquire it."
#[test]
fn a_node_that_does_not_answer_is_given_up_after_the_node_timeout() {
    let mut cluster = Cluster::of(3);
    cluster.nodes.iter_mut().for_each(|node| node.mode = Behaviour::Silent);
    let client = cluster.acquire(&options());
    cluster.run(ms(49));
    assert_eq!(cluster.told(client), None);
    cluster.run(ms(1));
    assert_eq!(cluster.cause(client), Some(Cause::Unavailable));
}

/// "For example if the auto-release time is 10 seconds, the timeout could be in the ~ 5-50
/// milliseconds range."
#[test]
fn for_ten_seconds_the_default_timeout_is_in_the_advised_range() {
    assert_eq!(options().ttl, ms(10_000));
    let timeout = terms(&options()).term.node_timeout();
    assert!((ms(5)..=ms(50)).contains(&timeout), "{timeout:?}");
}

/// "This prevents the client to remain blocked for a long time trying to talk with a Redis node
/// which is down: if an instance is not available, we should try to talk with the next instance
/// ASAP."
#[test]
fn a_node_that_is_down_does_not_delay_the_others() {
    let mut cluster = Cluster::of(5);
    cluster.nodes[0].mode = Behaviour::Silent;
    cluster.nodes[1].mode = Behaviour::Down;
    let client = cluster.acquire(&options());
    // One round trip of the living nodes, nothing of the node timeout.
    cluster.run(ms(2));
    assert_eq!(cluster.holders(), [client]);
}

/// "3. The client computes how much time elapsed in order to acquire the lock, by subtracting to
/// the current time the timestamp obtained in step 1."
#[test]
fn the_time_the_round_took_is_taken_off_the_validity() {
    for latency in [2, 10, 40] {
        let mut cluster = Cluster::of(5);
        cluster.nodes.iter_mut().for_each(|node| node.latency = ms(latency));
        let client = cluster.acquire(&options());
        cluster.run(ms(latency));
        assert_eq!(cluster.valid_for(client), ms(9_898 - latency), "latency {latency} ms");
    }
}

/// "If and only if the client was able to acquire the lock in the majority of the instances (at
/// least 3), and the total time elapsed to acquire the lock is less than lock validity time, the
/// lock is considered to be acquired."
#[test]
fn acquired_iff_a_majority_granted_in_time() {
    for free in 0..=5 {
        let mut cluster = Cluster::of(5);
        (free..5).for_each(|node| cluster.occupy(node, token(9), 60_000));
        let client = cluster.acquire(&options());
        cluster.run(ms(5));
        assert_eq!(cluster.holders() == [client], free >= 3, "{free} nodes free");
    }
    // In time: the answers arrive, but the client was paused and looks at them too late.
    for (pause, in_time) in [(9_897, true), (9_898, false), (20_000, false)] {
        let mut cluster = Cluster::of(5);
        let begun = cluster.now;
        let client = cluster.acquire(&options());
        // The nodes have the key, and their answers are under way.
        cluster.run(ms(1));
        assert_eq!(cluster.keys(), 5);
        cluster.now = begun + ms(pause);
        cluster.run(ms(0));
        assert_eq!(cluster.holders() == [client], in_time, "paused for {pause} ms");
        assert_eq!(cluster.cause(client) == Some(Cause::TooLate), !in_time);
    }
}

/// "4. If the lock was acquired, its validity time is considered to be the initial validity time
/// minus the time elapsed, as computed in step 3."
#[test]
fn the_validity_counts_down_from_ttl_less_drift_less_elapsed() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(100));
    assert_eq!(cluster.valid_for(client), ms(9_798));
    cluster.run(ms(9_797));
    assert_eq!((cluster.valid_for(client), cluster.holders().len()), (ms(1), 1));
    cluster.run(ms(1));
    assert_eq!((cluster.valid_for(client), cluster.holders().len()), (ms(0), 0));
}

/// "5. If the client failed to acquire the lock for some reason (either it was not able to lock
/// N/2+1 instances or the validity time is negative), it will try to unlock all the instances (even
/// the instances it believe it was not able to lock)."
#[test]
fn a_failed_attempt_unlocks_all_nodes_also_those_that_did_not_answer() {
    let mut cluster = Cluster::of(5);
    cluster.occupy(0, token(9), 60_000);
    cluster.occupy(1, token(9), 60_000);
    cluster.nodes[2].mode = Behaviour::Deaf;
    cluster.nodes[3].mode = Behaviour::Deaf;
    let client = cluster.acquire(&options());
    cluster.run(ms(60));
    assert!(matches!(cluster.cause(client), Some(Cause::Contended { .. })));
    let undo = Command::Undo { key: key("x"), token: cluster.clients[client].tokens[0], requeue: None };
    for (index, node) in cluster.nodes.iter().enumerate() {
        assert!(node.log.contains(&undo), "node {index} was told to unlock");
    }
    assert_eq!(cluster.owners(), [Some(token(9)), Some(token(9)), None, None, None]);
}

// ---- Retry on failure
// -----------------------------------------------------------------------------

/// "When a client is not able to acquire the lock, it should try again after a random delay in
/// order to try to desynchronize multiple clients trying to acquire the lock, for the same
/// resource, at the same time (this may result in a split brain condition where nobody wins)."
#[test]
fn a_split_vote_is_tried_again_after_different_delays_until_somebody_wins() {
    let mut waiting = options();
    waiting.wait = Wait::AtMost(ms(5_000));
    let mut cluster = Cluster::of(4);
    let latencies = |cluster: &mut Cluster, latencies: [u64; 4]| {
        cluster.nodes.iter_mut().zip(latencies).for_each(|(node, latency)| node.latency = ms(latency));
    };
    // Two clients at once, each quicker to the other half of the nodes: two votes each, nobody
    // wins.
    latencies(&mut cluster, [1, 1, 8, 8]);
    let first = cluster.acquire(&waiting);
    latencies(&mut cluster, [8, 8, 1, 1]);
    let second = cluster.acquire(&waiting);
    cluster.run(ms(10));
    assert!(cluster.holders().is_empty(), "the vote was split");
    let pause = |cluster: &mut Cluster, client| match cluster.told(client) {
        Some(News::Retrying { at, .. }) => at.since(cluster.now),
        other => panic!("{other:?}"),
    };
    let pauses = (pause(&mut cluster, first), pause(&mut cluster, second));
    assert!(pauses.0 != pauses.1 && pauses.0.min(pauses.1) >= ms(40), "{pauses:?}");
    cluster.run(ms(200));
    assert_eq!(cluster.holders().len(), 1, "one of them won after the pause");
}

/// "Also the faster a client will try to acquire the lock in the majority of Redis instances, the
/// less window for a split brain condition (and the need for a retry), so ideally the client should
/// try to send the SET commands to the N instances at the same time using multiplexing."
#[test]
fn all_commands_leave_at_the_same_moment() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    let sent = &cluster.clients[client].sent;
    assert_eq!(sent.len(), 5);
    assert!(sent.iter().all(|(time, ..)| *time == cluster.now), "before any time passed");
}

/// "It is worth to stress how important is for the clients that failed to acquire the majority of
/// locks, to release the (partially) acquired locks ASAP, so that there is no need to wait for keys
/// expiry in order for the lock to be acquired again ..."
#[test]
fn what_a_failed_attempt_locked_is_free_after_one_more_round_trip() {
    let mut cluster = Cluster::of(5);
    (0..3).for_each(|node| cluster.occupy(node, token(9), 3));
    let client = cluster.acquire(&options());
    cluster.run(ms(2));
    assert!(matches!(cluster.cause(client), Some(Cause::Contended { .. })));
    cluster.run(ms(2));
    assert_eq!(cluster.owners()[3..], [None, None]);
    let next = cluster.acquire(&options());
    cluster.run(ms(5));
    assert_eq!(cluster.holders(), [next]);
}

/// "... (however if a network partition happens and the client is no longer able to communicate
/// with the Redis instances, there is to pay an availability penalty and wait for the expires)."
#[test]
fn behind_a_partition_the_key_stays_until_it_expires_and_no_longer() {
    let mut cluster = Cluster::of(1);
    let lost = cluster.acquire(&options());
    cluster.run(ms(5));
    assert_eq!(cluster.holders(), [lost]);
    cluster.nodes[0].mode = Behaviour::Silent;
    cluster.abandon(lost);
    cluster.run(ms(10_990));
    assert_eq!(cluster.keys(), 1, "nobody could be told");
    cluster.run(ms(8));
    assert_eq!(cluster.keys(), 0, "the key freed itself after ttl and guard band");
}

// ---- Releasing the lock
// ---------------------------------------------------------------------------

/// "Releasing the lock is simple and involves just to release the lock in all the instances,
/// regardless of the fact the client believe it was able to successfully lock a given instance."
#[test]
fn a_release_goes_to_all_nodes_whatever_the_acquire_saw() {
    let mut cluster = Cluster::of(5);
    cluster.occupy(0, token(9), 60_000);
    cluster.nodes[1].mode = Behaviour::Deaf;
    let client = cluster.acquire(&options());
    cluster.run(ms(60));
    cluster.nodes[1].mode = Behaviour::Up;
    cluster.release(client);
    cluster.run(ms(5));
    assert_eq!(cluster.outcomes, [ReleaseOutcome::Released]);
    let releases =
        |node: &Node| node.log.iter().filter(|command| matches!(command, Command::Release { .. })).count();
    assert!(cluster.nodes.iter().all(|node| releases(node) == 1));
    assert_eq!(cluster.owners(), [Some(token(9)), None, None, None, None]);
}

// ---- Making the algorithm more reliable: Extending the lock
// ----------------------------------------

/// "If the work performed by clients is composed of small steps, it is possible to use smaller lock
/// validity times by default, and extend the algorithm implementing a lock extension mechanism."
#[test]
fn a_short_lock_can_be_held_for_long_in_small_steps() {
    let mut short = options();
    short.ttl = ms(500);
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&short);
    for _ in 0..50 {
        cluster.run(ms(300));
        assert_eq!(cluster.holders(), [client]);
        cluster.extend(client, &short);
    }
    assert_eq!(cluster.now, at(1_000 + 15_000), "thirty times its ttl");
}

/// "Basically the client, if in the middle of the computation while the lock validity is
/// approaching a low value, may extend the lock by sending a Lua script to all the instances that
/// extends the TTL of the key if the key exists and its value is still the random value the client
/// assigned when the lock was acquired."
#[test]
fn an_extension_goes_to_all_nodes_and_touches_only_our_own_key() {
    let mut cluster = Cluster::of(5);
    cluster.occupy(3, token(9), 12_000);
    let client = cluster.acquire(&options());
    cluster.run(ms(9_000));
    cluster.delete(4);
    cluster.extend(client, &options());
    cluster.run(ms(5));
    let extend = |command: &Command| matches!(command, Command::Extend { .. });
    assert!(cluster.nodes.iter().all(|node| node.log.iter().any(extend)));
    assert_eq!(cluster.valid_for(client), ms(9_898 - 5));
    let granted = cluster.standing(client).round().granted();
    assert!(!granted.contains(node(cluster.quorum, 4)), "a key that is gone does not count");
    assert!(cluster.owners()[4].is_some(), "but is put back, once a majority has confirmed");
    cluster.run(ms(3_000));
    assert_eq!(cluster.owners()[3], None, "the other's key was not lengthened");
    assert_eq!(cluster.keys(), 4);
}

/// "The client should only consider the lock re-acquired if it was able to extend the lock into the
/// majority of instances, and within the validity time (basically the algorithm to use is very
/// similar to the one used when acquiring the lock)."
#[test]
fn extended_iff_a_majority_extended_within_the_validity() {
    for kept in 0..=5 {
        let mut cluster = Cluster::of(5);
        let client = cluster.acquire(&options());
        cluster.run(ms(5_000));
        (kept..5).for_each(|node| cluster.delete(node));
        cluster.clients[client].told.clear();
        cluster.extend(client, &options());
        cluster.run(ms(5));
        assert_eq!(cluster.told(client) == Some(News::Extended), kept >= 3, "{kept} nodes kept the key");
    }
    // Within the validity: the nodes still have the key, in its guard band, but our time is over.
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(9_897));
    cluster.clients[client].told.clear();
    cluster.extend(client, &options());
    cluster.run(ms(5));
    assert_eq!(cluster.keys(), 5);
    assert_eq!(cluster.told(client), Some(News::NotExtended(NotExtended::Expired)));
}

/// "However this does not technically change the algorithm, so anyway the max number of locks
/// reacquiring attempts should be limited, otherwise one of the liveness properties is violated."
#[test]
fn extensions_end_at_max_hold_and_then_others_get_the_lock() {
    let mut limited = options();
    limited.max_hold = Some(MaxHold::AtMost(ms(30_000)));
    let mut cluster = Cluster::of(5);
    let greedy = cluster.acquire(&limited);
    for step in 1..=10 {
        cluster.run(ms(3_000));
        cluster.clients[greedy].told.clear();
        cluster.extend(greedy, &limited);
        let refused = cluster.told(greedy) == Some(News::NotExtended(NotExtended::MaxHold));
        // From 21 s on, ten more seconds would reach beyond the thirty; at 28 s the lock is over.
        assert_eq!(refused, (7..=9).contains(&step), "after {} s", step * 3);
    }
    assert!(cluster.holders().is_empty());
    let next = cluster.acquire(&options());
    cluster.run(ms(5));
    assert_eq!(cluster.holders(), [next]);
    assert_eq!(terms(&options()).max_hold, MaxHold::AtMost(ms(3_600_000)), "the stated default");
}
