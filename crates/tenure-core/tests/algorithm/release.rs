//! Releases: sent again until the nodes confirm, and nobody who goes away leaves a key.

use tenure_core::*;

use crate::support::cluster::*;

#[test]
fn a_release_after_expiry_does_not_touch_the_next_holder() {
    let mut cluster = Cluster::of(5);
    let first = cluster.acquire(&options());
    cluster.run(ms(11_100));
    let second = cluster.acquire(&options());
    cluster.run(ms(5));
    assert_eq!(cluster.holders(), [second]);
    cluster.release(first);
    cluster.run(ms(5));
    assert_eq!(cluster.outcomes, [ReleaseOutcome::NotHeld]);
    assert_eq!((cluster.holders(), cluster.keys()), (vec![second], 5));
}

#[test]
fn a_release_is_sent_again_until_the_node_confirms() {
    let mut cluster = Cluster::of(3);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.nodes[0].mode = Behaviour::Broken;
    cluster.release(client);
    cluster.run(ms(3_000));
    assert_eq!(cluster.outcomes, [ReleaseOutcome::Released], "told long ago, by the other two");
    assert_eq!(cluster.keys(), 1);
    cluster.nodes[0].mode = Behaviour::Up;
    cluster.run(ms(252));
    assert_eq!(cluster.keys(), 0, "gone a moment after the node is back, not after the ttl");
    cluster.run(ms(1_000));
    assert_eq!(cluster.unconfirmed, [NodeSet::default()]);
}

/// Whoever asks a busy node again and again keeps it from ever catching up.
#[test]
fn a_node_that_has_not_answered_is_not_asked_again() {
    let mut cluster = Cluster::of(3);
    cluster.nodes[0].latency = ms(1_900);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.release(client);
    cluster.run(ms(4_000));
    let releases = |command: &&Command| matches!(command, Command::Release { .. });
    let told = cluster.nodes.iter().map(|node| node.log.iter().filter(releases).count());
    assert_eq!(told.collect::<Vec<_>>(), [1, 1, 1], "late is not lost");
    assert_eq!((cluster.keys(), &cluster.unconfirmed[..]), (0, &[NodeSet::default()][..]));
}

#[test]
fn a_release_that_was_lost_with_its_connection_is_sent_again() {
    let mut cluster = Cluster::of(3);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.nodes[0].mode = Behaviour::Silent;
    cluster.release(client);
    cluster.run(ms(100));
    cluster.nodes[0].mode = Behaviour::Up;
    cluster.run(STALL - ms(110));
    assert_eq!(cluster.keys(), 1, "nobody knows yet");
    cluster.run(ms(300));
    assert_eq!((cluster.keys(), &cluster.unconfirmed[..]), (0, &[NodeSet::default()][..]));
}

#[test]
fn a_release_is_not_sent_again_to_nodes_that_cannot_have_the_key() {
    let mut cluster = Cluster::of(3);
    cluster.nodes[0].mode = Behaviour::Down;
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.release(client);
    cluster.run(ms(5));
    assert_eq!(cluster.unconfirmed, [NodeSet::default()], "done: the node never got the acquire");
}

/// The attempt is lost at the second answer; only then does the third say that it was never sent.
#[test]
fn a_release_learns_late_that_a_node_never_got_the_acquire() {
    let mut cluster = Cluster::of(3);
    cluster.nodes.iter_mut().for_each(|node| node.mode = Behaviour::Down);
    let client = cluster.acquire(&options());
    cluster.run(ms(60));
    assert_eq!(cluster.cause(client), Some(Cause::Unavailable));
    assert_eq!(cluster.unconfirmed, [NodeSet::default()], "nothing is owed to nodes that are down");
    assert!(cluster.is_clean(), "no timer left");
}

#[test]
fn a_release_gives_up_when_the_key_has_freed_itself() {
    let mut cluster = Cluster::of(1);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.nodes[0].mode = Behaviour::Silent;
    cluster.release(client);
    cluster.run(ms(11_000));
    assert_eq!(cluster.outcomes, [ReleaseOutcome::Unavailable]);
    assert!(cluster.unconfirmed.is_empty());
    cluster.run(ms(200));
    assert_eq!(cluster.unconfirmed, [cluster.quorum.all()]);
    assert_eq!(cluster.keys(), 0);
}

/// The rest of a period is told to a node when it is reached, and not as it was some time ago.
#[test]
fn a_release_that_is_sent_again_keeps_a_lock_no_longer_than_its_period() {
    for (back_at, free_at) in [(3_000, 5_002), (7_000, 7_300)] {
        let (mut cluster, mut period) = (Cluster::of(3), options());
        period.at_least = ms(5_000);
        let client = cluster.acquire(&period);
        cluster.run(ms(1_000));
        cluster.nodes[0].mode = Behaviour::Broken;
        cluster.release(client);
        cluster.run(ms(back_at - 1_000));
        cluster.nodes[0].mode = Behaviour::Up;
        cluster.run(ms(free_at - back_at - 10));
        let kept = if back_at < 5_000 { 3 } else { 0 };
        assert_eq!((cluster.kept(), cluster.keys()), (kept, 0), "its period is not over before {free_at}");
        cluster.run(ms(12));
        assert_eq!((cluster.kept(), cluster.keys()), (0, 0), "at {free_at}");
        assert_eq!(cluster.unconfirmed, [NodeSet::default()]);
    }
}

#[test]
fn a_release_does_not_cut_a_period_that_began_late() {
    let (mut cluster, mut period) = (Cluster::of(3), options());
    period.at_least = ms(5_000);
    cluster.nodes.iter_mut().for_each(|node| node.latency = ms(40));
    let client = cluster.acquire(&period);
    cluster.run(ms(1_000));
    cluster.nodes.iter_mut().for_each(|node| node.latency = ms(0));
    cluster.release(client);
    cluster.run(ms(4_015));
    assert_eq!(cluster.kept(), 3, "the nodes granted it after 20 ms");
    cluster.run(ms(30));
    assert_eq!(cluster.kept(), 0);
}

/// The caller goes away at every millisecond of an acquire, an extension and a hold, with nodes of
/// every kind: whatever was set is gone once the nodes can be reached again.
#[test]
fn a_caller_that_goes_away_at_any_moment_leaves_no_key() {
    let modes = [Behaviour::Up, Behaviour::Down, Behaviour::Silent, Behaviour::Deaf, Behaviour::Broken];
    for (first, second) in modes.iter().flat_map(|a| modes.iter().map(move |b| (*a, *b))) {
        for moment in 0..70 {
            let mut cluster = Cluster::of(3);
            cluster.nodes[0].mode = first;
            cluster.nodes[1].mode = second;
            cluster.nodes[2].latency = ms(7);
            let client = cluster.acquire(&options());
            cluster.run(ms(moment));
            cluster.extend(client, &options());
            cluster.run(ms(moment / 2));
            cluster.abandon(client);
            cluster.run(ms(40));
            cluster.nodes.iter_mut().for_each(|node| node.mode = Behaviour::Up);
            cluster.run(STALL + ms(1_000));
            assert_eq!(cluster.keys(), 0, "nodes {first:?} and {second:?}, gone after {moment} ms");
            assert!(cluster.is_clean(), "no timer left");
        }
    }
}

#[test]
fn a_node_that_comes_back_is_told_at_once_what_it_missed() {
    let mut cluster = Cluster::of(3);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.nodes[0].mode = Behaviour::Silent;
    cluster.release(client);
    cluster.run(ms(3_000));
    cluster.nodes[0].mode = Behaviour::Up;
    let node = node(cluster.quorum, 0);
    cluster.reconnect(client, node);
    cluster.run(ms(2));
    assert_eq!(cluster.keys(), 0);
}

/// The release of the attempt is under way. Whatever answers come then, it must not be taken for a
/// lock.
#[test]
fn an_attempt_that_was_handed_to_its_release_is_never_won() {
    let quorum = Quorum::of(3).unwrap();
    let mut lease = Lease::new(key("x"), terms(&options()), quorum);
    lease.handle(at(0), attempt(quorum, Entropy { token: token(1), dice: 0 }));
    let Some(lease::Output::Send { round, .. }) = lease.poll_output() else { panic!("nothing was sent") };
    let mut answer = |index, answer| {
        lease.handle(at(1), lease::Input::Answer { round, node: node(quorum, index), answer });
    };
    let reply = |answer| Ok(Reply::new(None, answer));
    answer(0, reply(Answer::Refused(Refusal::Held { left: ms(1) })));
    answer(1, Err(Fault::Disconnected));
    answer(1, reply(Answer::Granted));
    answer(2, reply(Answer::Granted));
    assert!(
        std::iter::from_fn(|| lease.poll_output()).any(|output| matches!(output, lease::Output::CleanUp(_)))
    );
    assert!(lease.standing().is_none());
}

/// Two answers are lost, the third comes at the deadline. The releases that are sent again find
/// nothing, because the first ones did their work: that must not be taken for a lock that was not
/// held.
#[test]
fn a_release_sent_again_does_not_take_its_own_effect_for_not_held() {
    let mut cluster = Cluster::of(3);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.nodes[0].latency = ms(50);
    (1..3).for_each(|node| cluster.nodes[node].mode = Behaviour::Deaf);
    cluster.release(client);
    cluster.run(ms(40));
    (1..3).for_each(|node| cluster.nodes[node].mode = Behaviour::Up);
    cluster.run(ms(1_000));
    assert_eq!(cluster.keys(), 0);
    assert_ne!(cluster.outcomes, [ReleaseOutcome::NotHeld]);
}

/// What puts a key back is under way when the node says that it does not have it: it may have it a
/// moment later.
#[test]
fn a_key_that_was_put_back_is_owed() {
    let mut cluster = Cluster::of(3);
    cluster.nodes[2].mode = Behaviour::Silent;
    let client = cluster.acquire(&options());
    cluster.run(ms(2_000));
    cluster.nodes[2].mode = Behaviour::Up;
    cluster.nodes[2].latency = ms(40);
    // Won by the first two. The third says "not held" after 40 ms, and is healed.
    cluster.extend(client, &options());
    cluster.run(ms(5));
    (cluster.nodes[0].mode, cluster.nodes[1].mode) = (Behaviour::Silent, Behaviour::Silent);
    // It says so once more, to a command from before.
    cluster.extend(client, &options());
    cluster.run(ms(3_000));
    assert!(cluster.owners()[2].is_some(), "put back");
    (cluster.nodes[0].mode, cluster.nodes[1].mode) = (Behaviour::Up, Behaviour::Up);
    cluster.nodes[2].mode = Behaviour::Down;
    cluster.release(client);
    cluster.run(ms(50));
    cluster.nodes[2].mode = Behaviour::Up;
    let node = node(cluster.quorum, 2);
    cluster.reconnect(client, node);
    cluster.run(ms(1_000));
    assert_eq!(cluster.keys(), 0, "no key is left behind where the node can be reached");
}

/// Whoever stood still for so long may find an answer before it looks at the clock.
#[test]
fn a_release_that_is_given_up_with_an_answer_tells_its_outcome_first() {
    let quorum = Quorum::of(3).unwrap();
    let terms = options().check(MaxTtl::default()).unwrap();
    let (token, round) = (OwnerToken::from_bytes([7; 20]), RoundNumber::default());
    let (term, ending) = (terms.term, Ending::Undo { requeue: None });
    let leftovers = Leftovers { token, term, round, may_hold: quorum.all(), ending };
    let key = LockKey::new(&Prefix::default(), "x").unwrap();
    let mut release = Release::begin(key, leftovers, quorum, Time::from_nanos(0), &Patience::default());
    while release.poll_output().is_some() {}
    let node = quorum.indexes().next().unwrap();
    let answer = Ok(Reply::new(None, Answer::Granted));
    release.handle(release.give_up_at(), release::Input::Answer { node, answer });
    let outcome = release.poll_output();
    assert!(
        matches!(outcome, Some(release::Output::Outcome { outcome: ReleaseOutcome::Unavailable })),
        "{outcome:?}"
    );
    assert!(matches!(release.poll_output(), Some(release::Output::Done { .. })));
}
