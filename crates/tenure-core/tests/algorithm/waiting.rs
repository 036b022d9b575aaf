//! Waiting in line: who gets the lock when, and who is passed over.

use std::time::Duration;

use tenure_core::client::News;
use tenure_core::*;

use crate::support::cluster::*;

/// Options of a waiter: in line, without a limit.
fn waiting() -> Options {
    let mut options = options();
    options.fenced = true;
    options.queued = true;
    options.wait = Wait::Forever;
    options
}

fn in_line(cluster: &Cluster) -> Vec<usize> {
    cluster.nodes.iter().map(|node| node.table.waiters(&key("x"))).collect()
}

/// So many clients that ask for the lock, the first of which gets it.
fn one_after_another(cluster: &mut Cluster, count: usize) -> Vec<usize> {
    let mut acquire = |_| {
        let client = cluster.acquire(&waiting());
        cluster.run(ms(7));
        client
    };
    (0..count).map(&mut acquire).collect()
}

/// Lets the holder release after a moment, again and again, and returns who held the lock, in
/// order.
fn serve(cluster: &mut Cluster, until: Duration) -> Vec<usize> {
    let (mut served, end) = (vec![], cluster.now + until);
    while cluster.now < end {
        cluster.run(ms(1));
        if let [holder] = cluster.holders()[..] {
            served.push(holder);
            cluster.run(ms(3));
            cluster.release(holder);
        }
    }
    served
}

#[test]
fn waiters_are_served_in_the_order_in_which_they_came_and_at_once() {
    let mut cluster = Cluster::of(5);
    let expected = one_after_another(&mut cluster, 8);
    assert_eq!(in_line(&cluster), [7; 5]);
    let begun = cluster.now;
    let served = serve(&mut cluster, ms(1_000));
    assert_eq!(served, expected);
    assert!(cluster.outcomes.iter().filter(|outcome| **outcome == ReleaseOutcome::Released).count() >= 8);
    assert_eq!((in_line(&cluster), cluster.keys()), (vec![0; 5], 0));
    // Eight holds of at most 4 ms and two round trips each to pass it on: nobody waited for a
    // timer.
    let last = cluster.clients[expected[7]].sent.iter().map(|(time, ..)| *time).max().unwrap();
    assert!(last.since(begun) < ms(8 * 12), "{:?}", last.since(begun));
}

#[test]
fn a_release_wakes_one_waiter_and_sends_the_same_commands_however_many_wait() {
    let commands_of = |waiters: usize| {
        let mut cluster = Cluster::of(5);
        let holder = cluster.acquire(&waiting());
        cluster.run(ms(5));
        for _ in 0..waiters {
            cluster.acquire(&waiting());
            cluster.run(ms(7));
        }
        // Between two rounds of asking.
        cluster.run(ms(20));
        let before: usize = cluster.nodes.iter().map(|node| node.log.len()).sum();
        let polls: usize = cluster.clients.iter().map(|client| client.tokens.len()).sum();
        cluster.release(holder);
        cluster.run(ms(9));
        assert_eq!(cluster.holders().len(), 1);
        let polls = cluster.clients.iter().map(|client| client.tokens.len()).sum::<usize>() - polls;
        (cluster.nodes.iter().map(|node| node.log.len()).sum::<usize>() - before, polls)
    };
    let few = commands_of(2);
    assert_eq!(few.1, 1, "one attempt, of the one that was woken");
    assert_eq!(commands_of(9), few);
}

#[test]
fn a_dead_waiter_is_passed_over_at_once() {
    let mut cluster = Cluster::of(5);
    let clients = one_after_another(&mut cluster, 5);
    cluster.kill(clients[1]);
    cluster.kill(clients[2]);
    cluster.release(clients[0]);
    cluster.run(ms(9));
    assert_eq!(cluster.holders(), [clients[3]]);
}

#[test]
fn a_waiter_that_stands_still_when_it_is_its_turn_holds_the_next_up_until_that_one_asks() {
    let mut cluster = Cluster::of(5);
    let clients = one_after_another(&mut cluster, 3);
    cluster.stop(clients[1]);
    cluster.release(clients[0]);
    cluster.run(CLAIM_WINDOW * 2);
    assert_eq!(cluster.holders(), [clients[2]], "the next one had asked when the reservation was over");
    cluster.go_on(clients[1]);
    cluster.release(clients[2]);
    cluster.run(POLL_MAX);
    assert_eq!(cluster.holders(), [clients[1]], "and when it goes on, it gets in line again");
}

#[test]
fn a_lock_that_frees_itself_goes_to_the_first_in_line_not_to_whoever_comes_along() {
    let mut cluster = Cluster::of(5);
    let holder = cluster.acquire(&waiting());
    cluster.run(ms(5));
    let waiters = [cluster.acquire(&waiting()), cluster.acquire(&waiting())];
    cluster.run(ms(20));
    cluster.kill(holder);
    // Newcomers ask all the time, also at the very moment at which the lock is free.
    let mut newcomers = vec![];
    while cluster.holders().is_empty() || cluster.holders() == [holder] {
        newcomers.push(cluster.acquire(&waiting()));
        cluster.run(ms(97));
        assert!(newcomers.len() < 200, "somebody gets it");
    }
    let first = cluster.holders()[0];
    assert!(waiters.contains(&first), "{first} of {waiters:?}");
    cluster.release(first);
    cluster.run(ms(20));
    let second = cluster.holders()[0];
    assert!(waiters.contains(&second) && second != first, "{second} of {waiters:?}");
}

#[test]
fn waiters_that_reach_only_a_minority_of_nodes_hold_nobody_up_for_long() {
    let mut cluster = Cluster::of(5);
    let holder = cluster.acquire(&waiting());
    cluster.run(ms(5));
    // Each of three waiters gets in line on other nodes; none of them could ever win.
    for reach in [[0, 1], [2, 3], [4, 4]] {
        for node in 0..5 {
            cluster.nodes[node].mode = if reach.contains(&node) { Behaviour::Up } else { Behaviour::Silent };
        }
        let stuck = cluster.acquire(&waiting());
        cluster.run(ms(300));
        cluster.stop(stuck);
    }
    cluster.nodes.iter_mut().for_each(|node| node.mode = Behaviour::Up);
    let waiter = cluster.acquire(&waiting());
    cluster.run(ms(20));
    cluster.release(holder);
    cluster.run(CLAIM_WINDOW * 4);
    assert_eq!(cluster.holders(), [waiter]);
}

/// How long it takes until these many waiters were served, behind one that asks for more nodes than
/// there are.
fn served_behind(margin: Option<Behaviour>, min_margin: usize) -> Duration {
    let mut cluster = Cluster::of(3);
    let holder = cluster.acquire(&waiting());
    cluster.run(ms(5));
    let mut demanding = waiting();
    demanding.min_margin = min_margin;
    if let Some(mode) = margin {
        cluster.nodes[2].mode = mode;
        cluster.acquire(&demanding);
        cluster.run(ms(300));
    }
    let others = one_after_another(&mut cluster, 8);
    cluster.release(holder);
    let (begun, mut served) = (cluster.now, vec![]);
    while !others.iter().all(|waiter| served.contains(waiter)) {
        assert!(cluster.now.since(begun) < ms(60_000), "{margin:?}: only {served:?} of {others:?}");
        served.extend(serve(&mut cluster, ms(20)));
    }
    cluster.now.since(begun)
}

#[test]
fn whoever_asks_for_a_margin_that_cannot_be_had_holds_up_nobody() {
    for mode in [Behaviour::Down, Behaviour::Silent] {
        let modest = served_behind(Some(mode), 0);
        let took = served_behind(Some(mode), 1);
        println!("{mode:?}: {took:?} for eight waiters, {modest:?} behind one that asks for no margin");
        assert!(took < modest + CLAIM_WINDOW * 2, "{mode:?}: {took:?}, and {modest:?} without");
    }
}

#[test]
fn whoever_asks_for_a_margin_gets_the_lock_when_the_nodes_are_back() {
    let mut cluster = Cluster::of(3);
    cluster.nodes[2].mode = Behaviour::Silent;
    let mut demanding = waiting();
    demanding.min_margin = 1;
    let client = cluster.acquire(&demanding);
    cluster.run(ms(5_000));
    assert_eq!(cluster.holders(), [0; 0]);
    cluster.nodes[2].mode = Behaviour::Up;
    cluster.run(ms(3_000));
    assert_eq!(cluster.holders(), [client]);
    assert_eq!(cluster.standing(client).margin(), 1);
}

#[test]
fn a_waiter_that_gives_up_leaves_the_line_and_passes_on_what_was_kept_for_it() {
    let mut cluster = Cluster::of(5);
    let holder = cluster.acquire(&waiting());
    cluster.run(ms(5));
    let (first, second) = (cluster.acquire(&waiting()), cluster.acquire(&waiting()));
    cluster.run(ms(20));
    assert_eq!(in_line(&cluster), [2; 5]);
    cluster.release(holder);
    // The lock is set aside for the first, which has just given up.
    cluster.run(Duration::from_micros(1_100));
    cluster.abandon(first);
    cluster.run(ms(20));
    assert_eq!(cluster.holders(), [second]);
    assert_eq!(in_line(&cluster), [0; 5]);
}

#[test]
fn a_wait_that_is_over_leaves_the_line_and_tells_where_it_stood() {
    let mut cluster = Cluster::of(5);
    cluster.acquire(&waiting());
    cluster.run(ms(5));
    let first = cluster.acquire(&waiting());
    cluster.run(ms(10));
    let mut limited = waiting();
    limited.wait = Wait::AtMost(ms(100));
    let second = cluster.acquire(&limited);
    cluster.run(ms(120));
    let Some(News::NotAcquired(end)) = cluster.told(second) else { panic!("it waits no longer") };
    let place = end.place.unwrap();
    assert_eq!((place.ahead, place.waiters), (1, 2));
    cluster.run(ms(10));
    assert_eq!(in_line(&cluster), [1; 5]);
    assert!(cluster.lease(first).ticket().is_some());
}

#[test]
fn whoever_is_overtaken_by_clocks_that_differ_draws_again_and_comes_after() {
    let mut cluster = Cluster::of(3);
    cluster.acquire(&waiting());
    cluster.run(ms(5));
    // A client whose numbers run ahead.
    let ahead = Ticket::exclusive(cluster.now.as_nanos() / 1_000 + 20_000, ClientId::new(77));
    for node in 0..3 {
        let now = NodeTime::from_micros(cluster.now.as_nanos() / 1_000);
        cluster.nodes[node].table.execute(now, &Command::Enqueue { key: key("x"), ticket: ahead });
    }
    let late = cluster.acquire(&waiting());
    cluster.run(ms(100));
    let ticket = cluster.lease(late).ticket().unwrap();
    assert!(ticket > ahead || in_line(&cluster) == [2; 3], "{ticket} after {ahead}");
}

#[test]
fn a_lost_wake_up_costs_no_more_than_the_backstop() {
    let mut cluster = Cluster::of(5);
    let holder = cluster.acquire(&waiting());
    cluster.run(ms(5));
    let waiter = cluster.acquire(&waiting());
    cluster.run(ms(20));
    cluster.nodes.iter_mut().for_each(|node| node.mode = Behaviour::Deaf);
    cluster.release(holder);
    cluster.run(ms(10));
    cluster.nodes.iter_mut().for_each(|node| node.mode = Behaviour::Up);
    cluster.run(CLAIM_WINDOW);
    assert_eq!(cluster.holders(), [waiter]);
}

#[test]
fn a_label_is_shown_to_whoever_waits_and_is_gone_with_the_lock() {
    let mut cluster = Cluster::of(3);
    let lease =
        Lease::new(key("x"), terms(&waiting()), cluster.quorum).labelled(Some("nightly import".into()));
    let holder = cluster.acquire_with(lease);
    cluster.run(ms(5));
    let waiter = cluster.acquire(&waiting());
    cluster.run(ms(10));
    let place = cluster.lease(waiter).place().unwrap();
    assert_eq!(place.holder.as_deref(), Some("nightly import"));
    cluster.release(holder);
    cluster.run(ms(10));
    let next = cluster.acquire(&waiting());
    cluster.run(ms(10));
    assert_eq!(cluster.lease(next).place().unwrap().holder, None, "the new holder wrote nothing");
}

/// A lease that is in line on all nodes but those that are `down`, and has just been woken by node
/// 0.
fn woken(nodes: usize, down: &[usize]) -> (Lease, Quorum, RoundNumber) {
    let quorum = Quorum::of(nodes).unwrap();
    let mut lease = Lease::new(key("x"), terms(&waiting()), quorum);
    let ticket = Some(Ticket::exclusive(7, ClientId::new(1)));
    lease.handle(at(1_000), attempt_without(quorum, down, 1, ticket));
    for output in outputs(&mut lease) {
        if let lease::Output::Send { round, node, .. } = output {
            lease.handle(at(1_001), lease::Input::Answer { round, node, answer: in_line_behind_nobody() });
        }
    }
    assert!(matches!(outputs(&mut lease)[..], [.., lease::Output::Waiting { .. }]));
    lease.handle(at(1_010), lease::Input::Woken { node: node(quorum, 0) });
    assert!(matches!(outputs(&mut lease)[..], [lease::Output::Propose { .. }]));
    lease.handle(at(1_010), attempt_without(quorum, down, 2, None));
    let [lease::Output::Send { round, node: asked, .. }] = outputs(&mut lease)[..] else {
        panic!("one is asked")
    };
    assert_eq!(asked, node(quorum, 0), "the one that woke us");
    lease.handle(at(1_011), lease::Input::Answer { round, node: asked, answer: granted() });
    (lease, quorum, round)
}

fn attempt_without(quorum: Quorum, down: &[usize], owner: u8, ticket: Option<Ticket>) -> lease::Input {
    let mut nodes = Proposal::plain(quorum).nodes.to_vec();
    down.iter().for_each(|node| nodes[*node] = Err(Fault::Unreachable("down".into())));
    let proposal = Proposal { ticket, fence: None, nodes: nodes.into() };
    lease::Input::Attempt { entropy: Entropy { token: token(owner), dice: 0 }, proposal }
}

fn outputs(lease: &mut Lease) -> Vec<lease::Output> {
    std::iter::from_fn(|| lease.poll_output()).collect()
}

fn granted() -> Result<Reply, Fault> {
    Ok(Reply::new(None, Answer::Granted))
}

fn in_line_behind_nobody() -> Result<Reply, Fault> {
    let refused = Reply::new(None, Answer::Refused(Refusal::Held { left: ms(9_000) }));
    let report = LineReport { place: Some((0, 1)), ..LineReport::default() };
    Ok(Reply { line: Some(Box::new(report)), ..refused })
}

#[test]
fn nobody_is_asked_behind_the_clean_up_of_the_attempt() {
    // Two of five are down, node 1 wakes us and refuses: lost, although node 2 was not asked yet.
    let (mut lease, quorum, round) = woken(5, &[3, 4]);
    lease.handle(at(1_012), lease::Input::Woken { node: node(quorum, 1) });
    let answer = in_line_behind_nobody();
    lease.handle(at(1_014), lease::Input::Answer { round, node: node(quorum, 1), answer });
    assert!(outputs(&mut lease).iter().any(|output| matches!(output, lease::Output::CleanUp(_))));
    lease.handle(at(1_020), lease::Input::Timeout);
    let asks = |output: &lease::Output| matches!(output, lease::Output::Send { round: of, command: Command::Acquire { .. }, .. } if *of == round);
    assert!(!outputs(&mut lease).iter().any(asks), "its key would be left on that node");
}

#[test]
fn a_node_whose_connection_broke_in_the_round_is_asked_no_more_in_it() {
    let (mut lease, quorum, round) = woken(3, &[]);
    lease.handle(at(1_012), lease::Input::Disconnected { node: node(quorum, 1) });
    lease.handle(at(1_013), lease::Input::Connected { node: node(quorum, 1) });
    lease.handle(at(1_020), lease::Input::Timeout);
    let asks = |output: &lease::Output| matches!(output, lease::Output::Send { node: to, command: Command::Acquire { .. }, .. } if *to == node(quorum, 1));
    assert!(!outputs(&mut lease).iter().any(asks));
    lease.handle(at(1_021), lease::Input::Answer { round, node: node(quorum, 1), answer: granted() });
    assert_eq!(lease.standing(), None, "one vote of three");
}

#[test]
fn whoever_yields_keeps_only_a_place_that_a_node_has_given() {
    let quorum = Quorum::of(3).unwrap();
    let ticket = Ticket::exclusive(7, ClientId::new(1));
    let ahead = LineReport { ahead: Some(Ticket { number: 5, ..ticket }), ..LineReport::default() };
    let granted_behind = || Ok(Reply { line: Some(Box::new(ahead.clone())), ..granted().unwrap() });
    // What node 0 says; the others grant, and somebody is ahead there.
    let yields = |first: Result<Reply, Fault>| {
        let mut lease = Lease::new(key("x"), terms(&waiting()), quorum);
        lease.handle(at(1_000), attempt_without(quorum, &[], 1, Some(ticket)));
        for output in outputs(&mut lease) {
            if let lease::Output::Send { round, node, .. } = output {
                let answer = if node.get() == 0 { first.clone() } else { granted_behind() };
                lease.handle(at(1_001), lease::Input::Answer { round, node, answer });
            }
        }
        let mut outputs = outputs(&mut lease);
        let last = outputs.pop().unwrap();
        let passes_on = outputs.into_iter().find_map(|output| match output {
            lease::Output::CleanUp(mut release) => release.poll_output(),
            _ => None,
        });
        let Some(release::Output::Send { command: Command::Release { next, .. }, .. }) = passes_on else {
            panic!("the lock is passed on, and not {passes_on:?}")
        };
        (next, last, lease.ticket())
    };
    let (next, last, kept) = yields(in_line_behind_nobody());
    assert_eq!((next, kept), (Next::InLineWith(ticket), Some(ticket)), "node 0 has looked who is there");
    assert!(matches!(last, lease::Output::Waiting { .. }));
    // No node has looked: one who came earlier may have the larger ticket, and the first node that
    // looks would take the place away from us when others have come behind us.
    let behind = Ok(Reply::new(None, Answer::Refused(Refusal::Behind)));
    let (next, last, kept) = yields(behind);
    assert_eq!((next, kept), (Next::InLine, None));
    assert!(
        matches!(last, lease::Output::Propose { ticket: true, .. }),
        "it begins again behind them: {last:?}"
    );
}

#[test]
fn whoever_has_no_place_yet_yields_to_everybody_in_line() {
    let quorum = Quorum::of(3).unwrap();
    let ticket = Ticket::exclusive(5, ClientId::new(1));
    // Who is in line has the larger ticket: another clock, or a fence of another lock, made it so.
    let in_line = Ticket::exclusive(9, ClientId::new(2));
    let report = LineReport { ahead: Some(in_line), ..LineReport::default() };
    let mut lease = Lease::new(key("x"), terms(&waiting()), quorum);
    lease.handle(at(1_000), attempt_without(quorum, &[], 1, Some(ticket)));
    for output in outputs(&mut lease) {
        if let lease::Output::Send { round, node, .. } = output {
            let answer = Ok(Reply { line: Some(Box::new(report.clone())), ..granted().unwrap() });
            lease.handle(at(1_001), lease::Input::Answer { round, node, answer });
        }
    }
    assert_eq!(lease.standing(), None, "it was in line before us");
    assert!(matches!(outputs(&mut lease).pop(), Some(lease::Output::Propose { ticket: true, .. })));
}

/// The time of a hand-over is the longest that a node of the majority tells. It decides nothing.
#[test]
fn a_won_attempt_tells_the_longest_time_since_a_node_passed_the_lock_on() {
    let quorum = Quorum::of(5).unwrap();
    let ticket = Ticket::exclusive(7, ClientId::new(1));
    let won_with = |told: [Option<u64>; 5]| {
        let mut lease = Lease::new(key("x"), terms(&waiting()), quorum);
        lease.handle(at(1_000), attempt_without(quorum, &[], 1, Some(ticket)));
        for (output, told) in outputs(&mut lease).into_iter().zip(told) {
            let lease::Output::Send { round, node, .. } = output else { panic!("{output:?}") };
            assert_eq!(lease.passed_on_after().filter(|_| lease.standing().is_none()), None);
            let report = LineReport { passed_on: told.map(ms), ..LineReport::default() };
            let line = told.map(|_| Box::new(report));
            let answer = Ok(Reply { line, ..granted().unwrap() });
            lease.handle(at(1_001), lease::Input::Answer { round, node, answer });
        }
        assert!(lease.standing().is_some());
        lease.passed_on_after()
    };
    assert_eq!(won_with([None; 5]), None, "it was free");
    assert_eq!(won_with([Some(3), Some(0), Some(1), None, None]), Some(ms(3)));
    assert_eq!(won_with([None, Some(0), None, None, None]), Some(ms(0)));
    assert_eq!(
        won_with([Some(1), Some(2), Some(1), Some(90), None]),
        Some(ms(2)),
        "late votes count no more"
    );
}

#[test]
fn a_ticket_that_no_node_has_given_a_place_is_not_put_in_line_without_a_look() {
    let quorum = Quorum::of(3).unwrap();
    let ticket = Ticket::exclusive(5, ClientId::new(1));
    let mut lease = Lease::new(key("x"), terms(&waiting()), quorum);
    lease.handle(at(1_000), attempt_without(quorum, &[], 1, Some(ticket)));
    for output in outputs(&mut lease) {
        if let lease::Output::Send { round, node, .. } = output {
            let answer = Err(Fault::Unreachable("down".into()));
            lease.handle(at(1_001), lease::Input::Answer { round, node, answer });
        }
    }
    outputs(&mut lease);
    for node in quorum.indexes() {
        lease.handle(at(1_010), lease::Input::Connected { node });
    }
    let enqueued = outputs(&mut lease)
        .iter()
        .any(|output| matches!(output, lease::Output::Send { command: Command::Enqueue { .. }, .. }));
    assert!(!enqueued, "nodes that are only told do not look who is in line");
    assert!(lease.poll_timeout().is_some_and(|until| until <= at(1_100)), "it asks soon");
}

#[test]
fn whoever_is_overtaken_hears_all_nodes_before_it_leaves_the_line() {
    let quorum = Quorum::of(5).unwrap();
    let ticket = Ticket::exclusive(5, ClientId::new(1));
    let overtaken = || Ok(Reply::new(None, Answer::Refused(Refusal::Overtaken)));
    // What the last node says decides whether a majority has it in line.
    let after = |last: Result<Reply, Fault>| {
        let mut lease = Lease::new(key("x"), terms(&waiting()), quorum);
        lease.handle(at(1_000), attempt_without(quorum, &[], 1, Some(ticket)));
        let [lease::Output::Send { round, .. }, ..] = outputs(&mut lease)[..] else {
            panic!("all are asked")
        };
        let early = [granted(), overtaken(), in_line_behind_nobody(), in_line_behind_nobody()];
        for (node, answer) in quorum.indexes().zip(early) {
            lease.handle(at(1_001), lease::Input::Answer { round, node, answer });
        }
        let early = outputs(&mut lease);
        assert!(matches!(early[..], [lease::Output::CleanUp(_)]), "others may have node 0: {early:?}");
        assert_eq!(lease.ticket(), Some(ticket));
        lease.handle(at(1_002), lease::Input::Answer { round, node: node(quorum, 4), answer: last });
        outputs(&mut lease)
    };
    let kept = after(in_line_behind_nobody());
    let told = |output: &lease::Output| matches!(output, lease::Output::Send { node, command: Command::Enqueue { .. }, .. } if node.get() == 1);
    assert!(kept.iter().any(told), "a majority has it in line, and the other is told: {kept:?}");
    assert!(matches!(kept.last(), Some(lease::Output::Waiting { .. })));
    for last in [overtaken(), Err(Fault::Timeout)] {
        let left = after(last);
        assert!(matches!(left.last(), Some(lease::Output::Propose { ticket: true, .. })), "{left:?}");
    }
}
