//! Whole clients and their nodes in one thread, with time that only moves when the test says so, and a
//! transcript of what was said.
//!
//! Every command travels for a millisecond, is executed by a [`LockTable`], and its answer travels back for
//! another, or for as long as the test says.
#![allow(unreachable_pub, reason = "its names are for all modules of this program")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::client::{Client, Id, Input, Output, Renewals, Request, Tag};
use tenure_core::*;

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub struct Node {
    pub table: LockTable,
    /// How long an answer is under way.
    pub back: Duration,
    /// It takes commands and answers none.
    pub hung: bool,
    /// It takes renewals as batches.
    pub batches: bool,
}

enum Event {
    Command { node: NodeIndex, tag: Tag, command: Command },
    Renew { node: NodeIndex, renewals: Arc<Renewals> },
    Input(Input),
}

pub struct World {
    pub now: Time,
    pub quorum: Quorum,
    pub nodes: Vec<Node>,
    pub clients: Vec<Client>,
    /// What was said, in words.
    pub transcript: String,
    /// What clients were told, and that a test may want to look at.
    pub told: Vec<(usize, Output<Lease>)>,
    events: BTreeMap<(Time, u64), (usize, Event)>,
    sequence: u64,
    /// The last line of the transcript without its nodes, to add another node to it.
    last: String,
}

impl World {
    /// So many clients and nodes, all connected.
    pub fn of(clients: usize, nodes: usize) -> Self {
        let (now, quorum) = (Time::from_nanos(0), Quorum::of(nodes).unwrap());
        let node = || Node { table: LockTable::default(), back: ms(1), hung: false, batches: true };
        let fleet = |seed| {
            Fleet::new(Settings::new(MaxTtl::default(), "test"), quorum, Prefix::default(), seed as u64)
        };
        let mut world = Self {
            now,
            quorum,
            nodes: std::iter::repeat_with(node).take(nodes).collect(),
            clients: (0..clients).map(|client| Client::new(now, fleet(client))).collect(),
            transcript: String::new(),
            told: vec![],
            events: BTreeMap::new(),
            sequence: 0,
            last: String::new(),
        };
        for client in 0..clients {
            quorum.indexes().for_each(|node| world.connect(client, node));
            world.input(client, Input::Tried { nodes: quorum.all() });
        }
        world
    }

    pub fn node(&self, index: usize) -> NodeIndex {
        self.quorum.indexes().nth(index).unwrap()
    }

    pub fn connect(&mut self, client: usize, node: NodeIndex) {
        let listener = self.clients[client].fleet().client();
        self.nodes[node.get()].table.listen(listener);
        self.input(client, Input::Connected { node, facts: Facts::default() });
    }

    pub fn disconnect(&mut self, client: usize, node: NodeIndex) {
        let listener = self.clients[client].fleet().client();
        self.nodes[node.get()].table.stop_listening(listener);
        self.input(client, Input::Disconnected { node, fault: Fault::Disconnected });
        // What was under way is answered with faults.
        let lost = |(other, event): &(usize, Event)| {
            *other == client
                && match event {
                    Event::Command { node: to, .. } | Event::Renew { node: to, .. } => *to == node,
                    Event::Input(Input::Answer { node: from, .. } | Input::Renewed { node: from, .. }) => {
                        *from == node
                    }
                    Event::Input(_) => false,
                }
        };
        let keys: Vec<_> = self.events.iter().filter(|(_, event)| lost(event)).map(|(key, _)| *key).collect();
        for key in keys {
            let tags: Vec<Tag> = match self.events.remove(&key) {
                Some((_, Event::Command { tag, .. } | Event::Input(Input::Answer { tag, .. }))) => vec![tag],
                Some((_, Event::Renew { renewals, .. } | Event::Input(Input::Renewed { renewals, .. }))) => {
                    renewals.tags().collect()
                }
                _ => vec![],
            };
            for tag in tags {
                self.input(client, Input::Answer { node, tag, answer: Err(Fault::Disconnected) });
            }
        }
    }

    /// Asks for a lock.
    pub fn acquire(&mut self, client: usize, id: u64, name: &str, options: &Options) {
        let key = LockKey::new(&Prefix::default(), name).unwrap();
        let lease = Lease::new(key, options.check(MaxTtl::default()).unwrap(), self.quorum);
        self.note(&format!("client {client}: acquire {name:?} as {id}"));
        self.request(client, Request::Acquire { id: Id(id), lease });
    }

    pub fn request(&mut self, client: usize, request: Request<Lease>) {
        self.clients[client].request(self.now, request);
        self.drain(client);
    }

    pub fn input(&mut self, client: usize, input: Input) {
        self.clients[client].handle(self.now, input);
        self.drain(client);
    }

    pub fn lease(&self, client: usize, id: u64) -> &Lease {
        self.clients[client].lease(Id(id)).expect("it is under way")
    }

    /// Lets `duration` pass.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.wake();
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (client, event) = entry.remove();
                self.happen(client, event);
            }
            self.wake();
        }
        self.now = end;
    }

    /// Writes a line of its own.
    pub fn note(&mut self, line: &str) {
        let millis = self.now.as_nanos() / 1_000_000;
        if !self.transcript.is_empty() {
            self.transcript.push('\n');
        }
        write!(self.transcript, "{millis} ms  {line}").unwrap();
        self.last.clear();
    }

    fn wake(&mut self) {
        (0..self.clients.len()).for_each(|client| self.input(client, Input::Wake));
    }

    fn next_time(&self) -> Option<Time> {
        let event = self.events.keys().next().map(|(time, _)| *time);
        let timeouts = self.clients.iter().filter_map(|client| client.poll_timeout(self.now));
        event.into_iter().chain(timeouts).min()
    }

    fn push(&mut self, after: Duration, client: usize, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + after, self.sequence), (client, event));
    }

    fn happen(&mut self, client: usize, event: Event) {
        match event {
            Event::Input(input) => self.input(client, input),
            Event::Command { node, tag, command } => {
                let reply = self.execute(node, &command);
                if !self.nodes[node.get()].hung {
                    let (back, answer) = (self.nodes[node.get()].back, Ok(reply));
                    self.push(back, client, Event::Input(Input::Answer { node, tag, answer }));
                }
            }
            Event::Renew { node, renewals } => {
                let replies: Vec<(Tag, Reply)> =
                    renewals.commands().map(|(tag, command)| (tag, self.execute(node, &command))).collect();
                if self.nodes[node.get()].hung {
                    return;
                }
                let (back, time) = (self.nodes[node.get()].back, replies[0].1.time);
                if replies.iter().all(|(_, reply)| reply.answer == Answer::Granted) {
                    return self.push(back, client, Event::Input(Input::Renewed { node, renewals, time }));
                }
                self.push(back, client, Event::Input(Input::Split { batch: renewals.batch }));
                for (tag, reply) in replies {
                    self.push(back, client, Event::Input(Input::Answer { node, tag, answer: Ok(reply) }));
                }
            }
        }
    }

    fn execute(&mut self, node: NodeIndex, command: &Command) -> Reply {
        let time = NodeTime::from_micros(1_000_000_000 + self.now.as_nanos() / 1_000);
        let reply = self.nodes[node.get()].table.execute(time, command);
        while let Some((key, ticket)) = self.nodes[node.get()].table.poll_wake() {
            let listens = |client: &Client| client.fleet().client() == ticket.client;
            let client = self.clients.iter().position(listens).expect("only listeners are woken");
            let woken = Input::Woken { node, number: ticket.number, key: key.as_str().to_owned() };
            self.push(self.nodes[node.get()].back, client, Event::Input(woken));
        }
        reply
    }

    fn drain(&mut self, client: usize) {
        while let Some(output) = self.clients[client].poll_output() {
            match output {
                Output::Send { node, tag, command } => {
                    if !matches!(command, Command::Record { .. } | Command::Trim { .. }) {
                        let name = command.key().map_or("", |key| key.name()).to_owned();
                        self.say_to(client, node, &format!("{} {name:?}", words(&command)));
                    }
                    self.push(ms(1), client, Event::Command { node, tag, command });
                }
                Output::Renew(renewals) => {
                    let locks: Vec<&str> = renewals.locks.iter().map(|(_, lock)| lock.key.name()).collect();
                    let what = format!("renew {locks:?}");
                    for node in self.quorum.indexes() {
                        self.say_to(client, node, &what);
                        if self.nodes[node.get()].batches {
                            let renewals = Arc::clone(&renewals);
                            self.push(ms(1), client, Event::Renew { node, renewals });
                        } else {
                            for (tag, command) in renewals.commands() {
                                self.push(ms(1), client, Event::Command { node, tag, command });
                            }
                            self.clients[client].handle(self.now, Input::Split { batch: renewals.batch });
                        }
                    }
                }
                Output::Draw { lease, proposal } => {
                    self.sequence += 1;
                    let mut bytes = [0; 20];
                    bytes[..8].copy_from_slice(&self.sequence.to_be_bytes());
                    let entropy = Entropy { token: OwnerToken::from_bytes(bytes), dice: self.sequence };
                    self.clients[client].handle(self.now, Input::Attempt { lease, entropy, proposal });
                }
                Output::Tell { lease, ref news } => {
                    self.note(&format!("client {client}: {} {}", lease.0, words(news)));
                    self.told.push((client, output));
                }
                Output::Ended { id, .. } => self.note(&format!("client {client}: {} ended", id.0)),
                Output::Released { lease, outcome, .. } => {
                    self.note(&format!("client {client}: {} {}", lease.0, words(outcome)));
                    self.told.push((client, output));
                }
                Output::CleanedUp { ref key, unconfirmed } => {
                    let line = match unconfirmed.len() {
                        0 => format!("client {client}: {:?} cleaned up", key.name()),
                        nodes => format!("client {client}: {:?} not cleaned up on {nodes}", key.name()),
                    };
                    self.note(&line);
                }
                Output::Survey { .. } | Output::Life { .. } | Output::Notice { .. } => {}
                output => self.told.push((client, output)),
            }
        }
    }

    fn say_to(&mut self, client: usize, node: NodeIndex, what: &str) {
        let line = format!("client {client}: {what} to {}", self.now.as_nanos());
        if self.last == line {
            write!(self.transcript, ", {}", node.get()).unwrap();
        } else {
            self.note(&format!("client {client}: {what} to node {}", node.get()));
        }
        self.last = line;
    }
}

/// The name of a variant, as words.
fn words(variant: impl std::fmt::Debug) -> String {
    let debug = format!("{variant:?}");
    let name = debug.split([' ', '(', '{']).next().unwrap_or_default();
    let spaced = name.chars().map(|c| if c.is_uppercase() { format!(" {c}") } else { c.to_string() });
    spaced.collect::<String>().trim().to_lowercase()
}
