//! What was written down on a machine makes its programs witnesses: none of them takes nodes that
//! forgot for new ones.

use tenure_core::trust::{Input, LIVES_MAX, Output};
use tenure_core::*;

use crate::support::fleets::{self, QUARANTINE, World, nonces};

#[test]
fn a_life_counts_only_when_it_is_written_down() {
    let mut world = World::new(1);
    let quorum = Quorum::of(1).unwrap();
    let node = quorum.indexes().next().unwrap();
    let fleet = Fleet::new(fleets::settings(&[0]), quorum, Prefix::default(), 1);
    let mut fleet = fleet.remembering(vec![NodeMemory::default()]);
    fleet.handle(world.now, Input::Connected { node, facts: world.facts(0) });
    let mut serve = |fleet: &mut Fleet| {
        let mut asked = None;
        for _ in 0..20 {
            while let Some(output) = fleet.poll_output() {
                match output {
                    Output::Send { command, .. } => {
                        let time = world.time();
                        let reply = world.nodes[0].table.execute(time, &command);
                        fleet.observe(world.now, node, world.now, &reply);
                        fleet.handle(world.now, Input::Answer { node, answer: Ok(reply) });
                    }
                    Output::Remember { memory } => asked = Some(memory),
                    _ => {}
                }
            }
            world.now = world.now + std::time::Duration::from_millis(1);
            fleet.handle(world.now, Input::Timeout);
        }
        (asked, fleet.trusted(world.now), fleet.is_settled(), world.now)
    };
    let (asked, trusted, settled, now) = serve(&mut fleet);
    assert_eq!(asked.unwrap()[0].lives.len(), 1);
    assert_eq!((trusted, settled), (0, false), "nothing is on disk yet");
    fleet.handle(now, Input::Forgetful);
    let (asked, trusted, settled, _) = serve(&mut fleet);
    assert_eq!((asked, trusted, settled), (None, 1, true), "it cannot be written: nobody waits for that");
}

/// The three stories of a program without a memory, on one node and on three.
#[test]
fn the_next_program_on_the_machine_knows_what_the_last_one_saw() {
    for (nodes, remembers, expected) in [(1, true, 0), (3, true, 0), (1, false, 1), (3, false, 3)] {
        let mut world = World::new(nodes);
        let list: Vec<usize> = (0..nodes).collect();
        let settings = fleets::settings(&list);
        let first = world.client_with(settings.clone(), &list, remembers);
        assert_eq!(world.trusted(&first), list, "a first start is one");
        drop(first);
        (0..nodes).for_each(|node| world.empty(node));
        let mut second = world.client_with(settings.clone(), &list, remembers);
        assert_eq!(world.trusted(&second).len(), expected, "{nodes} {remembers}");
        // The quarantine is over for all of them at the same time.
        world.pass(QUARANTINE, &mut second);
        assert_eq!(world.trusted(&second), list);
        assert_eq!(world.client_with(settings, &list, remembers).fleet.trusted(world.now), nodes);
    }
}

/// Two programs begin at once; one is through with a first start, holds a lock, and all nodes are
/// emptied before the other one has looked a second time. The other one was new to everything; but
/// its machine was not.
#[test]
fn the_memory_is_read_again_between_the_two_readings_of_a_first_start() {
    let mut world = World::new(3);
    let quorum = Quorum::of(3).unwrap();
    let nodes: Vec<NodeIndex> = quorum.indexes().collect();
    let fleet = Fleet::new(fleets::settings(&[0, 1, 2]), quorum, Prefix::default(), 77);
    // It has read the memory, which is empty, and nothing else so far.
    let mut slow = fleet.remembering(vec![NodeMemory::default(); 3]);
    let quick = world.witness(&[0, 1, 2]);
    assert_eq!(world.trusted(&quick), [0, 1, 2]);
    (0..3).for_each(|node| world.empty(node));
    let mut readings = 0;
    for node in &nodes {
        slow.handle(world.now, Input::Connected { node: *node, facts: world.facts(node.get()) });
    }
    for _ in 0..20 {
        while let Some(output) = slow.poll_output() {
            match output {
                Output::Send { node, command } => {
                    readings += 1;
                    let reply = {
                        let time = world.time();
                        world.nodes[node.get()].table.execute(time, &command)
                    };
                    slow.observe(world.now, node, world.now, &reply);
                    slow.handle(world.now, Input::Answer { node, answer: Ok(reply) });
                }
                Output::Remember { memory } => {
                    let memory: Vec<NodeMemory> = (0..3)
                        .zip(memory)
                        .map(|(node, mut told)| {
                            told.lives.extend(world.disk[&node].lives.clone());
                            told
                        })
                        .collect();
                    slow.handle(world.now, Input::Remembered { memory });
                }
                _ => {}
            }
        }
        world.now = world.now + std::time::Duration::from_millis(1);
        slow.handle(world.now, Input::Timeout);
    }
    assert!(readings > 6, "{readings}");
    assert_eq!(slow.trusted(world.now), 0, "the other one's lock may still be held");
}

/// Somebody else took the emptied nodes for a first start; this machine knows better.
#[test]
fn a_first_start_that_was_none_is_undone_while_it_is_young() {
    for (age, expected) in [(QUARANTINE / 2, 0), (QUARANTINE, 3)] {
        let mut world = World::new(3);
        world.witness(&[0, 1, 2]);
        (0..3).for_each(|node| world.empty(node));
        let elsewhere = world.client(&[0, 1, 2]);
        assert_eq!(world.trusted(&elsewhere), [0, 1, 2], "another machine cannot know");
        world.now = world.now + age;
        assert_eq!(world.witness(&[0, 1, 2]).fleet.trusted(world.now), expected, "{age:?}");
    }
}

#[test]
fn a_backup_that_was_put_back_is_a_new_life() {
    let mut world = World::new(1);
    world.nodes[0].durable = true;
    let mut client = world.witness(&[0]);
    let backup = world.nodes[0].table.clone();
    world.empty(0);
    world.reconnect(&mut client, 0);
    world.pass(QUARANTINE, &mut client);
    assert_eq!(world.trusted(&client), [0]);
    assert_eq!(nonces(&world.disk[&0]).len(), 2);
    world.empty(0);
    world.nodes[0].table = backup;
    let restored = world.witness(&[0]);
    assert_eq!(world.trusted(&restored), [0; 0], "its disk is honest, but it is yesterday's");
}

/// Every process of it is a life of its own to whoever counts them, and they are all the present
/// one.
#[test]
fn a_server_that_keeps_its_memory_may_be_restarted_any_number_of_times() {
    let mut world = World::new(1);
    world.nodes[0].durable = true;
    let mut client = world.witness(&[0]);
    for restart in 0..2 * LIVES_MAX {
        world.restart(0);
        world.reconnect(&mut client, 0);
        assert_eq!(world.trusted(&client), [0], "after {restart} restarts");
    }
    let known = nonces(&world.disk[&0]);
    assert!(known.len() <= LIVES_MAX && !known.is_empty(), "{known:?}");
}

/// The tool is refused, ends, and is run again when the node was emptied.
#[test]
fn a_refusal_is_remembered_by_the_next_program() {
    for remembers in [true, false] {
        let mut world = World::new(3);
        world.client(&[0, 1, 2]);
        let settings = fleets::settings(&[2]);
        assert_eq!(world.client_with(settings.clone(), &[2], remembers).fleet.trusted(world.now), 0);
        world.empty(2);
        let stranger = world.client_with(settings, &[2], remembers);
        assert_eq!(
            world.trusted(&stranger).len(),
            usize::from(!remembers),
            "without a memory it takes the node over"
        );
        assert_eq!(world.record(2).contains("nodes=n0,n1,n2 "), remembers);
    }
}

/// Two lists on one machine, one of them typed wrongly: what one has written down is no reason for
/// the other to claim the node.
#[test]
fn another_list_on_the_same_machine_is_refused_and_disputes_nothing() {
    let mut world = World::new(5);
    let mut owner = world.witness(&[0, 1, 2]);
    let stranger = world.witness(&[0, 3, 4]);
    assert_eq!(world.trusted(&stranger), [0; 0]);
    assert!(world.record(0).contains(" phase=open "), "{}", world.record(0));
    // Also when the machine knows an earlier life of it.
    world.empty(0);
    world.reconnect(&mut owner, 0);
    let stranger = world.witness(&[0, 3, 4]);
    assert_eq!(world.trusted(&stranger), [0; 0]);
    assert!(world.record(0).contains(" phase=open "), "{}", world.record(0));
}
