//! Clients of one list or another, which lock, extend and release the same name.

use std::collections::{BTreeMap, VecDeque};

use tenure_core::client::{Client, Id, Input, News, Output, Request, Tag};
use tenure_core::*;

use super::messages::{Link, To};
use super::{MAX_TTL, World, place};

pub(super) struct Process {
    pub(super) list: Vec<usize>,
    client: Client,
    /// The lease that it has or asks for, and how many there were.
    lease: Option<Id>,
    leases: u64,
    pub(super) links: BTreeMap<usize, Link>,
}

impl Process {
    pub(super) fn standing(&self) -> Option<&Standing> {
        self.lease.and_then(|id| self.client.lease(id)).and_then(Lease::standing)
    }
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
        let client = Client::new(self.now, fleet);
        self.clients.push(Process { list: list.clone(), client, lease: None, leases: 0, links });
        let client = self.clients.len() - 1;
        let off = self.off;
        list.into_iter().filter(|node| off != Some(*node)).for_each(|node| self.connect_client(client, node));
        self.take(client, Input::Tried { nodes: quorum.all() });
    }

    pub(super) fn disconnect_client(&mut self, client: usize, node: usize) {
        let Some(link) = self.clients[client].links.get_mut(&node).map(std::mem::take) else { return };
        let index = self.index(client, node);
        self.take(client, Input::Disconnected { node: index, fault: Fault::Disconnected });
        // What was under way is not answered any more.
        let replies = link.replies.into_iter().map(|(to, _)| to);
        for to in replies.chain(link.requests.into_iter().map(|(to, _)| to)) {
            if let To::Client(tag) = to {
                self.take(client, Input::Answer { node: index, tag, answer: Err(Fault::Disconnected) });
            }
        }
    }

    pub(super) fn connect_client(&mut self, client: usize, node: usize) {
        if self.clients[client].links.contains_key(&node) {
            let (node, facts) = (self.index(client, node), self.facts(node));
            self.take(client, Input::Connected { node, facts });
        }
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
        let process = &mut self.clients[client];
        process.leases += 1;
        let id = Id(process.leases);
        process.lease = Some(id);
        let lease = Lease::new(key, terms, process.client.quorum());
        process.client.request(self.now, Request::Acquire { id, lease });
        self.drain(client);
    }

    pub(super) fn give_back(&mut self) {
        let client = self.below(self.clients.len());
        if let Some(id) = self.clients[client].lease {
            self.clients[client].client.request(self.now, Request::Release { id });
            self.drain(client);
        }
    }

    pub(super) fn hear(&mut self, client: usize, node: usize, tag: Tag, reply: Reply) {
        self.seen.refused += usize::from(reply.answer == Answer::Refused(Refusal::Stranger));
        let node = self.index(client, node);
        self.take(client, Input::Answer { node, tag, answer: Ok(reply) });
    }

    pub(super) fn take(&mut self, client: usize, input: Input) {
        for input in [input, Input::Wake] {
            self.clients[client].client.handle(self.now, input);
            self.drain(client);
        }
    }

    fn drain(&mut self, client: usize) {
        let mut inputs = VecDeque::new();
        loop {
            let process = &mut self.clients[client];
            match process.client.poll_output() {
                Some(Output::Send { node, tag, command }) => {
                    inputs.extend(self.send(client, node, tag, command));
                }
                Some(Output::Renew(renewals)) => {
                    inputs.push_back(Input::Split { batch: renewals.batch });
                    for node in process.client.quorum().indexes() {
                        for (tag, command) in renewals.commands() {
                            inputs.extend(self.send(client, node, tag, command));
                        }
                    }
                }
                Some(Output::Draw { lease, proposal }) => {
                    let mut bytes = [0; 20];
                    bytes[..8].copy_from_slice(&self.next().to_be_bytes());
                    let entropy = Entropy { token: OwnerToken::from_bytes(bytes), dice: self.next() };
                    let input = Input::Attempt { lease, entropy, proposal };
                    self.clients[client].client.handle(self.now, input);
                }
                Some(Output::Survey { node }) => {
                    let listed = process.list[node.get()];
                    let facts = self.facts(listed);
                    inputs.push_back(Input::Surveyed { node, facts });
                }
                Some(Output::Tell { news: News::Acquired, .. }) => self.note_acquired(client),
                Some(Output::Tell { news: News::Extended, .. }) => self.seen.extended += 1,
                // It is forgotten, and its keys are left where they are.
                Some(Output::Tell { lease: id, news: News::State(HoldState::Lost) }) => {
                    process.client.request(self.now, Request::HandOver { id });
                }
                Some(Output::Ended { id } | Output::Refused { id, .. }) => {
                    process.lease = process.lease.filter(|lease| *lease != id);
                }
                Some(_) => {}
                None => {
                    let Some(input) = inputs.pop_front() else { break };
                    process.client.handle(self.now, input);
                }
            }
        }
    }

    fn note_acquired(&mut self, client: usize) {
        let (list, standing) = (self.clients[client].list.clone(), self.clients[client].standing());
        let fence = standing.and_then(Standing::fence).expect("it is held, and has a fence");
        self.fences.push(fence);
        self.note(&format!("held with the list {list:?}, fence {fence}"));
        let seen = &mut self.seen;
        *if list == self.old { &mut seen.held_on_old } else { &mut seen.held_on_new } += 1;
    }

    /// Sends a command, or says that it cannot be.
    fn send(&mut self, client: usize, node: NodeIndex, tag: Tag, command: Command) -> Option<Input> {
        let Process { list, links, .. } = &mut self.clients[client];
        let listed = list[node.get()];
        match links.get_mut(&listed).filter(|_| self.off != Some(listed)) {
            Some(link) => link.requests.push_back((To::Client(tag), command)),
            None => {
                let answer = Err(Fault::Unreachable("switched off".into()));
                return Some(Input::Answer { node, tag, answer });
            }
        }
        None
    }

    fn index(&self, client: usize, node: usize) -> NodeIndex {
        place(&self.clients[client].list, node).unwrap()
    }
}
