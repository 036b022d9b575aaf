//! Renewals, what the holder is told about its lock, and locks that change hands, told as
//! sentences.

use std::time::Duration;

use tenure_core::client::{News, Request, Resuming};
use tenure_core::*;

use crate::support::cluster::*;

/// The ttl is 10 s: a renewal is due after 3,333 ms and comes up to 7 ms earlier, validity lasts
/// for 9,898 ms, and the loss is told 500 ms before that.
fn renewed() -> Options {
    renewed_with(|_| ())
}

fn renewed_with(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = options();
    options.renewal = Renewal::AtThird;
    change(&mut options);
    options
}

const VALID: Duration = ms(9_898);
const LOSS: Duration = ms(9_398);

fn held(options: &Options) -> (Cluster, usize) {
    let mut cluster = Cluster::of(5);
    let client = cluster.acquire(options);
    cluster.run(ms(10));
    assert_eq!(cluster.holders(), [client]);
    (cluster, client)
}

/// When the client began extensions.
fn extended(cluster: &Cluster, client: usize) -> Vec<Time> {
    let sent = cluster.clients[client].sent.iter();
    let mut times: Vec<Time> =
        sent.filter(|(_, _, command)| matches!(command, Command::Extend { .. })).map(|sent| sent.0).collect();
    times.dedup();
    times
}

fn states(cluster: &Cluster, client: usize) -> Vec<HoldState> {
    let state = |told: &News| match told {
        News::State(state) => Some(*state),
        _ => None,
    };
    cluster.clients[client].told.iter().filter_map(state).collect()
}

fn failures(cluster: &Cluster, client: usize) -> Vec<NotExtended> {
    let failure = |told: &News| match told {
        News::NotExtended(reason) => Some(reason.clone()),
        _ => None,
    };
    cluster.clients[client].told.iter().filter_map(failure).collect()
}

fn set(cluster: &mut Cluster, nodes: std::ops::Range<usize>, mode: Behaviour) {
    nodes.for_each(|node| cluster.nodes[node].mode = mode);
}

fn run_until(cluster: &mut Cluster, time: Time) {
    cluster.run(time.since(cluster.now));
}

#[test]
fn a_lock_is_extended_whenever_a_third_of_its_ttl_is_over() {
    let begun = Cluster::of(5).now;
    let (mut cluster, client) = held(&renewed());
    for _ in 0..600 {
        cluster.run(ms(100));
        // Two thirds of the ttl less drift, and the round trip.
        assert!(cluster.valid_for(client) > ms(6_560), "{:?}", cluster.valid_for(client));
    }
    let times = extended(&cluster, client);
    assert!((17..=19).contains(&times.len()), "{times:?}");
    let mut last = begun;
    for time in times {
        assert!((ms(3_326)..=ms(3_334)).contains(&time.since(last)), "{:?}", time.since(last));
        last = time;
    }
    assert_eq!(states(&cluster, client), [], "there is nothing to tell");
    assert_eq!((cluster.keys(), cluster.standing(client).margin()), (5, 2));
}

#[test]
fn a_lock_is_extended_as_often_as_was_asked_for() {
    let (mut cluster, every) = held(&renewed_with(|options| options.renewal = Renewal::Every(ms(1_000))));
    cluster.run(ms(20_000));
    assert!((19..=21).contains(&extended(&cluster, every).len()), "{:?}", extended(&cluster, every));
    let (mut cluster, off) = held(&options());
    cluster.run(ms(20_000));
    assert_eq!((extended(&cluster, off), cluster.keys()), (vec![], 0), "not renewed, it ends");
}

#[test]
fn the_first_missed_renewal_puts_the_lock_at_risk_and_the_next_success_ends_that() {
    let (mut cluster, client) = held(&renewed());
    set(&mut cluster, 0..3, Behaviour::Silent);
    cluster.run(ms(3_300));
    assert_eq!(states(&cluster, client), [], "no renewal was missed yet");
    // The renewal and its node timeout.
    cluster.run(ms(100));
    assert_eq!(states(&cluster, client), [HoldState::AtRisk]);
    assert_eq!(cluster.standing(client).state(cluster.now), HoldState::AtRisk);
    assert_eq!(cluster.standing(client).risk(), Some(Risk::NotExtended));
    assert_eq!(cluster.holders(), [client], "it is ours all the same");
    set(&mut cluster, 0..3, Behaviour::Up);
    // It is tried again after a quarter of the interval.
    cluster.run(ms(900));
    assert_eq!(states(&cluster, client), [HoldState::AtRisk, HoldState::Held]);
    assert_eq!(cluster.standing(client).risk(), None);
    let times = extended(&cluster, client);
    assert_eq!(times.len(), 2);
    assert!((ms(830)..ms(900)).contains(&times[1].since(times[0])), "{times:?}");
    assert!(cluster.valid_for(client) > ms(9_800));
    cluster.run(ms(60_000));
    assert_eq!(states(&cluster, client).len(), 2, "and all is well from then on");
}

#[test]
fn a_renewal_that_most_nodes_refuse_loses_the_lock_at_once() {
    let (mut cluster, client) = held(&renewed());
    (0..3).for_each(|node| cluster.delete(node));
    cluster.run(ms(3_400));
    assert_eq!(states(&cluster, client), [HoldState::Lost]);
    assert!(cluster.standing(client).is_lost());
    assert_eq!(cluster.standing(client).risk(), Some(Risk::Taken));
    cluster.run(ms(30_000));
    assert_eq!(extended(&cluster, client).len(), 1, "nothing is renewed that is lost");
}

#[test]
fn loss_is_told_before_the_end_by_a_timer_alone() {
    for renewal in [Renewal::Off, Renewal::AtThird, Renewal::Every(ms(5_000))] {
        let begun = Cluster::of(5).now;
        let (mut cluster, client) = held(&renewed_with(|options| options.renewal = renewal));
        set(&mut cluster, 0..5, Behaviour::Silent);
        run_until(&mut cluster, begun + (LOSS - ms(1)));
        assert!(!states(&cluster, client).contains(&HoldState::Lost), "{renewal:?}: too early");
        run_until(&mut cluster, begun + LOSS);
        assert_eq!(states(&cluster, client).last(), Some(&HoldState::Lost), "{renewal:?}");
        assert_eq!(cluster.holders(), [client], "{renewal:?}: there is time to stop");
        assert_eq!(cluster.valid_for(client), VALID - LOSS);
        // What is lost stays lost, also if the nodes come back while the keys are there.
        set(&mut cluster, 0..5, Behaviour::Up);
        cluster.run(ms(300));
        assert_eq!(cluster.keys(), 5);
        cluster.run(ms(60_000));
        assert_eq!(states(&cluster, client).last(), Some(&HoldState::Lost), "{renewal:?}");
        assert_eq!((cluster.keys(), cluster.lease(client).poll_timeout()), (0, None), "{renewal:?}");
    }
}

#[test]
fn after_the_last_renewal_that_is_allowed_the_lock_is_at_risk_and_then_lost() {
    let begun = Cluster::of(5).now;
    let capped = renewed_with(|options| options.max_hold = Some(MaxHold::AtMost(ms(18_000))));
    let counted = renewed_with(|options| options.renewals_max = Some(2));
    for (options, reason) in [(capped, NotExtended::MaxHold), (counted, NotExtended::RenewalsMax)] {
        let (mut cluster, client) = held(&options);
        cluster.run(ms(9_900));
        assert_eq!(states(&cluster, client), [], "{reason:?}");
        cluster.run(ms(100));
        assert_eq!(states(&cluster, client), [HoldState::AtRisk], "{reason:?}");
        assert_eq!(failures(&cluster, client), std::slice::from_ref(&reason));
        assert_eq!(cluster.standing(client).risk(), Some(Risk::Limit), "{reason:?}");
        let times = extended(&cluster, client);
        assert_eq!(times.len(), 2, "{reason:?}");
        run_until(&mut cluster, times[1] + (LOSS - ms(1)));
        assert_eq!(states(&cluster, client).len(), 1, "{reason:?}");
        run_until(&mut cluster, times[1] + LOSS);
        assert_eq!(states(&cluster, client), [HoldState::AtRisk, HoldState::Lost], "{reason:?}");
        cluster.run(ms(60_000));
        assert_eq!((extended(&cluster, client).len(), cluster.keys()), (2, 0), "{reason:?}");
        assert!(times[1] + VALID <= begun + ms(18_000), "never held for longer than allowed");
    }
}

#[test]
fn nothing_is_renewed_after_the_end() {
    let (release, abandon) = (Request::Release { id: ONLY }, Request::Abandon { id: ONLY });
    let hand_over = Request::HandOver { id: ONLY };
    for end in [release, abandon, hand_over.clone()] {
        let (mut cluster, client) = held(&renewed());
        cluster.run(ms(5_000));
        let before = extended(&cluster, client).len();
        cluster.request(client, end.clone());
        assert!(cluster.clients[client].client.holds_nothing(), "{end:?}");
        cluster.run(ms(100));
        let left = if end == hand_over { 5 } else { 0 };
        assert_eq!(cluster.keys(), left, "{end:?}");
        cluster.run(ms(60_000));
        assert_eq!((extended(&cluster, client).len(), cluster.keys()), (before, 0), "{end:?}");
        assert_eq!(cluster.unconfirmed.is_empty(), end == hand_over, "{end:?}");
    }
}

/// The release follows the extension on the same connections, and answers to the extension change
/// nothing any more.
#[test]
fn a_release_while_a_renewal_is_under_way_leaves_no_key() {
    for after_us in (0..40_000).step_by(500) {
        let mut cluster = Cluster::of(5);
        cluster
            .nodes
            .iter_mut()
            .enumerate()
            .for_each(|(node, state)| state.latency = ms(3 * node as u64 + 1));
        let client = cluster.acquire(&renewed());
        cluster.run(ms(3_320) + Duration::from_micros(after_us));
        cluster.release(client);
        cluster.run(ms(60));
        assert_eq!(cluster.keys(), 0, "released {after_us} us into the renewal");
        cluster.run(ms(20_000));
        assert_eq!((extended(&cluster, client).len() <= 1, cluster.keys()), (true, 0), "{after_us} us");
    }
}

#[test]
fn an_extension_is_refused_when_the_holder_has_been_told_of_the_loss() {
    let begun = Cluster::of(5).now;
    let (mut cluster, client) = held(&options());
    run_until(&mut cluster, begun + LOSS);
    cluster.extend(client, &options());
    assert_eq!(failures(&cluster, client), [NotExtended::Expired]);
    assert_eq!(extended(&cluster, client), [], "the nodes are not even asked");
}

/// It was begun in time, and the nodes grant it; but when they do, the holder has been told to
/// stop.
#[test]
fn an_extension_that_is_decided_after_the_loss_is_refused() {
    let begun = Cluster::of(5).now;
    let (mut cluster, client) = held(&options());
    run_until(&mut cluster, begun + (LOSS - ms(10)));
    cluster.nodes.iter_mut().for_each(|node| node.latency = ms(30));
    cluster.extend(client, &options());
    cluster.run(ms(10));
    assert_eq!(failures(&cluster, client), [NotExtended::Expired], "nobody waits for longer");
    assert_eq!(states(&cluster, client).last(), Some(&HoldState::Lost));
    cluster.run(ms(100));
    assert_eq!(cluster.valid_for(client), VALID - LOSS - ms(100), "the old validity stands");
    cluster.run(VALID);
    assert_eq!(cluster.holders(), [0; 0]);
}

/// A renewal for the usual term shortens nothing and proves nothing new; it must not be followed by
/// another at once.
#[test]
fn a_lock_that_was_extended_for_longer_is_still_renewed_in_its_own_time() {
    let (mut cluster, client) = held(&renewed());
    cluster.extend(client, &renewed_with(|options| options.ttl = ms(60_000)));
    cluster.run(ms(30_000));
    let times = extended(&cluster, client);
    assert!((8..=10).contains(&times.len()), "one by hand, one every 3.3 s: {}", times.len());
    assert!(cluster.valid_for(client) > ms(29_000), "{:?}", cluster.valid_for(client));
    cluster.run(ms(60_000));
    assert_eq!((cluster.holders(), states(&cluster, client)), (vec![client], vec![]));
}

/// The same lock, if it had a fence: keys that are there were set in a life that was looked at.
fn with_fence(resuming: Resuming) -> Resuming {
    let handover = HandedOver { fence: Some(Fence::new(7)), ..resuming.handover };
    Resuming { handover, ..resuming }
}

#[test]
fn a_lock_that_is_handed_over_goes_on_without_a_gap() {
    let (mut cluster, first) = held(&renewed());
    cluster.run(ms(1_000));
    let (fence, token) = (cluster.standing(first).fence(), cluster.standing(first).token());
    let resuming = cluster.hand_over(first);
    assert_eq!((resuming.handover.members.len(), resuming.handover.held), (5, ms(1_010)));
    cluster.run(ms(4_000));
    assert_eq!(cluster.keys(), 5, "it stays locked");
    let second = cluster.resume(ONLY, &resuming, &renewed());
    cluster.run(ms(5));
    assert_eq!(cluster.told(second), Some(News::Extended));
    assert_eq!((cluster.standing(second).fence(), cluster.standing(second).token()), (fence, token));
    cluster.run(ms(60_000));
    assert_eq!((cluster.holders(), cluster.keys()), (vec![second], 5), "it is renewed as any other");
    cluster.release(second);
    cluster.run(ms(50));
    assert_eq!((cluster.keys(), cluster.outcomes.as_slice()), (0, &[ReleaseOutcome::Released][..]));
}

#[test]
fn the_time_before_a_handover_counts_for_max_hold() {
    let capped = renewed_with(|options| options.max_hold = Some(MaxHold::AtMost(ms(30_000))));
    let (mut cluster, first) = held(&capped);
    cluster.run(ms(15_000));
    let resuming = cluster.hand_over(first);
    let second = cluster.resume(ONLY, &resuming, &capped);
    // One renewal, and then none that would end in time.
    cluster.run(ms(13_000));
    assert_eq!(cluster.holders(), [second]);
    cluster.run(ms(2_000));
    assert_eq!(cluster.holders(), [0; 0], "thirty seconds in all");
}

/// A client that was stopped while an answer was on its way takes the clock of the nodes for slower
/// than it is, and its fences are too small. Whoever goes on with its lock knows better when it was
/// granted.
#[test]
fn a_fence_that_is_older_than_its_lock_does_not_cut_the_period() {
    let kept = renewed_with(|options| options.at_least = ms(8_000));
    let (mut cluster, first) = held(&kept);
    cluster.run(ms(1_000));
    let mut resuming = cluster.hand_over(first);
    assert!(resuming.handover.granted_by.is_some());
    resuming.handover.fence = Some(Fence::new(7));
    cluster.run(ms(2_000));
    let second = cluster.resume(ONLY, &resuming, &kept);
    cluster.run(ms(10));
    assert_eq!(cluster.told(second), Some(News::Extended));
    cluster.release(second);
    cluster.run(ms(4_800));
    assert_eq!(cluster.kept(), 5, "for the rest of the period");
    cluster.run(ms(300));
    assert_eq!(cluster.kept(), 0, "and no longer, though nobody had it in hand for a while");
}

/// Keys on nodes that the first holder did not count may be there by accident, so they prove
/// nothing.
#[test]
fn only_nodes_that_counted_before_prove_that_the_lock_is_still_held() {
    let mut cluster = Cluster::of(5);
    set(&mut cluster, 3..5, Behaviour::Deaf);
    let first = cluster.acquire(&options());
    cluster.run(ms(100));
    set(&mut cluster, 3..5, Behaviour::Up);
    let resuming = with_fence(cluster.hand_over(first));
    assert_eq!((resuming.handover.members.len(), cluster.keys()), (3, 5));
    set(&mut cluster, 0..2, Behaviour::Silent);
    let second = cluster.resume(ONLY, &resuming, &options());
    cluster.run(ms(100));
    assert!(matches!(cluster.told(second), Some(News::NotExtended(_))), "three grants, one counts");
    set(&mut cluster, 0..2, Behaviour::Up);
    let third = cluster.resume(ONLY, &resuming, &options());
    cluster.run(ms(100));
    assert_eq!(cluster.told(third), Some(News::Extended), "a handover can be tried again");
    assert_eq!(cluster.standing(third).margin(), 2, "and the others with the round that proved it");
}

#[test]
fn a_handover_that_is_too_late_is_no_lock_and_releases_nothing() {
    let (mut cluster, first) = held(&options());
    let resuming = cluster.hand_over(first);
    cluster.run(ms(11_100));
    assert_eq!(cluster.keys(), 0);
    let other = cluster.acquire(&options());
    cluster.run(ms(10));
    let second = cluster.resume(ONLY, &resuming, &renewed());
    cluster.run(ms(10));
    assert!(matches!(cluster.told(second), Some(News::NotExtended(NotExtended::Lost { .. }))));
    assert_eq!(cluster.standing(second).state(cluster.now), HoldState::Lost);
    cluster.request(second, Request::HandOver { id: ONLY });
    cluster.run(ms(1_000));
    assert_eq!((cluster.keys(), cluster.is_clean(), cluster.unconfirmed.len()), (5, true, 0));
    assert_eq!(cluster.holders(), [other]);
}

/// Drivers send the renewals of many leases together, and tell each of several grants at once.
#[test]
fn a_renewal_that_is_sent_and_counted_with_others_comes_to_the_same() {
    let mut cluster = Cluster::of(5);
    let mut options = options();
    options.renewal = Renewal::AtThird;
    let client = cluster.acquire(&options);
    cluster.run(ms(5));
    let mut one_by_one = cluster.lease(client).clone();
    let mut together = one_by_one.clone();
    let due = one_by_one.poll_timeout().unwrap();
    one_by_one.handle(due, lease::Input::Timeout);
    let sent: Vec<(RoundNumber, NodeIndex)> = std::iter::from_fn(|| one_by_one.poll_output())
        .filter_map(|output| match output {
            lease::Output::Send { round, node, command: Command::Extend { .. } } => Some((round, node)),
            _ => None,
        })
        .collect();
    assert_eq!(sent.len(), 5);
    assert_eq!(together.begin_renewal(at(0)), None, "not due yet");
    let renewing = together.begin_renewal(due).unwrap();
    assert_eq!((renewing.round, &renewing.key), (sent[0].0, &key("x")));
    assert_eq!(together.poll_output(), None, "the caller sends it");
    assert_eq!(together.poll_timeout(), one_by_one.poll_timeout());

    let answered = due + ms(2);
    for (round, node) in &sent {
        let answer = Ok(Reply::new(None, Answer::Granted));
        one_by_one.handle(answered, lease::Input::Answer { round: *round, node: *node, answer });
    }
    let nodes =
        |range: std::ops::Range<usize>| sent[range].iter().map(|(_, node)| *node).collect::<NodeSet>();
    for nodes in [nodes(0..3), nodes(3..5)] {
        together.handle(answered, lease::Input::Granted { round: renewing.round, nodes });
    }
    let told = |lease: &mut Lease| std::iter::from_fn(|| lease.poll_output()).collect::<Vec<_>>();
    assert_eq!(told(&mut together), told(&mut one_by_one));
    assert_eq!(together.standing(), one_by_one.standing());
    assert_eq!(together.standing().unwrap().margin(), 2);
}

#[test]
fn a_renewal_that_is_not_allowed_is_left_to_the_timeout() {
    let mut cluster = Cluster::of(3);
    let mut options = options();
    options.renewal = Renewal::AtThird;
    options.renewals_max = Some(0);
    let client = cluster.acquire(&options);
    cluster.run(ms(5));
    let mut lease = cluster.lease(client).clone();
    let due = lease.poll_timeout().unwrap();
    assert_eq!(lease.begin_renewal(due), None);
    lease.handle(due, lease::Input::Timeout);
    assert_eq!(lease.poll_output(), Some(lease::Output::NotExtended(NotExtended::RenewalsMax)));
}

#[test]
fn max_hold_counts_over_all_processes_that_a_lock_was_handed_to() {
    let mut options = options();
    options.max_hold = Some(MaxHold::AtMost(Duration::from_secs(60)));
    let (quorum, terms) = (Quorum::of(1).unwrap(), terms(&options));
    let mut handover = HandedOver {
        token: token(1),
        fence: None,
        members: quorum.all(),
        held: Duration::ZERO,
        granted_by: None,
        mode: Mode::Exclusive,
    };
    let (mut now, mut holds) = (at(0), 0);
    loop {
        let mut lease = Lease::resume(key("x"), terms.clone(), quorum, &handover, now);
        lease.handle(now, lease::Input::Extend(terms.term));
        let Some(lease::Output::Send { round, node, .. }) = lease.poll_output() else { break };
        let answer = Ok(Reply::new(None, Answer::Granted));
        lease.handle(now, lease::Input::Answer { round, node, answer });
        now = now + ms(8_000);
        holds += 1;
        handover = lease.handover(now).unwrap();
        assert!(holds < 20, "held for {:?}", handover.held);
    }
    assert!(handover.held <= Duration::from_secs(60), "{:?}", handover.held);
}

/// Where a lock was put back is known to the node, so it makes no difference which copy of a
/// handover somebody has.
#[test]
fn an_earlier_handover_counts_a_healed_node_no_sooner_than_a_later_one() {
    let mut cluster = Cluster::of(3);
    let first = cluster.acquire(&options());
    cluster.run(ms(100));
    let earlier = with_fence(cluster.resuming(first, ONLY));
    // Node 2 loses the lock, and an extension puts it back.
    cluster.delete(2);
    cluster.extend(first, &options());
    cluster.run(ms(100));
    assert_eq!(cluster.keys(), 3, "put back");
    let later = with_fence(cluster.hand_over(first));
    assert_eq!((earlier.handover.members.len(), later.handover.members.len()), (3, 2));
    let healed = cluster.now;
    loop {
        // With node 0 out of reach, node 2 would have to prove it.
        set(&mut cluster, 0..1, Behaviour::Down);
        let resumed = cluster.resume(ONLY, &earlier, &options());
        cluster.run(ms(100));
        let proved = cluster.told(resumed) == Some(News::Extended);
        cluster.request(resumed, Request::HandOver { id: ONLY });
        set(&mut cluster, 0..1, Behaviour::Up);
        let waited = cluster.now.since(healed);
        assert_eq!(proved, waited > ms(66_000), "after {waited:?}");
        // The later one keeps the lock meanwhile.
        let resumed = cluster.resume(ONLY, &later, &options());
        cluster.run(ms(100));
        assert_eq!(cluster.told(resumed), Some(News::Extended));
        assert_eq!(cluster.standing(resumed).margin(), usize::from(proved), "after {waited:?}");
        cluster.request(resumed, Request::HandOver { id: ONLY });
        if proved {
            break;
        }
        cluster.run(ms(5_000));
    }
}

#[test]
fn a_healed_node_counts_a_quarantine_later_for_whoever_goes_on_with_the_lock() {
    let quorum = Quorum::of(3).unwrap();
    let members: NodeSet = quorum.indexes().take(2).collect();
    let (token, fence, held) = (token(1), Some(Fence::new(7)), Duration::ZERO);
    let (granted_by, mode) = (None, Mode::Exclusive);
    let handover = HandedOver { token, fence, members, held, granted_by, mode };
    let terms = terms(&options());
    let mut lease = Lease::resume(key("x"), terms.clone(), quorum, &handover, at(0));
    let extend = |lease: &mut Lease, now: Time, healed: Answer| {
        lease.handle(now, lease::Input::Extend(terms.term));
        let sent: Vec<_> = std::iter::from_fn(|| lease.poll_output()).collect();
        for output in sent {
            if let lease::Output::Send { round, node, .. } = output {
                let answer = if node.get() == 2 { healed.clone() } else { Answer::Granted };
                lease.handle(now, lease::Input::Answer { round, node, answer: Ok(Reply::new(None, answer)) });
            }
        }
        lease.standing().unwrap().margin()
    };
    assert_eq!(extend(&mut lease, at(0), Answer::PutBack { left: ms(5_000) }), 0);
    assert_eq!(extend(&mut lease, at(5_000), Answer::PutBack { left: ms(1) }), 0);
    assert_eq!(extend(&mut lease, at(5_001), Answer::Granted), 1);
}
