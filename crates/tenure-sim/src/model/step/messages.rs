//! Connections and what goes over them.

use tenure_core::{
    Answer, Command, Fault, NodeIndex, Owner, Refusal, Reply, Ticket, Time, lease, release, trust,
};

use super::Step;
use crate::model::seen::Sight;
use crate::model::shared::Shared;
use crate::model::world::{Answered, Back, Cleaning, Client, Link, Request, To};

impl Step<'_> {
    pub(super) fn connect(&mut self, client: usize, node: NodeIndex) {
        let server = self.config.server(client, node.get());
        let now = self.world.time(client);
        let facts = self.world.nodes[server].facts(self.config, server);
        let listener = self.world.clients[client].fleet.client();
        self.note(|| format!("client {client} connects to node {server}"));
        *self.link(client, node) = Link { up: true, used: true, ..Link::default() };
        self.node(server).table.listen(listener);
        self.client(client).fleet.handle(now, trust::Input::Connected { node, facts });
        self.drain_fleet(client);
        self.settle();
        for index in 0..self.world.clients[client].releases.len() {
            self.client(client).releases[index].release.handle(now, release::Input::Connected { node });
            self.drain_release(client, index);
        }
        self.tell_lease(client, lease::Input::Connected { node });
    }

    pub(super) fn break_link(&mut self, client: usize, node: NodeIndex) {
        let server = self.config.server(client, node.get());
        if !self.world.links[self.number(client, node)].up {
            return;
        }
        self.note(|| format!("the connection of client {client} to node {server} breaks"));
        let link = self.link(client, node);
        link.broken = true;
        let requests = std::mem::take(&mut link.requests);
        link.lost.extend(requests.iter().map(|request| request.to));
        let listener = self.world.clients[client].fleet.client();
        let strays = self.config.faults.strays;
        let state = self.node(server);
        state.hang_up(listener);
        if strays {
            state.strays.extend(requests.into_iter().map(|request| request.command));
        }
    }

    pub(super) fn notice(&mut self, client: usize, node: NodeIndex) {
        let now = self.world.time(client);
        let gone = Link { used: true, ..Link::default() };
        let Link { replies, lost, .. } = std::mem::replace(self.link(client, node), gone);
        self.note(|| format!("client {client} sees that the connection to node {} is gone", node.get()));
        let fault = Fault::Disconnected;
        self.client(client).fleet.handle(now, trust::Input::Disconnected { node, fault });
        self.drain_fleet(client);
        self.settle();
        self.tell_lease(client, lease::Input::Disconnected { node });
        let answered = replies.into_iter().filter_map(|back| match back {
            Back::Reply { to, .. } => Some(to),
            Back::Woken { .. } => None,
        });
        for to in answered.chain(lost) {
            self.answers.push_back((client, node, to, now, Err(Fault::Disconnected)));
        }
    }

    pub(super) fn drain_fleet(&mut self, client: usize) {
        while let Some(output) = self.client(client).fleet.poll_output() {
            match output {
                trust::Output::Send { node, command } => self.send(client, To::Fleet, node, command),
                trust::Output::Distrust { node, forgot } => {
                    self.note(|| format!("client {client} distrusts node {}", node.get()));
                    if !(forgot && self.config.discarded_counts) {
                        self.tell_lease(client, lease::Input::Distrusted { node });
                    }
                    if forgot {
                        self.tell_lease(client, lease::Input::Disconnected { node });
                    }
                }
                trust::Output::Notice { node, distrust } => {
                    let about = distrust.map_or("it may vote".to_owned(), |distrust| distrust.to_string());
                    self.note(|| format!("client {client} on node {}: {about}", node.get()));
                }
                trust::Output::Survey { node } => {
                    let server = self.config.server(client, node.get());
                    let link = &self.world.links[self.number(client, node)];
                    if link.up && !link.broken {
                        let facts = self.world.nodes[server].facts(self.config, server);
                        let now = self.world.time(client);
                        self.client(client).fleet.handle(now, trust::Input::Surveyed { node, facts });
                    }
                }
                trust::Output::Poisoned { .. }
                | trust::Output::Life { .. }
                | trust::Output::Remember { .. } => {}
            }
        }
    }

    /// Sends a command. What is about records needs no time, unless their exchange is what the model is about.
    pub(super) fn send(&mut self, client: usize, to: To, node: NodeIndex, command: Command) {
        let sent = self.world.time(client);
        let number = self.number(client, node);
        let Link { up, broken, .. } = *self.world.links[number];
        if !up {
            let fault = Fault::Unreachable("no connection".into());
            return self.answers.push_back((client, node, to, sent, Err(fault)));
        }
        if broken {
            return self.link(client, node).lost.push(to);
        }
        let waits = self.config.first_start && !matches!(command, Command::Trim { .. });
        if to == To::Fleet && !waits {
            let server = self.config.server(client, node.get());
            let reply = self.execute(server, &command);
            return self.answers.push_back((client, node, to, sent, Ok(reply)));
        }
        let requests = &mut self.link(client, node).requests;
        // A repetition right behind the same command changes nothing.
        if requests.back().is_none_or(|last| (last.to, &last.command) != (to, &command)) {
            requests.push_back(Request { to, sent, command });
        }
    }

    pub(super) fn execute_next(&mut self, client: usize, node: NodeIndex) {
        let server = self.config.server(client, node.get());
        let link = self.link(client, node);
        link.requests_held = false;
        let Some(Request { to, sent, command }) = link.requests.pop_front() else { return };
        let reply = self.execute(server, &command);
        self.note(|| {
            format!("node {server}: {} of client {client}: {}", verb(&command), said(&reply.answer))
        });
        let state = &self.world.clients[client];
        let running = state.alive && !state.paused;
        let link = &self.world.links[self.number(client, node)];
        // Answers that only end a clean-up or tell a record are read as soon as nothing is ahead of them.
        if running && link.replies.is_empty() && !matches!(to, To::Lease { .. }) {
            self.answers.push_back((client, node, to, sent, Ok(reply)));
        } else {
            self.link(client, node).replies.push_back(Back::Reply { to, sent, reply });
        }
        self.wake_waiters(server);
    }

    pub(super) fn execute_stray(&mut self, node: usize) {
        let command = self.node(node).strays.remove(0);
        let reply = self.execute(node, &command);
        self.seen.see(Sight::Stray);
        self.note(|| format!("node {node}: late {}: {}", verb(&command), said(&reply.answer)));
        self.wake_waiters(node);
    }

    /// Executes a command, and looks whether it changes what belongs to another.
    pub(super) fn execute(&mut self, node: usize, command: &Command) -> Reply {
        let now = self.world.node_time(self.config, node);
        let state = self.node(node);
        let owner_before = state.owner(now);
        let reply = state.table.execute_natively(now, command);
        let owner_after = state.owner(now);
        let own = match command {
            Command::Extend { token, .. }
            | Command::Release { token, .. }
            | Command::PassOn { token, .. }
            | Command::Open { token, .. }
            | Command::Requeue { token, .. }
            | Command::Heal { token, .. } => Some(*token),
            _ => None,
        };
        if let (Some(token), Some((owner, _))) = (own, owner_before)
            && owner != Owner::Token(token)
        {
            self.world.ownership_broken |= owner_before != owner_after;
        }
        self.seen.reply(command, &reply.answer);
        reply
    }

    /// Tells those for whom a lock was set aside.
    pub(super) fn wake_waiters(&mut self, server: usize) {
        while let Some((key, ticket)) = self.node(server).table.poll_wake() {
            self.seen.see(Sight::PassedOn);
            self.note(|| format!("node {server} sets the lock aside for {ticket}"));
            let listens = |state: &Shared<Client>| state.fleet.client() == ticket.client && state.alive;
            let Some(client) = self.world.clients.iter().position(listens) else { continue };
            for node in self.config.quorum().indexes() {
                let link = &self.world.links[self.number(client, node)];
                if self.config.server(client, node.get()) == server && link.up && !link.broken {
                    let (number, key) = (ticket.number, key.clone());
                    self.link(client, node).replies.push_back(Back::Woken { number, key });
                }
            }
        }
    }

    pub(super) fn hear_next(&mut self, client: usize, node: NodeIndex) {
        let link = self.link(client, node);
        link.replies_held = false;
        match link.replies.pop_front() {
            Some(Back::Reply { to, sent, reply }) => {
                self.note(|| format!("client {client} hears node {}: {}", node.get(), said(&reply.answer)));
                self.deliver(client, node, to, sent, Ok(reply));
            }
            Some(Back::Woken { number, key }) => {
                self.note(|| format!("client {client} is woken by node {}", node.get()));
                if self.world.clients[client].waiters.find(number).is_some() {
                    self.tell_lease(client, lease::Input::Woken { node });
                } else {
                    let ticket = Ticket { number, client: self.world.clients[client].fleet.client() };
                    self.send(client, To::Nobody, node, Command::Leave { key, ticket });
                }
            }
            None => {}
        }
    }

    pub(super) fn deliver(&mut self, client: usize, node: NodeIndex, to: To, sent: Time, answer: Answered) {
        let now = self.world.time(client);
        if let Ok(reply) = &answer {
            self.client(client).fleet.observe(now, node, sent, reply);
            self.drain_fleet(client);
            if reply.answer == Answer::Refused(Refusal::Stranger) {
                self.client(client).fleet.handle(now, trust::Input::Changed { node });
                self.drain_fleet(client);
            }
        }
        match to {
            To::Nobody => {}
            To::Fleet => {
                self.client(client).fleet.handle(now, trust::Input::Answer { node, answer });
                self.drain_fleet(client);
            }
            To::Release { id } => {
                let found = self.world.clients[client].releases.iter().position(|cleaning| cleaning.id == id);
                if let Some(index) = found {
                    let input = release::Input::Answer { node, answer };
                    self.client(client).releases[index].release.handle(now, input);
                    self.drain_release(client, index);
                }
            }
            To::Lease { begun, round } => {
                let undoes = |cleaning: &Cleaning| {
                    cleaning.begun == begun && cleaning.release.acquire_round() == round
                };
                let found = self.world.clients[client].releases.iter().position(undoes);
                if let Some(index) = found {
                    let input = release::Input::AcquireAnswer { node, answer: answer.clone() };
                    self.client(client).releases[index].release.handle(now, input);
                    self.drain_release(client, index);
                }
                if self.world.clients[client].begun == begun {
                    self.tell_lease(client, lease::Input::Answer { round, node, answer });
                }
            }
        }
        self.sweep(client);
    }
}

fn verb(command: &Command) -> &'static str {
    match command {
        Command::Acquire { .. } => "acquire",
        Command::Extend { .. } => "extend",
        Command::Heal { .. } => "heal",
        Command::Release { .. } => "release",
        Command::PassOn { .. } => "release and pass on",
        Command::Open { .. } => "release to those outside the line",
        Command::Requeue { .. } => "release and line up",
        Command::Enqueue { .. } => "line up",
        Command::Leave { .. } => "leave the line",
        Command::Nudge { .. } => "nudge",
        Command::Record { .. } => "record",
        _ => "command",
    }
}

fn said(answer: &Answer) -> String {
    match answer {
        Answer::Granted => "granted".into(),
        Answer::Refused(refusal) => format!("refused, {refusal:?}"),
        other => format!("{other:?}"),
    }
}
