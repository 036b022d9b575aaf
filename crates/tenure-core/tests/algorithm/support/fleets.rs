//! Nodes that several fleets reach, each client with a list and settings of its own: what is sent
//! is executed and answered at once, unless a test says otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_core::trust::{Input, Output};
use tenure_core::*;

/// With the default `max_ttl` of a minute.
pub(crate) const QUARANTINE: Duration = Duration::from_secs(66);

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Node>,
    /// What is written down on the one machine that all clients with a memory share.
    pub(crate) disk: BTreeMap<usize, NodeMemory>,
    seeds: u64,
}

pub(crate) struct Node {
    pub(crate) table: LockTable,
    process: usize,
    pub(crate) durable: bool,
    pub(crate) reachable: bool,
}

pub(crate) struct Client {
    pub(crate) fleet: Fleet,
    /// Which of the world's nodes are in its list.
    pub(crate) list: Vec<usize>,
    remembers: bool,
    pub(crate) told: Vec<Output>,
}

/// Settings of a fleet with these nodes.
pub(crate) fn settings(list: &[usize]) -> Settings {
    Settings::new(MaxTtl::default(), Roster::of_names(list.iter().map(|node| format!("n{node}"))))
}

impl World {
    pub(crate) fn new(nodes: usize) -> Self {
        let node = |process| Node { table: LockTable::default(), process, durable: false, reachable: true };
        let nodes = (0..nodes).map(node).collect();
        Self { now: Time::from_nanos(5_000_000_000), nodes, disk: BTreeMap::new(), seeds: 0 }
    }

    /// A client of this list that has connected to all nodes it can reach.
    pub(crate) fn client(&mut self, list: &[usize]) -> Client {
        self.client_with(settings(list), list, false)
    }

    /// One that knows what others on its machine have written down.
    pub(crate) fn witness(&mut self, list: &[usize]) -> Client {
        self.client_with(settings(list), list, true)
    }

    pub(crate) fn client_with(&mut self, settings: Settings, list: &[usize], remembers: bool) -> Client {
        self.seeds += 1;
        let quorum = Quorum::of(list.len()).unwrap();
        let mut fleet = Fleet::new(settings, quorum, Prefix::default(), self.seeds * 1_000);
        if remembers {
            fleet = fleet.remembering(self.recall(list));
        }
        let mut client = Client { fleet, list: list.to_vec(), remembers, told: vec![] };
        for node in list {
            self.connect(&mut client, *node);
        }
        // What is asked a moment later to make sure.
        self.pass(Duration::from_millis(2), &mut client);
        client
    }

    pub(crate) fn connect(&mut self, client: &mut Client, node: usize) {
        if self.nodes[node].reachable {
            let facts = self.facts(node);
            client.fleet.handle(self.now, Input::Connected { node: client.index(node), facts });
            self.serve(client);
        }
    }

    pub(crate) fn disconnect(&mut self, client: &mut Client, node: usize) {
        let input = Input::Disconnected { node: client.index(node), fault: Fault::Disconnected };
        client.fleet.handle(self.now, input);
        self.serve(client);
    }

    /// The connection breaks and comes up again.
    pub(crate) fn reconnect(&mut self, client: &mut Client, node: usize) {
        self.disconnect(client, node);
        self.connect(client, node);
    }

    pub(crate) fn facts(&self, node: usize) -> Facts {
        let Node { process, durable, .. } = self.nodes[node];
        let life = Life { process: format!("p{process}").into(), lineage: format!("l{process}").into() };
        Facts { life: Some(life), durable, ..Facts::default() }
    }

    pub(crate) fn time(&self) -> NodeTime {
        NodeTime::from_micros(1_000_000_000_000_000 + self.now.as_nanos() / 1_000)
    }

    /// Executes what the client sends until it has nothing more to say.
    pub(crate) fn serve(&mut self, client: &mut Client) {
        while let Some(output) = client.fleet.poll_output() {
            match output {
                Output::Send { node, command } => {
                    let index = client.list[node.get()];
                    let reply = {
                        let time = self.time();
                        self.nodes[index].table.execute(time, &command)
                    };
                    client.fleet.observe(self.now, node, self.now, &reply);
                    client.fleet.handle(self.now, Input::Answer { node, answer: Ok(reply) });
                }
                Output::Survey { node } => {
                    let facts = self.facts(client.list[node.get()]);
                    client.fleet.handle(self.now, Input::Surveyed { node, facts });
                }
                Output::Remember { memory } => {
                    assert!(client.remembers);
                    self.write_down(&client.list, memory);
                    let memory = self.recall(&client.list);
                    client.fleet.handle(self.now, Input::Remembered { memory });
                }
                news => client.told.push(news),
            }
        }
    }

    fn write_down(&mut self, list: &[usize], memory: Vec<NodeMemory>) {
        for (node, told) in list.iter().zip(memory) {
            let known = self.disk.entry(*node).or_default();
            known.lives.extend(told.lives);
            if told.ours || told.foreign.is_some() {
                known.foreign = told.foreign;
            }
        }
    }

    fn recall(&self, list: &[usize]) -> Vec<NodeMemory> {
        list.iter().map(|node| self.disk.get(node).cloned().unwrap_or_default()).collect()
    }

    pub(crate) fn pass(&mut self, time: Duration, client: &mut Client) {
        let end = self.now + time;
        while let Some(next) = client.fleet.poll_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            client.fleet.handle(self.now, Input::Timeout);
            self.serve(client);
        }
        self.now = end;
    }

    /// The node's server is started anew, without its data.
    pub(crate) fn empty(&mut self, node: usize) {
        self.nodes[node].process += 100;
        self.nodes[node].table = LockTable::default();
    }

    /// The node's server is started anew, with its data.
    pub(crate) fn restart(&mut self, node: usize) {
        self.nodes[node].process += 100;
    }

    /// Which of its nodes a client counts.
    pub(crate) fn trusted(&self, client: &Client) -> Vec<usize> {
        let voters = client.fleet.voters(self.now);
        let counted = |(index, _): &(usize, &usize)| voters.iter().any(|node| node.get() == *index);
        client.list.iter().enumerate().filter(counted).map(|(_, node)| *node).collect()
    }

    pub(crate) fn distrust(&self, client: &Client, node: usize) -> Distrust {
        client.fleet.report(self.now, client.index(node)).trust.unwrap_err()
    }

    /// The record that a node has.
    pub(crate) fn record(&mut self, node: usize) -> String {
        match self.read(node) {
            Answer::Record(Some(text)) => text.to_string(),
            other => panic!("no record: {other:?}"),
        }
    }

    /// A person takes the node out of its fleet.
    pub(crate) fn forget(&mut self, node: usize) {
        let (time, prefix, text) = (self.time(), Prefix::default(), self.record(node));
        let swap = trust::change::vacate(&text, self.now.as_nanos());
        self.nodes[node].table.execute(time, &Command::Record { prefix, swap });
    }

    /// Somebody has a lock on the node, set by this command, for as long as it can be.
    pub(crate) fn lock(&mut self, node: usize, command: impl Fn(LockKey, OwnerToken, u64) -> Command) {
        let (time, token) = (self.time(), OwnerToken::from_bytes([7; 20]));
        let command = command(LockKey::new(&Prefix::default(), "x").unwrap(), token, 1_000_000);
        assert_eq!(self.nodes[node].table.execute(time, &command).answer, Answer::Granted);
    }

    pub(crate) fn is_locked(&self, node: usize) -> bool {
        self.nodes[node].table.keys(self.time()).count() > 0
    }

    pub(crate) fn has_record(&mut self, node: usize) -> bool {
        matches!(self.read(node), Answer::Record(Some(_)))
    }

    fn read(&mut self, node: usize) -> Answer {
        let (time, prefix) = (self.time(), Prefix::default());
        self.nodes[node].table.execute(time, &Command::Record { prefix, swap: None }).answer
    }
}

impl Client {
    pub(crate) fn index(&self, node: usize) -> NodeIndex {
        let position = self.list.iter().position(|listed| *listed == node).unwrap();
        Quorum::of(self.list.len()).unwrap().indexes().nth(position).unwrap()
    }
}

/// The nonces of a memory.
pub(crate) fn nonces(memory: &NodeMemory) -> BTreeSet<Nonce> {
    memory.lives.iter().map(|life| life.nonce).collect()
}
