//! One client process: a fleet, its leases and releases, and the duties of a driver.
//!
//! The order of things here is what a real driver must keep: a reply is shown to the fleet before it is counted; a
//! clean-up goes out before the next attempt on the same connections; distrust reaches every lease at once.

mod attempt;
mod connection;
mod line;
mod timer;

use std::collections::{BTreeMap, VecDeque};

use tenure_core::{
    Fault, Fleet, Handover, Lease, NodeSet, Nonce, Prefix, Release, RoundNumber, Terms, Ticket, Time, Waiters,
};

use crate::clock::ClientClock;
use crate::links::Link;
use crate::mutant::{BentLease, Mutant};
use crate::options::Options;
use crate::trace::Mark;
use crate::world::{ClientEvent, World};

/// A client process.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) life: u32,
    pub(crate) alive: bool,
    pub(crate) clock: ClientClock,
    pub(crate) fleet: Fleet,
    pub(crate) leases: Vec<Slot>,
    releases: Vec<Cleaning>,
    /// The connection to each node, while it is up as far as the client knows.
    pub(crate) links: Vec<Option<usize>>,
    /// The connection to each node that is being made.
    pub(crate) greeting: Vec<Option<usize>>,
    /// Which plan to connect to each node is in force.
    pub(crate) dials: Vec<u32>,
    pub(crate) paused: bool,
    /// The nodes that it can reach.
    pub(crate) reach: NodeSet,
    /// When it last went on after a pause.
    pub(crate) resumed_ns: Option<u64>,
    /// It will be paused when it has sent the commands of its next attempt.
    pub(crate) pause_armed: bool,
    pub(crate) inbox: VecDeque<ClientEvent>,
    pub(crate) wake_ns: Option<u64>,
    /// Nodes whose clock it has seen.
    pub(crate) watched: NodeSet,
    /// Nodes that have refused it because they belong to another fleet, or cannot be nodes.
    pub(crate) refused: NodeSet,
    pub(crate) leases_begun: u32,
    releases_begun: u32,
    pub(crate) waiters: Waiters<u32>,
    /// The place in line of each lease that has one.
    pub(crate) tickets: BTreeMap<u32, Ticket>,
    /// The largest fence that it was shown. Only a known-bad variant follows it.
    pub(crate) followed: u64,
}

/// A lease and what the workload means to do with it.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) id: u32,
    pub(crate) name: usize,
    pub(crate) lease: Lease,
    pub(crate) terms: Terms,
    /// When it asked for the lock, in true time, and when a majority of nodes had it in line.
    pub(crate) called_ns: u64,
    pub(crate) in_line_ns: Option<u64>,
    /// When the present attempt began, in true time.
    pub(crate) begun_ns: u64,
    pub(crate) extensions_left: u32,
    /// An extension was asked for that is not decided.
    pub(crate) asked: bool,
    /// The lease extends by itself at the moment.
    pub(crate) renewing: bool,
    /// The last renewal that was sent and is counted together with others.
    pub(crate) together: Option<RoundNumber>,
    /// The lock was handed over, and nothing is known about it yet.
    pub(crate) unproved: bool,
    /// The handover as it was when the lock was acquired, and the lives of the nodes it names: somebody may have kept it.
    pub(crate) copy: Option<(Handover, Vec<Nonce>)>,
    /// Nodes on which the key was put back, and that do not count yet.
    pub(crate) healed: NodeSet,
    /// When its key vanished from a node without anybody seeing it, in true time.
    pub(crate) evicted_ns: Vec<u64>,
    /// Grants of the present attempt.
    pub(crate) grants: u32,
    /// What only known-bad variants keep.
    pub(crate) bent: BentLease,
}

#[derive(Clone, Debug)]
struct Cleaning {
    id: u32,
    lease: u32,
    release: Release,
}

/// What the workload does next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Begin,
    Extend {
        lease: u32,
    },
    End {
        lease: u32,
    },
    /// Of a known-bad variant.
    TellLoss {
        lease: u32,
    },
}

impl Client {
    pub(crate) fn new(options: &Options, client: usize, clock: ClientClock, life: u32, seed: u64) -> Self {
        let quorum = options.quorum_of(client);
        let fleet = Fleet::new(options.settings_of(client), quorum, Prefix::default(), seed);
        Self {
            life,
            alive: false,
            clock,
            fleet,
            leases: vec![],
            releases: vec![],
            links: vec![None; options.nodes],
            greeting: vec![None; options.nodes],
            dials: vec![0; options.nodes],
            paused: false,
            reach: quorum.all(),
            resumed_ns: None,
            pause_armed: false,
            inbox: VecDeque::new(),
            wake_ns: None,
            watched: NodeSet::default(),
            refused: NodeSet::default(),
            leases_begun: 0,
            releases_begun: 0,
            waiters: Waiters::default(),
            tickets: BTreeMap::new(),
            followed: 0,
        }
    }

    pub(crate) fn slot(&mut self, lease: u32) -> Option<&mut Slot> {
        self.leases.iter_mut().find(|slot| slot.id == lease)
    }
}

impl World {
    pub(crate) fn handle_client_event(&mut self, client: usize, life: u32, event: ClientEvent) {
        let state = &mut self.clients[client];
        if !state.alive || state.life != life {
            return;
        }
        if state.paused {
            return state.inbox.push_back(event);
        }
        self.follow(client);
        let attempts = self.marks.count(Mark::Attempt);
        match event {
            ClientEvent::Reply { link, to, sent, reply, asked } => {
                let Link { broken, noticed, node, .. } = self.links[link];
                if !noticed && broken.is_none_or(|broken| broken.answers) {
                    self.links[link].pending.pop_front();
                    self.handle_reply(client, node, to, sent, reply, asked);
                }
            }
            ClientEvent::Unsent { node, to } => {
                self.deliver(client, node, to, Err(Fault::Unreachable("no connection".into())));
            }
            ClientEvent::Welcome { link, facts } => self.handle_welcome(client, link, facts),
            ClientEvent::Surveyed { link, facts } => self.handle_surveyed(client, link, facts),
            ClientEvent::Broken { link } => self.handle_broken(client, link),
            ClientEvent::Woken { link, number, key } => self.handle_woken(client, link, number, key),
            ClientEvent::Changed { link } => self.handle_changed(client, link),
            ClientEvent::Reconnect { node, dial } => {
                if self.clients[client].dials[node.get()] == dial {
                    self.connect(client, node);
                }
            }
            ClientEvent::Wake => self.handle_wake(client),
            ClientEvent::Act(act) => self.handle_act(client, act),
            ClientEvent::TakeOver { name, terms, handover, lives } => {
                self.take_over(client, name, *terms, handover, lives);
            }
        }
        self.clients[client].leases.retain(|slot| !slot.lease.is_ended());
        self.clients[client].releases.retain(|cleaning| cleaning.release.poll_timeout().is_some());
        self.plan_wake(client);
        let violation = self.loss.overdue(self.now_ns, client, self.clients[client].resumed_ns);
        self.judge(violation);
        if self.clients[client].pause_armed && self.marks.count(Mark::Attempt) > attempts {
            self.pause_client(client);
        }
    }

    /// Every lease waits for the nodes as their round trips suggest.
    pub(crate) fn follow(&mut self, client: usize) {
        if self.options.mutant != Some(Mutant::TimeoutFixed) {
            let Client { fleet, leases, .. } = &mut self.clients[client];
            leases.iter_mut().for_each(|slot| slot.lease.follow(fleet.patience()));
        }
    }

    pub(crate) fn time(&self, client: usize) -> Time {
        self.clients[client].clock.read(self.now_ns)
    }
}
