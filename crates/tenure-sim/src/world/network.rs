//! How messages travel, and how connections come about and break.

use std::sync::Arc;

use tenure_core::client::{Renewals, Tag};
use tenure_core::{Batch, ClientId, Command, Fault, NodeIndex};

use super::client::SimClient;
use super::links::{Broken, Link, Message};
use super::{ClientEvent, Event, World};
use crate::dice::Dice;
use crate::mutant::Mutant;
use crate::options::Options;
use crate::trace::Mark;

/// A first try to connect has ended by then, well or not.
const FIRST_TRY_NS: u64 = 50_000_000;

/// How many of a thousand connections can send commands together: those of Redis servers do, others
/// do not.
const BATCHES_PER_MILLE: u64 = 700;

/// How long a message takes.
pub(crate) fn delay_ns(dice: &mut Dice, options: &Options) -> u64 {
    let spike = dice.chance(options.spike_per_mille);
    let max_us = if spike { options.spike_us } else { options.delay_us };
    dice.between(max_us * 100, max_us * 1_000)
}

impl World {
    /// Tries to connect for the first time.
    pub(crate) fn connect_first(&mut self, client: usize, node: NodeIndex) {
        if self.connect_later(client, node, 500_000) > FIRST_TRY_NS {
            let (generation, event) = (self.clients[client].generation, ClientEvent::Unreachable { node });
            let after_ns = self.dice.of_any_size(100_000, FIRST_TRY_NS);
            self.at(self.now_ns + after_ns, Event::Client { client, generation, event });
        }
    }

    /// Tries to connect after a pause, which is returned.
    pub(crate) fn connect_later(&mut self, client: usize, node: NodeIndex, within_ns: u64) -> u64 {
        let cut_off = self.dice.chance(self.options.cut_off_per_mille);
        let most_ns = if cut_off { self.options.horizon_ns / 2 } else { within_ns };
        let pause_ns = self.dice.of_any_size(100_000, most_ns);
        let state = &mut self.clients[client];
        state.dials[node.get()] += 1;
        let dial = state.dials[node.get()];
        let (generation, event) = (state.generation, ClientEvent::Reconnect { node, dial });
        self.at(self.now_ns + pause_ns, Event::Client { client, generation, event });
        pause_ns
    }

    pub(crate) fn connect(&mut self, client: usize, node: NodeIndex) {
        if !self.clients[client].reach.contains(node) {
            return self.handle_unreachable(client, node);
        }
        let (generation, batches) = (self.clients[client].generation, self.dice.chance(BATCHES_PER_MILLE));
        let link = self.links.push(Link::new(client, generation, node, batches));
        self.links[link].wait(self.gates[client * self.options.nodes + node.get()]);
        let state = &mut self.clients[client];
        state.dials[node.get()] += 1;
        state.greeting[node.get()] = Some(link);
        let delay = delay_ns(&mut self.dice, &self.options);
        let arrives = self.links[link].request_arrives(self.now_ns, delay);
        self.at(arrives, Event::Hello { link });
    }

    pub(crate) fn handle_hello(&mut self, link: usize) {
        let Link { client, generation, node, .. } = self.links[link];
        if self.links[link].broken.is_some() {
            return;
        }
        if !self.nodes[node.get()].up {
            return self.break_link(link, Broken { strays_ns: None, answers: false });
        }
        if self.options.kills {
            for older in self.links.between(client, node).to_vec() {
                let state = &mut self.links[older];
                if older < link && state.generation == generation {
                    state.broken = Some(Broken { strays_ns: None, answers: false });
                }
            }
        }
        let facts = self.facts(link);
        if self.clients[client].generation == generation {
            let listener = self.clients[client].core.fleet().client();
            self.nodes[node.get()].table.listen(listener);
        }
        self.send_back(link, ClientEvent::Welcome { link, facts });
    }

    /// Asks a node's server about itself again, in the order of the connection.
    pub(crate) fn survey(&mut self, client: usize, node: NodeIndex) {
        let Some(link) = self.clients[client].links[node.get()] else { return };
        let delay = delay_ns(&mut self.dice, &self.options);
        let arrives = self.links[link].request_arrives(self.now_ns, delay);
        self.at(arrives, Event::Survey { link });
    }

    pub(crate) fn handle_survey(&mut self, link: usize) {
        if self.links[link].broken.is_none() {
            let facts = self.facts(link);
            self.send_back(link, ClientEvent::Surveyed { link, facts });
        }
    }

    pub(crate) fn break_any_link(&mut self) {
        let alive = self.links.unbroken();
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
        if let Some(before) = state.broken {
            if broken.strays_ns.is_none() {
                // A connection that has lost an answer brings none of those behind it.
                state.broken = Some(Broken { answers: before.answers && broken.answers, ..broken });
            }
            return;
        }
        state.broken = Some(broken);
        let last_ns = state.request_arrives(self.now_ns, 0) + broken.strays_ns.unwrap_or(0);
        let (client, generation, node) = (state.client, state.generation, state.node.get());
        let noticed_ns = state.reply_arrives(self.now_ns, notice_ns);
        self.marks.see(Mark::LinkBroken);
        self.note(|| format!("connection of client {client}.{generation} to node {node} breaks: {broken:?}"));
        self.at(noticed_ns, Event::Client { client, generation, event: ClientEvent::Broken { link } });
        // The server notices at once as a rule, and sometimes late.
        let late_ns = if self.dice.chance(700) { 0 } else { self.options.max_ttl_ms * 1_000_000 };
        // A fault is over when its client knows of it: nobody connects again before.
        self.lasts_until(last_ns.max(noticed_ns).max(self.now_ns + late_ns));
        let listener = self.clients[client].core.fleet().client();
        self.at(self.now_ns + late_ns, Event::HangUp { link, listener });
    }

    pub(crate) fn handle_hang_up(&mut self, link: usize, listener: ClientId) {
        let Link { client, generation, node, .. } = self.links[link];
        // A newer connection of the same client listens on.
        if self.links.newest(client, generation, node).is_none_or(|newest| newest < link) {
            self.nodes[node.get()].table.stop_listening(listener);
        }
    }

    /// Tells those for whom a lock was set aside.
    pub(crate) fn wake_waiters(&mut self, node: NodeIndex) {
        while let Some((key, ticket)) = self.nodes[node.get()].table.poll_wake() {
            self.marks.see(Mark::PassedOn);
            self.note(|| format!("node {}: the lock is set aside for {ticket}", node.get()));
            let listens = |client: &SimClient| client.core.fleet().client() == ticket.client;
            let Some(client) = self.clients.iter().position(listens) else { continue };
            let (generation, number) = (self.clients[client].generation, ticket.number);
            let Some(link) = self.links.newest(client, generation, node) else { continue };
            self.send_back(link, ClientEvent::Woken { link, number, key });
        }
    }

    /// Sends a command, or answers that it could not be sent.
    pub(crate) fn send(&mut self, client: usize, tag: Tag, node: NodeIndex, command: Command) {
        let Some(link) = self.clients[client].links[node.get()] else {
            let fault = Fault::Unreachable("no connection".into());
            let (generation, event) =
                (self.clients[client].generation, ClientEvent::Unsent { node, tag, fault });
            return self.at(self.now_ns, Event::Client { client, generation, event });
        };
        let violation = self.ownership.sent(client, self.clients[client].generation, &command);
        self.judge(violation);
        match Batch::of(&command) {
            Some(batch) if self.links[link].batches && !self.in_parts() => {
                self.gather(link, batch, (tag, command));
            }
            _ => {
                if self.options.mutant != Some(Mutant::BatchOvertaken) {
                    self.write(link);
                }
                self.dispatch(link, Message::Command { tag, command });
            }
        }
    }

    /// Lets a command wait until the connection is written to: soon, or when its client goes on.
    fn gather(&mut self, link: usize, batch: Batch, command: (Tag, Command)) {
        let has_room = self.links[link].gathered.has_room_for(batch, &command.1);
        if !has_room && self.options.mutant != Some(Mutant::BatchTwice) {
            self.write(link);
        }
        if self.links[link].gathered.is_empty() {
            let later_ns =
                if self.dice.chance(500) { 0 } else { self.dice.below(self.options.delay_us * 1_000) };
            let Link { client, generation, .. } = self.links[link];
            let event = ClientEvent::Write { link };
            self.at(self.now_ns + later_ns, Event::Client { client, generation, event });
        }
        self.links[link].gathered.push(batch, command);
    }

    /// Writes what waits.
    pub(crate) fn write(&mut self, link: usize) {
        for batch in Batch::ALL {
            let mut commands = self.links[link].gathered.take(batch);
            match commands.len() {
                0 => {}
                1 => commands.drain(..).for_each(|(tag, command)| {
                    self.dispatch(link, Message::Command { tag, command });
                }),
                _ => {
                    self.marks.see(Mark::SentTogether);
                    self.dispatch(link, Message::Batch(commands));
                }
            }
        }
    }

    /// Writes what waits on the connections of a client.
    pub(crate) fn write_all(&mut self, client: usize) {
        for link in self.clients[client].links.clone().into_iter().flatten() {
            self.write(link);
        }
    }

    /// Sends renewals together. `false` if they have to be sent one by one.
    pub(crate) fn send_renewals(&mut self, client: usize, node: NodeIndex, renewals: &Arc<Renewals>) -> bool {
        let Some(link) = self.clients[client].links[node.get()].filter(|link| self.links[*link].batches)
        else {
            return false;
        };
        self.write(link);
        for (_, command) in renewals.commands() {
            let violation = self.ownership.sent(client, self.clients[client].generation, &command);
            self.judge(violation);
        }
        self.dispatch(link, Message::Renewals(Arc::clone(renewals)));
        true
    }

    fn dispatch(&mut self, link: usize, message: Message) {
        let delay = delay_ns(&mut self.dice, &self.options);
        let state = &mut self.links[link];
        state.expect_answer(&message);
        if state.broken.is_none() {
            let arrives = state.request_arrives(self.now_ns, delay);
            if self.dice.chance(self.options.duplicates_per_mille) {
                let later_ns = self.dice.of_any_size(1_000, self.options.max_ttl_ms * 1_000_000);
                self.lasts_until(arrives + later_ns);
                self.at(arrives + later_ns, Event::Duplicate { link, message: message.clone() });
            }
            self.at(arrives, Event::Request { link, message, late: false });
        }
    }
}
