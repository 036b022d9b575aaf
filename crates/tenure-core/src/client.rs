//! What one client does: its leases, releases and questions, its waiters, renewals and timers, and
//! what it knows of its nodes.
//!
//! [`Client`] is the whole of it as a state machine. Callers [ask](Client::request), connections
//! and clocks [tell](Client::handle), and [outputs](Client::poll_output) say what to do, in the
//! order in which it has to happen. It does no IO, reads no clock and rolls no dice. The library
//! drives it with sockets, the simulator with a simulated network, and the model checker with every
//! order of events.
//!
//! # How to drive it
//! 1. After every call of [`Client::request`], [`Client::handle`], [`Client::observe`] and
//!    [`Client::deliver`], drain [`Client::poll_output`] before the next. [`Output::Draw`] is
//!    answered at once.
//! 2. When all that has come is taken in, [`Input::Wake`]; and again at the time of
//!    [`Client::poll_timeout`].
//! 3. `now` never goes back. It is read before the commands of a call leave, so an older reading is
//!    safe: a lock counts from then.
//!
//! # What a connection guarantees
//! - Commands to a node are executed in the order in which they were handed out, each at most once.
//!   Only acquires, extensions and releases of different locks may change places: a connection may
//!   [gather](crate::Gathered) them and send them together.
//! - Every command is answered at most once, with its tag. If the connection breaks,
//!   [`Input::Disconnected`] comes first, then a fault for every command whose answer is still out.
//!   A command that was not sent is answered with a fault that says so.
//! - A batch of renewals is granted as a whole ([`Input::Renewed`]), or is split ([`Input::Split`])
//!   and then answered one by one.
//! - Where the node can tell that its record was changed, [`Input::Changed`] comes before any
//!   answer that the node gave in its new life.
//! - [`Input::Woken`] comes for every lock that the node sets aside for a waiter of ours, unless
//!   the message is lost; and, where the node can tell, for one that a client of another library
//!   had, when that changes.
//!
//! ```
//! use tenure_core::client::{Client, Id, Input, News, Output, Request};
//! use tenure_core::*;
//!
//! let (quorum, mut now) = (Quorum::of(1)?, Time::from_nanos(0));
//! let fleet = Fleet::new(Settings::new(MaxTtl::default(), "docs"), quorum, Prefix::default(), 7);
//! let (mut client, mut table, mut held) = (Client::new(now, fleet), LockTable::default(), false);
//!
//! let terms = Options::default().check(MaxTtl::default())?;
//! let lease = Lease::new(LockKey::new(&Prefix::default(), "invoice:42")?, terms, quorum);
//! client.request(now, Request::Acquire { id: Id(1), lease });
//! let node = quorum.indexes().next().expect("there is one");
//! client.handle(now, Input::Connected { node, facts: Facts::default() });
//! client.handle(now, Input::Tried { nodes: quorum.all() });
//! while !held {
//!     while let Some(output) = client.poll_output() {
//!         match output {
//!             Output::Send { node, tag, command } => {
//!                 let time = NodeTime::from_micros(1_000_000 + now.as_nanos() / 1_000);
//!                 let answer = Ok(table.execute(time, &command));
//!                 client.handle(now, Input::Answer { node, tag, answer });
//!             }
//!             Output::Draw { lease, proposal } => {
//!                 let entropy = Entropy { token: OwnerToken::from_bytes([7; 20]), dice: 0 };
//!                 client.handle(now, Input::Attempt { lease, entropy, proposal });
//!             }
//!             Output::Tell { news, .. } => held = news == News::Acquired,
//!             _ => {}
//!         }
//!     }
//!     now = client.poll_timeout(now).map_or(now, |next| next.max(now));
//!     client.handle(now, Input::Wake);
//! }
//! assert!(client.lease(Id(1)).is_some_and(|lease| lease.standing().is_some()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cohorts;
mod debts;
mod input;
mod leases;
mod machines;
mod nodes;
mod outbox;
mod output;
mod queries;
mod releases;
mod renewals;
mod request;
mod requests;
mod shutdown;
mod tag;
#[cfg(test)]
mod tests;
mod timers;
mod waiters;
mod waking;

use std::collections::VecDeque;

use self::cohorts::Cohorts;
use self::debts::Debts;
pub use self::input::Input;
pub use self::leases::LeaseCell;
use self::leases::LeaseEntry;
use self::machines::Machines;
use self::outbox::Outbox;
pub use self::output::{Found, News, NotBegun, Output, Unfinished};
use self::queries::QueryEntry;
use self::releases::{ReleaseEntry, ReleaseId};
use self::renewals::Batches;
pub use self::renewals::Renewals;
pub use self::request::{Request, Resuming};
use self::requests::Polite;
use self::shutdown::Shutdown;
pub use self::tag::{Addressee, Id, Tag};
use self::timers::{Timer, Timers};
pub use self::waiters::Waiters;
use crate::lease::release::Release;
use crate::lease::{self, Lease};
use crate::round::{NodeSet, Quorum};
use crate::time::Time;
use crate::trust::{self, Fleet};

/// A client of a fleet, with leases that lie in an `L`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client<L = Lease> {
    /// Which nodes may vote.
    fleet: Fleet,
    fleet_timer: Option<Timer>,
    /// Nodes that were tried.
    tried: NodeSet,
    /// What came before the nodes were known and has to wait for them; `None` once they are.
    early: Option<Vec<Request<L>>>,
    /// When the nodes were first tried.
    begun: Time,
    /// Since when enough nodes may vote.
    enough_since: Option<Time>,
    /// Acquires that let their lock be passed on first, in the order in which they begin.
    polite: VecDeque<Polite<L>>,
    leases: Machines<Id, LeaseEntry<L>>,
    /// Also those that end a round of a lease that goes on: answers to the round are shown to them.
    releases: Machines<ReleaseId, ReleaseEntry>,
    queries: Machines<Id, QueryEntry>,
    timers: Timers,
    /// Those who wait in line.
    waiters: Waiters<Id>,
    /// Those who pass locks on among themselves.
    cohorts: Cohorts,
    batches: Batches,
    debts: Debts,
    /// Who wants to know when every node has been tried.
    settling: Vec<Id>,
    shutdown: Shutdown,
    outbox: Outbox<L>,
    /// A lease whose end was told last. It is gone with the next look at what to do.
    ending: Option<Id>,
    /// Room for what a lease says while it is handled, so that none keeps room of its own: many are
    /// held at once. Empty in between, as are the news.
    room: VecDeque<lease::Output>,
    told: Vec<News>,
}

/// Room for outputs of a client: [`Client::swap_room`].
#[derive(Debug)]
pub struct Room<L> {
    outbox: Outbox<L>,
    of_leases: VecDeque<lease::Output>,
    of_fleet: VecDeque<trust::Output>,
    told: Vec<News>,
}

impl<L> Default for Room<L> {
    fn default() -> Self {
        let (of_leases, of_fleet, told) = (VecDeque::new(), VecDeque::new(), vec![]);
        Self { outbox: Outbox(VecDeque::new()), of_leases, of_fleet, told }
    }
}

impl<L: LeaseCell> Client<L> {
    /// A client of this fleet that holds nothing.
    #[must_use]
    pub fn new(now: Time, fleet: Fleet) -> Self {
        Self {
            fleet,
            fleet_timer: None,
            tried: NodeSet::default(),
            early: Some(vec![]),
            begun: now,
            enough_since: None,
            polite: VecDeque::new(),
            leases: Machines::default(),
            releases: Machines::default(),
            queries: Machines::default(),
            timers: Timers::new(now),
            waiters: Waiters::default(),
            cohorts: Cohorts::default(),
            batches: Batches::default(),
            debts: Debts::default(),
            settling: vec![],
            shutdown: Shutdown::new(now),
            outbox: Outbox(VecDeque::new()),
            ending: None,
            room: VecDeque::new(),
            told: vec![],
        }
    }

    /// Takes what a caller asks at `now`; drain [`Client::poll_output`] afterwards.
    pub fn request(&mut self, now: Time, request: Request<L>) {
        self.handle_request(now, request);
    }

    /// Takes one input at `now`; drain [`Client::poll_output`] afterwards.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Attempt { lease, entropy, proposal } => {
                self.advance_lease(now, lease, lease::Input::Attempt { entropy, proposal });
            }
            Input::Answer { node, tag, answer } => self.answer(now, node, tag, answer),
            Input::Renewed { node, renewals, time } => self.handle_renewed(now, node, &renewals, time),
            Input::Split { batch } => self.split_batch(now, batch),
            Input::Connected { node, facts } => {
                self.shutdown.note_reached(node);
                self.advance_fleet(now, trust::Input::Connected { node, facts });
                self.handle_connected(now, node);
            }
            Input::Surveyed { node, facts } => {
                self.advance_fleet(now, trust::Input::Surveyed { node, facts });
            }
            Input::Disconnected { node, fault } => {
                self.advance_fleet(now, trust::Input::Disconnected { node, fault });
                self.handle_disconnected(now, node);
            }
            Input::Unreachable { node, fault } => {
                self.advance_fleet(now, trust::Input::Disconnected { node, fault });
            }
            Input::Changed { node } => self.advance_fleet(now, trust::Input::Changed { node }),
            Input::Woken { node, number, key } => self.handle_woken(now, node, number, &key),
            Input::Tried { nodes } => self.tried = nodes,
            Input::Recalled { memory } => {
                // Only now the nodes are tried.
                self.begun = now;
                if let Some(memory) = memory {
                    self.fleet.begin_with(memory);
                }
            }
            Input::Remembered { memory } => self.advance_fleet(now, trust::Input::Remembered { memory }),
            Input::Forgetful => self.advance_fleet(now, trust::Input::Forgetful),
            Input::Paused { meant } => self.fleet.note_pause(meant, now),
            Input::Wake => self.wake(now),
        }
    }

    /// What to do next, if anything. A lease that has ended can be looked at until this is called
    /// again.
    pub fn poll_output(&mut self) -> Option<Output<L>> {
        if let Some(id) = self.ending.take() {
            self.leases.remove(id);
        }
        let output = self.outbox.0.pop_front();
        if let Some(Output::Ended { id }) = &output {
            self.ending = Some(*id);
        }
        output
    }

    /// Lends the client room for its outputs, or takes it back. A caller with many clients keeps
    /// one room for all of them: swapped in before an input, and out when the outputs are drained.
    ///
    /// # Panics
    /// If the client has outputs: they would be lost.
    pub fn swap_room(&mut self, room: &mut Room<L>) {
        assert!(self.outbox.0.is_empty() && room.outbox.0.is_empty(), "outputs are drained before");
        std::mem::swap(&mut self.outbox, &mut room.outbox);
        std::mem::swap(&mut self.room, &mut room.of_leases);
        std::mem::swap(&mut self.told, &mut room.told);
        self.fleet.swap_outputs(&mut room.of_fleet);
    }

    /// What it knows of its nodes.
    #[must_use]
    pub const fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The quorum of its nodes.
    #[must_use]
    pub const fn quorum(&self) -> Quorum {
        self.fleet.quorum()
    }

    /// A lease that was begun and has not ended.
    #[must_use]
    pub fn lease(&self, id: Id) -> Option<&L> {
        self.leases.get(id).map(|entry| &entry.lease)
    }

    /// The same, to change what lies beside it.
    pub fn lease_mut(&mut self, id: Id) -> Option<&mut L> {
        self.leases.get_mut(id).map(|entry| &mut entry.lease)
    }

    /// The leases that were begun and have not ended, in order.
    #[must_use]
    pub fn leases(&self) -> Vec<Id> {
        self.leases.keys()
    }

    /// The releases under way, in the order of their leases.
    pub fn releases(&self) -> impl Iterator<Item = &Release> {
        self.releases.keys().into_iter().filter_map(|id| self.releases.get(id)).map(|entry| &entry.release)
    }

    /// Whether no lease is under way.
    #[must_use]
    pub fn holds_nothing(&self) -> bool {
        self.leases.is_empty()
    }

    /// How many leases wait in line, at the nodes or behind others of this client.
    #[must_use]
    pub fn in_line(&self) -> usize {
        self.waiters.count() + self.cohorts.waiting()
    }

    /// Whether nothing is under way any more: no lease, and no clean-up.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.leases.is_empty() && self.releases.is_empty()
    }

    /// Whether it matters which nodes have been [tried](Input::Tried).
    #[must_use]
    pub const fn awaits_nodes(&self) -> bool {
        self.early.is_some() || !self.settling.is_empty() || self.shutdown.is_awaited()
    }
}
