//! What a whole client does, told as transcripts: what it says to which node, and what its callers hear.

use tenure_core::client::{Client, Id, Input, News, Output, Request, Room};
use tenure_core::*;

use crate::support::clients::{World, ms};

fn options(ttl_ms: u64) -> Options {
    let mut options = Options::default();
    options.ttl = ms(ttl_ms);
    options
}

/// A world whose nodes are known.
fn settled(clients: usize) -> World {
    let mut world = World::of(clients, 3);
    world.run(ms(100));
    world.transcript.clear();
    world
}

#[test]
fn a_lock_is_acquired_renewed_with_others_and_released() {
    let mut world = settled(1);
    world.acquire(0, 1, "x", &options(3_000));
    world.acquire(0, 2, "y", &options(3_000));
    world.run(ms(1_100));
    world.request(0, Request::Release { id: Id(1) });
    world.run(ms(100));
    insta::assert_snapshot!(world.transcript, @r#"
    100 ms  client 0: acquire "x" as 1
    100 ms  client 0: acquire "x" to node 0, 1, 2
    100 ms  client 0: acquire "y" as 2
    100 ms  client 0: acquire "y" to node 0, 1, 2
    102 ms  client 0: 1 acquired
    102 ms  client 0: 2 acquired
    1100 ms  client 0: renew ["x", "y"] to node 0, 1, 2
    1102 ms  client 0: 1 extended
    1102 ms  client 0: 2 extended
    1200 ms  client 0: release "x" to node 0, 1, 2
    1200 ms  client 0: 1 given up
    1200 ms  client 0: 1 ended
    1202 ms  client 0: 1 released
    1202 ms  client 0: "x" cleaned up
    "#);
}

#[test]
fn a_waiter_gets_the_lock_when_its_holder_releases_it() {
    let mut world = settled(2);
    world.acquire(0, 1, "x", &options(30_000));
    world.run(ms(10));
    world.acquire(1, 1, "x", &options(30_000));
    world.run(ms(200));
    world.request(0, Request::Release { id: Id(1) });
    world.run(ms(100));
    insta::assert_snapshot!(world.transcript, @r#"
    100 ms  client 0: acquire "x" as 1
    100 ms  client 0: acquire "x" to node 0, 1, 2
    102 ms  client 0: 1 acquired
    110 ms  client 1: acquire "x" as 1
    110 ms  client 1: acquire "x" to node 0, 1, 2
    112 ms  client 1: undo "x" to node 0, 1, 2
    112 ms  client 1: acquire "x" to node 0, 1, 2
    114 ms  client 1: "x" cleaned up
    114 ms  client 1: 1 waiting
    310 ms  client 0: release "x" to node 0, 1, 2
    310 ms  client 0: 1 given up
    310 ms  client 0: 1 ended
    312 ms  client 1: acquire "x" to node 0, 1
    312 ms  client 0: 1 released
    312 ms  client 1: acquire "x" to node 2
    312 ms  client 0: "x" cleaned up
    314 ms  client 1: 1 acquired
    "#);
}

#[test]
fn a_renewal_that_one_node_granted_before_its_connection_broke_does_not_count() {
    let mut world = settled(1);
    world.acquire(0, 1, "x", &options(3_000));
    world.run(ms(900));
    let end = world.lease(0, 1).standing().unwrap().validity().end();
    world.nodes[1].back = ms(10);
    world.nodes[2].hung = true;
    while !world.transcript.contains("renew") {
        world.run(ms(1));
    }
    world.run(ms(3));
    // Node 0 has granted it, and nobody was told.
    let node = world.node(0);
    world.disconnect(0, node);
    world.run(ms(30));
    let standing = world.lease(0, 1).standing().unwrap();
    assert_eq!(standing.validity().end(), end, "one node of three has extended it");
}

#[test]
fn a_node_that_can_be_reached_again_is_told_at_once_what_was_released() {
    let mut world = settled(1);
    world.acquire(0, 1, "x", &options(30_000));
    world.run(ms(100));
    let node = world.node(2);
    world.disconnect(0, node);
    world.nodes[2].hung = true;
    world.request(0, Request::Abandon { id: Id(1) });
    world.run(ms(1_500));
    assert_eq!(world.clients[0].releases().map(|release| release.owed().len()).sum::<usize>(), 1);
    world.transcript.clear();
    world.nodes[2].hung = false;
    world.connect(0, node);
    world.run(ms(5));
    insta::assert_snapshot!(world.transcript, @r#"
    1700 ms  client 0: release "x" to node 2
    1702 ms  client 0: "x" cleaned up
    "#);
    assert!(world.clients[0].is_idle());
}

#[test]
fn whoever_asks_before_the_nodes_are_known_waits_for_them_and_is_refused_by_a_shutdown() {
    let quorum = Quorum::of(3).unwrap();
    let now = Time::from_nanos(0);
    let fleet = Fleet::new(Settings::new(MaxTtl::default(), "test"), quorum, Prefix::default(), 1);
    let mut client = Client::new(now, fleet);
    let key = LockKey::new(&Prefix::default(), "x").unwrap();
    let lease = Lease::new(key, options(3_000).check(MaxTtl::default()).unwrap(), quorum);
    client.request(now, Request::Acquire { id: Id(1), lease: lease.clone() });
    client.handle(now, Input::Wake);
    assert_eq!(client.poll_output(), None);
    client.request(now, Request::Shutdown { id: Id(2), limit: ms(100), silent_too: true });
    client.handle(now, Input::Wake);
    let reason = tenure_core::client::NotBegun::ShutDown;
    assert_eq!(client.poll_output(), Some(Output::Refused { id: Id(1), lease, reason }));
    let unfinished = None;
    assert_eq!(client.poll_output(), Some(Output::ShutDown { id: Id(2), unfinished }));
    assert_eq!(client.poll_output(), None);
}

#[test]
fn a_client_is_a_value_and_its_copy_does_the_same() {
    let mut world = settled(2);
    world.acquire(0, 1, "x", &options(3_000));
    world.acquire(1, 1, "x", &options(3_000));
    world.run(ms(1));
    let (mut copy, begun) = (world.clients[0].clone(), world.now);
    assert_eq!(copy, world.clients[0]);
    world.clients[0].handle(begun + ms(100), Input::Wake);
    assert_ne!(copy, world.clients[0], "its nodes had their time");
    copy.handle(begun + ms(100), Input::Wake);
    assert_eq!(copy, world.clients[0]);
    let outputs = |client: &mut Client| std::iter::from_fn(|| client.poll_output()).collect::<Vec<_>>();
    let said = outputs(&mut copy);
    assert!(said.iter().any(|output| matches!(output, Output::Send { .. })));
    assert!(said.iter().any(|output| matches!(output, Output::Tell { news: News::Retrying { .. }, .. })));
    assert_eq!(said, outputs(&mut world.clients[0]));
}

#[test]
fn a_client_that_is_lent_room_for_its_outputs_says_the_same() {
    let mut world = settled(1);
    world.acquire(0, 1, "x", &options(3_000));
    world.run(ms(10));
    let (mut own, mut lent, now) = (world.clients[0].clone(), world.clients[0].clone(), world.now);
    let release = |client: &mut Client| {
        client.request(now, Request::Release { id: Id(1) });
        std::iter::from_fn(|| client.poll_output()).collect::<Vec<_>>()
    };
    let (said, mut room) = (release(&mut own), Room::default());
    assert!(said.iter().any(|output| matches!(output, Output::Ended { id: Id(1), .. })), "{said:?}");
    lent.swap_room(&mut room);
    assert_eq!(release(&mut lent), said);
    lent.swap_room(&mut room);
    assert_eq!(lent, own);
}
