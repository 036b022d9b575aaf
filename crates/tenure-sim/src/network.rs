//! Connections. Each keeps the order of its commands and of its answers; a broken one loses answers, and what it
//! had taken may still arrive, late, unless the server was told to end it.

use std::collections::VecDeque;

use tenure_core::{ClientId, Command, NodeIndex, RoundNumber};

use crate::client::Client;
use crate::dice::Dice;
use crate::options::Options;
use crate::trace::Mark;
use crate::world::{ClientEvent, Event, World};

/// Who in a client sent a command and gets the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Fleet,
    Lease {
        lease: u32,
        round: RoundNumber,
    },
    Release {
        release: u32,
    },
    /// Nobody waits for the answer.
    Nobody,
}

/// One connection from one client process to one server process.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) client: usize,
    pub(crate) life: u32,
    pub(crate) node: NodeIndex,
    pub(crate) broken: Option<Broken>,
    /// The client has seen that it is gone.
    pub(crate) noticed: bool,
    /// What was sent and not answered, in order.
    pub(crate) pending: VecDeque<To>,
    request_ns: u64,
    reply_ns: u64,
}

/// What becomes of the messages that were under way when a connection broke.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken {
    /// Commands arrive so much later; `None` if they do not.
    pub(crate) strays_ns: Option<u64>,
    /// Answers that were under way arrive.
    pub(crate) answers: bool,
}

impl Link {
    pub(crate) const fn new(client: usize, life: u32, node: NodeIndex) -> Self {
        let pending = VecDeque::new();
        Self { client, life, node, broken: None, noticed: false, pending, request_ns: 0, reply_ns: 0 }
    }

    /// When a command that is sent now arrives: never before an earlier one.
    pub(crate) fn request_arrives(&mut self, now_ns: u64, delay_ns: u64) -> u64 {
        self.request_ns = self.request_ns.max(now_ns + delay_ns);
        self.request_ns
    }

    /// When an answer that is sent now arrives: never before an earlier one.
    pub(crate) fn reply_arrives(&mut self, now_ns: u64, delay_ns: u64) -> u64 {
        self.reply_ns = self.reply_ns.max(now_ns + delay_ns);
        self.reply_ns
    }
}

/// How long a message takes.
pub(crate) fn delay_ns(dice: &mut Dice, options: &Options) -> u64 {
    let spike = dice.chance(options.spike_per_mille);
    let max_us = if spike { options.spike_us } else { options.delay_us };
    dice.between(max_us * 100, max_us * 1_000)
}

impl World {
    pub(crate) fn connect_later(&mut self, client: usize, node: NodeIndex, within_ns: u64) {
        let cut_off = self.dice.chance(self.options.cut_off_per_mille);
        let most_ns = if cut_off { self.options.horizon_ns / 2 } else { within_ns };
        let pause_ns = self.dice.of_any_size(100_000, most_ns);
        let (life, event) = (self.clients[client].life, ClientEvent::Reconnect { node });
        self.at(self.now_ns + pause_ns, Event::Client { client, life, event });
    }

    pub(crate) fn connect(&mut self, client: usize, node: NodeIndex) {
        if !self.clients[client].reach.contains(node) {
            return;
        }
        let life = self.clients[client].life;
        self.links.push(Link::new(client, life, node));
        let link = self.links.len() - 1;
        let delay = delay_ns(&mut self.dice, &self.options);
        let arrives = self.links[link].request_arrives(self.now_ns, delay);
        self.at(arrives, Event::Hello { link });
    }

    pub(crate) fn handle_hello(&mut self, link: usize) {
        let Link { client, life, node, .. } = self.links[link];
        if self.links[link].broken.is_some() {
            return;
        }
        if !self.nodes[node.get()].up {
            return self.break_link(link, Broken { strays_ns: None, answers: false });
        }
        if self.options.kills {
            for older in 0..link {
                let state = &mut self.links[older];
                if (state.client, state.life, state.node) == (client, life, node) {
                    state.broken = Some(Broken { strays_ns: None, answers: false });
                }
            }
        }
        let facts = self.facts(link);
        if self.clients[client].life == life {
            let listener = self.clients[client].fleet.client();
            self.nodes[node.get()].table.listen(listener);
        }
        let delay = delay_ns(&mut self.dice, &self.options);
        let arrives = self.links[link].reply_arrives(self.now_ns, delay);
        self.at(arrives, Event::Client { client, life, event: ClientEvent::Welcome { link, facts } });
    }

    /// Asks a node's server about itself again, in the order of the connection.
    pub(crate) fn survey(&mut self, client: usize, node: NodeIndex) {
        let Some(link) = self.clients[client].links[node.get()] else { return };
        let delay = delay_ns(&mut self.dice, &self.options);
        let arrives = self.links[link].request_arrives(self.now_ns, delay);
        self.at(arrives, Event::Survey { link });
    }

    pub(crate) fn handle_survey(&mut self, link: usize) {
        let Link { client, life, .. } = self.links[link];
        if self.links[link].broken.is_none() {
            let facts = self.facts(link);
            let delay = delay_ns(&mut self.dice, &self.options);
            let arrives = self.links[link].reply_arrives(self.now_ns, delay);
            self.at(arrives, Event::Client { client, life, event: ClientEvent::Surveyed { link, facts } });
        }
    }

    pub(crate) fn break_any_link(&mut self) {
        let alive: Vec<usize> =
            (0..self.links.len()).filter(|link| self.links[*link].broken.is_none()).collect();
        if !alive.is_empty() {
            let link = self.dice.pick(&alive);
            let broken = self.any_break();
            self.break_link(link, broken);
        }
    }

    pub(crate) fn any_break(&mut self) -> Broken {
        let strays = self.options.strays && self.dice.chance(600);
        let strays_ns = strays.then(|| self.dice.of_any_size(100_000, self.options.max_ttl_ms * 1_000_000));
        Broken { strays_ns, answers: self.dice.chance(500) }
    }

    pub(crate) fn break_link(&mut self, link: usize, broken: Broken) {
        let notice_ns = self.dice.of_any_size(50_000, self.options.max_ttl_ms * 500_000);
        let state = &mut self.links[link];
        if state.broken.is_some() {
            if broken.strays_ns.is_none() {
                state.broken = Some(broken);
            }
            return;
        }
        state.broken = Some(broken);
        let (client, life, node) = (state.client, state.life, state.node.get());
        let noticed_ns = state.reply_arrives(self.now_ns, notice_ns);
        self.marks.see(Mark::LinkBroken);
        self.note(|| format!("connection of client {client}.{life} to node {node} breaks: {broken:?}"));
        self.at(noticed_ns, Event::Client { client, life, event: ClientEvent::Broken { link } });
        // The server notices at once as a rule, and sometimes late.
        let late_ns = if self.dice.chance(700) { 0 } else { self.options.max_ttl_ms * 1_000_000 };
        let listener = self.clients[client].fleet.client();
        self.at(self.now_ns + late_ns, Event::HangUp { link, listener });
    }

    pub(crate) fn handle_hang_up(&mut self, link: usize, listener: ClientId) {
        let Link { client, life, node, .. } = self.links[link];
        let same = |other: &Link| (other.client, other.life, other.node) == (client, life, node);
        // A newer connection of the same client listens on.
        if !self.links[link + 1..].iter().any(|other| same(other) && other.broken.is_none()) {
            self.nodes[node.get()].table.stop_listening(listener);
        }
    }

    /// Tells those for whom a lock was set aside.
    pub(crate) fn wake_waiters(&mut self, node: NodeIndex) {
        while let Some((key, ticket)) = self.nodes[node.get()].table.poll_wake() {
            self.marks.see(Mark::PassedOn);
            self.note(|| format!("node {}: the lock is set aside for {ticket}", node.get()));
            let listens = |client: &Client| client.fleet.client() == ticket.client;
            let Some(client) = self.clients.iter().position(listens) else { continue };
            let (life, number) = (self.clients[client].life, ticket.number);
            let same = |link: &Link| (link.client, link.life, link.node) == (client, life, node);
            let open = |link: &usize| same(&self.links[*link]) && self.links[*link].broken.is_none();
            let Some(link) = (0..self.links.len()).rev().find(open) else { continue };
            let delay = delay_ns(&mut self.dice, &self.options);
            let arrives = self.links[link].reply_arrives(self.now_ns, delay);
            let event = ClientEvent::Woken { link, number, key };
            self.at(arrives, Event::Client { client, life, event });
        }
    }

    pub(crate) fn send(&mut self, client: usize, to: To, node: NodeIndex, command: Command) {
        let (sent, life) = (self.time(client), self.clients[client].life);
        let Some(link) = self.clients[client].links[node.get()] else {
            let event = ClientEvent::Unsent { node, to };
            return self.at(self.now_ns, Event::Client { client, life, event });
        };
        let delay = delay_ns(&mut self.dice, &self.options);
        let state = &mut self.links[link];
        state.pending.push_back(to);
        if state.broken.is_none() {
            let arrives = state.request_arrives(self.now_ns, delay);
            self.at(arrives, Event::Request { link, to, sent, command, late: false });
        }
    }
}
