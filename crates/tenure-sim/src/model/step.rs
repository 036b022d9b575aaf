//! One step: what happens to the world when an action is taken.

mod calls;
mod faults;
mod messages;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use tenure_core::client::{Input, Request, Room, Tag};
use tenure_core::{Gathered, Lease, NodeIndex};

use super::action::Action;
use super::config::Config;
use super::seen::{Seen, Sight};
use super::world::{Link, Node, Process, TICK_MS, World};

/// A world in the middle of a step.
pub(super) struct Step<'a> {
    pub(super) config: &'a Config,
    pub(super) world: &'a mut World,
    pub(super) seen: &'a Seen,
    /// What happens, in words, if anybody wants to read it.
    pub(super) notes: Option<Vec<String>>,
    /// What reaches clients without taking time.
    arrivals: VecDeque<(usize, Input)>,
    /// What leaves together when the step is over, by the number of the connection.
    gathered: BTreeMap<usize, Gathered<Tag>>,
    /// Room for what clients say. States keep none of their own.
    room: Room<Lease>,
}

thread_local! {
    /// Room for the next step.
    static ROOM: Cell<Room<Lease>> = Cell::default();
}

impl<'a> Step<'a> {
    pub(super) fn new(config: &'a Config, world: &'a mut World, seen: &'a Seen) -> Self {
        Self {
            config,
            world,
            seen,
            notes: None,
            arrivals: VecDeque::new(),
            gathered: BTreeMap::new(),
            room: ROOM.take(),
        }
    }

    /// Ends the step, and tells what happened.
    pub(super) fn end(self) -> Option<Vec<String>> {
        ROOM.set(self.room);
        self.notes
    }

    pub(super) fn take(&mut self, action: Action) {
        self.world.left.spend(action);
        match action {
            Action::Tick => self.tick(),
            Action::Start { client } => {
                let state = self.client(client);
                (state.alive, state.started) = (true, true);
                self.note(|| format!("client {client} starts"));
                // It asks for locks whether it reaches nodes or not.
                self.handle(client, Input::Tried { nodes: self.config.quorum().all() });
                self.handle(client, Input::Wake);
            }
            Action::Connect { client, node } => self.connect(client, node),
            Action::Begin { client } => self.begin(client),
            Action::Extend { client } => {
                self.client(client).extended += 1;
                self.note(|| format!("client {client} extends"));
                let (id, term) = (self.world.clients[client].id(), self.config.terms(client).term);
                self.request(client, Request::Extend { id, term });
            }
            Action::Share { client } => {
                self.note(|| format!("client {client} shares the lock from now on"));
                self.seen.see(Sight::SharedSince);
                self.request(client, Request::Share { id: self.world.clients[client].id() });
            }
            Action::Release { client } => {
                self.note(|| format!("client {client} releases"));
                self.request(client, Request::Release { id: self.world.clients[client].id() });
                if self.config.neighbour {
                    self.request(client, Request::Abandon { id: self.world.clients[client].neighbour() });
                }
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
                self.note(|| format!("client {client} pauses"));
            }
            Action::Resume { client, timers_first } => {
                self.client(client).paused = false;
                self.note(|| format!("client {client} goes on"));
                if timers_first {
                    self.wake(client);
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
        self.send_all_gathered();
        let holders = self.world.holders();
        if holders > 1 {
            self.seen.see(Sight::HeldTogether);
            self.world.exclusion_broken |= self.world.is_held_twice();
        }
    }

    /// Delivers what needs no time, until nothing is left.
    fn settle(&mut self) {
        while let Some((client, input)) = self.arrivals.pop_front() {
            self.handle(client, input);
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
        self.note(|| format!("-- {} ms --", tick * TICK_MS));
        for client in 0..self.world.clients.len() {
            let Process { alive, paused, .. } = *self.world.clients[client];
            if paused && self.config.faults.sleeps {
                self.client(client).slept += 1;
            }
            if alive && !paused {
                self.wake(client);
                self.settle();
            }
        }
    }

    /// Lets a client look what is due.
    fn wake(&mut self, client: usize) {
        let now = self.world.time(client);
        if self.world.clients[client].client.poll_timeout(now).is_some_and(|timeout| timeout <= now) {
            self.handle(client, Input::Wake);
        }
    }

    pub(super) fn number(&self, client: usize, node: NodeIndex) -> usize {
        client * self.config.quorum().nodes() + node.get()
    }

    fn client(&mut self, client: usize) -> &mut Process {
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
