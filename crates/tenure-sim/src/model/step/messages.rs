//! Connections and what goes over them.

use tenure_core::client::{Addressee, Input, Tag};
use tenure_core::{Answer, Batch, Command, Fault, Next, NodeIndex, Owner, Refusal, Reply};

use super::Step;
use crate::model::seen::Sight;
use crate::model::shared::Shared;
use crate::model::world::{Back, LOCK, Link, Process, Request};

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
        let commands: Vec<_> = requests
            .into_iter()
            .flat_map(|Request { tag, command, with }| [(tag, command)].into_iter().chain(with))
            .collect();
        link.lost.extend(commands.iter().map(|(tag, _)| tag.to));
        let listener = self.world.clients[client].client.fleet().client();
        let strays = self.config.faults.strays;
        let state = self.node(server);
        state.hang_up(listener);
        if strays {
            state.strays.extend(commands.into_iter().map(|(_, command)| command));
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
        if self.config.neighbour {
            return match Batch::of(&command) {
                Some(batch) => self.gather(client, node, batch, (tag, command)),
                None => {
                    self.send_gathered(number);
                    let request = Request { tag, command, with: vec![] };
                    self.link(client, node).requests.push_back(request);
                }
            };
        }
        let requests = &mut self.link(client, node).requests;
        // A repetition right behind the same command changes nothing, where answers are not
        // counted.
        let repeats = |last: &Request| last.tag.to == tag.to && last.command == command;
        if tag.to == Addressee::Leaving || !requests.back().is_some_and(repeats) {
            requests.push_back(Request { tag, command, with: vec![] });
        }
    }

    /// Lets a command wait for others, until the step is over.
    fn gather(&mut self, client: usize, node: NodeIndex, batch: Batch, command: (Tag, Command)) {
        let number = self.number(client, node);
        if self.gathered.get(&number).is_some_and(|waiting| !waiting.has_room_for(batch, &command.1)) {
            self.send_gathered(number);
        }
        self.gathered.entry(number).or_default().push(batch, command);
    }

    /// Writes what waits on a connection.
    fn send_gathered(&mut self, number: usize) {
        let Some(mut gathered) = self.gathered.remove(&number) else { return };
        for batch in Batch::ALL {
            let mut commands = gathered.take(batch).into_iter();
            let Some((tag, command)) = commands.next() else { continue };
            let with: Vec<_> = commands.collect();
            if !with.is_empty() {
                self.seen.see(Sight::Together);
            }
            self.world.links[number].change().requests.push_back(Request { tag, command, with });
        }
    }

    pub(super) fn send_all_gathered(&mut self) {
        while let Some((number, _)) = self.gathered.first_key_value() {
            self.send_gathered(*number);
        }
    }

    pub(super) fn execute_next(&mut self, client: usize, node: NodeIndex) {
        let server = self.config.server(client, node.get());
        let link = self.link(client, node);
        link.requests_held = false;
        let Some(Request { tag, command, with }) = link.requests.pop_front() else { return };
        for (tag, command) in [(tag, command)].into_iter().chain(with) {
            self.execute_one(client, node, tag, &command);
        }
        self.wake_waiters(server);
    }

    fn execute_one(&mut self, client: usize, node: NodeIndex, tag: Tag, command: &Command) {
        let server = self.config.server(client, node.get());
        let reply = self.execute(server, command);
        self.note(|| format!("node {server}: {} of client {client}: {}", verb(command), said(&reply.answer)));
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
        let counting = self.config.counting;
        let state = self.node(node);
        let (owner_before, holds_before) = (state.owner(now), state.holds(now));
        let mut reply = state.table.execute_natively(now, command);
        if counting
            && matches!(
                (command, &reply.answer),
                (Command::Acquire { .. }, Answer::Refused(Refusal::Held { .. }))
            )
            && state.table.keys(now).count() < 2
        {
            reply = Reply::new(Some(now), Answer::Granted);
        }
        let (owner_after, holds_after) = (state.owner(now), state.holds(now));
        // An acquire may claim what is set aside.
        let own = command.owner().filter(|_| !matches!(command, Command::Acquire { .. }));
        let own = own.filter(|_| command.key().is_some_and(|key| key.each().contains(&LOCK)));
        if let (Some(token), Some((owner, _))) = (own, owner_before) {
            self.world.ownership_broken |= match owner {
                // A hold changes nothing of those beside it.
                Owner::Shared | Owner::Owned => {
                    let mut others = holds_before.iter().filter(|hold| hold.owner != token);
                    !others.all(|hold| holds_after.contains(hold))
                }
                _ => owner != Owner::Token(token) && owner_before != owner_after,
            };
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
        Command::Release { next: Next::Nobody { .. }, .. } => "release to nobody yet",
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
