//! A fleet whose node list changes again and again, there and back, by several people at once, some of whom give up: real fleets, leases and lock tables, in which one number decides which
//! message travels next, who begins, who dies, and which node is emptied.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tenure_core::trust::{ChangeNode, FleetChange, change};
use tenure_core::*;

/// The shortest that there is: the quarantine is a little longer.
const MAX_TTL: Duration = Duration::from_secs(1);

pub(crate) struct Wandering {
    random: u64,
    now: Time,
    nodes: Vec<Node>,
    old: Vec<usize>,
    new: Vec<usize>,
    clients: Vec<Client>,
    coordinators: Vec<Coordinator>,
    lists: Vec<Vec<usize>>,
    /// Those that have been in use.
    left: Vec<Vec<usize>>,
    /// When a node was emptied last.
    lost_at: Time,
    pub(crate) calm: bool,
    losses: usize,
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
    pub(crate) resumed: usize,
    pub(crate) done: usize,
}

struct Node {
    table: LockTable,
    process: usize,
}

struct Client {
    list: Vec<usize>,
    fleet: Fleet,
    lease: Option<Lease>,
    leases: u64,
    fence: Fence,
    links: BTreeMap<usize, Link>,
}

struct Coordinator {
    from: Vec<usize>,
    to: Vec<usize>,
    abort: bool,
    change: FleetChange,
    nodes: Vec<usize>,
    links: BTreeMap<usize, Link>,
}

/// One connection: what is sent arrives in order, and so do the answers.
#[derive(Default)]
struct Link {
    requests: VecDeque<(To, Time, Command)>,
    replies: VecDeque<(To, Time, Reply)>,
}

#[derive(Clone, Copy)]
enum To {
    Fleet,
    /// The lease with this number: each counts its rounds by itself.
    Lease(u64, RoundNumber),
    Nobody,
}

impl Wandering {
    pub(crate) fn new(seed: u64, lists: &[&[usize]], losses: usize) -> Self {
        let nodes = lists.iter().copied().flatten().max().unwrap() + 1;
        let (old, new) = (lists[0], lists[1]);
        let node = |process| Node { table: LockTable::default(), process };
        Self {
            random: seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(1),
            now: Time::from_nanos(5_000_000_000),
            nodes: (0..nodes).map(node).collect(),
            old: old.to_vec(),
            new: new.to_vec(),
            clients: vec![],
            coordinators: vec![],
            left: vec![old.to_vec()],
            lists: lists.iter().map(|list| list.to_vec()).collect(),
            lost_at: Time::from_nanos(5_000_000_000),
            calm: false,
            losses,
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

    fn check(&self) -> Result<(), String> {
        let holds = |client: &&Client| {
            let standing = client.lease.as_ref().and_then(Lease::standing);
            standing.is_some_and(|standing| !standing.validity().is_over(self.now))
        };
        let holders: Vec<&Client> = self.clients.iter().filter(holds).collect();
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
            28 if changing && self.coordinators.len() < 2 => self.start_coordinator(),
            30 if changing && !self.calm && !self.coordinators.is_empty() && self.below(6) == 0 => {
                self.note("a change is killed");
                let which = self.below(self.coordinators.len());
                self.coordinators.remove(which);
                self.seen.resumed += 1;
            }
            31 if changing
                && !self.calm
                && self.losses > 0
                && self.now >= self.lost_at + 3 * MAX_TTL
                && self.below(2) == 0 =>
            {
                self.empty();
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
        fresh.into_iter().all(|node| {
            let (time, prefix) = (self.time(), Prefix::default());
            let record = self.nodes[node].table.execute(time, &Command::Record { prefix, swap: None });
            matches!(record.answer, Answer::Record(Some(_)))
        })
    }

    fn settings(list: &[usize]) -> Settings {
        let names = list.iter().map(|node| format!("n{node}"));
        Settings::new(MaxTtl::new(MAX_TTL).unwrap(), Roster::of_names(names))
    }

    fn add_client(&mut self, list: Vec<usize>) {
        let quorum = Quorum::of(list.len()).unwrap();
        let seed = self.next();
        let fleet = Fleet::new(Self::settings(&list), quorum, Prefix::default(), seed);
        let mut links = BTreeMap::new();
        for node in &list {
            if self.clients.is_empty() || self.below(100) < 85 {
                links.insert(*node, Link::default());
            }
        }
        self.note(&format!("a client with the list {list:?} reaches {:?}", links.keys().collect::<Vec<_>>()));
        self.clients.push(Client { list, fleet, lease: None, leases: 0, fence: Fence::NONE, links });
        let client = self.clients.len() - 1;
        let reached: Vec<usize> = self.clients[client].links.keys().copied().collect();
        for node in reached {
            let (index, facts) = (self.index(client, node), self.facts(node));
            self.clients[client].fleet.handle(self.now, trust::Input::Connected { node: index, facts });
        }
        self.drain_fleet(client);
    }

    fn begin(&mut self) {
        let client = self.below(self.clients.len());
        if self.clients[client].lease.is_some() {
            return;
        }
        let mut options = Options::default();
        (options.ttl, options.wait, options.queued) = (MAX_TTL, Wait::No, false);
        // Some count on the term they were given, and never ask again.
        if self.below(2) == 0 {
            options.renewal = Renewal::Off;
        }
        let terms = options.check(MaxTtl::new(MAX_TTL).unwrap()).unwrap();
        let key = LockKey::new(&Prefix::default(), "x").unwrap();
        let quorum = Quorum::of(self.clients[client].list.len()).unwrap();
        self.clients[client].lease = Some(Lease::new(key, terms, quorum));
        self.clients[client].leases += 1;
        self.propose(client);
        self.drain_lease(client);
    }

    fn propose(&mut self, client: usize) {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.next().to_be_bytes());
        let entropy = Entropy { token: OwnerToken::from_bytes(bytes), dice: self.next() };
        let Client { fleet, lease, fence, .. } = &mut self.clients[client];
        let proposal = fleet.propose(self.now, true);
        *fence = proposal.fence.map_or(Fence::NONE, |claim| claim.fence);
        if let Some(lease) = lease {
            lease.handle(self.now, lease::Input::Attempt { entropy, proposal });
        }
    }

    fn give_back(&mut self) {
        let client = self.below(self.clients.len());
        if let Some(lease) = &mut self.clients[client].lease {
            lease.handle(self.now, lease::Input::Release);
            self.drain_lease(client);
        }
    }

    fn empty(&mut self) {
        // Nodes that were left do not come back empty.
        let which = self.below(self.old.len());
        let node = self.old[which];
        (self.losses, self.lost_at) = (self.losses - 1, self.now);
        self.seen.emptied += 1;
        self.note(&format!("node {node} is emptied"));
        self.nodes[node] = Node { table: LockTable::default(), process: self.nodes[node].process + 100 };
        let facts = self.facts(node);
        for client in 0..self.clients.len() {
            if self.clients[client].links.contains_key(&node) {
                let index = self.index(client, node);
                let fault = Fault::Disconnected;
                self.clients[client].links.insert(node, Link::default());
                self.clients[client]
                    .fleet
                    .handle(self.now, trust::Input::Disconnected { node: index, fault });
                if let Some(lease) = &mut self.clients[client].lease {
                    lease.handle(self.now, lease::Input::Disconnected { node: index });
                }
                let facts = facts.clone();
                self.clients[client].fleet.handle(self.now, trust::Input::Connected { node: index, facts });
                self.drain_fleet(client);
                self.drain_lease(client);
            }
        }
        for Coordinator { change, nodes, links, .. } in &mut self.coordinators {
            if let Some(index) = nodes.iter().position(|listed| *listed == node) {
                links.insert(node, Link::default());
                change.handle(self.now, change::Input::Disconnected { node: index });
                change.handle(self.now, change::Input::Connected { node: index, facts: facts.clone() });
            }
        }
        self.drain_change();
    }

    fn start_coordinator(&mut self) {
        let (mut from, mut to) = (self.old.clone(), self.new.clone());
        if !self.calm {
            if self.below(5) == 0 {
                let which = self.below(self.lists.len());
                to.clone_from(&self.lists[which]);
                self.new = if to == self.old { self.new.clone() } else { to.clone() };
            }
            if self.below(12) == 0 {
                // Somebody runs an old command again.
                let which = self.below(self.left.len());
                from.clone_from(&self.left[which]);
            }
        }
        let abort = self.below(4) == 0;
        if from == to {
            return;
        }
        let mut nodes = from.clone();
        nodes.extend(to.iter().filter(|node| !from.contains(node)));
        let place = |list: &[usize], node: usize| {
            let position = list.iter().position(|listed| *listed == node)?;
            Quorum::of(list.len()).unwrap().indexes().nth(position)
        };
        let parts = nodes.iter().map(|node| ChangeNode::new(place(&from, *node), place(&to, *node)));
        let (parts, seed) = (parts.collect(), self.next());
        let mut change =
            FleetChange::new(Self::settings(&from), Self::settings(&to), Prefix::default(), parts, seed);
        if abort {
            change = change.aborting();
        }
        self.note(&format!("the change from {from:?} to {to:?} is run, abort: {abort}"));
        let links = nodes.iter().map(|node| (*node, Link::default())).collect();
        for (index, node) in nodes.iter().enumerate() {
            let facts = self.facts(*node);
            change.handle(self.now, change::Input::Connected { node: index, facts });
        }
        self.coordinators.push(Coordinator { from, to, abort, change, nodes, links });
        self.drain_change();
    }

    /// A message travels on one of the connections.
    fn deliver(&mut self) {
        let mut links: Vec<(Result<usize, usize>, usize, bool)> = vec![];
        let of = |client: Result<usize, usize>, all: &BTreeMap<usize, Link>| {
            all.iter()
                .flat_map(move |(node, link)| {
                    let requests = (!link.requests.is_empty()).then_some((client, *node, true));
                    let replies = (!link.replies.is_empty()).then_some((client, *node, false));
                    requests.into_iter().chain(replies)
                })
                .collect::<Vec<_>>()
        };
        for (index, client) in self.clients.iter().enumerate() {
            links.extend(of(Ok(index), &client.links));
        }
        for (index, coordinator) in self.coordinators.iter().enumerate() {
            links.extend(of(Err(index), &coordinator.links));
        }
        if links.is_empty() {
            return;
        }
        let (who, node, is_request) = links[self.below(links.len())];
        let time = self.time();
        let link = match who {
            Ok(client) => self.clients[client].links.get_mut(&node),
            Err(run) => self.coordinators[run].links.get_mut(&node),
        };
        let Some(link) = link else { return };
        if is_request {
            let (to, sent, command) = link.requests.pop_front().unwrap();
            let reply = self.nodes[node].table.execute(time, &command);
            link.replies.push_back((to, sent, reply));
            return;
        }
        let (to, sent, reply) = link.replies.pop_front().unwrap();
        match who {
            Ok(client) => self.hear(client, node, to, sent, reply),
            Err(run) => {
                let Coordinator { change, nodes, .. } = &mut self.coordinators[run];
                let index = nodes.iter().position(|listed| *listed == node).unwrap();
                change.handle(self.now, change::Input::Answer { node: index, answer: Ok(reply) });
                self.drain_change();
            }
        }
    }

    fn hear(&mut self, client: usize, node: usize, to: To, sent: Time, reply: Reply) {
        let (now, index) = (self.now, self.index(client, node));
        let state = &mut self.clients[client];
        state.fleet.observe(now, index, sent, &reply);
        let stranger = reply.answer == Answer::Refused(Refusal::Stranger);
        match to {
            To::Fleet => state.fleet.handle(now, trust::Input::Answer { node: index, answer: Ok(reply) }),
            To::Lease(number, round) => {
                if let Some(lease) = state.lease.as_mut().filter(|_| number == state.leases) {
                    lease.handle(now, lease::Input::Answer { round, node: index, answer: Ok(reply) });
                }
            }
            To::Nobody => {}
        }
        if stranger {
            self.seen.refused += 1;
            self.clients[client].fleet.handle(now, trust::Input::Changed { node: index });
        }
        self.drain_fleet(client);
        self.drain_lease(client);
    }

    fn fire(&mut self) {
        for client in 0..self.clients.len() {
            let state = &mut self.clients[client];
            if state.fleet.poll_timeout().is_some_and(|at| at <= self.now) {
                state.fleet.handle(self.now, trust::Input::Timeout);
            }
            if let Some(lease) = &mut state.lease
                && lease.poll_timeout().is_some_and(|at| at <= self.now)
            {
                lease.handle(self.now, lease::Input::Timeout);
            }
            self.drain_fleet(client);
            self.drain_lease(client);
        }
        for Coordinator { change, .. } in &mut self.coordinators {
            if change.poll_timeout().is_some_and(|at| at <= self.now) {
                change.handle(self.now, change::Input::Timeout);
            }
        }
        self.drain_change();
    }

    fn drain_fleet(&mut self, client: usize) {
        while let Some(output) = self.clients[client].fleet.poll_output() {
            match output {
                trust::Output::Send { node, command } => self.send(client, node, To::Fleet, command),
                trust::Output::Survey { node } => {
                    let facts = self.facts(self.clients[client].list[node.get()]);
                    self.clients[client].fleet.handle(self.now, trust::Input::Surveyed { node, facts });
                }
                trust::Output::Distrust { node, forgot } => {
                    if let Some(lease) = &mut self.clients[client].lease {
                        lease.handle(self.now, lease::Input::Distrusted { node });
                        if forgot {
                            lease.handle(self.now, lease::Input::Disconnected { node });
                        }
                    }
                    self.drain_lease(client);
                }
                _ => {}
            }
        }
    }

    fn drain_lease(&mut self, client: usize) {
        let mut ended = false;
        while let Some(output) = self.clients[client].lease.as_mut().and_then(Lease::poll_output) {
            match output {
                lease::Output::Send { round, node, command } => {
                    let lease = self.clients[client].leases;
                    self.send(client, node, To::Lease(lease, round), command);
                }
                lease::Output::CleanUp(mut release) => {
                    while let Some(release::Output::Send { node, command }) = release.poll_output() {
                        self.send(client, node, To::Nobody, command);
                    }
                }
                lease::Output::Propose { .. } => self.propose(client),
                lease::Output::Acquired => {
                    let Client { list, fence, .. } = &self.clients[client];
                    let (list, fence) = (list.clone(), *fence);
                    self.fences.push(fence);
                    self.note(&format!("held with the list {list:?}, fence {fence}"));
                    let held = if list == self.old {
                        &mut self.seen.held_on_old
                    } else {
                        &mut self.seen.held_on_new
                    };
                    *held += 1;
                }
                lease::Output::Extended => self.seen.extended += 1,
                lease::Output::State(HoldState::Lost) => ended = true,
                _ => {}
            }
        }
        let over = |lease: &Lease| lease.is_ended();
        if ended || self.clients[client].lease.as_ref().is_some_and(over) {
            self.clients[client].lease = None;
        }
    }

    fn drain_change(&mut self) {
        let mut run = 0;
        while run < self.coordinators.len() {
            let Coordinator { from, to, abort, change, nodes, links } = &mut self.coordinators[run];
            match change.poll_output() {
                None => run += 1,
                Some(change::Output::Send { node, command }) => {
                    links.get_mut(&nodes[node]).unwrap().requests.push_back((To::Nobody, self.now, command));
                }
                Some(change::Output::Progress(progress)) => self.story.push(format!("  {to:?} {progress:?}")),
                Some(change::Output::Done) => {
                    self.story.push(format!("  the change from {from:?} to {to:?} is done, abort: {abort}"));
                    self.seen.done += usize::from(!*abort);
                    if !*abort && *from == self.old {
                        self.old.clone_from(to);
                        self.left.push(to.clone());
                        let others: Vec<Vec<usize>> =
                            self.lists.iter().filter(|list| **list != self.old).cloned().collect();
                        let other = self.below(others.len());
                        self.new.clone_from(&others[other]);
                    }
                    self.coordinators.remove(run);
                }
                Some(change::Output::Failed(refused)) => {
                    // A node that has a record of another list is forgotten, as the message says.
                    if let change::Refused::Foreign { node } | change::Refused::InUse { node } = &refused
                        && self.calm
                    {
                        let node = nodes[*node];
                        let (time, prefix) = (
                            NodeTime::from_micros(1_000_000_000_000_000 + self.now.as_nanos() / 1_000),
                            Prefix::default(),
                        );
                        let table = &mut self.nodes[node].table;
                        let read = Command::Record { prefix: prefix.clone(), swap: None };
                        if let Answer::Record(Some(text)) = table.execute(time, &read).answer {
                            let swap = change::vacate(&text, self.random);
                            table.execute(time, &Command::Record { prefix, swap });
                        }
                        self.story.push(format!("  node {node} is forgotten"));
                    }
                    // Who is told of another change finishes that, or gives it up.
                    if let change::Refused::Other { to: list } = &refused {
                        let numbers =
                            list.split(',').filter_map(|name| name.trim_start_matches('n').parse().ok());
                        let list: Vec<usize> = numbers.collect();
                        if self.calm && list != self.old {
                            self.new = list;
                        }
                    }
                    self.story.push(format!("  the change to {to:?} fails: {refused:?}"));
                    self.coordinators.remove(run);
                }
            }
        }
    }

    /// Everybody who interferes is gone: one more change is made.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        (self.calm, self.coordinators) = (true, vec![]);
        // Nodes may have to be forgotten: clients of other lists are stopped before, as the message says.
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
        let records: Vec<String> = (0..self.nodes.len())
            .map(|node| {
                let (time, prefix) = (self.time(), Prefix::default());
                let record = self.nodes[node].table.execute(time, &Command::Record { prefix, swap: None });
                format!("{:?}", record.answer)
            })
            .collect();
        Err(format!(
            "stuck\n{}\n{}",
            self.story[self.story.len().saturating_sub(60)..].join("\n"),
            records.join("\n")
        ))
    }

    fn send(&mut self, client: usize, node: NodeIndex, to: To, command: Command) {
        let now = self.now;
        let Client { list, links, .. } = &mut self.clients[client];
        if let Some(link) = links.get_mut(&list[node.get()]) {
            link.requests.push_back((to, now, command));
        }
    }

    fn index(&self, client: usize, node: usize) -> NodeIndex {
        let list = &self.clients[client].list;
        let position = list.iter().position(|listed| *listed == node).unwrap();
        Quorum::of(list.len()).unwrap().indexes().nth(position).unwrap()
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
