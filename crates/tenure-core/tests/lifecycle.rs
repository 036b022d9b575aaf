//! A lease from its first attempt to the last clean-up, told as sentences.

#[path = "support/cluster.rs"]
mod cluster;

use cluster::*;
use tenure_core::*;

#[test]
fn late_grants_raise_the_margin() {
    let mut cluster = Cluster::of(5);
    cluster.nodes[3].latency = ms(20);
    cluster.nodes[4].latency = ms(200);
    let client = cluster.acquire(&options());
    cluster.run(ms(2));
    assert_eq!(cluster.standing(client).margin(), 0);
    cluster.run(ms(18));
    assert_eq!(cluster.standing(client).margin(), 1);
    // Beyond the node timeout, but still within the validity: the node has the key, so it counts.
    cluster.run(ms(180));
    assert_eq!(cluster.standing(client).margin(), 2);
}

#[test]
fn a_grant_that_arrives_after_the_end_counts_for_nothing() {
    let mut short = options();
    short.ttl = ms(100);
    let mut cluster = Cluster::of(3);
    cluster.nodes[2].latency = ms(150);
    let client = cluster.acquire(&short);
    cluster.run(ms(160));
    let standing = cluster.standing(client);
    assert_eq!((standing.margin(), standing.round().granted().len()), (0, 2));
}

#[test]
fn an_extension_that_no_majority_answers_neither_releases_nor_shortens() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(4_000));
    (0..3).for_each(|node| cluster.nodes[node].mode = Mode::Silent);
    cluster.clients[client].told.clear();
    let before = cluster.standing(client).validity();
    cluster.extend(client, &options());
    cluster.run(ms(60));
    assert!(matches!(
        cluster.told(client),
        Some(lease::Output::NotExtended(NotExtended::Unavailable { .. }))
    ));
    let standing = cluster.standing(client);
    assert_eq!((standing.validity(), standing.is_lost()), (before, false));
    assert_eq!((cluster.holders(), cluster.keys()), (vec![client], 5));
}

#[test]
fn an_extension_that_a_minority_refuses_still_succeeds_and_costs_margin() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(4_000));
    cluster.nodes[0].table = LockTable::default();
    cluster.extend(client, &options());
    cluster.run(ms(5));
    assert_eq!(cluster.valid_for(client), ms(9_898 - 5));
    assert_eq!(cluster.standing(client).margin(), 1);
}

#[test]
fn an_extension_that_a_majority_refuses_tells_that_the_lock_is_lost() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(4_000));
    (0..3).for_each(|node| cluster.nodes[node].table = LockTable::default());
    cluster.clients[client].told.clear();
    cluster.extend(client, &options());
    cluster.run(ms(5));
    assert!(matches!(cluster.told(client), Some(lease::Output::NotExtended(NotExtended::Lost { .. }))));
    assert!(cluster.standing(client).is_lost());
    assert_eq!(cluster.keys(), 2, "nothing was released");
    // Asked again, it does not come back to life, whatever the nodes say.
    cluster.extend(client, &options());
    assert!(matches!(cluster.told(client), Some(lease::Output::NotExtended(NotExtended::Lost { .. }))));
}

#[test]
fn an_extension_in_doubt_says_refused_and_the_validity_stands() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(4_000));
    (0..2).for_each(|node| cluster.nodes[node].table = LockTable::default());
    cluster.nodes[2].mode = Mode::Down;
    cluster.clients[client].told.clear();
    cluster.extend(client, &options());
    cluster.run(ms(5));
    assert!(matches!(cluster.told(client), Some(lease::Output::NotExtended(NotExtended::Refused { .. }))));
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

/// The acquire was answered by nodes 0 to 2 alone. The key is on 3 and 4, too, but this lease never counted
/// them: their grants alone must not carry an extension.
#[test]
fn an_extension_counts_only_nodes_that_this_lease_counted() {
    let mut cluster = Cluster::of(5);
    cluster.nodes[3].mode = Mode::Deaf;
    cluster.nodes[4].mode = Mode::Deaf;
    let client = cluster.acquire(&options());
    cluster.run(ms(4_000));
    assert_eq!(cluster.keys(), 5);
    cluster.nodes.iter_mut().for_each(|node| node.mode = Mode::Up);
    (0..2).for_each(|node| cluster.nodes[node].mode = Mode::Silent);
    cluster.clients[client].told.clear();
    cluster.extend(client, &options());
    cluster.run(ms(60));
    assert!(
        matches!(cluster.told(client), Some(lease::Output::NotExtended(_))),
        "three grants, one of them counted"
    );
    // Once a majority of counted nodes confirmed, the others count as well.
    (0..2).for_each(|node| cluster.nodes[node].mode = Mode::Up);
    cluster.extend(client, &options());
    cluster.run(ms(5));
    assert_eq!(cluster.told(client), Some(lease::Output::Extended));
    assert_eq!(cluster.standing(client).margin(), 2);
}

#[test]
fn a_release_after_expiry_does_not_touch_the_next_holder() {
    let mut cluster = Cluster::of(5);
    let first = cluster.acquire(&options());
    cluster.run(ms(11_100));
    let second = cluster.acquire(&options());
    cluster.run(ms(5));
    assert_eq!(cluster.holders(), [second]);
    cluster.input(first, lease::Input::Release);
    cluster.run(ms(5));
    assert_eq!(cluster.outcomes, [ReleaseOutcome::NotHeld]);
    assert_eq!((cluster.holders(), cluster.keys()), (vec![second], 5));
}

#[test]
fn every_attempt_has_a_token_of_its_own() {
    let mut waiting = options();
    waiting.wait = Wait::AtMost(ms(3_000));
    let mut cluster = Cluster::of(3);
    (0..3).for_each(|node| cluster.occupy(node, token(9), 60_000));
    let client = cluster.acquire(&waiting);
    cluster.run(ms(4_000));
    let client = &cluster.clients[client];
    assert!(client.tokens.len() > 20, "{} attempts", client.tokens.len());
    for (attempt, token) in client.tokens.iter().enumerate() {
        let with_token =
            |command: &Command| matches!(command, Command::Acquire { token: t, .. } if t == token);
        assert_eq!(client.sent.iter().filter(|(.., command)| with_token(command)).count(), 3);
        assert!(!client.tokens[..attempt].contains(token));
    }
}

#[test]
fn a_wait_ends_at_its_limit_with_a_last_attempt_there() {
    let mut waiting = options();
    waiting.wait = Wait::AtMost(ms(1_000));
    let mut cluster = Cluster::of(3);
    (0..3).for_each(|node| cluster.occupy(node, token(9), 60_000));
    let client = cluster.acquire(&waiting);
    let begun = cluster.now;
    cluster.run(ms(1_002));
    assert_eq!(cluster.clients[client].sent.last().unwrap().0, begun + ms(1_000));
    let told: Vec<_> = cluster.clients[client].told.drain(..).collect();
    let Some(lease::Output::NotAcquired(end)) = told.last() else { panic!("{told:?}") };
    assert_eq!((end.elapsed, end.attempts as usize), (ms(1_002), cluster.clients[client].tokens.len()));
}

#[test]
fn tries_max_ends_a_wait_before_its_limit() {
    let mut waiting = options();
    waiting.wait = Wait::Forever;
    waiting.retry.tries_max = Some(3);
    let mut cluster = Cluster::of(3);
    (0..3).for_each(|node| cluster.occupy(node, token(9), 60_000));
    let client = cluster.acquire(&waiting);
    cluster.run(ms(1_000));
    assert!(cluster.clients[client].lease.is_ended());
    assert_eq!(cluster.clients[client].tokens.len(), 3);
}

#[test]
fn a_waiter_gets_the_lock_after_the_holder_is_gone() {
    let mut waiting = options();
    waiting.wait = Wait::Forever;
    let mut cluster = Cluster::of(5);
    cluster.acquire(&options());
    cluster.run(ms(5));
    let waiter = cluster.acquire(&waiting);
    // The holder crashed: nothing more comes from it. Its keys live for ttl and guard band.
    cluster.run(ms(10_990));
    assert_eq!(cluster.holders(), []);
    cluster.run(ms(120));
    assert_eq!(cluster.holders(), [waiter]);
}

#[test]
fn the_refusal_says_when_a_majority_would_be_free() {
    let mut cluster = Cluster::of(5);
    for (node, left) in [(0, 400), (1, 100), (2, 300)] {
        cluster.occupy(node, token(9), left + 1);
    }
    cluster.nodes[4].latency = ms(1);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    // Decided after one grant and three refusals: two more are needed, the second is free after 300 ms.
    assert_eq!(cluster.cause(client), Some(Cause::Contended { retry_after: Some(ms(300)) }));
}

#[test]
fn contention_and_outage_are_told_apart_by_whether_a_majority_answered() {
    // Nodes held by another, down, silent, broken; expected to be contended.
    for (held, down, silent, broken, contended) in
        [(3, 2, 0, 0, true), (3, 0, 2, 0, true), (1, 2, 0, 0, true), (2, 3, 0, 0, false), (2, 0, 3, 0, false)]
            .into_iter()
            .chain([(0, 3, 0, 0, false), (0, 1, 1, 1, false), (1, 1, 1, 0, true), (5, 0, 0, 0, true)])
    {
        let mut cluster = Cluster::of(5);
        (0..held).for_each(|node| cluster.occupy(node, token(9), 60_000));
        let modes = [(down, Mode::Down), (silent, Mode::Silent), (broken, Mode::Broken)];
        let failed = modes.iter().flat_map(|(count, mode)| std::iter::repeat_n(*mode, *count));
        failed.enumerate().for_each(|(node, mode)| cluster.nodes[4 - node].mode = mode);
        let client = cluster.acquire(&options());
        cluster.run(ms(60));
        let cause = cluster.cause(client).expect("not acquired");
        assert_eq!(
            matches!(cause, Cause::Contended { .. }),
            contended,
            "{held} held, {down}/{silent}/{broken}"
        );
        assert_eq!(cause == Cause::Unavailable, !contended);
    }
}

#[test]
fn a_release_is_sent_again_until_the_node_confirms() {
    let mut cluster = Cluster::of(3);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.nodes[0].mode = Mode::Silent;
    cluster.input(client, lease::Input::Release);
    cluster.run(ms(3_000));
    assert_eq!(cluster.outcomes, [ReleaseOutcome::Released], "told long ago, by the other two");
    assert_eq!(cluster.keys(), 1);
    cluster.nodes[0].mode = Mode::Up;
    cluster.run(ms(252));
    assert_eq!(cluster.keys(), 0, "gone a moment after the node is back, not after the ttl");
    cluster.run(ms(1_000));
    assert_eq!(cluster.unconfirmed, [NodeSet::default()]);
}

#[test]
fn a_release_is_not_sent_again_to_nodes_that_cannot_have_the_key() {
    let mut cluster = Cluster::of(3);
    cluster.nodes[0].mode = Mode::Down;
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.input(client, lease::Input::Release);
    cluster.run(ms(5));
    assert_eq!(cluster.unconfirmed, [NodeSet::default()], "done: the node never got the acquire");
}

/// The attempt is lost at the second answer; only then does the third say that it was never sent.
#[test]
fn a_release_learns_late_that_a_node_never_got_the_acquire() {
    let mut cluster = Cluster::of(3);
    cluster.nodes.iter_mut().for_each(|node| node.mode = Mode::Down);
    let client = cluster.acquire(&options());
    cluster.run(ms(60));
    assert_eq!(cluster.cause(client), Some(Cause::Unavailable));
    assert_eq!(cluster.unconfirmed, [NodeSet::default()], "nothing is owed to nodes that are down");
    assert!(cluster.releases.iter().all(|release| release.poll_timeout().is_none()), "no timer left");
}

#[test]
fn a_release_gives_up_when_the_key_has_freed_itself() {
    let mut cluster = Cluster::of(1);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.nodes[0].mode = Mode::Silent;
    cluster.input(client, lease::Input::Release);
    cluster.run(ms(11_000));
    assert_eq!(cluster.outcomes, [ReleaseOutcome::Unavailable]);
    assert!(cluster.unconfirmed.is_empty());
    cluster.run(ms(200));
    assert_eq!(cluster.unconfirmed, [cluster.quorum.all()]);
    assert_eq!(cluster.keys(), 0);
}

/// The caller goes away at every millisecond of an acquire, an extension and a hold, with nodes of every
/// kind: whatever was set is gone once the nodes can be reached again.
#[test]
fn a_caller_that_goes_away_at_any_moment_leaves_no_key() {
    let modes = [Mode::Up, Mode::Down, Mode::Silent, Mode::Deaf, Mode::Broken];
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
            cluster.input(client, lease::Input::Abandon);
            cluster.run(ms(40));
            cluster.nodes.iter_mut().for_each(|node| node.mode = Mode::Up);
            cluster.run(ms(1_000));
            assert_eq!(cluster.keys(), 0, "nodes {first:?} and {second:?}, gone after {moment} ms");
            assert!(cluster.releases.iter().all(|release| release.poll_timeout().is_none()), "no timer left");
        }
    }
}

#[test]
fn a_grant_of_a_node_whose_connection_broke_before_the_decision_does_not_count() {
    let mut cluster = Cluster::of(3);
    cluster.nodes[1].latency = ms(10);
    cluster.nodes[2].mode = Mode::Silent;
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    let node = node(cluster.quorum, 0);
    cluster.input(client, lease::Input::Disconnected { node });
    cluster.run(ms(60));
    assert_eq!(cluster.cause(client), Some(Cause::Unavailable), "one grant is left");
    assert_eq!(cluster.keys(), 0, "the key on the node that was cut off is released, too");
}

#[test]
fn a_node_that_comes_back_is_told_at_once_what_it_missed() {
    let mut cluster = Cluster::of(3);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.nodes[0].mode = Mode::Silent;
    cluster.input(client, lease::Input::Release);
    cluster.run(ms(3_000));
    cluster.nodes[0].mode = Mode::Up;
    let node = node(cluster.quorum, 0);
    cluster.reconnect(node);
    cluster.run(ms(2));
    assert_eq!(cluster.keys(), 0);
}

/// The release of the attempt is under way. Whatever answers come then, it must not be taken for a lock.
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

/// Five nodes have the key for 11 s. Only three confirm the extension that the end counts from; a shorter one
/// that all confirm says nothing about the other two at that end.
#[test]
fn a_shorter_extension_does_not_raise_the_margin() {
    let (mut long, mut short) = (options(), options());
    (long.ttl, short.ttl) = (ms(60_000), ms(1_000));
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    assert_eq!(cluster.standing(client).margin(), 2);
    (3..5).for_each(|node| cluster.nodes[node].mode = Mode::Silent);
    cluster.extend(client, &long);
    cluster.run(ms(60));
    assert_eq!(cluster.standing(client).margin(), 0);
    let end = cluster.standing(client).validity();
    (3..5).for_each(|node| cluster.nodes[node].mode = Mode::Up);
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
    cluster.nodes.iter_mut().for_each(|node| node.mode = Mode::Silent);
    cluster.clients[client].told.clear();
    cluster.extend(client, &options());
    // Nobody waits longer than the lock lives.
    cluster.run(ms(8));
    assert_eq!(cluster.told(client), Some(lease::Output::NotExtended(NotExtended::Expired)));
}

/// It was asked for in time and sent. Then the client was held up: a majority of answers is there, but so is the end, and
/// no timer has fired yet.
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

/// All clocks step at once, as in a leap second. Nobody watches them here: what helps is that nodes keep keys for the guard
/// band longer than anybody counts on them.
#[test]
fn a_step_of_all_clocks_within_the_guard_band_frees_nothing_that_is_counted_on() {
    for (ahead, holders) in [(ms(1_000), vec![0]), (ms(1_200), vec![0, 1])] {
        let mut cluster = Cluster::of(3);
        let first = cluster.acquire(&options());
        cluster.run(ms(5));
        cluster.ahead = ahead;
        cluster.run(cluster.valid_for(first) - ms(10));
        cluster.acquire(&options());
        cluster.run(ms(5));
        assert_eq!(cluster.holders(), holders, "{ahead:?} of a guard band of 1 s");
    }
}

/// Two answers are lost, the third comes at the deadline. The releases that are sent again find nothing, because
/// the first ones did their work: that must not be taken for a lock that was not held.
#[test]
fn a_release_sent_again_does_not_take_its_own_effect_for_not_held() {
    let mut cluster = Cluster::of(3);
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    cluster.nodes[0].latency = ms(50);
    (1..3).for_each(|node| cluster.nodes[node].mode = Mode::Deaf);
    cluster.input(client, lease::Input::Release);
    cluster.run(ms(40));
    (1..3).for_each(|node| cluster.nodes[node].mode = Mode::Up);
    cluster.run(ms(1_000));
    assert_eq!(cluster.keys(), 0);
    assert_ne!(cluster.outcomes, [ReleaseOutcome::NotHeld]);
}

/// One lease, several rounds: an answer to an older round must not be counted in a newer one.
#[test]
fn an_answer_to_an_older_round_is_not_counted() {
    let quorum = Quorum::of(3).unwrap();
    let mut waiting = options();
    waiting.wait = Wait::Forever;
    let mut lease = Lease::new(key("x"), terms(&waiting), quorum);
    let granted = || Ok(Reply::new(None, Answer::Granted));
    let send = |lease: &mut Lease| {
        let rounds = std::iter::from_fn(|| lease.poll_output()).filter_map(|output| match output {
            lease::Output::Send { round, .. } => Some(round),
            _ => None,
        });
        rounds.last()
    };
    lease.handle(at(0), attempt(quorum, Entropy { token: token(1), dice: 0 }));
    let first = send(&mut lease).unwrap();
    lease.handle(at(50), lease::Input::Timeout);
    lease.handle(at(100), lease::Input::Timeout);
    lease.handle(at(100), attempt(quorum, Entropy { token: token(2), dice: 0 }));
    let second = send(&mut lease).unwrap();
    for node in quorum.indexes() {
        lease.handle(at(101), lease::Input::Answer { round: first, node, answer: granted() });
    }
    assert!(lease.standing().is_none(), "grants for the first attempt's token");
    for node in quorum.indexes() {
        lease.handle(at(102), lease::Input::Answer { round: second, node, answer: granted() });
    }
    assert_eq!(lease.standing().unwrap().token(), token(2));
}

/// A key that was put back keeps others out at once. For us it counts only when nobody can count any more on what the
/// node granted and forgot.
#[test]
fn a_healed_node_counts_only_after_the_quarantine() {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(&options());
    cluster.run(ms(100));
    assert_eq!(cluster.standing(client).margin(), 2);
    cluster.nodes[4].table = LockTable::default();
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

/// Somebody else was granted the node meanwhile, with a larger fence: what is ours there may be over.
#[test]
fn a_node_with_a_larger_fence_is_not_healed() {
    let bounds = FenceBounds::new(ms(10_000), ms(60_000));
    let (now, key) = (NodeTime::from_micros(1_000_000_000), key("x"));
    let mut table = LockTable::default();
    let acquire = |owner: u8, fence: u64| {
        let fence = Some(FenceClaim::new(Fence::new(1_000_000_000 + fence), bounds));
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
        Command::Heal { key: key.clone(), token: token(owner), node_ttl_ms: 100, fence }
    };
    assert_eq!(table.execute(now, &acquire(2, 7)).answer, Answer::Granted);
    table.execute(now, &Command::Release { key: key.clone(), token: token(2) });
    assert_eq!(table.execute(now, &heal(1, 6)).answer, Answer::Refused(Refusal::Behind));
    assert_eq!(table.execute(now, &heal(3, 8)).answer, Answer::Granted);
    assert_eq!(table.execute(now, &acquire(4, 9)).answer, Answer::Refused(Refusal::Held { left: ms(100) }));
}

#[test]
fn a_fence_that_is_too_small_is_proposed_again_with_another_owner_to_all() {
    let (now, quorum) = (at(0), Quorum::of(3).unwrap());
    let mut fenced = options();
    fenced.fenced = true;
    let bounds = FenceBounds::new(ms(10_000), ms(60_000));
    let terms = terms(&fenced);
    let mut lease = Lease::new(key("x"), terms, quorum);
    let proposal = |fence: u64| Proposal {
        ticket: None,
        fence: Some(FenceClaim::new(Fence::new(fence), bounds)),
        nodes: vec![Ok(None); 3].into(),
    };
    let entropy = |byte| Entropy { token: token(byte), dice: 0 };
    lease.handle(now, lease::Input::Attempt { entropy: entropy(1), proposal: proposal(5) });
    let mut sent = vec![];
    while let Some(lease::Output::Send { round, node, .. }) = lease.poll_output() {
        sent.push((round, node));
    }
    assert_eq!(sent.len(), 3);
    for (round, node) in sent {
        let answer = if node.get() == 0 { Answer::Granted } else { Answer::Refused(Refusal::Behind) };
        let reply = Reply::new(None, answer);
        lease.handle(now, lease::Input::Answer { round, node, answer: Ok(reply) });
    }
    // What the first proposal got is given back before the second is made.
    assert!(matches!(lease.poll_output(), Some(lease::Output::CleanUp(_))));
    assert_eq!(lease.poll_output(), Some(lease::Output::Propose { fenced: true, ticket: false }));
    assert_eq!(lease.poll_output(), None);
    lease.handle(now, lease::Input::Attempt { entropy: entropy(2), proposal: proposal(9) });
    let sends = std::iter::from_fn(|| lease.poll_output()).filter(|output| {
        matches!(output, lease::Output::Send { command: Command::Acquire { token: t, .. }, .. } if *t == token(2))
    });
    assert_eq!(sends.count(), 3, "to all, also to the one that had granted");
    assert_eq!(lease.attempts(), 1, "it is still the first attempt");
}

/// What puts a key back is under way when the node says that it does not have it: it may have it a moment later.
#[test]
fn a_key_that_was_put_back_is_owed() {
    let mut cluster = Cluster::of(3);
    cluster.nodes[2].mode = Mode::Silent;
    let client = cluster.acquire(&options());
    cluster.run(ms(2_000));
    cluster.nodes[2].mode = Mode::Up;
    cluster.nodes[2].latency = ms(40);
    // Won by the first two. The third says "not held" after 40 ms, and is healed.
    cluster.extend(client, &options());
    cluster.run(ms(5));
    (cluster.nodes[0].mode, cluster.nodes[1].mode) = (Mode::Silent, Mode::Silent);
    // It says so once more, to a command from before.
    cluster.extend(client, &options());
    cluster.run(ms(3_000));
    assert!(cluster.owners()[2].is_some(), "put back");
    (cluster.nodes[0].mode, cluster.nodes[1].mode) = (Mode::Up, Mode::Up);
    cluster.nodes[2].mode = Mode::Down;
    cluster.input(client, lease::Input::Release);
    cluster.run(ms(50));
    cluster.nodes[2].mode = Mode::Up;
    let node = node(cluster.quorum, 2);
    cluster.reconnect(node);
    cluster.run(ms(1_000));
    assert_eq!(cluster.keys(), 0, "no key is left behind where the node can be reached");
}
