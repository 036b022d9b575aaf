//! Nodes that lose their memory while the node list is changed: what their fleet was about to do
//! goes on.

use tenure_core::Distrust;

use crate::support::fleets::{QUARANTINE, World};
use crate::support::runs::{Run, change, prepare};

/// The change was killed, so the old list gives locks. A client that has the new list already meets
/// each of its nodes again after that was emptied.
#[test]
fn a_prepared_node_that_is_emptied_is_prepared_again() {
    for new in [&[3][..], &[3, 4, 5]] {
        let mut world = World::new(6);
        let old = world.client(&[0, 1, 2]);
        prepare(&mut world, &[0, 1, 2], new, 10);
        let mut early = world.client(new);
        for node in new {
            world.empty(*node);
            world.reconnect(&mut early, *node);
            world.pass(QUARANTINE * 2, &mut early);
            assert!(world.record(*node).contains(" phase=prepared:"), "{}", world.record(*node));
        }
        assert_eq!(world.trusted(&early), [0; 0], "both lists would give the same lock");
        assert_eq!(world.trusted(&old), [0, 1, 2]);
        change(&mut world, &[0, 1, 2], new, &[], 20);
        let client = world.client(new);
        assert_eq!(world.trusted(&client), new);
    }
}

#[test]
fn a_node_of_a_list_that_was_given_up_is_not_taken_when_it_is_emptied() {
    let mut world = World::new(4);
    world.client(&[0, 1, 2]);
    prepare(&mut world, &[0, 1, 2], &[3], 10);
    let mut early = world.client(&[3]);
    let mut abort = Run::new(&world, &[0, 1, 2], &[3], &[], true, 20);
    assert_eq!(abort.pass(&mut world, QUARANTINE), Some(Ok(())));
    world.reconnect(&mut early, 3);
    world.empty(3);
    world.reconnect(&mut early, 3);
    world.pass(QUARANTINE * 2, &mut early);
    assert_eq!(world.trusted(&early), [0; 0], "both lists would give the same lock");
    change(&mut world, &[0, 1, 2], &[3], &[], 30);
    world.reconnect(&mut early, 3);
    assert_eq!(world.trusted(&early), [3]);
}

/// The node of the old list was switched off as it may be, and is started again without its data.
#[test]
fn a_list_that_was_closed_is_not_brought_back_by_a_client_that_saw_it() {
    let mut world = World::new(2);
    let mut stale = world.client(&[0]);
    change(&mut world, &[0], &[1], &[], 10);
    world.reconnect(&mut stale, 0);
    world.empty(0);
    world.reconnect(&mut stale, 0);
    world.pass(QUARANTINE * 2, &mut stale);
    let client = world.client(&[1]);
    assert_eq!(world.trusted(&client), [1]);
    assert_eq!(world.trusted(&stale), [0; 0], "both lists would give the same lock");
}

/// What a client saw of the node is over by then, and the other nodes say so.
#[test]
fn a_node_of_an_open_list_is_open_again_whatever_was_seen_there_before() {
    let mut world = World::new(4);
    world.client(&[0, 1, 2]);
    prepare(&mut world, &[0, 1, 2], &[0, 1, 3], 10);
    let mut early = world.client(&[0, 1, 3]);
    world.disconnect(&mut early, 3);
    change(&mut world, &[0, 1, 2], &[0, 1, 3], &[], 20);
    for node in [0, 1] {
        world.reconnect(&mut early, node);
    }
    world.empty(3);
    world.connect(&mut early, 3);
    world.pass(QUARANTINE * 2, &mut early);
    assert_eq!(world.trusted(&early), [0, 1, 3], "{}", world.record(3));
}

/// {0,1,2} was left for {3,4,5} and is in use again. Node 0 is met again by a client that saw it
/// when it was closed.
#[test]
fn a_node_of_a_list_that_is_in_use_again_is_open() {
    let mut world = World::new(6);
    let mut client = world.client(&[0, 1, 2]);
    change(&mut world, &[0, 1, 2], &[3, 4, 5], &[], 10);
    for node in 0..3 {
        world.reconnect(&mut client, node);
    }
    world.disconnect(&mut client, 0);
    change(&mut world, &[3, 4, 5], &[0, 1, 2], &[], 20);
    for node in [1, 2] {
        world.reconnect(&mut client, node);
    }
    world.empty(0);
    world.connect(&mut client, 0);
    world.pass(QUARANTINE * 2, &mut client);
    assert_eq!(world.trusted(&client), [0, 1, 2], "{}", world.record(0));
}

/// A client with another list was refused by {0,1,2}, and writes that back when node 0 is emptied:
/// but that list was left for {0,1,3} meanwhile, whose clients now find a record that is out of
/// date. Only a person can settle that, and is told how.
#[test]
fn a_record_that_was_written_back_out_of_date_is_told_with_the_way_out() {
    let mut world = World::new(6);
    world.client(&[0, 1, 2]);
    let mut stranger = world.client(&[0, 4, 5]);
    world.disconnect(&mut stranger, 0);
    change(&mut world, &[0, 1, 2], &[0, 1, 3], &[], 10);
    let mut client = world.client(&[0, 1, 3]);
    world.disconnect(&mut client, 0);
    world.empty(0);
    world.connect(&mut stranger, 0);
    assert!(world.record(0).contains(" nodes=n0,n1,n2 "), "{}", world.record(0));
    let mut new = world.client(&[0, 1, 3]);
    world.pass(QUARANTINE, &mut new);
    let told = world.distrust(&new, 0).to_string();
    assert!(told.contains("nodes only in that fleet: n2; only in this client: n3"), "{told}");
    assert!(told.contains("if nobody uses that fleet any more, run `tenure fleet forget`"), "{told}");
    world.connect(&mut client, 0);
    let told = world.distrust(&client, 0).to_string();
    assert!(told.contains("`tenure fleet forget`"), "{told}");
    // And does it.
    world.forget(0);
    world.reconnect(&mut new, 0);
    world.pass(QUARANTINE * 2, &mut new);
    assert_eq!(world.trusted(&new), [0, 1, 3]);
}

/// Clients are given the new list while the old one is closed: they wait for it.
#[test]
fn a_client_that_is_early_is_told_that_the_change_is_not_finished() {
    let mut world = World::new(4);
    world.client(&[0, 1, 2]);
    let mut run = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], false, 10);
    assert_eq!(run.pass(&mut world, QUARANTINE / 2), None);
    let early = world.client(&[0, 1, 3]);
    for node in [0, 1, 3] {
        assert_eq!(world.distrust(&early, node), Distrust::Prepared);
    }
    let late = world.client(&[0, 1, 2]);
    assert!(matches!(world.distrust(&late, 0), Distrust::Changing { .. }));
}

/// A lease token names the lives of its nodes. Closing them, and giving that up, costs no lock: it
/// is the same memory.
#[test]
fn lives_from_before_a_change_that_was_given_up_still_count() {
    let mut world = World::new(4);
    let mut client = world.client(&[0, 1, 2]);
    let lives = client.fleet.lives(client.fleet.voters(world.now));
    assert_eq!(client.fleet.nodes_in(&lives).len(), 3);
    for seed in [10, 20, 30] {
        let mut run = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], false, seed);
        while !(0..3).all(|node| world.record(node).contains(" phase=closing:")) {
            assert!(!run.serve(&mut world, 1));
        }
        let other = world.client(&[0, 1, 2]);
        assert_eq!(other.fleet.nodes_in(&lives).len(), 3, "nothing is removed yet");
        let mut abort = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], true, seed + 1);
        assert_eq!(abort.pass(&mut world, QUARANTINE), Some(Ok(())));
        let other = world.client(&[0, 1, 2]);
        assert_eq!(other.fleet.nodes_in(&lives).len(), 3, "{}", world.record(0));
    }
    // Whoever has seen nothing of it finds that nothing has happened.
    world.pass(std::time::Duration::from_secs(10), &mut client);
    assert_eq!(world.trusted(&client), [0, 1, 2], "{}", world.record(0));
    assert_eq!(client.fleet.nodes_in(&lives).len(), 3);
    // A change that is made ends all locks, also where the memory is the same.
    change(&mut world, &[0, 1, 2], &[0, 1, 3], &[], 40);
    let new = world.client(&[0, 1, 3]);
    assert_eq!(new.fleet.nodes_in(&lives).len(), 0);
}
