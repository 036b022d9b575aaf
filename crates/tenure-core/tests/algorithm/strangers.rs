//! Clients with other lists or settings: they are refused, take nothing over, and are not given
//! what another fleet may hold.

use std::time::Duration;

use tenure_core::*;

use crate::support::fleets::{QUARANTINE, World};

fn is_unfit(distrust: &Distrust, words: &str) -> bool {
    matches!(distrust, Distrust::Unfit(reason) if reason.contains(words))
}

/// Seen on servers: databases a/1, b/1, c/1 and a/1, b/0, c/0. One shared node refuses; the two
/// others are new, and would make a majority.
#[test]
fn whoever_is_refused_by_one_node_counts_no_new_one() {
    let mut world = World::new(5);
    let first = world.client(&[0, 1, 2]);
    assert_eq!(world.trusted(&first), [0, 1, 2]);
    let mut second = world.client(&[0, 3, 4]);
    assert!(is_unfit(
        &world.distrust(&second, 0),
        "nodes only in that fleet: n1, n2; only in this client: n3, n4"
    ));
    assert_eq!(world.distrust(&second, 3), Distrust::Barred);
    world.pass(QUARANTINE * 3, &mut second);
    assert_eq!(world.trusted(&second), [0; 0], "however long it waits");
    world.disconnect(&mut second, 0);
    world.pass(QUARANTINE, &mut second);
    assert_eq!(world.trusted(&second), [0; 0], "and although the node that refused it is gone");
}

#[test]
fn a_fleet_of_three_and_one_of_five_under_one_name_are_two() {
    let mut world = World::new(5);
    let named = |nodes: usize| Settings::new(MaxTtl::default(), Roster::named("blue", vec!["/0"; nodes]));
    let three = world.client_with(named(3), &[0, 1, 2], false);
    assert_eq!(world.trusted(&three), [0, 1, 2]);
    let five = world.client_with(named(5), &[0, 1, 2, 3, 4], false);
    assert_eq!(world.trusted(&five), [0; 0]);
    assert!(is_unfit(&world.distrust(&five, 0), "nodes is blue#3 there and blue#5 here"));
    let turned = world.client_with(named(3), &[1, 0, 2], false);
    assert!(is_unfit(&world.distrust(&turned, 0), "node is 1/0 there and 2/0 here"), "another order");
}

/// W knows only node 2, and is refused there. Node 2 is emptied while A holds locks on the two
/// others.
#[test]
fn whoever_was_refused_takes_nothing_over_when_the_node_is_emptied() {
    let mut world = World::new(3);
    let mut owner = world.client(&[0, 1, 2]);
    let mut stranger = world.client(&[2]);
    assert_eq!(world.trusted(&stranger), [0; 0]);
    world.empty(2);
    world.reconnect(&mut stranger, 2);
    assert_eq!(world.trusted(&stranger), [0; 0]);
    assert!(
        world.record(2).contains("nodes=n0,n1,n2 node=n2 "),
        "it wrote back what it had seen: {}",
        world.record(2)
    );
    assert!(world.record(2).contains(" returned=1 "));
    world.pass(QUARANTINE * 3, &mut stranger);
    assert_eq!(world.trusted(&stranger), [0; 0]);
    world.now = Time::from_nanos(5_000_000_000);
    world.reconnect(&mut owner, 2);
    assert_eq!(world.trusted(&owner), [0, 1]);
    world.pass(QUARANTINE * 4, &mut owner);
    assert_eq!(world.trusted(&owner), [0, 1, 2]);
}

#[test]
fn a_stranger_that_was_faster_is_found_out_and_nobody_counts_the_node() {
    let mut world = World::new(3);
    let mut owner = world.client(&[0, 1, 2]);
    world.empty(2);
    let mut stranger = world.client(&[2]);
    assert_eq!(world.trusted(&stranger), [2], "to a client that never saw it otherwise it is a first start");
    world.reconnect(&mut owner, 2);
    assert!(is_unfit(&world.distrust(&owner, 2), "two fleets claim this node (nodes only in that fleet"));
    assert_eq!(world.trusted(&owner), [0, 1], "the rest of the fleet goes on");
    stranger.fleet.handle(world.now, tenure_core::trust::Input::Changed { node: stranger.index(2) });
    world.serve(&mut stranger);
    assert!(is_unfit(
        &world.distrust(&stranger, 2),
        "two fleets claim this node (the other one had it before it was emptied)"
    ));
    world.pass(QUARANTINE * 3, &mut stranger);
    assert_eq!(world.trusted(&stranger), [0; 0], "until somebody has decided");
}

/// What the node was asked for may have been done in the other fleet's memory, so leases must not
/// count it at once.
#[test]
fn whoever_finds_its_node_taken_tells_its_leases_that_the_node_forgot() {
    for reconnects in [true, false] {
        let mut world = World::new(3);
        let mut owner = world.client(&[0, 1, 2]);
        world.empty(2);
        world.client(&[2]);
        owner.told.clear();
        if reconnects {
            world.reconnect(&mut owner, 2);
        } else {
            // It looks again by itself.
            world.pass(QUARANTINE, &mut owner);
        }
        let forgot = tenure_core::trust::Output::Distrust { node: owner.index(2), forgot: true };
        assert!(owner.told.contains(&forgot), "reconnects: {reconnects}, {:?}", owner.told);
    }
}

/// A client whose locks live for ten seconds at most must not cut short what others may still hold.
#[test]
fn the_longest_quarantine_that_was_seen_counts() {
    let mut world = World::new(1);
    world.client(&[0]);
    let short = Settings::new(MaxTtl::new(Duration::from_secs(10)).unwrap(), Roster::of_names(["n0"]));
    let mut other = world.client_with(short, &[0], false);
    assert!(is_unfit(&world.distrust(&other, 0), "max_ttl_ms is 60000 there and 10000 here"));
    world.empty(0);
    world.reconnect(&mut other, 0);
    assert!(world.record(0).contains(" max_ttl_ms=60000 ") && world.record(0).contains(" wait_ms=66000 "));
}

#[test]
fn a_record_of_another_form_is_not_replaced_when_it_is_gone() {
    let mut world = World::new(1);
    let text = "0000000000000007 tenure-1 p l waited returned=0 durable=0 nodes=n0 created=5";
    let swap = Some(Swap { expected: None, text: text.into(), stamp: false });
    let (time, prefix) = (world.time(), Prefix::default());
    world.nodes[0].table.execute(time, &Command::Record { prefix, swap });
    let mut client = world.client(&[0]);
    assert!(is_unfit(&world.distrust(&client, 0), "another version of Tenure"));
    world.empty(0);
    world.reconnect(&mut client, 0);
    world.pass(QUARANTINE * 2, &mut client);
    assert!(is_unfit(&world.distrust(&client, 0), "another version of Tenure"));
}

/// The first record that is written where an earlier life was known says so, also before anybody
/// has read it.
#[test]
fn the_first_record_of_a_memory_that_was_lost_says_so() {
    let mut world = World::new(3);
    let mut client = world.client(&[0, 1, 2]);
    assert!(world.record(1).contains(" returned=0 "));
    world.empty(1);
    world.disconnect(&mut client, 1);
    let facts = world.facts(1);
    let node = client.index(1);
    client.fleet.handle(world.now, tenure_core::trust::Input::Connected { node, facts });
    let written = std::iter::from_fn(|| client.fleet.poll_output()).find_map(|output| match output {
        tenure_core::trust::Output::Send { command: Command::Record { swap: Some(swap), .. }, .. } => {
            Some(swap)
        }
        _ => None,
    });
    let written = written.unwrap();
    assert!(written.expected.is_none() && written.text.contains(" returned=1 "), "{}", written.text);
}
