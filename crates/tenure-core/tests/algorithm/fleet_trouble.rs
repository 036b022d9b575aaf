//! Changes of the node list that meet older lists, other changes, wrong clocks and clients that are
//! already there.

use std::time::Duration;

use tenure_core::trust::change::{Input, Output, Progress, Refused};
use tenure_core::*;

use crate::support::fleets::{QUARANTINE, World};
use crate::support::runs::{Run, change, prepare};

/// Whoever has put the new list into the settings already, and runs the change again, names the
/// same list twice.
#[test]
fn a_change_to_the_same_list_is_refused_at_once() {
    let mut world = World::new(4);
    let client = world.client(&[0, 1, 2]);
    let before = world.record(0);
    let mut run = Run::new(&world, &[0, 1, 2], &[0, 1, 2], &[], false, 7);
    assert_eq!(run.pass(&mut world, QUARANTINE * 3), Some(Err(Refused::Same)));
    assert_eq!(world.record(0), before);
    assert_eq!(world.trusted(&client), [0, 1, 2]);
    let named = || Settings::new(MaxTtl::default(), Roster::named("blue", vec!["/0"; 3]));
    let mut run = Run::with(&world, (named(), &[0, 1, 2]), (named(), &[0, 1, 3]), &[], false, 8);
    assert_eq!(
        run.pass(&mut world, QUARANTINE * 3),
        Some(Err(Refused::Same)),
        "nobody could tell them apart"
    );
}

/// A list that was mistyped, or has another prefix: the one that is in use would go on giving
/// locks.
#[test]
fn a_list_that_was_never_used_is_not_changed() {
    let mut world = World::new(7);
    let client = world.client(&[0, 1, 2]);
    for abort in [false, true] {
        let mut run = Run::new(&world, &[3, 4, 5], &[0, 1, 6], &[], abort, 10);
        assert_eq!(run.pass(&mut world, QUARANTINE * 3), Some(Err(Refused::Unused { nodes: vec![0, 1, 2] })));
    }
    assert!(!(3..7).any(|node| world.has_record(node)), "nothing was written");
    assert_eq!(world.trusted(&client), [0, 1, 2]);
    // One of them was emptied and met by nobody since, one is gone: the third knows the list.
    world.empty(0);
    change(&mut world, &[0, 1, 2], &[3, 4, 5], &[2], 20);
    // And run again, when the nodes of the old list are used for something else.
    (0..3).for_each(|node| world.empty(node));
    change(&mut world, &[0, 1, 2], &[3, 4, 5], &[], 30);
}

/// All nodes of the old list are emptied after the new ones were prepared: these know that it was
/// in use.
#[test]
fn a_list_that_was_emptied_in_the_middle_is_changed_all_the_same() {
    let mut world = World::new(2);
    world.client(&[0]);
    prepare(&mut world, &[0], &[1], 10);
    world.empty(0);
    change(&mut world, &[0], &[1], &[], 20);
}

/// {0,1,4} to {0,1,2} to {0,1,3}, where node 2 is switched off; then back, with node 2 as it was.
/// Its record says that the list {0,1,2} is open: it is, of a time that is over. Who holds on {0,3}
/// meanwhile must not see {1,2} opened.
#[test]
fn a_node_that_was_switched_off_does_not_open_its_list_when_it_is_used_again() {
    let mut world = World::new(5);
    world.client(&[0, 1, 4]);
    change(&mut world, &[0, 1, 4], &[0, 1, 2], &[], 10);
    change(&mut world, &[0, 1, 2], &[0, 1, 3], &[2], 20);
    let client = world.client(&[0, 1, 3]);
    assert_eq!(world.trusted(&client), [0, 1, 3]);
    change(&mut world, &[0, 1, 3], &[0, 1, 2], &[], 30);
    assert!(world.record(3).contains(" phase=closed:"), "{}", world.record(3));
    let client = world.client(&[0, 1, 2]);
    assert_eq!(world.trusted(&client), [0, 1, 2]);
}

/// The new list was given to clients when its nodes were ready; then the change is given up.
#[test]
fn clients_of_a_list_that_was_given_up_are_not_given_its_nodes() {
    let mut world = World::new(6);
    let mut old = world.client(&[0, 1, 2]);
    let mut run = Run::new(&world, &[0, 1, 2], &[3, 4, 5], &[], false, 10);
    run.serve(&mut world, 9);
    assert!((3..6).all(|node| world.record(node).contains(" phase=prepared:")));
    let mut early = world.client(&[3, 4, 5]);
    let mut abort = Run::new(&world, &[0, 1, 2], &[3, 4, 5], &[], true, 20);
    assert_eq!(abort.pass(&mut world, QUARANTINE), Some(Ok(())));
    let begun = world.now;
    world.pass(QUARANTINE * 3, &mut early);
    world.now = begun;
    world.pass(QUARANTINE * 3, &mut old);
    assert_eq!(world.trusted(&old), [0, 1, 2]);
    assert_eq!(world.trusted(&early), [0; 0], "both lists would give the same lock");
    let late = world.client(&[3, 4, 5]);
    assert_eq!(world.trusted(&late), [0; 0]);
    // It can be begun again.
    change(&mut world, &[0, 1, 2], &[3, 4, 5], &[], 30);
    let client = world.client(&[3, 4, 5]);
    assert_eq!(world.trusted(&client), [3, 4, 5]);
}

/// Two people change the list at once, each to another one, and each gets some of the nodes.
#[test]
fn two_changes_that_stand_in_each_others_way_can_be_given_up() {
    let mut world = World::new(5);
    let mut client = world.client(&[0, 1, 2]);
    let (old, left, right) = ([0, 1, 2], [0, 1, 3], [0, 1, 4]);
    let mut one = Run::new(&world, &old, &left, &[], false, 10);
    let mut two = Run::new(&world, &old, &right, &[], false, 20);
    two.serve(&mut world, 5);
    one.serve(&mut world, 6);
    two.serve(&mut world, 100);
    one.serve(&mut world, 100);
    assert!(matches!(one.ended, Some(Err(Refused::Other { .. }))), "{:?}", one.ended);
    assert!(matches!(two.ended, Some(Err(Refused::Other { .. }))), "{:?}", two.ended);
    for (seed, to) in [(30, left), (40, right)] {
        let mut abort = Run::new(&world, &old, &to, &[], true, seed);
        assert_eq!(abort.pass(&mut world, QUARANTINE), Some(Ok(())));
    }
    world.pass(QUARANTINE * 2, &mut client);
    assert_eq!(world.trusted(&client), [0, 1, 2]);
}

/// A client of the new list saw that node 0 was closed, and writes that back when the node has been
/// emptied.
#[test]
fn a_closed_node_that_is_emptied_under_a_client_of_the_new_list_does_not_stop_the_change() {
    let mut world = World::new(4);
    let mut old = world.client(&[0, 1, 2]);
    world.empty(1);
    world.reconnect(&mut old, 1);
    let mut run = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], false, 10);
    assert_eq!(run.pass(&mut world, Duration::from_secs(5)), None, "it waits for what node 1 forgot");
    assert!(world.record(0).contains(" phase=closed:"), "{}", world.record(0));
    let mut early = world.client(&[0, 1, 3]);
    world.empty(0);
    world.reconnect(&mut early, 0);
    change(&mut world, &[0, 1, 2], &[0, 1, 3], &[], 20);
    let client = world.client(&[0, 1, 3]);
    assert_eq!(world.trusted(&client), [0, 1, 3]);
}

/// One clock of three that is wrong is no reason to give no locks until all others have got there.
#[test]
fn one_wrong_clock_does_not_hold_up_a_change() {
    let hour = Duration::from_secs(3_600);
    for (ahead, why) in [(vec![1], "an old node is ahead"), (vec![0, 1, 2], "a new node is behind")] {
        let mut world = World::new(4);
        world.client(&[0, 1, 2]);
        let mut run = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], false, 10);
        run.ahead = ahead.into_iter().map(|node| (node, hour)).collect();
        assert_eq!(run.pass(&mut world, QUARANTINE * 3), Some(Ok(())), "{why}");
    }
}

/// A clock is set back by an hour after its node was closed: we have seen ourselves how long ago
/// that was.
#[test]
fn a_clock_that_is_set_back_does_not_hold_up_a_change() {
    let hour = Duration::from_secs(3_600);
    let mut world = World::new(4);
    world.client(&[0, 1, 2]);
    let mut run = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], false, 10);
    run.ahead = [(1, hour)].into();
    while !world.record(1).contains(" phase=closed:") {
        assert!(!run.serve(&mut world, 1));
    }
    run.ahead.clear();
    let begun = world.now;
    assert_eq!(run.pass(&mut world, QUARANTINE * 2), Some(Ok(())));
    assert!(world.now.since(begun) >= QUARANTINE, "the locks of the old list are waited for all the same");
}

/// Fences that the old list has granted are an hour ahead: nobody may be given a smaller one, and
/// whoever waits is told why.
#[test]
fn clocks_that_were_all_set_back_are_waited_for_and_named_as_the_cause() {
    let hour = Duration::from_secs(3_600);
    let mut world = World::new(4);
    world.client(&[0, 1, 2]);
    let mut run = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], false, 10);
    run.ahead = (0..4).map(|node| (node, hour)).collect();
    while !(0..3).all(|node| world.record(node).contains(" phase=closed:")) {
        assert!(!run.serve(&mut world, 1));
    }
    run.ahead.clear();
    assert_eq!(run.pass(&mut world, QUARANTINE * 2), None);
    let Some(Progress::Clocks { left }) = run.progress else { panic!("{:?}", run.progress) };
    assert!(left > hour - QUARANTINE * 3 && left < hour, "{left:?}");
    assert_eq!(run.pass(&mut world, hour), Some(Ok(())));
}

/// A client that was left with the old list looks at a node that was emptied, and taken by a client
/// of the new list that had never seen it before.
#[test]
fn a_client_with_the_old_list_disputes_nothing() {
    let mut world = World::new(4);
    let mut stale = world.client(&[0, 1, 2]);
    let mut cut_off = world.client(&[0, 1, 2]);
    change(&mut world, &[0, 1, 2], &[0, 1, 3], &[], 10);
    for node in 0..3 {
        world.reconnect(&mut stale, node);
    }
    world.empty(0);
    let mut client = world.client(&[0, 1, 3]);
    world.reconnect(&mut stale, 0);
    assert!(!world.record(0).contains(" phase=disputed "), "{}", world.record(0));
    world.reconnect(&mut cut_off, 0);
    assert!(!world.record(0).contains(" phase=disputed "), "{}", world.record(0));
    world.reconnect(&mut client, 0);
    world.pass(QUARANTINE * 2, &mut client);
    assert_eq!(world.trusted(&client), [0, 1, 3]);
}

/// Somebody runs the change from {0,1,2} to {3,4,5} again when that list has long been changed to
/// {6,7,8}.
#[test]
fn a_change_that_is_run_again_later_does_not_bring_back_a_list_that_was_left() {
    let mut world = World::new(9);
    world.client(&[0, 1, 2]);
    change(&mut world, &[0, 1, 2], &[3, 4, 5], &[], 10);
    let stale = world.client(&[3, 4, 5]);
    assert_eq!(world.trusted(&stale), [3, 4, 5]);
    change(&mut world, &[3, 4, 5], &[6, 7, 8], &[], 20);
    let mut again = Run::new(&world, &[0, 1, 2], &[3, 4, 5], &[], false, 30);
    let ended = again.pass(&mut world, QUARANTINE * 3);
    let (left, client) = (world.client(&[3, 4, 5]), world.client(&[6, 7, 8]));
    assert_eq!(world.trusted(&client), [6, 7, 8]);
    assert_eq!(world.trusted(&left), [0; 0], "both lists would give the same lock");
    assert!(matches!(ended, Some(Err(Refused::Other { .. }))), "{ended:?}");
    // And back: what was left may be used again.
    change(&mut world, &[6, 7, 8], &[3, 4, 5], &[], 40);
    let client = world.client(&[3, 4, 5]);
    assert_eq!(world.trusted(&client), [3, 4, 5]);
}

/// {0,1,2} was changed to {3,4,5}, and its nodes restarted since. Somebody who had wanted to give
/// that change up does so now, when the list is {6,7,8}.
#[test]
fn a_list_that_was_closed_is_never_given_back() {
    let mut world = World::new(9);
    let mut stale = world.client(&[0, 1, 2]);
    change(&mut world, &[0, 1, 2], &[3, 4, 5], &[], 10);
    change(&mut world, &[3, 4, 5], &[6, 7, 8], &[], 20);
    for node in 0..3 {
        world.restart(node);
        world.reconnect(&mut stale, node);
    }
    let mut abort = Run::new(&world, &[0, 1, 2], &[3, 4, 5], &[], true, 30);
    let ended = abort.pass(&mut world, QUARANTINE);
    world.pass(QUARANTINE * 3, &mut stale);
    assert_eq!(world.trusted(&stale), [0; 0], "both lists would give the same lock: {}", world.record(0));
    assert_eq!(ended, Some(Err(Refused::TooLate)));
}

/// The change is killed while it removes locks, before it has marked any node as closed. Were it
/// given up then, the nodes would vote without the locks that are still held.
#[test]
fn a_change_that_has_begun_to_remove_locks_cannot_be_given_up() {
    let mut world = World::new(4);
    world.client(&[0, 1, 2]);
    let mut run = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], false, 10);
    while !run.clears {
        run.serve(&mut world, 1);
    }
    let mut abort = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], true, 20);
    assert_eq!(abort.pass(&mut world, QUARANTINE), Some(Err(Refused::TooLate)));
    change(&mut world, &[0, 1, 2], &[0, 1, 3], &[], 30);
}

/// A replica, a full disk, a user without the rights: the old list may be closed by then, and
/// somebody has to be told.
#[test]
fn a_node_that_only_gives_errors_ends_the_change() {
    let mut world = World::new(4);
    world.client(&[0, 1, 2]);
    let mut run = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], false, 10);
    let mut failed = None;
    for _ in 0..2_000 {
        match run.change.poll_output() {
            Some(Output::Send { node, command }) => {
                let is_write = matches!(command, Command::Record { swap: Some(_), .. });
                let answer = if node == 3 && is_write {
                    Err(Fault::Error("READONLY".into()))
                } else {
                    let time = world.time();
                    Ok(world.nodes[run.nodes[node]].table.execute(time, &command))
                };
                run.change.handle(world.now, Input::Answer { node, answer });
            }
            Some(Output::Failed(refused)) => failed = Some(refused),
            Some(_) => {}
            None => match run.change.poll_timeout() {
                Some(at) => {
                    world.now = world.now.max(at);
                    run.change.handle(world.now, Input::Timeout);
                }
                None => break,
            },
        }
    }
    let fault = Some(Fault::Error("READONLY".into()));
    assert_eq!(failed, Some(Refused::Silent { node: 3, fault }));
}

/// {0,2,5} was left while node 2 was switched off, so that still says that the list is open. When
/// the list is prepared again, node 5 first, a client of it must not make the old word of node 2
/// look new.
#[test]
fn a_record_of_a_list_that_was_left_is_not_brought_up_to_date_by_one_that_is_prepared() {
    let mut world = World::new(7);
    world.client(&[0, 1, 4]);
    change(&mut world, &[0, 1, 4], &[0, 2, 5], &[], 10);
    change(&mut world, &[0, 2, 5], &[0, 3, 6], &[2], 20);
    world.client(&[0, 3, 6]);
    // Killed when node 5 is prepared, and node 2 is not.
    let mut run = Run::new(&world, &[0, 3, 6], &[5, 2, 0], &[], false, 30);
    while !world.record(5).contains(" phase=prepared:") {
        assert!(!run.serve(&mut world, 1));
    }
    assert!(!world.record(2).contains(" phase=prepared:"));
    world.client(&[0, 2, 5]);
    let mut run = Run::new(&world, &[0, 3, 6], &[5, 2, 0], &[], false, 40);
    let begun = world.now;
    assert_eq!(run.pass(&mut world, QUARANTINE * 3), Some(Ok(())));
    assert!(world.now.since(begun) >= QUARANTINE, "nobody waited for the locks of {{0,3,6}}");
    for node in [3, 6] {
        assert!(world.record(node).contains(" phase=closed:"), "{}", world.record(node));
    }
}

/// A node that was in another fleet was forgotten, and taken by a client that came too early.
#[test]
fn a_node_that_was_taken_from_another_fleet_does_not_open_the_list() {
    let mut world = World::new(6);
    world.client(&[4]);
    change(&mut world, &[4], &[3], &[], 10);
    world.forget(3);
    world.client(&[0, 1, 2]);
    let early = world.client(&[0, 1, 3]);
    assert_eq!(world.trusted(&early), [0; 0]);
    let mut run = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], false, 20);
    let begun = world.now;
    assert_eq!(run.pass(&mut world, QUARANTINE * 3), Some(Ok(())));
    assert!(world.now.since(begun) >= QUARANTINE, "nobody waited for the locks of {{0,1,2}}");
    assert!(world.record(2).contains(" phase=closed:"), "{}", world.record(2));
}

/// Two people change to the same list from different ones: what one has prepared is not the
/// other's.
#[test]
fn nodes_that_another_change_has_prepared_are_not_taken() {
    let mut world = World::new(7);
    let (one, two) = (world.client(&[0, 1, 2]), world.client(&[3]));
    prepare(&mut world, &[0, 1, 2], &[4, 5, 6], 10);
    let mut run = Run::new(&world, &[3], &[4, 5, 6], &[], false, 20);
    assert!(matches!(run.pass(&mut world, QUARANTINE * 3), Some(Err(Refused::Foreign { .. }))));
    assert_eq!((world.trusted(&one), world.trusted(&two)), (vec![0, 1, 2], vec![3]));
}

/// Somebody's run stands still just before it removes locks. Another finishes the change meanwhile,
/// and the new list is in use.
#[test]
fn a_run_that_stood_still_removes_no_lock_of_the_new_list() {
    let mut world = World::new(4);
    world.client(&[0, 1, 2]);
    let mut paused = Run::new(&world, &[0, 1, 2], &[0, 1, 3], &[], false, 10);
    while !world.record(2).contains(" phase=reclosing:") {
        assert!(!paused.serve(&mut world, 1));
    }
    change(&mut world, &[0, 1, 2], &[0, 1, 3], &[], 20);
    for node in [0, 1] {
        world.lock(node, Command::plain_acquire);
    }
    assert_eq!(paused.pass(&mut world, QUARANTINE), Some(Ok(())));
    assert!([0, 1].into_iter().all(|node| world.is_locked(node)), "its holder still counts on them");
}

/// A lock that was put back by its holder lies on the node in another form.
#[test]
fn locks_that_were_put_back_are_removed_too() {
    let mut world = World::new(4);
    world.client(&[0, 1, 2]);
    world.lock(0, |key, token, node_ttl_ms| Command::Heal {
        key,
        token,
        node_ttl_ms,
        fence: None,
        quarantine_ms: 66_000,
        mode: Mode::Exclusive,
    });
    change(&mut world, &[0, 1, 2], &[0, 1, 3], &[], 10);
    assert!(!world.is_locked(0));
}
