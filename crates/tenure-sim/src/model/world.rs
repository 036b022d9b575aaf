//! A state of the small world: everything that decides what can happen next.
//!
//! Parts are shared between states until they change; the production structs are `Clone + Eq +
//! Hash`, so they are parts of the state as they are.

use std::collections::VecDeque;
use std::sync::LazyLock;

use tenure_core::client::{Addressee, Id, Tag};
use tenure_core::{
    Client, ClientId, Command, Facts, Fleet, Hold, Lease, Life, LockKey, LockTable, Mode, NodeTime, Owner,
    Prefix, Reply, Standing, Time,
};

use super::config::{Budget, Config};
use super::shared::Shared;

/// Nothing happens between two ticks.
pub(super) const TICK_MS: u64 = 50;

/// What nodes' clocks show at the first tick.
pub(super) const EPOCH_US: u64 = 1_700_000_000_000_000;

/// The number of the first lease of the other lock.
const NEIGHBOURS: u64 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// True time.
    pub(super) tick: u64,
    pub(super) clients: Vec<Shared<Process>>,
    pub(super) nodes: Vec<Shared<Node>>,
    /// The connection of client c to node n is number c * nodes + n.
    pub(super) links: Vec<Shared<Link>>,
    /// The faults that are still to come.
    pub(super) left: Budget,
    /// The fences of all acquisitions so far, in order, and how each had the lock.
    pub(super) fences: Vec<(u64, Mode)>,
    /// Two clients could count on the lock at one moment.
    pub(super) exclusion_broken: bool,
    /// An extension succeeded although another client had acquired the lock since.
    pub(super) extension_broken: bool,
    /// A fence was not larger than that of an acquisition which had succeeded before.
    pub(super) fence_broken: bool,
    /// A command changed what belonged to another owner.
    pub(super) ownership_broken: bool,
    pub(super) resource: Resource,
}

/// What the lock protects, as far as it is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Resource {
    /// The largest fence that it was shown.
    pub(super) claimed: u64,
    /// A write was accepted from one client while another held the lock.
    pub(super) overrun: bool,
    /// A write was accepted from one client while another held the lock, although fences are
    /// checked.
    pub(super) undercut: bool,
}

/// A client, and who calls it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    /// It is there: started and not dead.
    pub(super) alive: bool,
    pub(super) started: bool,
    pub(super) paused: bool,
    /// It has two callers at a time, which pass the lock on.
    pub(super) cohort: bool,
    /// For how many ticks its clock has stood still.
    pub(super) slept: u64,
    pub(super) client: Client,
    /// How many locks it has asked for, attempts it has made, and extensions of the present lock.
    pub(super) begun: u8,
    pub(super) attempts: u8,
    pub(super) extended: u8,
    /// The largest fence of all that had succeeded when its attempt began.
    pub(super) floor: u64,
    /// Another client has acquired the lock since this one did.
    pub(super) interrupted: bool,
    /// It has looked at its lock and is about to write.
    pub(super) about_to_write: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) table: LockTable,
    pub(super) process: u8,
    /// How far its clock is ahead.
    pub(super) ahead_us: i64,
    /// What it had in memory when it was last written to disk.
    pub(super) snapshot: Option<Box<LockTable>>,
    /// Commands of connections that are gone, which it still may execute.
    pub(super) strays: Vec<Command>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Link {
    /// As far as the client knows.
    pub(super) up: bool,
    /// There was a connection before.
    pub(super) used: bool,
    /// It is gone, and the client has not seen it yet.
    pub(super) broken: bool,
    pub(super) requests: VecDeque<Request>,
    pub(super) replies: VecDeque<Back>,
    /// What is on its way takes its time.
    pub(super) requests_held: bool,
    pub(super) replies_held: bool,
    /// What was sent and will never be answered.
    pub(super) lost: Vec<Addressee>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) tag: Tag,
    pub(super) command: Command,
    /// What is sent and executed together with it.
    pub(super) with: Vec<(Tag, Command)>,
}

/// What is on its way to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Back {
    Reply { tag: Tag, reply: Reply },
    Woken { number: u64, key: LockKey },
}

impl World {
    pub(super) fn new(config: &Config) -> Self {
        let quorum = config.quorum();
        let client = |index: usize| {
            let fleet = Fleet::new(config.settings(), quorum, Prefix::default(), 1_000 + index as u64);
            let fleet = fleet.starting_fresh_with(config.fresh_needs).untimed();
            Shared::new(Process {
                alive: false,
                started: false,
                paused: false,
                cohort: config.cohort,
                slept: 0,
                client: Client::new(clock(index, 0), fleet),
                begun: 0,
                attempts: 0,
                extended: 0,
                floor: 0,
                interrupted: false,
                about_to_write: false,
            })
        };
        let node = |index: usize| {
            Shared::new(Node {
                table: LockTable::default(),
                process: 0,
                ahead_us: config.ahead_ms.get(index).map_or(0, |ahead_ms| ahead_ms * 1_000),
                snapshot: None,
                strays: vec![],
            })
        };
        Self {
            tick: 0,
            clients: (0..config.clients).map(client).collect(),
            nodes: (0..config.servers()).map(node).collect(),
            links: vec![Shared::default(); config.clients * quorum.nodes()],
            left: config.faults,
            fences: vec![],
            exclusion_broken: false,
            extension_broken: false,
            fence_broken: false,
            ownership_broken: false,
            resource: Resource::default(),
        }
    }

    /// What a client's clock shows.
    pub(super) fn time(&self, client: usize) -> Time {
        clock(client, self.tick - self.clients[client].slept)
    }

    /// What a node's clock shows.
    pub(super) fn node_time(&self, config: &Config, node: usize) -> NodeTime {
        let elapsed_us = self.tick * TICK_MS * 1_000;
        let run_us = elapsed_us + elapsed_us * config.node_rate_percent / 100;
        NodeTime::from_micros((EPOCH_US + run_us).saturating_add_signed(self.nodes[node].ahead_us))
    }

    /// Whether a client may count on the lock now.
    pub(super) fn is_valid(&self, client: usize) -> bool {
        let state = &self.clients[client];
        let standing = state.lease().and_then(Lease::standing);
        state.alive
            && standing.is_some_and(|held| !held.is_lost() && !held.validity().is_over(self.time(client)))
    }

    /// Whom a client keeps out, or will.
    pub(super) fn mode(&self, client: usize) -> Mode {
        self.clients[client].lease().map(Lease::mode).unwrap_or_default()
    }

    /// Whether two clients that keep each other out may count on the lock now.
    pub(super) fn is_held_twice(&self) -> bool {
        let valid: Vec<usize> = (0..self.clients.len()).filter(|client| self.is_valid(*client)).collect();
        valid.iter().any(|one| valid.iter().any(|other| one < other && self.are_apart(*one, *other)))
    }

    /// Whether two clients keep each other out.
    pub(super) fn are_apart(&self, one: usize, other: usize) -> bool {
        let locks = |client: usize| self.clients[client].lease().map(|lease| lease.key().each());
        let (Some(of_one), Some(of_other)) = (locks(one), locks(other)) else { return false };
        of_one.iter().any(|lock| of_other.contains(lock)) && !self.mode(one).is_compatible(&self.mode(other))
    }

    pub(super) fn holders(&self) -> usize {
        (0..self.clients.len()).filter(|client| self.is_valid(*client)).count()
    }

    /// How many nodes may forget the lock that is held.
    pub(super) fn margin(&self) -> usize {
        let valid = (0..self.clients.len()).filter(|client| self.is_valid(*client));
        let margins =
            valid.filter_map(|client| self.clients[client].lease()?.standing().map(Standing::margin));
        margins.min().unwrap_or(0)
    }

    pub(super) fn exclusion_holds(&self) -> bool {
        !self.exclusion_broken && !self.resource.overrun
    }

    pub(super) fn fences_hold(&self) -> bool {
        !self.fence_broken && !self.resource.undercut
    }
}

/// The lock of the small world.
pub(super) static LOCK: LazyLock<LockKey> = LazyLock::new(|| named("x"));

/// The other one, which some worlds have; its fences nobody looks at.
pub(super) static NEIGHBOUR: LazyLock<LockKey> = LazyLock::new(|| named("y"));

fn named(name: &str) -> LockKey {
    LockKey::new(&Prefix::default(), name).expect("a short name")
}

/// What a client's clock shows after so many ticks. All are far apart.
fn clock(client: usize, ticks: u64) -> Time {
    Time::from_nanos((1_000_000 * (client as u64 + 1) + ticks * TICK_MS) * 1_000_000)
}

impl Process {
    /// What its lease is called: it has one at a time. Of two callers, the one that holds the lock,
    /// or asks for it.
    pub(super) fn id(&self) -> Id {
        let [first, second] = self.callers();
        let of = |id| self.client.lease(id);
        if of(first).is_none() && of(second).is_some() { second } else { first }
    }

    /// What the leases of its callers are called.
    pub(super) fn callers(&self) -> [Id; 2] {
        let begun = u64::from(self.begun);
        if self.cohort { [Id(10 * begun + 1), Id(10 * begun + 2)] } else { [Id(begun); 2] }
    }

    /// Whether a caller waits for another one of this client.
    pub(super) fn waits_locally(&self) -> bool {
        let [first, second] = self.callers();
        first != second && self.client.lease(first).is_some() && self.client.lease(second).is_some()
    }

    /// What the lease of the other lock is called that it asks for.
    pub(super) fn neighbour(&self) -> Id {
        Id(NEIGHBOURS + u64::from(self.begun))
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        self.client.lease(self.id())
    }
}

impl Node {
    pub(super) fn facts(&self, config: &Config, index: usize) -> Facts {
        let (process, lineage) = (format!("p{index}.{}", self.process), format!("l{index}.{}", self.process));
        let life = Some(Life { process: process.into(), lineage: lineage.into() });
        Facts { life, intact: config.believed, durable: config.durable, ..Facts::default() }
    }

    /// Who has the lock there, and until when.
    pub(super) fn owner(&self, now: NodeTime) -> Option<(Owner, u64)> {
        let keys = self.table.keys(now);
        keys.filter(|(key, _)| **key == *LOCK).map(|(_, entry)| (entry.owner, entry.ends_ms)).next()
    }

    /// The holds of those who have it together.
    pub(super) fn holds(&self, now: NodeTime) -> Vec<Hold> {
        self.table.holds(now, &LOCK)
    }

    /// The connection of a client is gone.
    pub(super) fn hang_up(&mut self, client: ClientId) {
        self.table.stop_listening(client);
    }
}
