//! Extensions, and keys that are put back: which nodes count, and what a failure leaves.

use tenure_core::client::{Input, News, Resuming};
use tenure_core::*;

use crate::support::cluster::*;

#[test]
fn an_extension_that_no_majority_answers_neither_releases_nor_shortens() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(4_000));
    (0..3).for_each(|node| cluster.nodes[node].mode = Behaviour::Silent);
    cluster.clients[client].told.clear();
    let before = cluster.standing(client).validity();
    cluster.extend(client, &options());
    cluster.run(ms(60));
    assert!(matches!(cluster.told(client), Some(News::NotExtended(NotExtended::Unavailable { .. }))));
    let standing = cluster.standing(client);
    assert_eq!((standing.validity(), standing.is_lost()), (before, false));
    assert_eq!((cluster.holders(), cluster.keys()), (vec![client], 5));
}

#[test]
fn an_extension_that_a_minority_refuses_still_succeeds_and_costs_margin() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(4_000));
    cluster.delete(0);
    cluster.extend(client, &options());
    cluster.run(ms(5));
    assert_eq!(cluster.valid_for(client), ms(9_898 - 5));
    assert_eq!(cluster.standing(client).margin(), 1);
}

/// What is left of a period is asked for by every extension, also after it was waived: the holder
/// may still die, or be cut off, before its release.
#[test]
fn a_period_that_is_waived_ends_with_the_release_and_not_before() {
    let (mut cluster, mut period) = (Cluster::of(5), options());
    period.at_least = ms(30_000);
    let client = cluster.acquire(&period);
    cluster.run(ms(4_000));
    let mut lease = cluster.lease(client).clone();
    lease.waive_at_least();
    lease.handle(cluster.now, lease::Input::Extend(terms(&period).term));
    let outputs = std::iter::from_fn(|| lease.poll_output()).collect::<Vec<_>>();
    let lives = outputs.iter().filter_map(|output| match output {
        lease::Output::Send { command: Command::Extend { node_ttl_ms, .. }, .. } => Some(*node_ttl_ms),
        _ => None,
    });
    // It counts from when a majority had granted the lock, after a round trip of 2 ms.
    assert_eq!(lives.collect::<Vec<_>>(), [26_002; 5]);
    lease.handle(cluster.now, lease::Input::Release);
    let ending = std::iter::from_fn(|| lease.poll_output()).find_map(|output| match output {
        lease::Output::CleanUp(release) => Some(format!("{release:?}")),
        _ => None,
    });
    assert!(!ending.expect("it is released").contains("Nobody"), "others may have it at once");
}

#[test]
fn whoever_waits_for_late_votes_is_told_once_when_the_last_has_come() {
    let mut cluster = Cluster::of(5);
    (3..5).for_each(|node| cluster.nodes[node].latency = ms(200));
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    let mut lease = cluster.lease(client).clone();
    let round = lease.standing().unwrap().round().number();
    let mut told_after = |node: NodeIndex| {
        lease.await_votes();
        let answer = Ok(Reply::new(None, Answer::Granted));
        lease.handle(cluster.now, lease::Input::Answer { round, node, answer });
        std::iter::from_fn(|| lease.poll_output()).collect::<Vec<_>>()
    };
    let late: Vec<NodeIndex> = Quorum::of(5).unwrap().indexes().skip(3).collect();
    assert_eq!(told_after(late[0]), [], "one is still missing");
    assert_eq!(told_after(late[1]), [lease::Output::AllVoted]);
    assert_eq!(told_after(late[1]), [], "there is nothing to wait for");
}

/// Found by the simulator: a node had lost the key, and another one's late vote for the round from
/// before counted it again.
#[test]
fn a_late_vote_does_not_bring_back_a_node_that_said_it_has_nothing() {
    let mut cluster = Cluster::of(5);
    cluster.nodes[4].latency = ms(200);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    assert_eq!(cluster.standing(client).margin(), 1, "of the four that answered");
    cluster.delete(0);
    (1..4).for_each(|node| cluster.nodes[node].mode = Behaviour::Silent);
    cluster.extend(client, &options());
    cluster.run(ms(100));
    assert_eq!(cluster.standing(client).margin(), 0, "one said that it has nothing");
    cluster.run(ms(150));
    assert_eq!(cluster.standing(client).margin(), 1, "the last one has it");
}

#[test]
fn an_extension_that_a_majority_refuses_tells_that_the_lock_is_lost() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(4_000));
    (0..3).for_each(|node| cluster.delete(node));
    cluster.clients[client].told.clear();
    cluster.extend(client, &options());
    cluster.run(ms(5));
    assert!(matches!(cluster.told(client), Some(News::NotExtended(NotExtended::Lost { .. }))));
    assert!(cluster.standing(client).is_lost());
    assert_eq!(cluster.keys(), 2, "nothing was released");
    // Asked again, it does not come back to life, whatever the nodes say.
    cluster.extend(client, &options());
    assert!(matches!(cluster.told(client), Some(News::NotExtended(NotExtended::Lost { .. }))));
}

#[test]
fn an_extension_in_doubt_says_refused_and_the_validity_stands() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(4_000));
    (0..2).for_each(|node| cluster.delete(node));
    cluster.nodes[2].mode = Behaviour::Down;
    cluster.clients[client].told.clear();
    cluster.extend(client, &options());
    cluster.run(ms(5));
    assert!(matches!(cluster.told(client), Some(News::NotExtended(NotExtended::Refused { .. }))));
    assert_eq!((cluster.holders(), cluster.standing(client).is_lost()), (vec![client], false));
}

#[test]
fn an_extension_for_a_shorter_term_shortens_nothing() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(100));
    let before = cluster.standing(client).validity();
    let mut short = options();
    short.ttl = ms(1_000);
    cluster.extend(client, &short);
    cluster.run(ms(5));
    assert_eq!(cluster.standing(client).validity(), before);
    cluster.run(ms(9_000));
    assert_eq!((cluster.holders(), cluster.keys()), (vec![client], 5));
}

/// The acquire was answered by nodes 0 to 2 alone. The key is on 3 and 4, too, but this lease never
/// counted them: their grants alone must not carry an extension.
#[test]
fn an_extension_counts_only_nodes_that_this_lease_counted() {
    let mut cluster = Cluster::of(5);
    cluster.nodes[3].mode = Behaviour::Deaf;
    cluster.nodes[4].mode = Behaviour::Deaf;
    let client = cluster.acquire(&options());
    cluster.run(ms(4_000));
    assert_eq!(cluster.keys(), 5);
    cluster.nodes.iter_mut().for_each(|node| node.mode = Behaviour::Up);
    (0..2).for_each(|node| cluster.nodes[node].mode = Behaviour::Silent);
    cluster.clients[client].told.clear();
    cluster.extend(client, &options());
    cluster.run(ms(60));
    assert!(matches!(cluster.told(client), Some(News::NotExtended(_))), "three grants, one of them counted");
    // Once a majority of counted nodes confirmed, the others count as well.
    (0..2).for_each(|node| cluster.nodes[node].mode = Behaviour::Up);
    cluster.extend(client, &options());
    cluster.run(ms(5));
    assert_eq!(cluster.told(client), Some(News::Extended));
    assert_eq!(cluster.standing(client).margin(), 2);
}

/// Five nodes have the key for 11 s. Only three confirm the extension that the end counts from; a
/// shorter one that all confirm says nothing about the other two at that end.
#[test]
fn a_shorter_extension_does_not_raise_the_margin() {
    let (mut long, mut short) = (options(), options());
    (long.ttl, short.ttl) = (ms(60_000), ms(1_000));
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    assert_eq!(cluster.standing(client).margin(), 2);
    (3..5).for_each(|node| cluster.nodes[node].mode = Behaviour::Silent);
    cluster.extend(client, &long);
    cluster.run(ms(60));
    assert_eq!(cluster.standing(client).margin(), 0);
    let end = cluster.standing(client).validity();
    (3..5).for_each(|node| cluster.nodes[node].mode = Behaviour::Up);
    cluster.extend(client, &short);
    cluster.run(ms(60));
    assert_eq!((cluster.standing(client).validity(), cluster.standing(client).margin()), (end, 0));
    cluster.extend(client, &long);
    cluster.run(ms(60));
    assert_eq!(cluster.standing(client).margin(), 2);
}

#[test]
fn an_extension_that_fails_after_the_end_says_expired() {
    let mut cluster = Cluster::of(3);
    let client = cluster.acquire(&options());
    cluster.run(ms(9_890));
    cluster.nodes.iter_mut().for_each(|node| node.mode = Behaviour::Silent);
    cluster.clients[client].told.clear();
    cluster.extend(client, &options());
    // Nobody waits longer than the lock lives.
    cluster.run(ms(8));
    assert_eq!(cluster.told(client), Some(News::NotExtended(NotExtended::Expired)));
}

/// It was asked for in time and sent. Then the client was held up: a majority of answers is there,
/// but so is the end, and no timer has fired yet.
#[test]
fn an_extension_whose_answers_are_seen_after_the_end_says_expired() {
    let quorum = Quorum::of(3).unwrap();
    let mut lease = Lease::new(key("x"), terms(&options()), quorum);
    let drain = |lease: &mut Lease| {
        let (mut sent, mut told) = (vec![], vec![]);
        while let Some(output) = lease.poll_output() {
            match output {
                lease::Output::Send { round, node, .. } => sent.push((round, node)),
                other => told.push(other),
            }
        }
        (sent, told)
    };
    let answer_all = |lease: &mut Lease, now, sent: Vec<_>| {
        for (round, node) in sent {
            let answer = Ok(Reply::new(None, Answer::Granted));
            lease.handle(now, lease::Input::Answer { round, node, answer });
        }
        drain(lease).1
    };
    lease.handle(at(0), attempt(quorum, Entropy { token: token(1), dice: 0 }));
    let sent = drain(&mut lease).0;
    assert!(answer_all(&mut lease, at(1), sent).contains(&lease::Output::Acquired));
    // The loss is told at 9,398, the validity is over at 9,898.
    lease.handle(at(9_300), lease::Input::Extend(terms(&options()).term));
    let (sent, told) = drain(&mut lease);
    assert_eq!((sent.len(), told), (3, vec![]), "all nodes are asked, and nothing is decided");
    let told = answer_all(&mut lease, at(9_898), sent);
    assert!(told.contains(&lease::Output::NotExtended(NotExtended::Expired)), "{told:?}");
    assert_eq!(lease.standing().unwrap().validity().end(), at(9_898), "the old end stands");
}

/// A key that was put back keeps others out at once. For us it counts only when nobody can count
/// any more on what the node granted and forgot.
#[test]
fn a_healed_node_counts_only_after_the_quarantine() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(100));
    assert_eq!(cluster.standing(client).margin(), 2);
    cluster.delete(4);
    let healed = cluster.now + ms(10);
    let mut seconds = 0;
    loop {
        cluster.extend(client, &options());
        cluster.run(ms(10));
        assert!(cluster.owners()[4].is_some(), "healed");
        if cluster.standing(client).margin() == 2 {
            break;
        }
        assert_eq!(cluster.standing(client).margin(), 1, "after {seconds} s");
        cluster.run(ms(990));
        seconds += 1;
    }
    // The default max_ttl of a minute, and its guard band.
    let waited = cluster.now.since(healed);
    assert!(waited > ms(66_000) && waited < ms(70_000), "{waited:?}");
}

/// The server's own `SET` does not compare records. It may have set the lock in a memory that
/// nobody knew, and all that we know is that its answer was not to be counted, or did not come.
#[test]
fn a_node_that_forgot_while_it_was_asked_counts_only_after_the_quarantine() {
    for told_first in [true, false] {
        let mut cluster = Cluster::of(5);
        let changed = Input::Changed { node: node(cluster.quorum, 4) };
        cluster.nodes[4].mode = Behaviour::Deaf;
        let client = cluster.acquire(&options());
        cluster.nodes[4].table.forget();
        if told_first {
            cluster.input(client, changed.clone());
        }
        cluster.run(ms(100));
        if !told_first {
            cluster.input(client, changed);
        }
        assert!(cluster.owners()[4].is_some(), "it has the lock");
        cluster.nodes[4].mode = Behaviour::Up;
        let seen = cluster.now;
        loop {
            cluster.extend(client, &options());
            cluster.run(ms(10));
            if cluster.standing(client).margin() == 2 {
                break;
            }
            assert_eq!(cluster.standing(client).margin(), 1, "told first: {told_first}");
            cluster.run(ms(990));
        }
        let waited = cluster.now.since(seen);
        assert!(waited > ms(66_000) && waited < ms(70_000), "told first: {told_first}, {waited:?}");
    }
}

/// Whoever goes on with a lock that has no fence was not there when it was set, and a node's own
/// `SET` leaves no sign. Locks with a fence are set by a script that compares the record.
#[test]
fn whoever_goes_on_with_a_lock_counts_other_nodes_at_once_only_if_it_has_a_fence() {
    for fence in [None, Some(Fence::new(7))] {
        let mut cluster = Cluster::of(5);
        cluster.nodes[4].mode = Behaviour::Deaf;
        let first = cluster.acquire(&options());
        cluster.run(ms(100));
        assert!(cluster.owners()[4].is_some(), "it has the lock");
        cluster.nodes[4].mode = Behaviour::Up;
        let resuming = cluster.hand_over(first);
        let handover = HandedOver { fence, ..resuming.handover };
        let second = cluster.resume(ONLY, &Resuming { handover, ..resuming }, &options());
        let seen = cluster.now;
        cluster.run(ms(10));
        loop {
            cluster.extend(second, &options());
            cluster.run(ms(10));
            if cluster.standing(second).margin() == 2 {
                break;
            }
            assert_eq!(cluster.standing(second).margin(), 1);
            cluster.run(ms(990));
        }
        let waited = cluster.now.since(seen);
        let expected = if fence.is_some() { 0..1_000 } else { 66_001..70_000 };
        assert!(expected.contains(&waited.as_millis()), "{waited:?} with the fence {fence:?}");
    }
}

/// Somebody else was granted the node meanwhile, with a larger fence: what is ours there may be
/// over.
#[test]
fn a_node_with_a_larger_fence_is_not_healed() {
    let bounds = FenceBounds::new(ms(10_000), ms(60_000));
    let (now, key) = (NodeTime::from_micros(1_000_000_000), key("x"));
    let mut table = LockTable::default();
    let acquire = |owner: u8, fence: u64| {
        let fence = Some(ProposedFence::new(Fence::new(1_000_000_000 + fence), bounds));
        Command::Acquire {
            key: key.clone(),
            token: token(owner),
            node_ttl_ms: 100,
            nonce: None,
            fence,
            beside: None,
        }
    };
    let heal = |owner: u8, fence: u64| {
        let fence = Some(Fence::new(1_000_000_000 + fence));
        Command::Heal {
            key: key.clone(),
            token: token(owner),
            node_ttl_ms: 100,
            fence,
            quarantine_ms: 500,
            mode: Mode::Exclusive,
        }
    };
    assert_eq!(table.execute(now, &acquire(2, 7)).answer, Answer::Granted);
    table.execute(now, &Command::Undo { key: key.clone(), token: token(2), requeue: None });
    assert_eq!(table.execute(now, &heal(1, 6)).answer, Answer::Refused(Refusal::Behind));
    assert_eq!(table.execute(now, &heal(3, 8)).answer, Answer::Granted);
    assert_eq!(table.execute(now, &acquire(4, 9)).answer, Answer::Refused(Refusal::Held { left: ms(100) }));
}
