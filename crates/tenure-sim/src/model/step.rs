//! One step: what happens to the world when an action is taken.

use std::collections::VecDeque;

use tenure_core::{
    Answer, Command, Distrust, Entropy, Fault, HoldState, Lease, LockKey, NodeIndex, OwnerToken, Prefix,
    Refusal, Ticket, Time, lease, release, trust,
};

use super::action::{Action, Memory};
use super::config::{Config, Writes};
use super::seen::{Seen, Sight};
use super::shared::Shared;
use super::world::{Answered, Back, Cleaning, Client, Link, Node, Request, To, World};

/// A world in the middle of a step.
pub(super) struct Step<'a> {
    pub(super) config: &'a Config,
    pub(super) world: &'a mut World,
    pub(super) seen: &'a Seen,
    /// What happens, in words, if anybody wants to read it.
    pub(super) notes: Option<Vec<String>>,
    /// Answers that need no time.
    answers: VecDeque<(usize, NodeIndex, To, Time, Answered)>,
}

impl<'a> Step<'a> {
    pub(super) fn new(config: &'a Config, world: &'a mut World, seen: &'a Seen) -> Self {
        Self { config, world, seen, notes: None, answers: VecDeque::new() }
    }

    pub(super) fn take(&mut self, action: Action) {
        self.world.left.spend(action);
        match action {
            Action::Tick => self.tick(),
            Action::Start { client } => {
                let state = self.client(client);
                (state.alive, state.started) = (true, true);
                self.note(|| format!("client {client} starts"));
            }
            Action::Connect { client, node } => self.connect(client, node),
            Action::Begin { client } => self.begin(client),
            Action::Extend { client } => {
                self.client(client).extended += 1;
                self.note(|| format!("client {client} extends"));
                let term = self.config.terms().term;
                self.tell_lease(client, lease::Input::Extend(term));
            }
            Action::Release { client } => {
                self.note(|| format!("client {client} releases"));
                self.tell_lease(client, lease::Input::Release);
            }
            Action::Look { client } => {
                self.note(|| format!("client {client} looks at its lock: valid"));
                self.client(client).about_to_write = true;
            }
            Action::Write { client } => self.write(client),
            Action::Request { client, node } => self.execute_next(client, node),
            Action::Reply { client, node } => self.hear_next(client, node),
            Action::Hold { client, node, replies } => {
                let direction = if replies { "answers of" } else { "commands for" };
                self.note(|| format!("{direction} node {} are slow for client {client}", node.get()));
                let link = self.link(client, node);
                *(if replies { &mut link.replies_held } else { &mut link.requests_held }) = true;
            }
            Action::Break { client, node } => self.break_link(client, node),
            Action::Notice { client, node } => self.notice(client, node),
            Action::Stray { node } => self.execute_stray(node),
            Action::Pause { client } => {
                self.client(client).paused = true;
                self.note(|| format!("client {client} stands still"));
            }
            Action::Resume { client, timers_first } => {
                self.client(client).paused = false;
                self.note(|| format!("client {client} goes on"));
                if timers_first {
                    self.fire_timers(client);
                }
            }
            Action::Die { client } => {
                self.note(|| format!("client {client} dies"));
                self.client(client).alive = false;
                for node in self.config.quorum().indexes() {
                    self.break_link(client, node);
                }
            }
            Action::Restart { node, memory } => self.restart(node, memory),
            Action::Flush { node } => {
                self.note(|| format!("node {node} is emptied"));
                self.node(node).table.forget();
            }
            Action::Evict { node } => self.evict(node),
            Action::Jump { node } => self.jump(node),
        }
        self.settle();
        self.world.exclusion_broken |= self.world.holders() > 1;
    }

    /// Delivers what needs no time, until nothing is left.
    fn settle(&mut self) {
        while let Some((client, node, to, sent, answer)) = self.answers.pop_front() {
            self.deliver(client, node, to, sent, answer);
        }
    }

    fn tick(&mut self) {
        if self.config.faults.tails > 0 {
            // Once a tick everything is on disk.
            for node in 0..self.world.nodes.len() {
                let table = self.world.nodes[node].table.clone();
                self.node(node).snapshot = Some(Box::new(table));
            }
        }
        self.world.tick += 1;
        let tick = self.world.tick;
        self.note(|| format!("-- {} ms --", tick * super::world::TICK_MS));
        for client in 0..self.world.clients.len() {
            let Client { alive, paused, .. } = *self.world.clients[client];
            if paused && self.config.faults.sleeps {
                self.client(client).slept += 1;
            }
            if alive && !paused {
                self.fire_timers(client);
                self.settle();
            }
        }
    }

    pub(super) fn fire_timers(&mut self, client: usize) {
        let now = self.world.time(client);
        let due = |timeout: Option<Time>| timeout.is_some_and(|timeout| timeout <= now);
        if due(self.world.clients[client].waiters.poll_timeout()) {
            while let Some(key) = self.client(client).waiters.poll_nudge(now) {
                self.note(|| format!("client {client} nudges the next in line"));
                for node in self.config.quorum().indexes() {
                    self.send(client, To::Nobody, node, Command::Nudge { key: key.clone() });
                }
            }
        }
        if due(self.world.clients[client].fleet.poll_timeout()) {
            self.client(client).fleet.handle(now, trust::Input::Timeout);
            self.drain_fleet(client);
            self.settle();
        }
        if due(self.world.clients[client].lease.as_ref().and_then(Lease::poll_timeout)) {
            self.tell_lease(client, lease::Input::Timeout);
        }
        for index in 0..self.world.clients[client].releases.len() {
            if due(self.world.clients[client].releases[index].release.poll_timeout()) {
                self.client(client).releases[index].release.handle(now, release::Input::Timeout);
                self.drain_release(client, index);
            }
        }
        self.sweep(client);
    }

    pub(super) fn connect(&mut self, client: usize, node: NodeIndex) {
        let server = self.config.server(client, node.get());
        let now = self.world.time(client);
        let facts = self.world.nodes[server].facts(self.config, server);
        let listener = self.world.clients[client].fleet.client();
        self.note(|| format!("client {client} connects to node {server}"));
        *self.link(client, node) = Link { up: true, ..Link::default() };
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

    fn break_link(&mut self, client: usize, node: NodeIndex) {
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

    fn notice(&mut self, client: usize, node: NodeIndex) {
        let now = self.world.time(client);
        let Link { replies, lost, .. } = std::mem::take(self.link(client, node));
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

    fn begin(&mut self, client: usize) {
        let (terms, quorum) = (self.config.terms(), self.config.quorum());
        let state = self.client(client);
        state.begun += 1;
        state.extended = 0;
        let lease = Lease::new(key(), terms, quorum);
        let wanted = lease.waits() && state.waiters.is_wanted(lease.key());
        state.lease = Some(lease);
        self.note(|| format!("client {client} asks for the lock"));
        self.attempt(client, terms.fenced, wanted);
        self.drain_lease(client);
        self.sweep(client);
    }

    fn attempt(&mut self, client: usize, fenced: bool, ticket: bool) {
        let now = self.world.time(client);
        let floor = self.world.fences.last().copied().unwrap_or(0);
        let state = self.client(client);
        state.attempts += 1;
        state.floor = floor;
        let mut bytes = [0; 20];
        bytes[0] = u8::try_from(client).expect("a few clients");
        bytes[1] = state.attempts;
        let entropy = Entropy { token: OwnerToken::from_bytes(bytes), dice: 0 };
        let mut proposal = state.fleet.propose(now, fenced);
        proposal.ticket = ticket.then(|| state.fleet.draw_ticket(now));
        for voter in proposal.nodes.iter() {
            match voter {
                Err(Fault::Untrusted(Distrust::Quarantined { .. })) => self.seen.see(Sight::Quarantined),
                Err(Fault::Untrusted(Distrust::ClockJumped { .. })) => self.seen.see(Sight::ClockJumped),
                Err(Fault::Untrusted(Distrust::ClockApart { .. })) => self.seen.see(Sight::ClockApart),
                _ => {}
            }
        }
        let fence = proposal.fence.map(|claim| claim.fence.get());
        let voters: Vec<usize> =
            (0..proposal.nodes.len()).filter(|node| proposal.nodes[*node].is_ok()).collect();
        self.note(|| format!("client {client}: attempt with fence {fence:?} at nodes {voters:?}"));
        if let Some(lease) = &mut self.client(client).lease {
            lease.handle(now, lease::Input::Attempt { entropy, proposal });
        }
    }

    /// Tells the lease of a client something, and does what it asks for.
    pub(super) fn tell_lease(&mut self, client: usize, input: lease::Input) {
        let now = self.world.time(client);
        if let Some(lease) = &mut self.client(client).lease {
            lease.handle(now, input);
            self.drain_lease(client);
        }
        self.sweep(client);
    }

    fn drain_lease(&mut self, client: usize) {
        while let Some(output) = self.client(client).lease.as_mut().and_then(tenure_core::Lease::poll_output)
        {
            match output {
                lease::Output::Send { round, node, command } => {
                    let begun = self.world.clients[client].begun;
                    self.send(client, To::Lease { begun, round }, node, command);
                }
                lease::Output::CleanUp(release) => {
                    let state = self.client(client);
                    let id = state.cleanings;
                    state.cleanings += 1;
                    state.releases.push(Cleaning { id, begun: state.begun, release: *release });
                    let index = state.releases.len() - 1;
                    self.drain_release(client, index);
                }
                lease::Output::Propose { fenced, ticket } => self.attempt(client, fenced, ticket),
                lease::Output::Acquired => self.acquired(client),
                lease::Output::Extended => {
                    self.seen.see(Sight::Extended);
                    self.note(|| format!("client {client} HOLDS the lock for longer"));
                }
                lease::Output::NotExtended(reason) => {
                    self.note(|| format!("client {client}: not extended, {reason:?}"));
                }
                lease::Output::NotAcquired(not) => {
                    self.note(|| format!("client {client}: not acquired, {:?}", not.cause));
                }
                lease::Output::State(state) => {
                    if state == HoldState::Lost {
                        self.seen.see(Sight::Lost);
                    }
                    self.note(|| format!("client {client}: the lock is {state:?}"));
                }
                lease::Output::Waiting { .. } => {
                    self.seen.see(Sight::Waiting);
                    self.note(|| format!("client {client} waits in line"));
                }
                lease::Output::Retrying { .. } | lease::Output::Widened => {}
            }
        }
        let now = self.world.time(client);
        let state = self.client(client);
        let ticket = state.lease.as_ref().and_then(Lease::ticket);
        if state.ticket != ticket {
            let before: Option<Ticket> = std::mem::replace(&mut state.ticket, ticket);
            let told = state.waiters.change(&key(), u32::from(state.begun), before, ticket);
            for (_, behind) in told {
                if let Some(lease) = &mut state.lease {
                    lease.handle(now, lease::Input::BehindOwn(behind));
                }
            }
        }
    }

    fn acquired(&mut self, client: usize) {
        let state = &self.world.clients[client];
        let floor = state.floor;
        let fence = state.lease.as_ref().and_then(Lease::standing).and_then(tenure_core::Standing::fence);
        self.note(|| format!("client {client} HOLDS the lock, fence {fence:?}"));
        self.seen.see(Sight::Acquired);
        if !self.world.fences.is_empty() {
            self.seen.see(Sight::ChangedHands);
        }
        if let Some(fence) = fence.map(tenure_core::Fence::get) {
            let fences = &mut self.world.fences;
            match fences.binary_search(&fence) {
                Err(place) => {
                    self.world.fence_broken |= fence <= floor;
                    fences.insert(place, fence);
                }
                Ok(_) => self.world.fence_broken = true,
            }
            if self.config.writes == Writes::Fenced {
                self.world.resource.claimed = self.world.resource.claimed.max(fence);
            }
        }
    }

    fn write(&mut self, client: usize) {
        self.client(client).about_to_write = false;
        let state = &self.world.clients[client];
        let fence = state.lease.as_ref().and_then(Lease::standing).and_then(tenure_core::Standing::fence);
        let fence = fence.map_or(0, tenure_core::Fence::get);
        if self.config.writes == Writes::Fenced && fence < self.world.resource.claimed {
            self.seen.see(Sight::Refused);
            return self.note(|| format!("client {client} writes with fence {fence}: REFUSED"));
        }
        self.note(|| format!("client {client} writes with fence {fence}"));
        let others = (0..self.world.clients.len()).filter(|other| *other != client);
        let overrun = others.into_iter().any(|other| self.world.is_valid(other));
        match self.config.writes {
            Writes::Unchecked => self.world.resource.overrun |= overrun,
            Writes::Fenced => self.world.resource.undercut |= overrun && fence < self.world.resource.claimed,
            Writes::None => {}
        }
    }

    fn drain_release(&mut self, client: usize, index: usize) {
        let id = self.world.clients[client].releases[index].id;
        while let Some(output) = self.client(client).releases[index].release.poll_output() {
            match output {
                release::Output::Send { node, command } => {
                    self.send(client, To::Release { id }, node, command);
                }
                release::Output::Outcome { .. } => {
                    let now = self.world.time(client);
                    let state = self.client(client);
                    if state.releases[index].release.passed_on() {
                        let key = state.releases[index].release.key().clone();
                        state.waiters.passed_on(now, &key);
                    }
                }
                release::Output::Done { .. } => {}
            }
        }
    }

    pub(super) fn drain_fleet(&mut self, client: usize) {
        while let Some(output) = self.client(client).fleet.poll_output() {
            match output {
                trust::Output::Send { node, command } => self.send(client, To::Fleet, node, command),
                trust::Output::Distrust { node, forgot } => {
                    self.note(|| format!("client {client} distrusts node {}", node.get()));
                    self.tell_lease(client, lease::Input::Distrusted { node });
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
                trust::Output::Poisoned { .. } => {}
            }
        }
    }

    /// Sends a command. What is about records needs no time, unless their exchange is what the model is about.
    fn send(&mut self, client: usize, to: To, node: NodeIndex, command: Command) {
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

    fn execute_next(&mut self, client: usize, node: NodeIndex) {
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

    fn execute_stray(&mut self, node: usize) {
        let command = self.node(node).strays.remove(0);
        let reply = self.execute(node, &command);
        self.seen.see(Sight::Stray);
        self.note(|| format!("node {node}: late {}: {}", verb(&command), said(&reply.answer)));
        self.wake_waiters(node);
    }

    /// Executes a command, and looks whether it changes what belongs to another.
    fn execute(&mut self, node: usize, command: &Command) -> tenure_core::Reply {
        let now = self.world.node_time(self.config, node);
        let state = self.node(node);
        let owner_before = state.owner(now);
        let reply = state.table.execute(now, command);
        let owner_after = state.owner(now);
        let own = match command {
            Command::Extend { token, .. }
            | Command::Release { token, .. }
            | Command::PassOn { token, .. }
            | Command::Requeue { token, .. }
            | Command::Heal { token, .. } => Some(*token),
            _ => None,
        };
        if let (Some(token), Some((owner, _))) = (own, owner_before)
            && owner != tenure_core::Owner::Token(token)
        {
            self.world.ownership_broken |= owner_before != owner_after;
        }
        self.seen.reply(command, &reply.answer);
        reply
    }

    /// Tells those for whom a lock was set aside.
    fn wake_waiters(&mut self, server: usize) {
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

    fn hear_next(&mut self, client: usize, node: NodeIndex) {
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

    fn deliver(&mut self, client: usize, node: NodeIndex, to: To, sent: Time, answer: Answered) {
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

    /// Drops what has come to its end.
    fn sweep(&mut self, client: usize) {
        let state = self.client(client);
        if state.lease.as_ref().is_some_and(Lease::is_ended) {
            state.lease = None;
            state.about_to_write = false;
        }
        state.releases.retain(|cleaning| cleaning.release.poll_timeout().is_some());
    }

    fn restart(&mut self, node: usize, memory: Memory) {
        self.note(|| format!("node {node} is restarted, its memory is {memory:?}"));
        let (jump_us, with_loss) = (self.config.jump_ms * 1_000, self.config.faults.jump_with_loss);
        let state = self.node(node);
        state.process += 1;
        state.strays.clear();
        match memory {
            Memory::Kept => {}
            Memory::Lost => state.table.forget(),
            Memory::Old => state.table = state.snapshot.as_deref().cloned().unwrap_or_default(),
        }
        state.table.hang_up();
        if with_loss {
            state.ahead_us += jump_us;
        }
        for client in 0..self.world.clients.len() {
            for index in self.config.quorum().indexes() {
                if self.config.server(client, index.get()) == node {
                    self.break_link(client, index);
                }
            }
        }
        self.node(node).strays.clear();
    }

    /// The lock is deleted; the record is not.
    fn evict(&mut self, node: usize) {
        let now = self.world.node_time(self.config, node);
        if let Some((tenure_core::Owner::Token(token), _)) = self.world.nodes[node].owner(now) {
            self.note(|| format!("node {node} loses the lock, and nobody can see it"));
            self.node(node).table.execute(now, &Command::Release { key: key(), token });
        }
    }

    fn jump(&mut self, node: usize) {
        let by_ms = self.config.jump_ms;
        self.note(|| format!("node {node}: the clock jumps by {by_ms} ms"));
        self.node(node).ahead_us += by_ms * 1_000;
    }

    pub(super) fn number(&self, client: usize, node: NodeIndex) -> usize {
        client * self.config.quorum().nodes() + node.get()
    }

    fn client(&mut self, client: usize) -> &mut Client {
        self.world.clients[client].change()
    }

    fn node(&mut self, node: usize) -> &mut Node {
        self.world.nodes[node].change()
    }

    fn link(&mut self, client: usize, node: NodeIndex) -> &mut Link {
        let number = self.number(client, node);
        self.world.links[number].change()
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(notes) = &mut self.notes {
            notes.push(line());
        }
    }
}

/// The one lock of the small world.
pub(super) fn key() -> LockKey {
    LockKey::new(&Prefix::default(), "x").expect("a short name")
}

fn verb(command: &Command) -> &'static str {
    match command {
        Command::Acquire { .. } => "acquire",
        Command::Extend { .. } => "extend",
        Command::Heal { .. } => "heal",
        Command::Release { .. } => "release",
        Command::PassOn { .. } => "release and pass on",
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
