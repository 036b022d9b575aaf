//! Which nodes may vote, step by step: records, quarantine, first starts, clocks and fences.

use std::time::Duration;

use tenure_core::trust::{Input, Output};
use tenure_core::*;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// With the default `max_ttl` of a minute.
const QUARANTINE: Duration = secs(66);

/// Three nodes in one place: what is sent is executed and answered at once.
struct World {
    now: Time,
    nodes: Vec<Node>,
    quorum: Quorum,
    settings: Settings,
    seeds: u64,
}

struct Node {
    table: LockTable,
    process: u32,
    durable: bool,
    /// It followed another server and was promoted, within the life of its process.
    promoted: bool,
    /// The process whose data it has, by replication.
    copied: Option<u32>,
    reachable: bool,
    /// Its clock less ours.
    clock_ms: i64,
}

impl World {
    fn new(guard: RestartGuard) -> Self {
        let node = |process| Node {
            table: LockTable::default(),
            process,
            durable: false,
            promoted: false,
            copied: None,
            reachable: true,
            clock_ms: 1_000_000_000_000,
        };
        Self {
            now: Time::from_nanos(5_000_000_000),
            nodes: (0..3).map(node).collect(),
            quorum: Quorum::of(3).unwrap(),
            settings: Settings::new(MaxTtl::default(), "a,b,c").restart_guard(guard),
            seeds: 0,
        }
    }

    fn index(&self, node: usize) -> NodeIndex {
        self.quorum.indexes().nth(node).unwrap()
    }

    fn facts(&self, node: usize) -> Facts {
        let Node { process, durable, promoted, copied, .. } = self.nodes[node];
        let lineage = format!("l{}{promoted}", copied.unwrap_or(process)).into();
        let life = Life { process: format!("p{process}").into(), lineage };
        Facts { life: Some(life), durable, promoted, ..Facts::default() }
    }

    /// A client that has just connected to all nodes it can reach.
    fn client(&mut self) -> Fleet {
        self.seeds += 1;
        let mut fleet = Fleet::new(self.settings.clone(), self.quorum, Prefix::default(), self.seeds * 1_000);
        for node in 0..3 {
            self.connect(&mut fleet, node);
        }
        // What is asked a moment later to make sure.
        self.pass(Duration::from_millis(2), &mut fleet);
        fleet
    }

    fn connect(&mut self, fleet: &mut Fleet, node: usize) {
        if self.nodes[node].reachable {
            let (index, facts) = (self.index(node), self.facts(node));
            fleet.handle(self.now, Input::Connected { node: index, facts });
            self.serve(fleet);
        }
    }

    fn node_time(&self, node: usize) -> NodeTime {
        let now_us = i64::try_from(self.now.as_nanos() / 1_000).unwrap();
        NodeTime::from_micros(u64::try_from(now_us + self.nodes[node].clock_ms * 1_000).unwrap())
    }

    /// Executes what the client sends until it has nothing more to say.
    fn serve(&mut self, fleet: &mut Fleet) -> Vec<Output> {
        let mut told = vec![];
        while let Some(output) = fleet.poll_output() {
            match output {
                Output::Send { node, command } => {
                    let time = self.node_time(node.get());
                    let reply = self.nodes[node.get()].table.execute(time, &command);
                    fleet.observe(self.now, node, self.now, &reply);
                    fleet.handle(self.now, Input::Answer { node, answer: Ok(reply) });
                }
                Output::Survey { node } => {
                    let facts = self.facts(node.get());
                    fleet.handle(self.now, Input::Surveyed { node, facts });
                }
                news => told.push(news),
            }
        }
        told
    }

    fn pass(&mut self, time: Duration, fleet: &mut Fleet) {
        let end = self.now + time;
        while let Some(next) = fleet.poll_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            fleet.handle(self.now, Input::Timeout);
            self.serve(fleet);
        }
        self.now = end;
    }

    /// The node's server is started anew: with or without its data.
    fn restart(&mut self, node: usize, empty: bool) {
        self.nodes[node].process += 100;
        if empty {
            self.nodes[node].table = LockTable::default();
        }
    }

    fn trusted(&self, fleet: &Fleet) -> Vec<usize> {
        (0..3).filter(|node| fleet.report(self.now, self.index(*node)).trust.is_ok()).collect()
    }

    fn distrust(&self, fleet: &Fleet, node: usize) -> Distrust {
        fleet.report(self.now, self.index(node)).trust.unwrap_err()
    }
}

#[test]
fn a_first_start_with_all_nodes_is_trusted_at_once_by_all() {
    let mut world = World::new(RestartGuard::Evidence);
    let first = world.client();
    assert_eq!(world.trusted(&first), [0, 1, 2]);
    let second = world.client();
    assert_eq!(world.trusted(&second), [0, 1, 2]);
}

#[test]
fn with_a_node_missing_the_quarantine_is_waited_out() {
    let mut world = World::new(RestartGuard::Evidence);
    world.nodes[1].reachable = false;
    let mut fleet = world.client();
    assert_eq!(world.trusted(&fleet), [0; 0]);
    assert!(
        matches!(world.distrust(&fleet, 0), Distrust::Quarantined { left } if left > QUARANTINE - secs(1))
    );
    assert_eq!(world.distrust(&fleet, 1), Distrust::Unknown);
    world.pass(QUARANTINE - secs(1), &mut fleet);
    assert_eq!(world.trusted(&fleet), [0; 0]);
    // It comes back, and all are new: but two of them have been waiting, so this is no first start
    // any more.
    world.pass(secs(1), &mut fleet);
    assert_eq!(world.trusted(&fleet), [0, 2]);
    world.nodes[1].reachable = true;
    world.connect(&mut fleet, 1);
    assert_eq!(world.trusted(&fleet), [0, 2], "the late one waits by itself");
    world.pass(QUARANTINE, &mut fleet);
    assert_eq!(world.trusted(&fleet), [0, 1, 2]);
    // The wait is over for those who come later, too.
    assert_eq!(world.client().trusted(world.now), 3);
}

#[test]
fn a_node_that_comes_within_the_quarantine_of_a_first_start_completes_it() {
    let mut world = World::new(RestartGuard::Evidence);
    world.nodes[1].reachable = false;
    let mut fleet = world.client();
    world.pass(secs(5), &mut fleet);
    world.nodes[1].reachable = true;
    world.connect(&mut fleet, 1);
    world.pass(secs(1), &mut fleet);
    assert_eq!(world.trusted(&fleet), [0, 1, 2], "nobody can hold anything yet");
}

#[test]
fn a_node_restarted_empty_is_quarantined_by_all() {
    let mut world = World::new(RestartGuard::Evidence);
    let mut old = world.client();
    world.restart(2, true);
    let mut new = world.client();
    assert_eq!(world.trusted(&new), [0, 1]);
    old.handle(world.now, Input::Disconnected { node: world.index(2), fault: Fault::Disconnected });
    world.connect(&mut old, 2);
    assert_eq!(world.trusted(&old), [0, 1]);
    world.pass(QUARANTINE, &mut old);
    world.pass(Duration::ZERO, &mut new);
    assert_eq!(world.trusted(&old), [0, 1, 2]);
}

#[test]
fn a_restart_that_kept_the_data_is_quarantined_unless_every_write_is_synced() {
    for (durable, guard, expected) in [
        (false, RestartGuard::Evidence, vec![0, 1]),
        (true, RestartGuard::Evidence, vec![0, 1, 2]),
        (false, RestartGuard::Off, vec![0, 1, 2]),
    ] {
        let mut world = World::new(guard);
        world.nodes[2].durable = durable;
        world.client();
        world.restart(2, false);
        let new = world.client();
        assert_eq!(world.trusted(&new), expected, "{durable} {guard}");
        let again = world.client();
        assert_eq!(world.trusted(&again), expected, "and the next client sees the same");
    }
}

#[test]
fn a_flush_is_noticed_by_the_next_acquire() {
    let mut world = World::new(RestartGuard::Evidence);
    let mut fleet = world.client();
    let proposal = fleet.propose(world.now, true);
    world.nodes[0].table = LockTable::default();
    let nonce = *proposal.nodes[0].as_ref().unwrap();
    let key = LockKey::new(&Prefix::default(), "x").unwrap();
    let (token, fence) = (OwnerToken::from_bytes([1; 20]), proposal.fence);
    let acquire = Command::Acquire { key, token, node_ttl_ms: 1_000, nonce, fence, beside: None };
    let time = world.node_time(0);
    let reply = world.nodes[0].table.execute(time, &acquire);
    assert_eq!(reply.answer, Answer::Refused(Refusal::Stranger));
    fleet.handle(world.now, Input::Changed { node: world.index(0) });
    let told = world.serve(&mut fleet);
    assert!(told.contains(&Output::Distrust { node: world.index(0), forgot: true }), "{told:?}");
    assert_eq!(world.trusted(&fleet), [1, 2]);
    assert!(matches!(world.distrust(&fleet, 0), Distrust::Quarantined { .. }));
}

/// All nodes lose their memory one after another, each before the last one's quarantine is over.
#[test]
fn a_client_that_remembers_keeps_a_rolling_loss_from_looking_like_a_first_start() {
    let mut world = World::new(RestartGuard::Evidence);
    let mut old = world.client();
    for node in 0..3 {
        world.restart(node, true);
        old.handle(world.now, Input::Disconnected { node: world.index(node), fault: Fault::Disconnected });
        world.connect(&mut old, node);
        world.pass(secs(5), &mut old);
    }
    let new = world.client();
    assert_eq!(world.trusted(&new), [0; 0], "all are new, but they were seen before");
    // If nobody remembers, it cannot be told from a first start. Strict mode waits.
    for (guard, expected) in [(RestartGuard::Evidence, 3), (RestartGuard::Strict, 0)] {
        let mut world = World::new(guard);
        world.client();
        (0..3).for_each(|node| world.restart(node, true));
        assert_eq!(world.client().trusted(world.now), expected, "{guard}");
    }
}

/// A client dies after it has marked one node of a first start.
#[test]
fn anybody_may_finish_a_first_start_but_not_for_a_node_that_forgot_since() {
    for forgets in [false, true] {
        let mut world = World::new(RestartGuard::Evidence);
        let mut first = Fleet::new(world.settings.clone(), world.quorum, Prefix::default(), 1);
        for node in 0..3 {
            let facts = world.facts(node);
            first.handle(world.now, Input::Connected { node: world.index(node), facts });
        }
        let (mut marks, mut waited) = (0, false);
        loop {
            let Some(output) = first.poll_output() else {
                if std::mem::replace(&mut waited, true) {
                    break;
                }
                world.now = world.now + Duration::from_millis(2);
                first.handle(world.now, Input::Timeout);
                continue;
            };
            let Output::Send { node, command } = output else { continue };
            let is_mark =
                matches!(&command, Command::Record { swap: Some(Swap { expected: Some(_), .. }), .. });
            marks += usize::from(is_mark);
            if is_mark && marks > 1 {
                continue;
            }
            let time = world.node_time(node.get());
            let reply = world.nodes[node.get()].table.execute(time, &command);
            first.observe(world.now, node, world.now, &reply);
            first.handle(world.now, Input::Answer { node, answer: Ok(reply) });
        }
        assert!(marks >= 3, "{marks}");
        if forgets {
            world.restart(2, true);
        }
        let second = world.client();
        assert_eq!(world.trusted(&second), if forgets { vec![0, 1] } else { vec![0, 1, 2] });
    }
}

#[test]
fn from_a_majority_a_first_start_would_be_wrong() {
    let mut world = World::new(RestartGuard::Evidence);
    let hasty = |world: &World, seed| {
        Fleet::new(world.settings.clone(), world.quorum, Prefix::default(), seed).starting_fresh_with(2)
    };
    // The first client reaches the first two, and holds a lock there for all we know.
    let mut first = hasty(&world, 1);
    world.connect(&mut first, 0);
    world.connect(&mut first, 1);
    world.pass(Duration::from_millis(2), &mut first);
    assert_eq!(world.trusted(&first), [0, 1]);
    // One loss later a second client reaches the other two, all new to it.
    world.restart(1, true);
    let mut second = hasty(&world, 2);
    world.connect(&mut second, 1);
    world.connect(&mut second, 2);
    world.pass(Duration::from_millis(2), &mut second);
    assert_eq!(world.trusted(&second), [1, 2], "two holders after one loss");
}

#[test]
fn the_same_server_twice_votes_once() {
    let mut world = World::new(RestartGuard::Off);
    world.nodes[2].process = 0;
    let fleet = world.client();
    assert_eq!(world.trusted(&fleet), [0, 1]);
    assert!(
        matches!(world.distrust(&fleet, 2), Distrust::Unfit(reason) if reason.contains("same server as node 1"))
    );
}

/// Two processes with one history of writes, as servers of one replication group have.
#[test]
fn two_servers_of_one_replication_group_vote_once() {
    let mut world = World::new(RestartGuard::Off);
    world.nodes[2].copied = Some(1);
    let fleet = world.client();
    assert_eq!(world.trusted(&fleet), [0, 1]);
    assert!(
        matches!(world.distrust(&fleet, 2), Distrust::Unfit(reason) if reason.contains("node 2 in the list, or a copy"))
    );
}

#[test]
fn other_settings_are_refused_until_they_are_the_same() {
    let mut world = World::new(RestartGuard::Evidence);
    world.client();
    world.settings = world.settings.clone().fence_retention(secs(60));
    let other = world.client();
    assert_eq!(world.trusted(&other), [0; 0]);
    assert!(
        matches!(world.distrust(&other, 0), Distrust::Unfit(reason) if reason.contains("other settings"))
    );
}

#[test]
fn a_clock_far_from_a_majority_is_not_counted_at_first_sight_and_is_after_it_was_watched() {
    let mut world = World::new(RestartGuard::Evidence);
    let mut old = world.client();
    world.pass(secs(100), &mut old);
    world.nodes[1].clock_ms += 60_000;
    let mut new = world.client();
    assert_eq!(world.trusted(&new), [0, 2]);
    assert!(matches!(world.distrust(&new, 1), Distrust::ClockApart { by_us: 60_000_000, .. }));
    world.pass(secs(10), &mut old);
    assert!(
        matches!(world.distrust(&old, 1), Distrust::ClockJumped { .. }),
        "whoever was there saw the jump"
    );
    world.pass(QUARANTINE, &mut new);
    assert_eq!(world.trusted(&new), [0, 1, 2]);
    // Where no majority agrees, nobody can say who is wrong.
    world.nodes[2].clock_ms += 5_000;
    assert_eq!(world.client().trusted(world.now), 3);
}

#[test]
fn fences_begin_above_what_a_node_may_have_granted_before() {
    let mut world = World::new(RestartGuard::Off);
    let mut fleet = world.client();
    let fence_before = {
        world.pass(secs(20), &mut fleet);
        fleet.propose(world.now, true).fence.unwrap().fence
    };
    world.restart(0, true);
    let mut new = world.client();
    let proposal = new.propose(world.now, true);
    assert_eq!(proposal.nodes[0], Err(Fault::Untrusted(Distrust::FencesAhead)));
    assert!(proposal.nodes[1].is_ok() && proposal.nodes[2].is_ok());
    assert!(new.propose(world.now, false).nodes[0].is_ok(), "without a fence there is nothing to be above");
    world.pass(secs(11), &mut new);
    let proposal = new.propose(world.now, true);
    assert!(proposal.nodes[0].is_ok() && proposal.fence.unwrap().fence > fence_before);
}

#[test]
fn fences_are_forgotten_after_the_retention_by_the_nodes_own_clock() {
    let mut world = World::new(RestartGuard::Evidence);
    world.settings = world.settings.clone().fence_retention(secs(10));
    let mut fleet = world.client();
    let key = LockKey::new(&Prefix::default(), "x").unwrap();
    let proposal = fleet.propose(world.now, true);
    for (node, voter) in proposal.nodes.iter().enumerate() {
        let (time, token) = (world.node_time(node), OwnerToken::from_bytes([1; 20]));
        let (nonce, fence) = (*voter.as_ref().unwrap(), proposal.fence);
        let acquire =
            Command::Acquire { key: key.clone(), token, node_ttl_ms: 1_000, nonce, fence, beside: None };
        assert_eq!(world.nodes[node].table.execute(time, &acquire).answer, Answer::Granted);
    }
    let inspect = Command::Inspect { key };
    let remembered = |world: &mut World| -> Vec<usize> {
        let looked = (0..3).map(|node| {
            let time = world.node_time(node);
            world.nodes[node].table.execute(time, &inspect);
            world.nodes[node].table.fences(&Prefix::default())
        });
        looked.collect()
    };
    world.pass(secs(9), &mut fleet);
    assert_eq!(remembered(&mut world), [1, 1, 1]);
    world.nodes[1].clock_ms -= 5_000;
    world.pass(secs(2), &mut fleet);
    assert_eq!(remembered(&mut world), [0, 1, 0], "nobody asked for it");
}

/// It lost the last second, and was started again with settings under which it would not have.
#[test]
fn a_server_must_have_been_durable_before_it_was_restarted() {
    let mut world = World::new(RestartGuard::Evidence);
    world.client();
    world.restart(2, false);
    world.nodes[2].durable = true;
    let new = world.client();
    assert_eq!(world.trusted(&new), [0, 1]);
    // And must still be so, as far as anybody has seen.
    let mut world = World::new(RestartGuard::Evidence);
    world.nodes[2].durable = true;
    world.client();
    world.nodes[2].durable = false;
    world.client();
    world.nodes[2].durable = true;
    world.restart(2, false);
    let new = world.client();
    assert_eq!(world.trusted(&new), [0, 1]);
}

/// All nodes are emptied while a client is connected that remembers, but a new one is faster.
#[test]
fn a_client_that_remembers_undoes_a_first_start_that_was_none() {
    let mut world = World::new(RestartGuard::Evidence);
    let mut old = world.client();
    for node in 0..3 {
        world.nodes[node].table = LockTable::default();
    }
    world.client();
    for node in 0..3 {
        old.handle(world.now, Input::Changed { node: world.index(node) });
    }
    world.serve(&mut old);
    assert_eq!(world.trusted(&old), [0; 0]);
    let third = world.client();
    assert_eq!(world.trusted(&third), [0; 0], "the one that remembers has had its say");
    // One that remembers only what was long ago does not disturb a fleet that is in use.
    let mut world = World::new(RestartGuard::Evidence);
    let mut old = world.client();
    for node in 0..3 {
        old.handle(world.now, Input::Disconnected { node: world.index(node), fault: Fault::Disconnected });
        world.nodes[node].table = LockTable::default();
    }
    world.client();
    world.now = world.now + QUARANTINE;
    for node in 0..3 {
        world.connect(&mut old, node);
    }
    assert_eq!(world.trusted(&old), [0, 1, 2]);
}

/// An idle client judges by what the server told it before.
#[test]
fn an_idle_client_and_a_new_one_do_not_write_over_each_other() {
    let mut world = World::new(RestartGuard::Evidence);
    let mut idle = world.client();
    world.nodes[2].promoted = true;
    let mut new = world.client();
    let node = world.index(2);
    let mut lives = std::collections::BTreeSet::new();
    for _ in 0..60 {
        let at = world.now;
        world.pass(secs(5), &mut idle);
        world.now = at;
        world.pass(secs(5), &mut new);
        lives.insert(new.report(world.now, node).nonce);
    }
    assert_eq!(lives.len(), 1, "{lives:?}");
    assert!(new.report(world.now, node).trust.is_ok() && idle.report(world.now, node).trust.is_ok());
}
