//! A fleet whose node list changes under its clients: real clients and lock tables. One number
//! decides which message travels next, who begins, who dies, and which node is emptied.
//!
//! There are three kinds of histories: one change that is run until it is done ([`World::once`]);
//! lists that wander there and back, changed by two at once, some of whom give up
//! ([`World::wandering`]); and such lists with nodes that are switched off for a while, changes
//! that stand still, and losses also where a list is only prepared ([`World::troubled`]).

mod clients;
mod coordinators;
mod messages;

use std::sync::Arc;
use std::time::Duration;

use clients::Process;
use coordinators::Coordinator;
pub(crate) use coordinators::Mistake;
use tenure_core::*;

/// The shortest that there is: the quarantine is a little longer.
const MAX_TTL: Duration = Duration::from_secs(1);

pub(crate) struct World {
    random: u64,
    now: Time,
    nodes: Vec<Node>,
    /// The list in use, and the one that it is changed to.
    old: Vec<usize>,
    new: Vec<usize>,
    /// All lists there are, if they wander.
    lists: Vec<Vec<usize>>,
    /// Those that have been in use.
    used: Vec<Vec<usize>>,
    wanders: bool,
    is_troubled: bool,
    clients: Vec<Process>,
    coordinators: Vec<Coordinator>,
    mistake: Mistake,
    /// How many nodes will still be emptied, and when one was last.
    losses: usize,
    lost_at: Time,
    /// How many nodes will still be switched off, and which one is.
    outages: usize,
    off: Option<usize>,
    /// Everybody who interferes is gone.
    calm: bool,
    /// The fences of successful acquisitions, in their order.
    fences: Vec<Fence>,
    pub(crate) seen: Sights,
    story: Vec<String>,
}

/// What a history has shown, so that a search which shows nothing is noticed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sights {
    pub(crate) held_on_old: usize,
    pub(crate) held_on_new: usize,
    pub(crate) extended: usize,
    pub(crate) refused: usize,
    pub(crate) emptied: usize,
    pub(crate) switched_off: usize,
    pub(crate) resumed: usize,
    pub(crate) done: usize,
}

struct Node {
    table: LockTable,
    process: usize,
}

impl World {
    /// One change, which is killed and run again, while one node is emptied.
    pub(crate) fn once(seed: u64, old: &[usize], new: &[usize], mistake: Mistake) -> Self {
        Self { mistake, ..Self::new(seed, &[old, new], 1) }
    }

    /// Changes from one of these lists to another, over and over.
    pub(crate) fn wandering(seed: u64, lists: &[&[usize]], losses: usize) -> Self {
        Self { wanders: true, ..Self::new(seed, lists, losses) }
    }

    /// The same, with more that goes wrong.
    pub(crate) fn troubled(seed: u64, lists: &[&[usize]]) -> Self {
        Self { is_troubled: true, outages: 4, ..Self::wandering(seed, lists, 4) }
    }

    fn new(seed: u64, lists: &[&[usize]], losses: usize) -> Self {
        let nodes = lists.iter().copied().flatten().max().unwrap() + 1;
        let node = |process| Node { table: LockTable::default(), process };
        let start = Time::from_nanos(5_000_000_000);
        Self {
            random: seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(1),
            now: start,
            nodes: (0..nodes).map(node).collect(),
            old: lists[0].to_vec(),
            new: lists[1].to_vec(),
            lists: lists.iter().map(|list| list.to_vec()).collect(),
            used: vec![lists[0].to_vec()],
            wanders: false,
            is_troubled: false,
            clients: vec![],
            coordinators: vec![],
            mistake: Mistake::None,
            losses,
            lost_at: start,
            outages: 0,
            off: None,
            calm: false,
            fences: vec![],
            seen: Sights::default(),
            story: vec![],
        }
    }

    /// Lets so many things happen, and tells what was broken, if anything.
    pub(crate) fn run(&mut self, steps: usize) -> Result<(), String> {
        // The fleet is in use before it is changed.
        self.add_client(self.old.clone());
        for _ in 0..200 {
            self.step(false);
            self.check()?;
        }
        for _ in 0..steps {
            self.step(true);
            self.check()?;
        }
        Ok(())
    }

    /// Everybody who interferes is gone: one more change is made.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        (self.calm, self.coordinators) = (true, vec![]);
        self.switch_on();
        // Nodes may have to be forgotten: clients of other lists are stopped before, as the message
        // says.
        let old = self.old.clone();
        self.clients.retain(|client| client.list == old);
        self.add_client(old);
        let done = self.seen.done;
        for _ in 0..40_000 {
            self.step(true);
            self.check()?;
            if self.seen.done > done {
                return Ok(());
            }
        }
        let records: Vec<String> =
            (0..self.nodes.len()).map(|node| format!("{:?}", self.record(node))).collect();
        let last = &self.story[self.story.len().saturating_sub(60)..];
        Err(format!("stuck\n{}\n{}", last.join("\n"), records.join("\n")))
    }

    fn check(&self) -> Result<(), String> {
        let holds = |client: &&Process| {
            client.standing().is_some_and(|standing| !standing.validity().is_over(self.now))
        };
        let holders: Vec<&Process> = self.clients.iter().filter(holds).collect();
        if holders.len() > 1 {
            let lists: Vec<&Vec<usize>> = holders.iter().map(|client| &client.list).collect();
            return Err(format!("two holders, with the lists {lists:?}\n{}", self.story.join("\n")));
        }
        match self.fences.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => Err(format!("fence {} after {}\n{}", pair[1], pair[0], self.story.join("\n"))),
            None => Ok(()),
        }
    }

    fn step(&mut self, changing: bool) {
        match self.below(100) {
            0..12 => {
                // Mostly a moment; now and then long enough for terms to end.
                let longest = if self.below(8) == 0 { 400 } else { 6 };
                let ms = 1 + self.below(longest) as u64;
                self.now = self.now + Duration::from_millis(ms);
                self.fire();
            }
            12..16 if self.clients.len() < 6 => {
                let list = if changing && self.below(2) == 0 { self.new.clone() } else { self.old.clone() };
                // Nobody is given the new list before its nodes are ready.
                if list == self.old || !self.calm && self.is_prepared() {
                    self.add_client(list);
                }
            }
            16..18 if self.clients.len() > 1 => {
                let client = self.below(self.clients.len());
                self.clients.remove(client);
            }
            18..26 => self.begin(),
            26..28 => self.give_back(),
            28 if changing && self.may_start() => self.start_coordinator(),
            30 if changing && !self.calm && !self.coordinators.is_empty() && self.below(6) == 0 => {
                self.kill_coordinator();
            }
            31 if changing && self.loses_memory() => self.empty(),
            32 if changing && self.outages > 0 && !self.calm => self.switch_off(),
            33 if changing && self.off.is_some() && self.below(4) == 0 => self.switch_on(),
            34 if changing && self.is_troubled && !self.coordinators.is_empty() && self.below(4) == 0 => {
                self.pause_coordinator();
            }
            _ => {
                for _ in 0..=self.below(8) {
                    self.deliver();
                }
            }
        }
    }

    fn is_prepared(&mut self) -> bool {
        let fresh: Vec<usize> = self.new.iter().copied().filter(|node| !self.old.contains(node)).collect();
        fresh.into_iter().all(|node| match self.record(node) {
            // Of a time before, perhaps.
            Answer::Record(Some(_)) if !self.is_troubled => true,
            Answer::Record(Some(text)) => text.contains(" phase=prepared:"),
            _ => false,
        })
    }

    /// Whether a node is emptied now. One after another: more at a time are not promised to be
    /// survived.
    fn loses_memory(&mut self) -> bool {
        if self.calm || self.losses == 0 || self.wanders && self.now < self.lost_at + 3 * MAX_TTL {
            return false;
        }
        self.below(if self.wanders { 2 } else { 4 }) == 0
    }

    fn empty(&mut self) {
        let losers = self.losers();
        let node = losers[self.below(losers.len())];
        (self.losses, self.lost_at) = (self.losses - 1, self.now);
        self.seen.emptied += 1;
        self.note(&format!("node {node} is emptied"));
        self.nodes[node] = Node { table: LockTable::default(), process: self.nodes[node].process + 100 };
        self.disconnect(node);
        self.connect(node);
    }

    /// Which nodes may be emptied. Those that were left do not come back empty.
    fn losers(&mut self) -> Vec<usize> {
        if !self.wanders {
            return (0..self.nodes.len()).collect();
        }
        let mut losers = self.old.clone();
        if self.is_troubled {
            for node in self.new.clone() {
                let record = self.record(node);
                let is_prepared = |text: &Arc<str>| text.contains(" phase=prepared:");
                if matches!(record, Answer::Record(Some(text)) if is_prepared(&text)) {
                    losers.push(node);
                }
            }
            losers.retain(|node| self.off != Some(*node));
        }
        losers
    }

    /// A node is switched off with what it has, which it will still have when it is switched on
    /// again.
    fn switch_off(&mut self) {
        let node = self.below(self.nodes.len());
        if self.off.is_some() {
            return;
        }
        (self.off, self.outages) = (Some(node), self.outages - 1);
        self.seen.switched_off += 1;
        self.note(&format!("node {node} is switched off"));
        self.disconnect(node);
    }

    fn switch_on(&mut self) {
        let Some(node) = self.off.take() else { return };
        let restarted = self.below(2) == 0;
        self.nodes[node].process += if restarted { 100 } else { 0 };
        self.note(&format!("node {node} is switched on, as another process: {restarted}"));
        self.connect(node);
    }

    /// The connections to a node break.
    fn disconnect(&mut self, node: usize) {
        for client in 0..self.clients.len() {
            self.disconnect_client(client, node);
        }
        self.disconnect_coordinators(node);
    }

    fn connect(&mut self, node: usize) {
        for client in 0..self.clients.len() {
            self.connect_client(client, node);
        }
        self.connect_coordinators(node);
    }

    fn settings(list: &[usize]) -> Settings {
        let names = list.iter().map(|node| format!("n{node}"));
        Settings::new(MaxTtl::new(MAX_TTL).unwrap(), Roster::of_names(names))
    }

    fn record(&mut self, node: usize) -> Answer {
        let (time, prefix) = (self.time(), Prefix::default());
        self.nodes[node].table.execute(time, &Command::Record { prefix, swap: None }).answer
    }

    fn facts(&self, node: usize) -> Facts {
        let process = self.nodes[node].process;
        let life = Life { process: format!("p{process}").into(), lineage: format!("l{process}").into() };
        Facts { life: Some(life), ..Facts::default() }
    }

    fn time(&self) -> NodeTime {
        NodeTime::from_micros(1_000_000_000_000_000 + self.now.as_nanos() / 1_000)
    }

    fn note(&mut self, what: &str) {
        let at = self.now.as_nanos() / 1_000_000;
        self.story.push(format!("{at} ms: {what}"));
    }

    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}

/// Which place a node has in a list.
fn place(list: &[usize], node: usize) -> Option<NodeIndex> {
    let position = list.iter().position(|listed| *listed == node)?;
    Quorum::of(list.len()).unwrap().indexes().nth(position)
}
