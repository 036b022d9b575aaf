//! Clients of one list or another, which lock, extend and release the same name.

use std::collections::BTreeMap;

use tenure_core::*;

use super::messages::{Link, To};
use super::{MAX_TTL, World, place};

pub(super) struct Client {
    pub(super) list: Vec<usize>,
    fleet: Fleet,
    pub(super) lease: Option<Lease>,
    leases: u64,
    fence: Fence,
    pub(super) links: BTreeMap<usize, Link>,
}

impl World {
    pub(super) fn add_client(&mut self, list: Vec<usize>) {
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
        for node in reached.into_iter().filter(|node| self.off != Some(*node)) {
            let (index, facts) = (self.index(client, node), self.facts(node));
            self.clients[client].fleet.handle(self.now, trust::Input::Connected { node: index, facts });
        }
        self.drain_fleet(client);
    }

    pub(super) fn disconnect_client(&mut self, client: usize, node: usize) {
        if !self.clients[client].links.contains_key(&node) {
            return;
        }
        let index = self.index(client, node);
        let Client { fleet, lease, links, .. } = &mut self.clients[client];
        links.insert(node, Link::default());
        let fault = Fault::Disconnected;
        fleet.handle(self.now, trust::Input::Disconnected { node: index, fault });
        if let Some(lease) = lease {
            lease.handle(self.now, lease::Input::Disconnected { node: index });
        }
    }

    pub(super) fn connect_client(&mut self, client: usize, node: usize) {
        if !self.clients[client].links.contains_key(&node) {
            return;
        }
        let (index, facts) = (self.index(client, node), self.facts(node));
        self.clients[client].fleet.handle(self.now, trust::Input::Connected { node: index, facts });
        self.drain_client(client);
    }

    pub(super) fn begin(&mut self) {
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

    pub(super) fn give_back(&mut self) {
        let client = self.below(self.clients.len());
        if let Some(lease) = &mut self.clients[client].lease {
            lease.handle(self.now, lease::Input::Release);
            self.drain_lease(client);
        }
    }

    pub(super) fn hear(&mut self, client: usize, node: usize, to: To, sent: Time, reply: Reply) {
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
        self.drain_client(client);
    }

    pub(super) fn fire_client(&mut self, client: usize) {
        let state = &mut self.clients[client];
        if state.fleet.poll_timeout().is_some_and(|at| at <= self.now) {
            state.fleet.handle(self.now, trust::Input::Timeout);
        }
        if let Some(lease) = &mut state.lease
            && lease.poll_timeout().is_some_and(|at| at <= self.now)
        {
            lease.handle(self.now, lease::Input::Timeout);
        }
        self.drain_client(client);
    }

    fn propose(&mut self, client: usize) {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.next().to_be_bytes());
        let entropy = Entropy { token: OwnerToken::from_bytes(bytes), dice: self.next() };
        let Client { fleet, lease, fence, .. } = &mut self.clients[client];
        let proposal = fleet.propose(self.now, true);
        *fence = proposal.fence.map_or(Fence::NONE, |proposed| proposed.fence);
        if let Some(lease) = lease {
            lease.handle(self.now, lease::Input::Attempt { entropy, proposal });
        }
    }

    fn drain_client(&mut self, client: usize) {
        self.drain_fleet(client);
        self.drain_lease(client);
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
                lease::Output::Acquired => self.note_acquired(client),
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

    fn note_acquired(&mut self, client: usize) {
        let Client { list, fence, .. } = &self.clients[client];
        let (list, fence) = (list.clone(), *fence);
        self.fences.push(fence);
        self.note(&format!("held with the list {list:?}, fence {fence}"));
        let seen = &mut self.seen;
        *if list == self.old { &mut seen.held_on_old } else { &mut seen.held_on_new } += 1;
    }

    fn send(&mut self, client: usize, node: NodeIndex, to: To, command: Command) {
        let (now, off) = (self.now, self.off);
        let Client { list, links, .. } = &mut self.clients[client];
        let node = list[node.get()];
        if let Some(link) = links.get_mut(&node).filter(|_| off != Some(node)) {
            link.requests.push_back((to, now, command));
        }
    }

    fn index(&self, client: usize, node: usize) -> NodeIndex {
        place(&self.clients[client].list, node).unwrap()
    }
}
