//! A lease from its first attempt to the last clean-up, told as sentences.

use tenure_core::client::News;
use tenure_core::*;

use crate::support::cluster::*;

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
    waiting.wait = Wait::AtMost(ms(1_050));
    let mut cluster = Cluster::of(3);
    (0..3).for_each(|node| cluster.occupy(node, token(9), 60_000));
    let client = cluster.acquire(&waiting);
    let begun = cluster.now;
    cluster.run(ms(1_052));
    assert_eq!(cluster.clients[client].sent.last().unwrap().0, begun + ms(1_050));
    let told: Vec<_> = cluster.clients[client].told.drain(..).collect();
    let Some(News::NotAcquired(end)) = told.last() else { panic!("{told:?}") };
    assert_eq!((end.elapsed, end.attempts as usize), (ms(1_052), cluster.clients[client].tokens.len()));
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
    assert!(cluster.clients[client].client.is_idle());
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
    // Decided after one grant and three refusals: two more are needed, the second is free after 300
    // ms.
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
        let modes = [(down, Behaviour::Down), (silent, Behaviour::Silent), (broken, Behaviour::Broken)];
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
fn a_grant_of_a_node_whose_connection_broke_before_the_decision_does_not_count() {
    let mut cluster = Cluster::of(3);
    cluster.nodes[1].latency = ms(10);
    cluster.nodes[2].mode = Behaviour::Silent;
    let client = cluster.acquire(&options());
    cluster.run(ms(5));
    let node = node(cluster.quorum, 0);
    cluster.reconnect(client, node);
    cluster.run(ms(60));
    assert_eq!(cluster.cause(client), Some(Cause::Unavailable), "one grant is left");
    assert_eq!(cluster.keys(), 0, "the key on the node that was cut off is released, too");
}

/// All clocks step at once, as in a leap second. Nobody watches them here: what helps is that nodes
/// keep keys for the guard band longer than anybody counts on them.
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
        fence: Some(ProposedFence::new(Fence::new(fence), bounds)),
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
    assert_eq!(
        lease.poll_output(),
        Some(lease::Output::Propose { fenced: true, ticket: false, joins: None })
    );
    assert_eq!(lease.poll_output(), None);
    lease.handle(now, lease::Input::Attempt { entropy: entropy(2), proposal: proposal(9) });
    let sends = std::iter::from_fn(|| lease.poll_output()).filter(|output| {
        matches!(output, lease::Output::Send { command: Command::Acquire { token: t, .. }, .. } if *t == token(2))
    });
    assert_eq!(sends.count(), 3, "to all, also to the one that had granted");
    assert_eq!(lease.attempts(), 1, "it is still the first attempt");
}
