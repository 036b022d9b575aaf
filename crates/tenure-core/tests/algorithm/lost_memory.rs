//! Fleets and the memory of nodes: stories in which one loss must not be taken for a first start.

use std::time::Duration;

use tenure_core::trust::{Input, Output};
use tenure_core::*;

const EPOCH_US: u64 = 1_700_000_000_000_000;

/// Three nodes, one moment, and as many clients as a story needs.
struct Nodes {
    quorum: Quorum,
    tables: Vec<LockTable>,
    lives: Vec<u32>,
    /// What each node's clock is off.
    offsets_us: Vec<i64>,
    now_ms: u64,
}

impl Nodes {
    fn new() -> Self {
        let quorum = Quorum::of(3).unwrap();
        let (lives, offsets_us) = (vec![0; 3], vec![0; 3]);
        Self { quorum, tables: vec![LockTable::default(); 3], lives, offsets_us, now_ms: 1_000 }
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.now_ms * 1_000_000)
    }

    fn client(&self, seed: u64) -> Fleet {
        let settings = Settings::new(MaxTtl::new(Duration::from_secs(20)).unwrap(), "a,b,c");
        Fleet::new(settings, self.quorum, Prefix::default(), seed)
    }

    fn index(&self, node: usize) -> NodeIndex {
        self.quorum.indexes().nth(node).unwrap()
    }

    /// Connects a client to a node.
    fn connect(&self, fleet: &mut Fleet, node: usize) {
        let name = format!("{node}.{}", self.lives[node]);
        let life = Some(Life { process: name.as_str().into(), lineage: name.as_str().into() });
        let facts = Facts { life, ..Facts::default() };
        fleet.handle(self.now(), Input::Connected { node: self.index(node), facts });
    }

    /// Sends what the fleet wants to send to `reached`, until nothing is left; the rest is lost.
    fn settle(&mut self, fleet: &mut Fleet, reached: &[usize]) {
        self.deliver(fleet, reached);
        // What is asked a moment later to make sure.
        self.now_ms += 2;
        fleet.handle(self.now(), Input::Timeout);
        self.deliver(fleet, reached);
    }

    fn deliver(&mut self, fleet: &mut Fleet, reached: &[usize]) {
        while let Some(output) = fleet.poll_output() {
            let Output::Send { node, command } = output else { continue };
            if reached.contains(&node.get()) {
                let reply = self.execute(node.get(), &command);
                fleet.observe(self.now(), node, self.now(), &reply);
                fleet.handle(self.now(), Input::Answer { node, answer: Ok(reply) });
            }
        }
    }

    fn execute(&mut self, node: usize, command: &Command) -> Reply {
        let micros = EPOCH_US + self.now_ms * 1_000;
        let time = NodeTime::from_micros(micros.checked_add_signed(self.offsets_us[node]).unwrap());
        self.tables[node].execute(time, command)
    }

    fn lose_memory(&mut self, node: usize) {
        self.tables[node] = LockTable::default();
        self.lives[node] += 1;
    }
}

#[test]
fn records_that_were_never_there_together_are_no_first_start() {
    let mut nodes = Nodes::new();
    // A reaches two nodes while all are new.
    let mut a = nodes.client(1);
    (0..3).for_each(|node| nodes.connect(&mut a, node));
    nodes.deliver(&mut a, &[1, 2]);
    // B starts the fleet and holds locks on nodes 0 and 1.
    let mut b = nodes.client(2);
    (0..3).for_each(|node| nodes.connect(&mut b, node));
    nodes.settle(&mut b, &[0, 1, 2]);
    assert_eq!(b.trusted(nodes.now()), 3);
    // Node 0 forgets them, and A reaches it for the first time.
    nodes.lose_memory(0);
    nodes.connect(&mut a, 0);
    nodes.settle(&mut a, &[0, 1, 2]);
    let trust = a.report(nodes.now(), nodes.index(0)).trust;
    assert!(matches!(trust, Err(Distrust::Quarantined { .. })), "{trust:?}");
    assert_eq!(a.trusted(nodes.now()), 2);
}

#[test]
fn a_first_start_is_seen_at_once_when_all_nodes_are_reached() {
    let mut nodes = Nodes::new();
    let mut a = nodes.client(1);
    (0..3).for_each(|node| nodes.connect(&mut a, node));
    nodes.settle(&mut a, &[0, 1, 2]);
    assert_eq!(a.trusted(nodes.now()), 3);
}

#[test]
fn a_clock_that_steps_back_with_the_memory_does_not_undercut_fences() {
    let mut nodes = Nodes::new();
    let mut a = nodes.client(1);
    // The other nodes are ahead of node 0, so fences are near the top of what it takes.
    nodes.offsets_us = vec![0, 9_000_000, 9_000_000];
    (0..3).for_each(|node| nodes.connect(&mut a, node));
    nodes.settle(&mut a, &[0, 1, 2]);
    let earlier = a.propose(nodes.now(), true).fence.unwrap().fence;
    // Node 0 forgets, its clock steps back by less than the quarantine less the slack, and the
    // quarantine passes.
    nodes.lose_memory(0);
    // Node 2 forgets nothing; its clock may go back by half of the retention.
    nodes.offsets_us = vec![-11_000_000, 9_000_000, -21_000_000];
    let mut b = nodes.client(2);
    for at_ms in [2_000, 24_100] {
        nodes.now_ms = at_ms;
        [0, 2].into_iter().for_each(|node| nodes.connect(&mut b, node));
        nodes.settle(&mut b, &[0, 2]);
    }
    let proposal = b.propose(nodes.now(), true);
    let fence = proposal.fence.unwrap().fence;
    assert!(fence > earlier || proposal.nodes[0].is_err(), "{fence} after {earlier} at {:?}", proposal.nodes);
}

/// A fleet that was first used two hours ahead: its records are from the future when the clocks are
/// right.
#[test]
fn a_record_from_the_future_is_told_as_a_clock_that_was_set_back() {
    let mut nodes = Nodes::new();
    nodes.offsets_us = vec![7_200_000_000; 3];
    let mut a = nodes.client(1);
    (0..3).for_each(|node| nodes.connect(&mut a, node));
    nodes.settle(&mut a, &[0, 1, 2]);
    assert!(a.propose(nodes.now(), true).nodes.iter().all(Result::is_ok));
    nodes.offsets_us = vec![0; 3];
    let mut b = nodes.client(2);
    (0..3).for_each(|node| nodes.connect(&mut b, node));
    nodes.settle(&mut b, &[0, 1, 2]);
    let proposal = b.propose(nodes.now(), true);
    for (node, voter) in proposal.nodes.iter().enumerate() {
        let Err(Fault::Untrusted(Distrust::ClockSetBack { left })) = voter else { panic!("{voter:?}") };
        assert!(left.abs_diff(Duration::from_secs(7_200)) < Duration::from_secs(1), "{left:?}");
        assert_eq!(b.report(nodes.now(), nodes.index(node)).fences_ahead, Some(*left));
    }
    // A lease that begins now says so, and not that nodes are down or others have the lock.
    let mut options = Options::default();
    options.wait = Wait::No;
    let key = LockKey::new(&Prefix::default(), "x").unwrap();
    let terms = options.check(MaxTtl::new(Duration::from_secs(60)).unwrap()).unwrap();
    let mut lease = Lease::new(key, terms, nodes.quorum);
    let entropy = Entropy { token: OwnerToken::from_bytes([1; 20]), dice: 0 };
    lease.handle(nodes.now(), lease::Input::Attempt { entropy, proposal });
    let ended = std::iter::from_fn(|| lease.poll_output()).find_map(|output| match output {
        lease::Output::NotAcquired(end) => Some(end.cause),
        _ => None,
    });
    assert!(matches!(ended, Some(Cause::ClocksSetBack { .. })), "{ended:?}");
    // Without a fence nothing stands in the way.
    assert!(b.propose(nodes.now(), false).nodes.iter().all(Result::is_ok));
}
