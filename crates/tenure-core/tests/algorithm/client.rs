//! A whole client as a value, and stories of it that need a look inside. What it says to whom is
//! told in `tests/testdata`.

use tenure_core::client::{Client, Input, News, NotBegun, Output, Request, Room};
use tenure_core::*;

use crate::support::cluster::*;

fn renewed() -> Options {
    let mut options = options();
    (options.ttl, options.renewal) = (ms(3_000), Renewal::AtThird);
    options
}

#[test]
fn a_renewal_that_one_node_granted_before_its_connection_broke_does_not_count() {
    let mut cluster = Cluster::of(3);
    let client = cluster.acquire(&renewed());
    cluster.run(ms(900));
    let end = cluster.standing(client).validity().end();
    cluster.nodes[1].latency = ms(20);
    cluster.nodes[2].mode = Behaviour::Deaf;
    let sent = cluster.clients[client].sent.len();
    while cluster.clients[client].sent.len() == sent {
        cluster.run(ms(1));
    }
    cluster.run(ms(3));
    // Node 0 has granted it, and nobody was told.
    let node = node(cluster.quorum, 0);
    cluster.disconnect(client, node);
    cluster.run(ms(30));
    let standing = cluster.standing(client);
    assert_eq!(standing.validity().end(), end, "one node of three has extended it");
}

#[test]
fn a_node_that_can_be_reached_again_is_told_at_once_what_was_released() {
    let mut cluster = Cluster::of(3);
    let client = cluster.acquire(&options());
    cluster.run(ms(100));
    let node = node(cluster.quorum, 2);
    cluster.disconnect(client, node);
    cluster.abandon(client);
    cluster.run(ms(1_500));
    let owed = |client: &Client| client.releases().map(|release| release.owed().len()).sum::<usize>();
    assert_eq!(owed(&cluster.clients[client].client), 1);
    cluster.connect(client, node);
    cluster.run(ms(2));
    assert!(cluster.clients[client].client.is_idle());
    assert_eq!((cluster.keys(), cluster.unconfirmed), (0, vec![NodeSet::default()]));
}

#[test]
fn whoever_asks_before_the_nodes_are_known_waits_for_them_and_is_refused_by_a_shutdown() {
    let mut cluster = Cluster::untouched(3);
    let (number, now) = (cluster.start("test"), cluster.now);
    let lease = Lease::new(key("x"), terms(&options()), cluster.quorum);
    let client = &mut cluster.clients[number].client;
    client.request(now, Request::Acquire { id: ONLY, lease: lease.clone() });
    client.handle(now, Input::Wake);
    assert_eq!(client.poll_output(), None);
    let id = client::Id(2);
    client.request(now, Request::Shutdown { id, limit: ms(100), silent_too: true });
    client.handle(now, Input::Wake);
    let reason = NotBegun::ShutDown;
    assert_eq!(client.poll_output(), Some(Output::Refused { id: ONLY, lease, reason }));
    assert_eq!(client.poll_output(), Some(Output::ShutDown { id, unfinished: None }));
    assert_eq!(client.poll_output(), None);
}

#[test]
fn a_client_is_a_value_and_its_copy_does_the_same() {
    let mut cluster = Cluster::of(3);
    let mut waiting = renewed();
    waiting.wait = Wait::Forever;
    let client = cluster.acquire(&waiting);
    cluster.run(ms(1));
    let (mut one, begun) = (cluster.clients[client].client.clone(), cluster.now);
    let mut copy = one.clone();
    assert_eq!(copy, one);
    one.handle(begun + ms(100), Input::Wake);
    assert_ne!(copy, one, "its nodes had their time");
    copy.handle(begun + ms(100), Input::Wake);
    assert_eq!(copy, one);
    let said = outputs(&mut copy);
    assert!(said.iter().any(|output| matches!(output, Output::Send { .. })));
    assert!(said.iter().any(|output| matches!(output, Output::Tell { news: News::Retrying { .. }, .. })));
    assert_eq!(said, outputs(&mut one));
}

#[test]
fn a_client_that_is_lent_room_for_its_outputs_says_the_same() {
    let mut cluster = Cluster::of(3);
    let client = cluster.acquire(&renewed());
    cluster.run(ms(10));
    let mut own = cluster.clients[client].client.clone();
    let mut lent = own.clone();
    let release = |client: &mut Client| {
        client.request(cluster.now, Request::Release { id: ONLY });
        outputs(client)
    };
    let (said, mut room) = (release(&mut own), Room::default());
    assert!(said.iter().any(|output| matches!(output, Output::Ended { id: ONLY, .. })), "{said:?}");
    lent.swap_room(&mut room);
    assert_eq!(release(&mut lent), said);
    lent.swap_room(&mut room);
    assert_eq!(lent, own);
}

fn outputs(client: &mut Client) -> Vec<Output<Lease>> {
    std::iter::from_fn(|| client.poll_output()).collect()
}
