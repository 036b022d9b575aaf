//! A handful of nodes and clients in one thread, with time that only moves when the test says so.
//!
//! Every command travels for half of its node's latency, is executed by a [`LockTable`], and its answer
//! travels back for the other half. A client has one connection to each node, which keeps the order of
//! commands also when the latency changes. A node can be down, silent, deaf for answers, or answer with errors.
#![allow(unreachable_pub, reason = "its names are for all modules of this program")]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tenure_core::*;

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

pub fn key(name: &str) -> LockKey {
    LockKey::new(&Prefix::default(), name).unwrap()
}

pub fn token(byte: u8) -> OwnerToken {
    OwnerToken::from_bytes([byte; 20])
}

pub fn node(quorum: Quorum, index: usize) -> NodeIndex {
    quorum.indexes().nth(index).unwrap()
}

/// An attempt that asks all nodes, as any Redlock client does.
pub fn attempt(quorum: Quorum, entropy: Entropy) -> lease::Input {
    lease::Input::Attempt { entropy, proposal: Proposal::plain(quorum) }
}

/// Options of ten seconds that try once; tests change what they are about.
pub fn options() -> Options {
    let mut options = Options::default();
    options.renewal = Renewal::Off;
    options.queued = false;
    options.ttl = ms(10_000);
    options.wait = Wait::No;
    options
}

/// The owner of a key that is not just set aside.
pub fn token_of(entry: &Entry) -> Option<OwnerToken> {
    match entry.owner {
        Owner::Token(token) => Some(token),
        Owner::Reserved(_) => None,
    }
}

pub fn terms(options: &Options) -> Terms {
    options.check(MaxTtl::default()).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Up,
    /// Refuses connections: the command is not sent and the client knows at once.
    Down,
    /// Requests vanish.
    Silent,
    /// Commands are executed, answers vanish.
    Deaf,
    /// Answers every command with an error.
    Broken,
}

pub struct Node {
    pub table: LockTable,
    pub mode: Mode,
    pub latency: Duration,
    /// Every command the node executed.
    pub log: Vec<Command>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Machine {
    Lease(usize),
    Release(usize),
}

type Answered = Result<Reply, Fault>;

enum Event {
    Request { machine: Machine, round: Option<RoundNumber>, node: usize, command: Command },
    Answer { machine: Machine, round: Option<RoundNumber>, node: usize, answer: Answered },
    Wake { client: usize, ticket: Ticket, node: usize },
}

/// A client's lease and what it told its caller.
pub struct Client {
    pub lease: Lease,
    pub told: VecDeque<lease::Output>,
    /// Commands it sent, with the time.
    pub sent: Vec<(Time, NodeIndex, Command)>,
    pub tokens: Vec<OwnerToken>,
    /// Its process is gone, or stands still.
    pub dead: bool,
}

pub struct Cluster {
    pub quorum: Quorum,
    pub nodes: Vec<Node>,
    pub clients: Vec<Client>,
    pub releases: Vec<Release>,
    /// What releases told: outcomes in order, and which nodes never confirmed.
    pub outcomes: Vec<ReleaseOutcome>,
    pub unconfirmed: Vec<NodeSet>,
    pub now: Time,
    events: BTreeMap<(Time, u64), Event>,
    /// Which client each release comes from: it travels on that client's connections.
    release_owners: Vec<usize>,
    /// When the last command of a client reaches a node.
    last_arrivals: BTreeMap<(usize, usize), Time>,
    sequence: u64,
    entropy: u64,
    /// The last ticket or fence.
    tickets: u64,
    /// Whether attempts propose fences.
    pub fenced: bool,
    /// How far the clocks of the nodes are ahead.
    pub ahead: Duration,
}

impl Cluster {
    pub fn of(nodes: usize) -> Self {
        let node = || Node { table: LockTable::default(), mode: Mode::Up, latency: ms(2), log: vec![] };
        Self {
            quorum: Quorum::of(nodes).unwrap(),
            nodes: std::iter::repeat_with(node).take(nodes).collect(),
            clients: vec![],
            releases: vec![],
            outcomes: vec![],
            unconfirmed: vec![],
            now: at(1_000),
            events: BTreeMap::new(),
            release_owners: vec![],
            last_arrivals: BTreeMap::new(),
            sequence: 0,
            entropy: 0,
            tickets: 0,
            fenced: false,
            ahead: Duration::ZERO,
        }
    }

    /// A new client that asks for "x". Returns its number.
    pub fn acquire(&mut self, options: &Options) -> usize {
        self.acquire_with(Lease::new(key("x"), terms(options), self.quorum))
    }

    pub fn acquire_with(&mut self, lease: Lease) -> usize {
        let dead = false;
        self.clients.push(Client { lease, told: VecDeque::new(), sent: vec![], tokens: vec![], dead });
        let client = self.clients.len() - 1;
        for node in &mut self.nodes {
            node.table.listen(ClientId::new(client as u64));
        }
        self.attempt(client, false);
        client
    }

    pub fn extend(&mut self, client: usize, options: &Options) {
        let term = terms(options).term;
        self.input(client, lease::Input::Extend(term));
    }

    pub fn input(&mut self, client: usize, input: lease::Input) {
        self.clients[client].lease.handle(self.now, input);
        self.drain(client);
    }

    /// Tells every release that the node can be reached again.
    pub fn reconnect(&mut self, node: NodeIndex) {
        for release in 0..self.releases.len() {
            self.releases[release].handle(self.now, release::Input::Connected { node });
            self.drain_release(release);
        }
    }

    /// Lets `duration` pass.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.step();
        }
        self.now = end;
    }

    /// Everybody who may count on the lock now.
    pub fn holders(&self) -> Vec<usize> {
        let valid = |client: &Client| {
            client.lease.standing().is_some_and(|standing| !standing.validity().is_over(self.now))
        };
        (0..self.clients.len()).filter(|client| valid(&self.clients[*client])).collect()
    }

    /// The owners on the nodes, `None` where the key is free.
    pub fn owners(&self) -> Vec<Option<OwnerToken>> {
        let now = self.node_time();
        self.nodes
            .iter()
            .map(|node| node.table.keys(now).next().and_then(|(_, entry)| token_of(entry)))
            .collect()
    }

    pub fn keys(&self) -> usize {
        self.owners().iter().flatten().count()
    }

    pub fn standing(&self, client: usize) -> &Standing {
        self.clients[client].lease.standing().expect("the client holds the lock")
    }

    pub fn valid_for(&self, client: usize) -> Duration {
        self.standing(client).validity().left(self.now)
    }

    /// A key of somebody else on this node.
    pub fn occupy(&mut self, node: usize, owner: OwnerToken, node_ttl_ms: u64) {
        let (now, key) = (self.node_time(), key("x"));
        self.nodes[node].table.execute(now, &Command::plain_acquire(key, owner, node_ttl_ms));
    }

    /// The last thing the client was told, other than late votes.
    pub fn told(&mut self, client: usize) -> Option<lease::Output> {
        let told = &mut self.clients[client].told;
        told.retain(|output| {
            !matches!(
                output,
                lease::Output::Widened | lease::Output::State(_) | lease::Output::Waiting { .. }
            )
        });
        told.pop_front()
    }

    pub fn cause(&mut self, client: usize) -> Option<Cause> {
        match self.told(client) {
            Some(lease::Output::NotAcquired(NotAcquired { cause, .. })) => Some(cause),
            _ => None,
        }
    }

    fn node_time(&self) -> NodeTime {
        NodeTime::from_micros((self.now + self.ahead).as_nanos() / 1_000)
    }

    fn next_time(&self) -> Option<Time> {
        let event = self.events.keys().next().map(|(time, _)| *time);
        let alive = self.clients.iter().filter(|client| !client.dead);
        let leases = alive.filter_map(|client| client.lease.poll_timeout());
        let releases = self.releases.iter().filter_map(Release::poll_timeout);
        leases.chain(releases).chain(event).min()
    }

    fn step(&mut self) {
        for client in 0..self.clients.len() {
            if !self.clients[client].dead
                && self.clients[client].lease.poll_timeout().is_some_and(|time| time <= self.now)
            {
                self.input(client, lease::Input::Timeout);
            }
        }
        for release in 0..self.releases.len() {
            if self.releases[release].poll_timeout().is_some_and(|time| time <= self.now) {
                self.releases[release].handle(self.now, release::Input::Timeout);
                self.drain_release(release);
            }
        }
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= self.now) {
            match entry.remove() {
                Event::Request { machine, round, node, command } => {
                    self.execute(machine, round, node, &command);
                }
                Event::Answer { machine, round, node, answer } => {
                    self.answer(machine, round, node, answer);
                }
                Event::Wake { client, ticket, node } => {
                    if self.clients[client].lease.ticket() == Some(ticket) {
                        let node = self::node(self.quorum, node);
                        self.input(client, lease::Input::Woken { node });
                    } else {
                        // As every driver does: who is not in line any more must not hold others up.
                        self.leave(client, node, ticket);
                    }
                }
            }
        }
    }

    fn leave(&mut self, client: usize, node: usize, ticket: Ticket) {
        let round = Some(RoundNumber::default());
        self.send(Machine::Lease(client), round, node, Command::Leave { key: key("x"), ticket });
    }

    /// A client can be woken no longer: its process is gone.
    pub fn kill(&mut self, client: usize) {
        for node in &mut self.nodes {
            node.table.stop_listening(ClientId::new(client as u64));
        }
        self.clients[client].dead = true;
    }

    fn execute(&mut self, machine: Machine, round: Option<RoundNumber>, node: usize, command: &Command) {
        let now = self.node_time();
        let Node { table, mode, latency, log } = &mut self.nodes[node];
        let answer = match mode {
            Mode::Down | Mode::Silent => return,
            Mode::Broken => Err(Fault::Error("ERR broken".into())),
            Mode::Up | Mode::Deaf => {
                log.push(command.clone());
                Ok(table.execute(now, command))
            }
        };
        let (arrives, mode) = (self.now + *latency / 2, *mode);
        let wakes: Vec<Ticket> = std::iter::from_fn(|| table.poll_wake()).map(|(_, ticket)| ticket).collect();
        if mode != Mode::Deaf {
            self.push(arrives, Event::Answer { machine, round, node, answer });
            for ticket in wakes {
                let client = self.client_of(ticket);
                if !self.clients[client].dead {
                    self.push(arrives, Event::Wake { client, ticket, node });
                }
            }
        }
    }

    fn client_of(&self, ticket: Ticket) -> usize {
        let is_its = |client: &usize| ClientId::new(*client as u64) == ticket.client;
        (0..self.clients.len()).find(is_its).expect("tickets are drawn by clients")
    }

    fn answer(&mut self, machine: Machine, round: Option<RoundNumber>, node: usize, answer: Answered) {
        let node = self::node(self.quorum, node);
        match (machine, round) {
            (Machine::Lease(client), Some(round)) => {
                let undoes = |release: &usize| {
                    self.release_owners[*release] == client
                        && self.releases[*release].acquire_round() == round
                };
                if let Some(release) = (0..self.releases.len()).find(undoes) {
                    let answer = answer.clone();
                    self.releases[release].handle(self.now, release::Input::AcquireAnswer { node, answer });
                    self.drain_release(release);
                }
                self.input(client, lease::Input::Answer { round, node, answer });
            }
            (Machine::Release(release), _) => {
                self.releases[release].handle(self.now, release::Input::Answer { node, answer });
                self.drain_release(release);
            }
            (Machine::Lease(_), None) => unreachable!("commands of a lease carry a round"),
        }
    }

    fn attempt(&mut self, client: usize, ticket: bool) {
        self.entropy += 1;
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.entropy.to_be_bytes());
        let token = OwnerToken::from_bytes(bytes);
        let dice = self.entropy.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.clients[client].tokens.push(token);
        let (entropy, mut proposal) = (Entropy { token, dice }, Proposal::plain(self.quorum));
        self.tickets = (self.tickets + 1).max(self.now.as_nanos() / 1_000);
        if self.fenced {
            let bounds = FenceBounds::new(Duration::from_secs(10), Duration::from_secs(3_600));
            proposal.fence = Some(ProposedFence::new(Fence::new(self.tickets), bounds));
        }
        if ticket {
            proposal.ticket = Some(Ticket { number: self.tickets, client: ClientId::new(client as u64) });
        }
        self.input(client, lease::Input::Attempt { entropy, proposal });
    }

    fn drain(&mut self, client: usize) {
        while let Some(output) = self.clients[client].lease.poll_output() {
            match output {
                lease::Output::Send { round, node, command } => {
                    self.clients[client].sent.push((self.now, node, command.clone()));
                    self.send(Machine::Lease(client), Some(round), node.get(), command);
                }
                lease::Output::CleanUp(release) => {
                    self.releases.push(*release);
                    self.release_owners.push(client);
                    self.drain_release(self.releases.len() - 1);
                }
                lease::Output::Propose { ticket, .. } => self.attempt(client, ticket),
                told => self.clients[client].told.push_back(told),
            }
        }
    }

    fn drain_release(&mut self, release: usize) {
        while let Some(output) = self.releases[release].poll_output() {
            match output {
                release::Output::Send { node, command } => {
                    self.send(Machine::Release(release), None, node.get(), command);
                }
                release::Output::Outcome { outcome, .. } => self.outcomes.push(outcome),
                release::Output::Done { unconfirmed } => self.unconfirmed.push(unconfirmed),
            }
        }
    }

    fn send(&mut self, machine: Machine, round: Option<RoundNumber>, node: usize, command: Command) {
        if self.nodes[node].mode == Mode::Down {
            let answer = Err(Fault::Unreachable("down".into()));
            self.push(self.now, Event::Answer { machine, round, node, answer });
        } else {
            let client = match machine {
                Machine::Lease(client) => client,
                Machine::Release(release) => self.release_owners[release],
            };
            let last = self.last_arrivals.entry((client, node)).or_insert(self.now);
            let arrives = (self.now + self.nodes[node].latency / 2).max(*last);
            *last = arrives;
            self.push(arrives, Event::Request { machine, round, node, command });
        }
    }

    fn push(&mut self, time: Time, event: Event) {
        self.sequence += 1;
        self.events.insert((time, self.sequence), event);
    }
}
