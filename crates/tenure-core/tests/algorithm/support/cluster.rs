//! A handful of nodes and clients in one thread, with time that only moves when the test says so.
//!
//! A client is the [`Client`] of production. Every command travels for half of its node's latency,
//! is executed by a [`LockTable`], and its answer travels back for the other half. A client has one
//! connection to each node, which keeps the order of commands also when the latency changes. A node
//! can be down, silent, deaf for answers, or answer with errors.
#![allow(unreachable_pub, reason = "its names are for all modules of this program")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tenure_core::client::{Addressee, Client, Id, Input, News, Output, Renewals, Request, Resuming, Tag};
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

/// An attempt that asks all nodes, as any Redlock client does: for tests of a lease alone.
pub fn attempt(quorum: Quorum, entropy: Entropy) -> lease::Input {
    lease::Input::Attempt { entropy, proposal: Proposal::plain(quorum) }
}

/// Options of ten seconds that try once, without a fence; tests change what they are about.
pub fn options() -> Options {
    let mut options = Options::default();
    options.renewal = Renewal::Off;
    options.fenced = false;
    options.queued = false;
    options.ttl = ms(10_000);
    options.wait = Wait::No;
    options
}

pub fn terms(options: &Options) -> Terms {
    options.check(MaxTtl::default()).unwrap()
}

/// How long a connection may be silent.
pub const STALL: Duration = ms(2_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    Up,
    /// Refuses connections: the command is not sent and the client knows at once.
    Down,
    /// Requests vanish. When nothing has come for [`STALL`], the connection counts as broken.
    Silent,
    /// Commands are executed, answers vanish; the connection breaks as well.
    Deaf,
    /// Answers every command with an error.
    Broken,
}

pub struct Node {
    pub table: LockTable,
    pub mode: Behaviour,
    pub latency: Duration,
    /// Every command about a lock that the node executed.
    pub log: Vec<Command>,
}

/// A client, and what it said and heard. Most have one lease, for "x".
pub struct Process {
    pub client: Client,
    pub told: VecDeque<News>,
    /// Commands of its leases, with the time.
    pub sent: Vec<(Time, NodeIndex, Command)>,
    pub tokens: Vec<OwnerToken>,
    /// It is gone, or stands still.
    stopped: bool,
    /// What has come meanwhile.
    missed: VecDeque<Input>,
    /// Where it has no connection.
    cut_off: NodeSet,
}

/// What happens to a client, and what it says, for whoever writes it down.
pub enum Said {
    Input(Input),
    Output(Output<Lease>),
}

/// Commands that were sent to a node together and are not answered yet.
struct Call {
    client: usize,
    node: NodeIndex,
    commands: Vec<(Tag, Command)>,
    batch: Option<Arc<Renewals>>,
}

enum Event {
    Arrival { call: u64 },
    Answers { call: u64, answers: Vec<Result<Reply, Fault>> },
    Input { client: usize, input: Input },
}

pub struct Cluster {
    pub quorum: Quorum,
    pub nodes: Vec<Node>,
    pub clients: Vec<Process>,
    /// What releases told: outcomes in order, and which nodes never confirmed.
    pub outcomes: Vec<ReleaseOutcome>,
    pub unconfirmed: Vec<NodeSet>,
    pub now: Time,
    /// How far the clocks of the nodes are ahead.
    pub ahead: Duration,
    /// All that was said, if somebody listens.
    pub said: Option<Vec<(Time, usize, Said)>>,
    events: BTreeMap<(Time, u64), Event>,
    calls: BTreeMap<u64, Call>,
    /// When the last command of a client reaches a node.
    last_arrivals: BTreeMap<(usize, NodeIndex), Time>,
    sequence: u64,
    entropy: u64,
}

/// The lease of a client that has only one.
pub const ONLY: Id = Id(1);

impl Cluster {
    /// Nodes that have been started for the first time a while ago.
    pub fn of(nodes: usize) -> Self {
        let mut cluster = Self::untouched(nodes);
        let founder = cluster.join();
        cluster.run(ms(100));
        cluster.kill(founder);
        cluster.clients.clear();
        cluster
    }

    /// Nodes that nobody has used yet.
    pub fn untouched(nodes: usize) -> Self {
        let node = || Node { table: LockTable::default(), mode: Behaviour::Up, latency: ms(2), log: vec![] };
        Self {
            quorum: Quorum::of(nodes).unwrap(),
            nodes: std::iter::repeat_with(node).take(nodes).collect(),
            clients: vec![],
            outcomes: vec![],
            unconfirmed: vec![],
            now: at(900),
            ahead: Duration::ZERO,
            said: None,
            events: BTreeMap::new(),
            calls: BTreeMap::new(),
            last_arrivals: BTreeMap::new(),
            sequence: 0,
            entropy: 0,
        }
    }

    /// A new client of this list of nodes, without connections. Returns its number.
    pub fn start(&mut self, roster: &str) -> usize {
        let settings = Settings::new(MaxTtl::default(), roster);
        self.entropy += 1;
        let fleet = Fleet::new(settings, self.quorum, Prefix::default(), self.entropy);
        self.clients.push(Process {
            client: Client::new(self.now, fleet),
            told: VecDeque::new(),
            sent: vec![],
            tokens: vec![],
            stopped: false,
            missed: VecDeque::new(),
            cut_off: self.quorum.all(),
        });
        self.clients.len() - 1
    }

    /// A new client that knows its nodes from a moment ago, when all of them answered.
    pub fn join(&mut self) -> usize {
        let (client, said) = (self.start("test"), self.said.take());
        self.quorum.indexes().for_each(|node| self.connect(client, node));
        self.input(client, Input::Tried { nodes: self.quorum.all() });
        while let Some((call, _)) = self.calls.iter().find(|(_, call)| call.client == client) {
            let call = *call;
            let answers = self.execute(call);
            self.answer(call, answers);
        }
        self.input(client, Input::Wake);
        self.said = said;
        client
    }

    /// A new client that asks for "x". Returns its number.
    pub fn acquire(&mut self, options: &Options) -> usize {
        self.acquire_with(Lease::new(key("x"), terms(options), self.quorum))
    }

    pub fn acquire_with(&mut self, lease: Lease) -> usize {
        let client = self.join();
        self.request(client, Request::Acquire { id: ONLY, lease });
        client
    }

    pub fn extend(&mut self, client: usize, options: &Options) {
        self.request(client, Request::Extend { id: ONLY, term: terms(options).term });
    }

    pub fn release(&mut self, client: usize) {
        self.request(client, Request::Release { id: ONLY });
    }

    pub fn abandon(&mut self, client: usize) {
        self.request(client, Request::Abandon { id: ONLY });
    }

    /// What another process needs to go on with a lock, which this one does no more.
    pub fn hand_over(&mut self, client: usize) -> Resuming {
        let resuming = self.resuming(client, ONLY);
        self.request(client, Request::HandOver { id: ONLY });
        resuming
    }

    pub fn resuming(&mut self, client: usize, id: Id) -> Resuming {
        let client = &mut self.clients[client].client;
        let lease = client.lease_mut(id).expect("it is under way");
        let handover = lease.handover(self.now).expect("it is held");
        let (key, lives) = (lease.key().clone(), client.fleet().lives(handover.members));
        Resuming { key, terms: terms(&options()), handover, lives }
    }

    /// A new client that goes on with what another has handed over.
    pub fn resume(&mut self, id: Id, resuming: &Resuming, options: &Options) -> usize {
        let (client, terms) = (self.join(), terms(options));
        let lease = Lease::new(resuming.key.clone(), terms.clone(), self.quorum);
        let resuming = Box::new(Resuming { terms, ..resuming.clone() });
        self.request(client, Request::Resume { id, lease, resuming });
        client
    }

    pub fn request(&mut self, client: usize, request: Request<Lease>) {
        self.clients[client].client.request(self.now, request);
        self.drain(client);
    }

    pub fn input(&mut self, client: usize, input: Input) {
        if self.clients[client].stopped {
            return self.clients[client].missed.push_back(input);
        }
        if let Some(said) = &mut self.said {
            said.push((self.now, client, Said::Input(input.clone())));
        }
        self.clients[client].client.handle(self.now, input);
        self.drain(client);
    }

    pub fn connect(&mut self, client: usize, node: NodeIndex) {
        let process = &mut self.clients[client];
        process.cut_off.remove(node);
        self.nodes[node.get()].table.listen(process.client.fleet().client());
        self.input(client, Input::Connected { node, facts: Facts::default() });
    }

    /// A connection breaks. Whatever was under way on it is not answered.
    pub fn disconnect(&mut self, client: usize, node: NodeIndex) {
        let process = &mut self.clients[client];
        process.cut_off.insert(node);
        self.nodes[node.get()].table.stop_listening(process.client.fleet().client());
        self.input(client, Input::Disconnected { node, fault: Fault::Disconnected });
        let lost = self.calls.iter().filter(|(_, call)| call.client == client && call.node == node);
        for call in lost.map(|(call, _)| *call).collect::<Vec<_>>() {
            let answers = vec![Err(Fault::Disconnected); self.calls[&call].commands.len()];
            self.answer(call, answers);
        }
    }

    pub fn reconnect(&mut self, client: usize, node: NodeIndex) {
        self.disconnect(client, node);
        self.connect(client, node);
    }

    /// A client stands still: what comes is taken in when it goes on.
    pub fn stop(&mut self, client: usize) {
        self.clients[client].stopped = true;
    }

    pub fn go_on(&mut self, client: usize) {
        self.clients[client].stopped = false;
        for input in std::mem::take(&mut self.clients[client].missed) {
            self.input(client, input);
        }
    }

    /// A client can be woken no longer: its process is gone.
    pub fn kill(&mut self, client: usize) {
        for node in &mut self.nodes {
            node.table.stop_listening(self.clients[client].client.fleet().client());
        }
        self.stop(client);
    }

    /// Lets `duration` pass.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= self.now) {
                match entry.remove() {
                    Event::Arrival { call } => self.arrive(call),
                    Event::Answers { call, answers } => self.answer(call, answers),
                    Event::Input { client, input } => self.input(client, input),
                }
            }
            for client in 0..self.clients.len() {
                if !self.clients[client].stopped {
                    self.clients[client].client.handle(self.now, Input::Wake);
                    self.drain(client);
                }
            }
            let Some(next) = self.next_time().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
        }
        self.now = end;
    }

    pub fn lease(&self, client: usize) -> &Lease {
        self.clients[client].client.lease(ONLY).expect("it is under way")
    }

    /// Everybody who may count on the lock now.
    pub fn holders(&self) -> Vec<usize> {
        let valid = |process: &Process| {
            let standing = process.client.lease(ONLY).and_then(Lease::standing);
            standing.is_some_and(|standing| !standing.validity().is_over(self.now))
        };
        (0..self.clients.len()).filter(|client| valid(&self.clients[*client])).collect()
    }

    /// The owners on the nodes, `None` where the key is free or only set aside.
    pub fn owners(&self) -> Vec<Option<OwnerToken>> {
        let owner = |node: &Node| match node.table.keys(self.node_time()).next()?.1.owner {
            Owner::Token(token) => Some(token),
            Owner::Kept(_) | Owner::Reserved(_) | Owner::Shared | Owner::Owned => None,
        };
        self.nodes.iter().map(owner).collect()
    }

    pub fn keys(&self) -> usize {
        self.owners().iter().flatten().count()
    }

    /// On how many nodes the key is kept from everyone.
    pub fn kept(&self) -> usize {
        let is_kept = |node: &&Node| {
            let first = node.table.keys(self.node_time()).next();
            first.is_some_and(|(_, entry)| matches!(entry.owner, Owner::Kept(_)))
        };
        self.nodes.iter().filter(is_kept).count()
    }

    pub fn standing(&self, client: usize) -> &Standing {
        self.lease(client).standing().expect("the client holds the lock")
    }

    pub fn valid_for(&self, client: usize) -> Duration {
        self.standing(client).validity().left(self.now)
    }

    /// Whether all that was to be cleaned up is.
    pub fn is_clean(&self) -> bool {
        self.clients.iter().all(|process| process.client.releases().next().is_none())
    }

    /// A key of somebody else on this node.
    pub fn occupy(&mut self, node: usize, owner: OwnerToken, node_ttl_ms: u64) {
        let (now, key) = (self.node_time(), key("x"));
        self.nodes[node].table.execute(now, &Command::plain_acquire(key, owner, node_ttl_ms));
    }

    /// Deletes the lock on this node, as a person may.
    pub fn delete(&mut self, node: usize) {
        let now = self.node_time();
        if let Some(token) = self.owners()[node] {
            self.nodes[node].table.execute(now, &Command::Undo { key: key("x"), token, requeue: None });
        }
    }

    /// The first thing the client was told and nobody looked at, other than how it stands.
    pub fn told(&mut self, client: usize) -> Option<News> {
        let told = &mut self.clients[client].told;
        told.retain(|news| !matches!(news, News::State(_) | News::Waiting { .. }));
        told.pop_front()
    }

    pub fn cause(&mut self, client: usize) -> Option<Cause> {
        match self.told(client) {
            Some(News::NotAcquired(NotAcquired { cause, .. })) => Some(cause),
            _ => None,
        }
    }

    pub fn node_time(&self) -> NodeTime {
        NodeTime::from_micros((self.now + self.ahead).as_nanos() / 1_000)
    }

    fn next_time(&self) -> Option<Time> {
        let event = self.events.keys().next().map(|(time, _)| *time);
        let running = self.clients.iter().filter(|process| !process.stopped);
        running.filter_map(|process| process.client.poll_timeout(self.now)).chain(event).min()
    }

    fn drain(&mut self, client: usize) {
        while let Some(output) = self.clients[client].client.poll_output() {
            if let Some(said) = &mut self.said {
                said.push((self.now, client, Said::Output(output.clone())));
            }
            match output {
                Output::Send { node, tag, command } => {
                    self.send(Call { client, node, commands: vec![(tag, command)], batch: None });
                }
                Output::Renew(renewals) => {
                    for node in self.quorum.indexes() {
                        let (commands, batch) = (renewals.commands().collect(), Some(Arc::clone(&renewals)));
                        self.send(Call { client, node, commands, batch });
                    }
                }
                Output::Draw { lease, proposal } => {
                    self.entropy += 1;
                    let mut bytes = [0; 20];
                    bytes[..8].copy_from_slice(&self.entropy.to_be_bytes());
                    let token = OwnerToken::from_bytes(bytes);
                    let dice = self.entropy.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let process = &mut self.clients[client];
                    process.tokens.push(token);
                    let entropy = Entropy { token, dice };
                    process.client.handle(self.now, Input::Attempt { lease, entropy, proposal });
                }
                Output::Survey { node } if self.clients[client].cut_off.contains(node) => {}
                Output::Survey { node } => {
                    let input = Input::Surveyed { node, facts: Facts::default() };
                    self.push(self.nodes[node.get()].latency, Event::Input { client, input });
                }
                Output::Tell { news, .. } => self.clients[client].told.push_back(news),
                Output::Released { outcome, .. } => self.outcomes.push(outcome),
                Output::CleanedUp { unconfirmed, .. } => self.unconfirmed.push(unconfirmed),
                _ => {}
            }
        }
    }

    fn send(&mut self, call: Call) {
        let (id, client, node) = (self.sequence + 1, call.client, call.node);
        let of_lease = call.commands.iter().filter(|(tag, _)| matches!(tag.to, Addressee::Lease { .. }));
        let of_lease = of_lease.map(|(_, command)| (self.now, node, command.clone()));
        self.clients[client].sent.extend(of_lease);
        let count = call.commands.len();
        self.calls.insert(id, call);
        let Node { mode, latency, .. } = self.nodes[node.get()];
        if mode == Behaviour::Down || self.clients[client].cut_off.contains(node) {
            let answers = vec![Err(Fault::Unreachable("connection refused".into())); count];
            self.push(Duration::ZERO, Event::Answers { call: id, answers });
        } else {
            let last = self.last_arrivals.entry((client, node)).or_insert(self.now);
            *last = (self.now + latency / 2).max(*last);
            let after = last.since(self.now);
            self.push(after, Event::Arrival { call: id });
        }
    }

    fn arrive(&mut self, call: u64) {
        let Some(Call { node, commands, .. }) = self.calls.get(&call) else { return };
        let Node { mode, latency, .. } = self.nodes[node.get()];
        let broken = vec![Err(Fault::Disconnected); commands.len()];
        let (after, answers) = match mode {
            Behaviour::Down | Behaviour::Silent => (STALL, broken),
            Behaviour::Broken => (latency / 2, vec![Err(Fault::Error("ERR broken".into())); commands.len()]),
            Behaviour::Up => (latency / 2, self.execute(call)),
            Behaviour::Deaf => {
                self.execute(call);
                (STALL, broken)
            }
        };
        self.push(after, Event::Answers { call, answers });
    }

    /// What a node answers to a call. Whoever it wakes hears of it, unless its answers vanish.
    fn execute(&mut self, call: u64) -> Vec<Result<Reply, Fault>> {
        let (now, Call { node, commands, .. }) = (self.node_time(), &self.calls[&call]);
        let (node, Node { table, mode, latency, log }) = (*node, &mut self.nodes[node.get()]);
        log.extend(commands.iter().map(|(_, command)| command.clone()).filter(|c| c.key().is_some()));
        let answers = commands.iter().map(|(_, command)| Ok(table.execute_natively(now, command))).collect();
        let wakes: Vec<(LockKey, Ticket)> = std::iter::from_fn(|| table.poll_wake()).collect();
        let (after, mode) = (*latency / 2, *mode);
        for (key, ticket) in wakes.into_iter().filter(|_| mode != Behaviour::Deaf) {
            let is_its = |process: &Process| process.client.fleet().client() == ticket.client;
            let client = self.clients.iter().position(is_its).expect("only listeners are woken");
            let input = Input::Woken { node, number: ticket.number, key: key.as_str().to_owned() };
            self.push(after, Event::Input { client, input });
        }
        answers
    }

    fn answer(&mut self, call: u64, answers: Vec<Result<Reply, Fault>>) {
        let Some(Call { client, node, commands, batch }) = self.calls.remove(&call) else { return };
        if let Some(renewals) = batch {
            let granted = |answer: &Result<Reply, Fault>| {
                answer.as_ref().is_ok_and(|reply| reply.answer == Answer::Granted)
            };
            if answers.iter().all(granted) {
                let time = answers[0].as_ref().ok().and_then(|reply| reply.time);
                return self.input(client, Input::Renewed { node, renewals, time });
            }
            self.input(client, Input::Split { batch: renewals.batch });
        }
        for ((tag, _), answer) in commands.into_iter().zip(answers) {
            self.input(client, Input::Answer { node, tag, answer });
        }
    }

    fn push(&mut self, after: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + after, self.sequence), event);
    }
}
