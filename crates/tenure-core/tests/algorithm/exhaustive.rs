//! Every vote and every arrival order, for every N up to 5.
//!
//! The expected decision is not computed by the rule under test: a round is decided exactly when
//! every way in which the missing votes could still come out leads to the same result.

use tenure_core::*;

use crate::support::cluster::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Granted,
    Refused,
    Unknown,
}

const KINDS: [Kind; 3] = [Kind::Granted, Kind::Refused, Kind::Unknown];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Result {
    Won,
    Contended,
    Unavailable,
}

/// The definition: won with a majority of grants; else contended if a majority answered; else
/// unavailable.
fn result(votes: &[Kind]) -> Result {
    let count = |kind| votes.iter().filter(|vote| **vote == kind).count();
    let more_than_half = |number: usize| 2 * number > votes.len();
    if more_than_half(count(Kind::Granted)) {
        Result::Won
    } else if more_than_half(count(Kind::Granted) + count(Kind::Refused)) {
        Result::Contended
    } else {
        Result::Unavailable
    }
}

/// All results that are still possible when `votes` are in and `missing` are out.
fn possible(votes: &[Kind], missing: usize) -> Vec<Result> {
    let mut results = vec![];
    for completion in sequences(missing) {
        let result = result(&[votes, &completion].concat());
        if !results.contains(&result) {
            results.push(result);
        }
    }
    results
}

fn sequences(length: usize) -> Vec<Vec<Kind>> {
    (0..length).fold(vec![vec![]], |sequences, _| {
        sequences.iter().flat_map(|s| KINDS.map(|kind| [s.as_slice(), &[kind]].concat())).collect()
    })
}

fn orders(nodes: usize) -> Vec<Vec<usize>> {
    fn extend(order: &mut Vec<usize>, nodes: usize, orders: &mut Vec<Vec<usize>>) {
        if order.len() == nodes {
            return orders.push(order.clone());
        }
        for node in 0..nodes {
            if !order.contains(&node) {
                order.push(node);
                extend(order, nodes, orders);
                order.pop();
            }
        }
    }
    let mut orders = vec![];
    extend(&mut vec![], nodes, &mut orders);
    orders
}

fn answer(kind: Kind) -> std::result::Result<Reply, Fault> {
    let time = None;
    match kind {
        Kind::Granted => Ok(Reply::new(time, Answer::Granted)),
        Kind::Refused => Ok(Reply::new(time, Answer::Refused(Refusal::Held { left: ms(77) }))),
        Kind::Unknown => Err(Fault::Disconnected),
    }
}

/// A lease that has just sent its first attempt.
fn begun(quorum: Quorum) -> (Lease, RoundNumber) {
    let mut lease = Lease::new(key("x"), terms(&options()), quorum);
    lease.handle(at(0), attempt(quorum, Entropy { token: token(1), dice: 0 }));
    let mut number = None;
    while let Some(output) = lease.poll_output() {
        let lease::Output::Send { round, .. } = output else { panic!("{output:?}") };
        number = Some(round);
    }
    (lease, number.expect("it sent something"))
}

/// What the lease told the caller, and how often it handed out a clean-up.
fn drain(lease: &mut Lease) -> (Option<Result>, usize) {
    let (mut told, mut clean_ups) = (None, 0);
    while let Some(output) = lease.poll_output() {
        let result = match output {
            lease::Output::Acquired => Result::Won,
            lease::Output::NotAcquired(NotAcquired { cause: Cause::Contended { .. }, .. }) => {
                Result::Contended
            }
            lease::Output::NotAcquired(NotAcquired { cause: Cause::Unavailable, .. }) => Result::Unavailable,
            lease::Output::CleanUp(_) => {
                clean_ups += 1;
                continue;
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(told.replace(result), None, "told once");
    }
    (told, clean_ups)
}

/// Plays one case: the votes arrive in `order`, and the node timeout strikes after `answers` of
/// them.
fn play(quorum: Quorum, votes: &[Kind], order: &[usize], answers: usize) {
    let case = || format!("votes {votes:?}, order {order:?}, timeout after {answers}");
    let (mut lease, round) = begun(quorum);
    let (mut told, mut clean_ups) = (None, 0);
    let mut arrived = vec![];
    for node in &order[..answers] {
        let (node, vote) = (node_at(quorum, *node), votes[*node]);
        lease.handle(at(1), lease::Input::Answer { round, node, answer: answer(vote) });
        arrived.push(vote);
        let (now_told, now_clean_ups) = drain(&mut lease);
        clean_ups += now_clean_ups;
        let possible = possible(&arrived, votes.len() - arrived.len());
        if told.is_none() {
            // Told as soon as only one result is left, and not before.
            let expected = (possible.len() == 1).then(|| possible[0]);
            assert_eq!(now_told, expected, "{}", case());
            told = now_told;
        }
        // The clean-up leaves as soon as the lock cannot be won any more, exactly once.
        assert_eq!(clean_ups, usize::from(!possible.contains(&Result::Won)), "{}", case());
    }
    let unknown = vec![Kind::Unknown; votes.len() - arrived.len()];
    let expected = result(&[arrived, unknown].concat());
    lease.handle(at(50), lease::Input::Timeout);
    let (late, late_clean_ups) = drain(&mut lease);
    assert_eq!(told.or(late), Some(expected), "{}", case());
    assert_eq!(clean_ups + late_clean_ups, usize::from(expected != Result::Won), "{}", case());
    assert_eq!(lease.standing().is_some(), expected == Result::Won, "{}", case());
}

fn node_at(quorum: Quorum, index: usize) -> NodeIndex {
    node(quorum, index)
}

#[test]
fn every_vote_in_every_order_is_decided_right_and_as_early_as_possible() {
    let mut cases = 0_u64;
    for nodes in 1..=5 {
        let quorum = Quorum::of(nodes).unwrap();
        let orders = orders(nodes);
        for votes in sequences(nodes) {
            for order in &orders {
                for answers in 0..=nodes {
                    play(quorum, &votes, order, answers);
                    cases += 1;
                }
            }
        }
    }
    println!("{cases} cases of votes, arrival order and timeout decided right");
    // 3^N votes, N! orders, N + 1 moments for the timeout.
    assert_eq!(cases, 3 * 2 + 9 * 2 * 3 + 27 * 6 * 4 + 81 * 24 * 5 + 243 * 120 * 6);
}

/// The same votes give the same outcome of a release, in whichever order they come.
#[test]
fn the_outcome_of_a_release_does_not_depend_on_the_order_of_its_votes() {
    let mut cases = 0_u64;
    for nodes in 1..=5 {
        let quorum = Quorum::of(nodes).unwrap();
        let orders = orders(nodes);
        for votes in sequences(nodes) {
            let count = |kind| votes.iter().filter(|vote| **vote == kind).count();
            let expected = match (count(Kind::Granted), count(Kind::Refused)) {
                (granted, _) if 2 * granted > nodes => ReleaseOutcome::Released,
                (_, refused) if 2 * refused > nodes => ReleaseOutcome::NotHeld,
                (granted, refused) if 2 * (granted + refused) > nodes => ReleaseOutcome::Released,
                _ => ReleaseOutcome::Unavailable,
            };
            for order in &orders {
                let term = terms(&options()).term;
                let round = RoundNumber::default();
                let ending = Ending::Undo { requeue: None };
                let leftovers = Leftovers { token: token(1), term, round, may_hold: quorum.all(), ending };
                let mut release = Release::begin(key("x"), leftovers, quorum, at(0), &Patience::default());
                for node in order {
                    let (node, answer) = (node_at(quorum, *node), answer(votes[*node]));
                    release.handle(at(1), release::Input::Answer { node, answer });
                }
                let outcomes: Vec<ReleaseOutcome> = std::iter::from_fn(|| release.poll_output())
                    .filter_map(|output| match output {
                        release::Output::Outcome { outcome } => Some(outcome),
                        _ => None,
                    })
                    .collect();
                assert_eq!(outcomes, [expected], "votes {votes:?}, order {order:?}");
                cases += 1;
            }
        }
    }
    println!("{cases} cases of release votes and order");
}
