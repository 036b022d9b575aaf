//! Connections and what goes over them.

use tenure_core::client::{Addressee, Input, Tag};
use tenure_core::{Answer, Command, Fault, Next, NodeIndex, Owner, Reply};

use super::Step;
use crate::model::seen::Sight;
use crate::model::shared::Shared;
use crate::model::world::{Back, Link, Process, Request};

impl Step<'_> {
    pub(super) fn connect(&mut self, client: usize, node: NodeIndex) {
        let server = self.config.server(client, node.get());
        let facts = self.world.nodes[server].facts(self.config, server);
        let listener = self.world.clients[client].client.fleet().client();
        self.note(|| format!("client {client} connects to node {server}"));
        *self.link(client, node) = Link { up: true, used: true, ..Link::default() };
        self.node(server).table.listen(listener);
        self.handle(client, Input::Connected { node, facts });
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
        link.lost.extend(requests.iter().map(|request| request.tag.to));
        let listener = self.world.clients[client].client.fleet().client();
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
        self.handle(client, Input::Disconnected { node, fault: Fault::Disconnected });
        let answered = replies.into_iter().filter_map(|back| match back {
            Back::Reply { tag, .. } => Some(tag.to),
            Back::Woken { .. } => None,
        });
        for to in answered.chain(lost) {
            let (tag, answer) = (Tag { to, sent: now }, Err(Fault::Disconnected));
            self.arrivals.push_back((client, Input::Answer { node, tag, answer }));
        }
    }

    /// Sends a command. What is about records needs no time, unless their exchange is what the
    /// model is about.
    pub(super) fn send(&mut self, client: usize, tag: Tag, node: NodeIndex, command: Command) {
        let number = self.number(client, node);
        let Link { up, broken, .. } = *self.world.links[number];
        if !up {
            let answer = Err(Fault::Unreachable("no connection".into()));
            return self.arrivals.push_back((client, Input::Answer { node, tag, answer }));
        }
        if broken {
            return self.link(client, node).lost.push(tag.to);
        }
        if tag.to == Addressee::Trim || tag.to == Addressee::Fleet && !self.config.first_start {
            let server = self.config.server(client, node.get());
            let answer = Ok(self.execute(server, &command));
            return self.arrivals.push_back((client, Input::Answer { node, tag, answer }));
        }
        let requests = &mut self.link(client, node).requests;
        // A repetition right behind the same command changes nothing, where answers are not
        // counted.
        let repeats = |last: &Request| last.tag.to == tag.to && last.command == command;
        if tag.to == Addressee::Leaving || !requests.back().is_some_and(repeats) {
            requests.push_back(Request { tag, command });
        }
    }

    pub(super) fn execute_next(&mut self, client: usize, node: NodeIndex) {
        let server = self.config.server(client, node.get());
        let link = self.link(client, node);
        link.requests_held = false;
        let Some(Request { tag, command }) = link.requests.pop_front() else { return };
        let reply = self.execute(server, &command);
        self.note(|| {
            format!("node {server}: {} of client {client}: {}", verb(&command), said(&reply.answer))
        });
        let state = &self.world.clients[client];
        let running = state.alive && !state.paused;
        let link = &self.world.links[self.number(client, node)];
        // Answers that only end a clean-up or tell a record are read as soon as nothing is ahead of
        // them.
        let of_lease = matches!(tag.to, Addressee::Lease { .. } | Addressee::Leaving);
        if running && link.replies.is_empty() && !of_lease {
            self.arrivals.push_back((client, Input::Answer { node, tag, answer: Ok(reply) }));
        } else {
            self.link(client, node).replies.push_back(Back::Reply { tag, reply });
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
        // An acquire may claim what is set aside.
        let own = command.owner().filter(|_| !matches!(command, Command::Acquire { .. }));
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
            let listens =
                |state: &Shared<Process>| state.client.fleet().client() == ticket.client && state.alive;
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
            Some(Back::Reply { tag, reply }) => {
                self.note(|| format!("client {client} hears node {}: {}", node.get(), said(&reply.answer)));
                self.handle(client, Input::Answer { node, tag, answer: Ok(reply) });
            }
            Some(Back::Woken { number, key }) => {
                self.note(|| format!("client {client} is woken by node {}", node.get()));
                self.handle(client, Input::Woken { node, number, key: key.as_str().to_owned() });
            }
            None => {}
        }
    }
}

fn verb(command: &Command) -> &'static str {
    match command {
        Command::Acquire { .. } => "acquire",
        Command::Extend { .. } => "extend",
        Command::Heal { .. } => "heal",
        Command::Undo { requeue: None, .. } => "undo",
        Command::Undo { requeue: Some(_), .. } => "undo and line up",
        Command::Release { next: Next::InLine, .. } => "release",
        Command::Release { next: Next::InLineWith(_), .. } => "line up and release",
        Command::Release { next: Next::OutsideLine, .. } => "release to those outside the line",
        Command::Enqueue { .. } => "line up",
        Command::Leave { .. } => "leave the line",
        Command::Nudge { .. } => "nudge",
        Command::Record { .. } => "record",
        Command::Trim { .. } => "trim",
        Command::Clear { .. } => "clear",
        Command::Inspect { .. } => "inspect",
        Command::List { .. } => "list",
    }
}

fn said(answer: &Answer) -> String {
    match answer {
        Answer::Granted => "granted".into(),
        Answer::Refused(refusal) => format!("refused, {refusal:?}"),
        other => format!("{other:?}"),
    }
}
