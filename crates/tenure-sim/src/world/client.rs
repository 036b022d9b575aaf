//! One client process: the production client with its connections and its clock, and what the
//! workload means to do with its leases.
//!
//! What a client does is in the core ([`tenure_core::Client`]). The world carries messages, time
//! and randomness to it, does what it says ([`outputs`]), and tells it what becomes of its
//! connections ([`connection`]), as they guarantee it ([`super::links`]).

mod connection;
mod outputs;

use std::collections::{BTreeSet, VecDeque};

use tenure_core::client::{Id, Input};
use tenure_core::{
    Client, Fleet, HandedOver, Lease, NodeSet, Nonce, OwnerToken, Prefix, RoundNumber, Standing, Terms, Time,
};

use super::clock::ClientClock;
use super::{ClientEvent, Event, World};
use crate::checker::Holder;
use crate::mutant::{BentClient, BentLease};
use crate::options::Options;
use crate::trace::Mark;

/// A client process.
#[derive(Clone, Debug)]
pub(crate) struct SimClient {
    pub(crate) generation: u32,
    pub(crate) alive: bool,
    pub(crate) clock: ClientClock,
    pub(crate) core: Client,
    pub(crate) slots: Vec<Slot>,
    /// The last one that has ended.
    pub(crate) ended: Option<Slot>,
    /// What its callers ask for that pass locks on among themselves.
    pub(crate) cohort_terms: Option<Terms>,
    /// The connection to each node, while it is up as far as the client knows.
    pub(crate) links: Vec<Option<usize>>,
    /// The connection to each node that is being made.
    pub(crate) greeting: Vec<Option<usize>>,
    /// Which plan to connect to each node is in force.
    pub(crate) dials: Vec<u32>,
    /// Nodes to which a first try to connect has ended.
    pub(crate) tried: NodeSet,
    pub(crate) paused: bool,
    pub(crate) paused_ns: u64,
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
    /// It has known enough nodes once; a connection may break before it asks for anything.
    pub(crate) knew_enough: bool,
    /// It has begun an attempt.
    pub(crate) begun: bool,
    /// How many commands it has sent that end an attempt or a lock.
    pub(crate) endings: u64,
    /// Locks that were released, of which the outcome is not known; and the end of all.
    pub(crate) awaited: BTreeSet<u32>,
    /// What only known-bad variants keep.
    pub(crate) bent: BentClient,
}

/// What the workload means to do with a lease.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) id: u32,
    pub(crate) name: usize,
    pub(crate) terms: Terms,
    /// When it asked for the lock, in true time, and when a majority of nodes had it in line.
    pub(crate) called_ns: u64,
    pub(crate) in_line_ns: Option<u64>,
    /// When the present attempt began, in true time.
    pub(crate) begun_ns: u64,
    /// How often it will still be extended; `None` until the lock is held and that is planned.
    pub(crate) extensions_left: Option<u32>,
    /// An extension was asked for that is not decided.
    pub(crate) asked: bool,
    /// The lease extends by itself at the moment.
    pub(crate) renewing: bool,
    /// The lock was handed over, and nothing is known about it yet.
    pub(crate) unproved: bool,
    /// The handover as it was when the lock was acquired, and the lives of the nodes it names:
    /// somebody may have kept it.
    pub(crate) copy: Option<(HandedOver, Vec<Nonce>)>,
    /// Nodes on which the key was put back, and that do not count yet.
    pub(crate) healed: NodeSet,
    /// It waits for this one of the same owner before it gives the lock up.
    pub(crate) inner: Option<Inner>,
    /// Another one of the same owner waits for it.
    pub(crate) is_inner: bool,
    /// Nodes that refused the present attempt because the name is another kind of lock, and whether
    /// that attempt has led to a pause.
    pub(crate) other_kind: NodeSet,
    pub(crate) pauses: bool,
    /// A child process knows the token.
    pub(crate) child: Option<OwnerToken>,
    /// When its key vanished from a node without anybody seeing it, in true time.
    pub(crate) evicted_ns: Vec<u64>,
    /// Grants of the present attempt.
    pub(crate) grants: u32,
    /// The last round that has ended, and in which event.
    pub(crate) ended: Option<(RoundNumber, u64)>,
    /// What only known-bad variants keep.
    pub(crate) bent: BentLease,
}

/// Whom the holder of a lock waits for, and how often it still goes on for that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    pub(crate) holder: Holder,
    pub(crate) patience: u32,
}

/// What the workload does next.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Begin,
    /// Ask for a lock with others of this client.
    Join {
        name: usize,
        terms: Box<Terms>,
    },
    /// Ask for a lock that another one of the same owner holds.
    Enter {
        name: usize,
        terms: Box<Terms>,
        outer: Holder,
    },
    /// Ask for a lock again that was another kind of lock.
    AskAgain {
        name: usize,
        terms: Box<Terms>,
    },
    /// The caller is gone.
    Cancel {
        lease: u32,
    },
    /// A child process releases a lock.
    ReleaseCopy {
        name: usize,
        token: OwnerToken,
    },
    Extend {
        lease: u32,
    },
    /// Share what was had alone.
    Share {
        lease: u32,
    },
    End {
        lease: u32,
    },
    /// Leave a lock as it is.
    Forget {
        lease: u32,
    },
    /// Of a known-bad variant.
    TellLoss {
        lease: u32,
    },
}

/// What the core calls a lease of ours.
pub(crate) fn id(lease: u32) -> Id {
    Id(lease.into())
}

/// What we call a lease of the core.
pub(crate) fn number(id: Id) -> u32 {
    u32::try_from(id.0).expect("ids are ours")
}

impl SimClient {
    pub(crate) fn new(
        options: &Options,
        client: usize,
        clock: ClientClock,
        generation: u32,
        seed: u64,
        now_ns: u64,
    ) -> Self {
        let quorum = options.quorum_of(client);
        let fleet = Fleet::new(options.settings_of(client), quorum, Prefix::default(), seed);
        Self {
            generation,
            alive: false,
            clock,
            core: Client::new(clock.read(now_ns), fleet),
            slots: vec![],
            ended: None,
            cohort_terms: None,
            links: vec![None; options.nodes],
            greeting: vec![None; options.nodes],
            dials: vec![0; options.nodes],
            tried: NodeSet::default(),
            paused: false,
            paused_ns: 0,
            reach: quorum.all(),
            resumed_ns: None,
            pause_armed: false,
            inbox: VecDeque::new(),
            wake_ns: None,
            watched: NodeSet::default(),
            refused: NodeSet::default(),
            leases_begun: 0,
            knew_enough: false,
            begun: false,
            endings: 0,
            awaited: BTreeSet::new(),
            bent: BentClient::default(),
        }
    }

    pub(crate) fn slot(&mut self, lease: u32) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.id == lease)
    }

    /// A lease that was begun and has not ended.
    pub(crate) fn lease(&self, lease: u32) -> Option<&Lease> {
        self.core.lease(id(lease))
    }

    /// What another process needs to go on with a lock of it.
    pub(crate) fn handover(&mut self, lease: u32, now_ns: u64) -> Option<HandedOver> {
        self.core.lease_mut(id(lease))?.handover(self.clock.read(now_ns))
    }

    /// The slot of whoever has what this lease acquired.
    pub(crate) fn present_slot(&mut self, lease: Id) -> Option<&mut Slot> {
        let present = number(self.core.present(lease));
        self.slot(present)
    }

    /// How a lock of it stands.
    pub(crate) fn standing(&self, lease: u32) -> Option<&Standing> {
        self.lease(lease)?.standing()
    }
}

impl World {
    pub(crate) fn handle_client_event(&mut self, client: usize, generation: u32, event: ClientEvent) {
        if self.take_in(client, generation, event) {
            self.settle(client);
        }
    }

    /// Tells a client what has reached it; what is due is left to [`World::settle`]. `false` if it
    /// takes nothing in.
    pub(crate) fn take_in(&mut self, client: usize, generation: u32, event: ClientEvent) -> bool {
        let state = &mut self.clients[client];
        if !state.alive || state.generation != generation {
            return false;
        }
        if state.paused {
            state.inbox.push_back(event);
            return false;
        }
        let attempts = self.marks.count(Mark::Attempt);
        match event {
            ClientEvent::Reply { link, tag, reply, asked } => {
                if self.takes_answer(link) {
                    self.handle_reply(client, self.links[link].node, tag, reply, asked);
                }
            }
            ClientEvent::Replies { link, answers } => {
                if self.takes_answer(link) {
                    let node = self.links[link].node;
                    for (tag, reply, asked) in answers {
                        self.handle_reply(client, node, tag, reply, asked);
                    }
                }
            }
            ClientEvent::Write { link } => self.write(link),
            ClientEvent::Renewed { link, renewals, time } => {
                if self.takes_answer(link) {
                    self.handle_renewed(client, self.links[link].node, renewals, time);
                }
            }
            ClientEvent::Split { link, renewals, replies } => {
                if self.takes_answer(link) {
                    self.handle_split(client, self.links[link].node, &renewals, replies);
                }
            }
            ClientEvent::Unsent { node, tag, fault } => self.handle_no_answer(client, node, tag, fault),
            ClientEvent::Pretended { node, tag, reply } => self.handle_pretended(client, node, tag, reply),
            ClientEvent::Unreachable { node } => self.handle_unreachable(client, node),
            ClientEvent::Welcome { link, facts } => self.handle_welcome(client, link, facts),
            ClientEvent::Surveyed { link, facts } => self.handle_surveyed(client, link, facts),
            ClientEvent::Broken { link } => self.handle_broken(client, link),
            ClientEvent::Woken { link, number, key } => self.handle_woken(client, link, number, &key),
            ClientEvent::Changed { link } => self.handle_changed(client, link),
            ClientEvent::Reconnect { node, dial } => {
                if self.clients[client].dials[node.get()] == dial {
                    self.connect(client, node);
                }
            }
            ClientEvent::Wake => self.clients[client].wake_ns = None,
            ClientEvent::Act(act) => self.handle_act(client, act),
            ClientEvent::TakeOver { name, terms, handover, lives } => {
                self.take_over(client, name, *terms, handover, lives);
            }
        }
        if self.clients[client].pause_armed && self.marks.count(Mark::Attempt) > attempts {
            self.plan_wake(client);
            self.write_all(client);
            self.pause_client(client);
        }
        true
    }

    /// All that has reached a client is taken in: what is due is done, and the next moment planned.
    pub(crate) fn settle(&mut self, client: usize) {
        if self.clients[client].paused {
            return;
        }
        let attempts = self.marks.count(Mark::Attempt);
        self.tell(client, Input::Wake);
        self.note_known(client);
        self.plan_wake(client);
        let violation = self.loss.overdue(self.now_ns, client, self.clients[client].resumed_ns);
        self.judge(violation);
        if self.clients[client].pause_armed && self.marks.count(Mark::Attempt) > attempts {
            self.write_all(client);
            self.pause_client(client);
        }
    }

    pub(crate) fn plan_wake(&mut self, client: usize) {
        let now = self.time(client);
        let state = &self.clients[client];
        let Some(next) = state.core.poll_timeout(now) else { return };
        let generation = state.generation;
        let late_ns = if self.dice.chance(100) { self.dice.below(2_000_000) } else { 0 };
        let next_ns = (self.clients[client].clock.when(next) + late_ns).max(self.now_ns + 1_000);
        if self.clients[client].wake_ns.is_none_or(|wake_ns| next_ns < wake_ns) {
            self.clients[client].wake_ns = Some(next_ns);
            self.at(next_ns, Event::Timer { client, generation, at_ns: next_ns });
        }
    }

    /// Whether a timer that rings was set anew meanwhile, so that nothing happens.
    pub(crate) fn is_stale(&self, event: &Event) -> bool {
        matches!(*event, Event::Timer { client, generation, at_ns }
            if self.clients[client].generation != generation || self.clients[client].wake_ns != Some(at_ns))
    }

    pub(crate) fn time(&self, client: usize) -> Time {
        self.clients[client].clock.read(self.now_ns)
    }
}
