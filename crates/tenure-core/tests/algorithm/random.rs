//! Several clients, failing nodes and random moments: at most one holder, and nothing left behind.

use proptest::prelude::*;
use tenure_core::*;

use crate::support::cluster::*;

#[derive(Clone, Debug)]
enum Step {
    Acquire { ttl_ms: u64, wait_ms: u64 },
    Extend { client: usize },
    Release { client: usize },
    Abandon { client: usize },
    Node { node: usize, mode: Behaviour, latency_ms: u64 },
    Run { millis: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![
        4 => Just(Behaviour::Up),
        1 => Just(Behaviour::Down),
        1 => Just(Behaviour::Silent),
        1 => Just(Behaviour::Deaf),
        1 => Just(Behaviour::Broken),
    ];
    prop_oneof![
        3 => (50_u64..2_000, 0_u64..500).prop_map(|(ttl_ms, wait_ms)| Step::Acquire { ttl_ms, wait_ms }),
        2 => any::<usize>().prop_map(|client| Step::Extend { client }),
        2 => any::<usize>().prop_map(|client| Step::Release { client }),
        1 => any::<usize>().prop_map(|client| Step::Abandon { client }),
        2 => (any::<usize>(), mode, 0_u64..80).prop_map(|(node, mode, latency_ms)| Step::Node {
            node,
            mode,
            latency_ms
        }),
        6 => (0_u64..400).prop_map(|millis| Step::Run { millis }),
    ]
}

fn options_of(ttl_ms: u64, wait_ms: u64, fenced: bool) -> Options {
    let mut options = options();
    options.fenced = fenced;
    options.ttl = ms(ttl_ms);
    options.queued = !ttl_ms.is_multiple_of(3);
    options.renewal = if ttl_ms.is_multiple_of(2) { Renewal::AtThird } else { Renewal::Off };
    options.wait = if wait_ms == 0 { Wait::No } else { Wait::AtMost(ms(wait_ms)) };
    options
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn at_most_one_client_holds_the_lock_and_nothing_is_left_behind(
        nodes in 1_usize..=7,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut cluster = Cluster::of(nodes);
        let fenced = nodes % 2 == 1;
        let mut ttls = vec![];
        for step in steps {
            match step {
                Step::Acquire { ttl_ms, wait_ms } => {
                    ttls.push(options_of(ttl_ms, wait_ms, fenced));
                    cluster.acquire(&options_of(ttl_ms, wait_ms, fenced));
                }
                Step::Extend { client } if !ttls.is_empty() => {
                    cluster.extend(client % ttls.len(), &ttls[client % ttls.len()]);
                }
                Step::Release { client } if !ttls.is_empty() => {
                    cluster.release(client % ttls.len());
                }
                Step::Abandon { client } if !ttls.is_empty() => {
                    cluster.abandon(client % ttls.len());
                }
                Step::Node { node, mode, latency_ms } => {
                    cluster.nodes[node % nodes].mode = mode;
                    cluster.nodes[node % nodes].latency = ms(latency_ms);
                }
                // Step by step, so that no moment with two holders is missed.
                Step::Run { millis } => (0..millis).for_each(|_| {
                    cluster.run(ms(1));
                    assert!(cluster.holders().len() <= 1, "holders {:?}", cluster.holders());
                }),
                Step::Extend { .. } | Step::Release { .. } | Step::Abandon { .. } => {}
            }
            prop_assert!(cluster.holders().len() <= 1, "holders {:?}", cluster.holders());
        }
        cluster.run(ms(80)); // What is under way arrives.
        cluster.nodes.iter_mut().for_each(|node| (node.mode, node.latency) = (Behaviour::Up, ms(2)));
        (0..ttls.len()).for_each(|client| cluster.abandon(client));
        cluster.run(STALL + ms(1_000));
        prop_assert_eq!(cluster.keys(), 0);
        prop_assert!(cluster.is_clean());
        // Those who are gone may still be in line where they could not say so. They hold nobody up
        // for long.
        let mut forever = options_of(1_000, 1, fenced);
        forever.wait = Wait::Forever;
        let next = cluster.acquire(&forever);
        cluster.run(POLL_MAX);
        prop_assert_eq!(cluster.holders(), [next]);
    }
}
