//! Locks that are held: far nodes, connections that break, machines that are suspended.

use super::puppet::Puppet;
use super::*;
use crate::guard::watch::Watch;
use crate::machine::clock;

const TTL: Duration = Duration::from_secs(3);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A driver with nodes that need so long for an answer.
fn driver_on(round_trips_ms: &[u64]) -> (Driver, mpsc::UnboundedSender<Call>, Vec<Puppet>) {
    let puppets: Vec<Puppet> = round_trips_ms
        .iter()
        .map(|round_trip_ms| {
            let puppet = Puppet::connected();
            puppet.hold().round_trip = ms(*round_trip_ms);
            puppet
        })
        .collect();
    let connections = puppets.iter().map(|puppet| Box::new(puppet.clone()) as Box<dyn Connection>);
    let (driver, mailbox) = driver_of(connections.collect());
    (driver, mailbox, puppets)
}

/// Acquires a lock with these options.
async fn hold(mailbox: &mpsc::UnboundedSender<Call>, nodes: usize, options: &Options) -> SharedLease {
    let key = LockKey::new(&Prefix::default(), "x").unwrap();
    let terms = options.check(MaxTtl::default()).unwrap();
    let lease = SharedLease::new(Lease::new(key, terms, Quorum::of(nodes).unwrap()));
    let (reply, answer) = oneshot::channel();
    let (entropy, held) = (draw_entropy().unwrap(), lease.clone());
    assert!(mailbox.send(Call::Acquire { id: Id(7), lease: held, entropy, reply }).is_ok());
    assert!(answer.await.unwrap().is_ok());
    lease
}

fn with_ttl(ttl: Duration) -> Options {
    let mut options = Options::default();
    options.ttl = ttl;
    options
}

/// How long the lock is still valid, and its margin.
fn standing(lease: &SharedLease) -> (Duration, usize) {
    let lease = lease.look();
    let standing = lease.standing().expect("it is held");
    (standing.validity().left(Clock::Tokio.now()), standing.margin())
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_acquired_and_renewed_however_far_the_nodes_are() {
    for round_trip_ms in [1, 12, 19, 21, 35, 48, 90, 180, 250] {
        let (driver, mailbox, nodes) = driver_on(&[round_trip_ms; 3]);
        tokio::spawn(driver);
        let lease = hold(&mailbox, 3, &with_ttl(TTL)).await;
        assert_eq!(lease.look().attempts(), 1, "{round_trip_ms} ms");
        for term in 0..10 {
            tokio::time::sleep(TTL).await;
            let (valid_for, margin) = standing(&lease);
            assert!(valid_for > TTL / 2, "{round_trip_ms} ms, after {term} terms: valid for {valid_for:?}");
            assert_eq!(margin, 1, "{round_trip_ms} ms: all nodes have it");
        }
        let batches = nodes[0].hold().batches;
        assert!((25..=35).contains(&batches), "{round_trip_ms} ms: {batches} renewals, three a term");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_lock_is_on_all_nodes_though_some_are_further_away() {
    for round_trips_ms in [[1, 1, 1], [35, 35, 45], [35, 60, 35], [180, 170, 190], [1, 1, 60]] {
        let (driver, mailbox, _nodes) = driver_on(&round_trips_ms);
        tokio::spawn(driver);
        let lease = hold(&mailbox, 3, &with_ttl(TTL)).await;
        tokio::time::sleep(ms(200)).await;
        assert_eq!(standing(&lease).1, 1, "{round_trips_ms:?}");
    }
}

/// How long it takes to find out that a majority of the nodes hangs.
async fn hangs_for(mailbox: &mpsc::UnboundedSender<Call>, id: u64) -> Duration {
    let key = LockKey::new(&Prefix::default(), "y").unwrap();
    let mut options = with_ttl(TTL);
    options.wait = Wait::No;
    let lease = Lease::new(key, options.check(MaxTtl::default()).unwrap(), Quorum::of(3).unwrap());
    let (lease, (reply, answer)) = (SharedLease::new(lease), oneshot::channel());
    let (entropy, begun) = (draw_entropy().unwrap(), tokio::time::Instant::now());
    assert!(mailbox.send(Call::Acquire { id: Id(id), lease, entropy, reply }).is_ok());
    assert!(matches!(answer.await, Ok(Err(AcquireFailure::NotAcquired(_)))));
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_hung_node_is_waited_for_by_its_own_round_trips_and_never_longer_and_longer() {
    let (driver, mailbox, nodes) = driver_on(&[1, 1, 180]);
    tokio::spawn(driver);
    hold(&mailbox, 3, &with_ttl(TTL)).await;
    // Long enough to know all of them well.
    tokio::time::sleep(10 * TTL).await;
    nodes[0].hold().hung = true;
    nodes[1].hold().hung = true;
    for id in 100..110 {
        let took = hangs_for(&mailbox, id).await;
        assert!((ms(50)..=ms(52)).contains(&took), "two near ones hang, a far one does not matter: {took:?}");
    }
    nodes[0].hold().hung = false;
    nodes[2].hold().hung = true;
    for id in 110..120 {
        let took = hangs_for(&mailbox, id).await;
        assert!((ms(270)..=ms(275)).contains(&took), "the far one could still grant it: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_way_that_becomes_longer_costs_no_lock() {
    let (driver, mailbox, nodes) = driver_on(&[1, 1, 1]);
    tokio::spawn(driver);
    let lease = hold(&mailbox, 3, &with_ttl(TTL)).await;
    tokio::time::sleep(5 * TTL).await;
    nodes.iter().for_each(|node| node.hold().round_trip = ms(180));
    for term in 0..10 {
        tokio::time::sleep(TTL).await;
        let (valid_for, _) = standing(&lease);
        assert!(valid_for > TTL / 3, "after {term} terms: valid for {valid_for:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_our_own_is_not_taken_for_the_way_to_the_nodes() {
    let (driver, mailbox, nodes) = driver_on(&[1, 1, 1]);
    tokio::spawn(driver);
    hold(&mailbox, 3, &with_ttl(TTL)).await;
    tokio::time::sleep(TTL).await;
    // The machine is suspended while the answers to a renewal are under way.
    let sent = nodes[0].hold().batches;
    while nodes[0].hold().batches == sent {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    clock::suspend(ms(1_000));
    tokio::time::sleep(ms(100)).await;
    nodes.iter().for_each(|node| node.hold().hung = true);
    let took = hangs_for(&mailbox, 100).await;
    assert!((ms(50)..=ms(52)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_grants_a_renewal_later_than_the_others_raises_the_margin() {
    for late_ms in [15, 30, 500, 1_500] {
        let (driver, mailbox, nodes) = driver_on(&[1, 1, 1]);
        tokio::spawn(driver);
        let lease = hold(&mailbox, 3, &with_ttl(ms(6_000))).await;
        nodes[2].hold().round_trip = ms(late_ms);
        while nodes[2].hold().batches == 0 {
            tokio::time::sleep(ms(1)).await;
        }
        tokio::time::sleep(ms(late_ms - 5)).await;
        assert_eq!(standing(&lease).1, 0, "{late_ms} ms: two of three so far");
        tokio::time::sleep(ms(30)).await;
        assert_eq!(standing(&lease).1, 1, "{late_ms} ms: all three");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_node_granted_before_its_connection_broke_or_it_forgot_does_not_count() {
    let undo: [fn(&Puppet); 2] = [Puppet::disconnect, Puppet::flush];
    for undo in undo {
        let (driver, mailbox, nodes) = driver_on(&[1, 1, 1]);
        tokio::spawn(driver);
        let lease = hold(&mailbox, 3, &with_ttl(TTL)).await;
        nodes[1].hold().round_trip = ms(15);
        nodes[2].hold().hung = true;
        while nodes[0].hold().batches == 0 {
            tokio::time::sleep(ms(1)).await;
        }
        // One node has granted the renewal, and nobody was told.
        tokio::time::sleep(ms(2)).await;
        undo(&nodes[0]);
        tokio::time::sleep(ms(50)).await;
        let (valid_for, _) = standing(&lease);
        assert!(valid_for < TTL - ms(900), "one node of three has extended it: {valid_for:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_can_be_reached_again_is_told_at_once_what_was_released() {
    let (driver, mailbox, nodes) = driver_on(&[1, 1, 1]);
    tokio::spawn(driver);
    hold(&mailbox, 3, &with_ttl(ms(30_000))).await;
    nodes[2].disconnect();
    nodes[2].hold().hung = true;
    drop(mailbox.send(Call::Abandon { id: Id(7) }));
    tokio::time::sleep(ms(3_000)).await;
    assert_eq!(nodes[2].releases().len(), 1, "one that was not answered is not sent again");
    nodes[2].connect();
    tokio::time::sleep(ms(10)).await;
    assert_eq!(nodes[2].releases().len(), 2, "and once more because it is back");
}

#[tokio::test(start_paused = true)]
async fn a_holder_hears_of_the_loss_within_a_second_after_its_machine_was_suspended() {
    for asleep in [Duration::from_secs(60), Duration::from_secs(24 * 60 * 60)] {
        let (driver, mailbox, _nodes) = driver_on(&[1, 1, 1]);
        tokio::spawn(driver);
        tokio::time::sleep(ms(1_000)).await;
        hold(&mailbox, 3, &with_ttl(ms(30_000))).await;
        let watch = Watch::new();
        assert!(mailbox.send(Call::Watch { id: Id(7), watch: Arc::clone(&watch) }).is_ok());
        // From here on nothing is due for seconds: neither a renewal nor a look at the nodes.
        tokio::time::sleep(ms(200)).await;
        clock::suspend(asleep);
        let resumed = tokio::time::Instant::now();
        watch.token().cancelled().await;
        let late = resumed.elapsed();
        assert!(late <= ms(1_001), "asleep for {asleep:?}: told {late:?} after it woke up");
    }
}
