//! The world: true time, and everything that happens in it, one event after the other.

pub(crate) mod client;
mod clock;
pub(crate) mod epoch;
mod event;
mod eviction;
mod judge;
mod links;
mod network;
pub(crate) mod node;
mod partition;
mod promotion;
pub(crate) mod stage;
pub(crate) mod strangers;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use tenure_core::client::{Addressee, Renewals, Tag};
use tenure_core::{Answer, Command, OwnerId, OwnerToken, Reply};

use crate::checker::exclusion::Exclusion;
use crate::checker::extension::Extension;
use crate::checker::fencing::Fencing;
use crate::checker::healing::Healing;
use crate::checker::liveness::Liveness;
use crate::checker::loss::Loss;
use crate::checker::ownership::Ownership;
use crate::checker::passing::Passing;
use crate::checker::period::Periods;
use crate::checker::{Holder, Violation};
use crate::dice::Dice;
use crate::options::{Options, Scenario};
use crate::trace::{Mark, Marks, Trace};
use crate::world::client::SimClient;
use crate::world::clock::{ClientClock, NodeClock};
use crate::world::epoch::Epoch;
use crate::world::event::Scheduled;
pub(crate) use crate::world::event::{ClientEvent, Event};
use crate::world::links::{Broken, Links, Message};
use crate::world::network::delay_ns;
use crate::world::node::{Node, NodeFault};
use crate::world::partition::Gate;
use crate::world::stage::Stage;

/// Clients' clocks begin up to so far apart: ten hours.
const CLIENTS_APART_NS: u64 = 36_000_000_000_000;

/// What a history came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    /// What was seen.
    pub marks: Marks,
    /// How many events there were.
    pub events: u64,
    /// How long it was, in true time.
    pub lasted_ns: u64,
    /// How much of the time allowed it took to get every lock after the last fault, in thousandths.
    pub bound_used_per_mille: u64,
    /// The story, if it was asked for.
    pub story: Vec<String>,
    /// A number that two histories share only if every event of them is the same, if the story was
    /// asked for.
    pub digest: u64,
}

pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) dice: Dice,
    pub(crate) now_ns: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<SimClient>,
    pub(crate) links: Links,
    /// For every client and node.
    pub(crate) gates: Vec<Gate>,
    pub(crate) exclusion: Exclusion,
    pub(crate) fencing: Fencing,
    pub(crate) extension: Extension,
    pub(crate) healing: Healing,
    pub(crate) liveness: Liveness,
    pub(crate) loss: Loss,
    pub(crate) ownership: Ownership,
    pub(crate) passing: Passing,
    pub(crate) periods: Periods,
    /// Whose attempt a token was drawn for; only known-bad variants look.
    pub(crate) owner_ids: BTreeMap<OwnerToken, OwnerId>,
    pub(crate) violation: Option<Violation>,
    pub(crate) marks: Marks,
    /// The next lock that is got or extended loses a key.
    pub(crate) evict_armed: bool,
    /// When a clock last made a large step forward.
    pub(crate) stepped_ns: Option<u64>,
    /// The long hold of a rolling restart, or at a distance.
    pub(crate) first_to_hold: Option<Holder>,
    pub(crate) epoch: Epoch,
    /// Until when something lasts that has gone wrong.
    pub(crate) calm_ns: u64,
    pub(crate) stage: Stage,
    pub(crate) trace: Trace,
    queue: BinaryHeap<Reverse<Scheduled>>,
    sequence: u64,
    pub(crate) events: u64,
}

/// Runs one history to its end, or to the first broken promise. With `story`, it is written down.
#[must_use]
pub fn run(options: &Options, story: bool) -> Outcome {
    let mut world = World::new(options.clone(), story);
    world.run();
    let World { violation, marks, events, now_ns, trace, liveness, .. } = world;
    let bound_used_per_mille = liveness.used_per_mille();
    let Trace { lines: story, digest, .. } = trace;
    Outcome { violation, marks, events, lasted_ns: now_ns, bound_used_per_mille, story, digest }
}

impl World {
    fn new(options: Options, story: bool) -> Self {
        let mut dice = Dice::new(options.seed);
        let nodes = (0..options.nodes)
            .map(|index| {
                let (skew_us, rate_ppm) =
                    (dice.around_zero(options.skew_us / 2), dice.around_zero(options.node_rate_ppm));
                Node::new(NodeClock::new(skew_us, rate_ppm), rate_ppm, index < options.durable)
            })
            .collect();
        let mut world = Self {
            dice,
            now_ns: 0,
            nodes,
            clients: vec![],
            links: Links::new(options.everybody(), options.nodes),
            gates: vec![Gate::default(); options.everybody() * options.nodes],
            exclusion: Exclusion::default(),
            fencing: Fencing::default(),
            extension: Extension::default(),
            healing: Healing::default(),
            liveness: Liveness::default(),
            loss: Loss::default(),
            ownership: Ownership::default(),
            passing: Passing::default(),
            periods: Periods::default(),
            owner_ids: BTreeMap::new(),
            violation: None,
            marks: Marks::default(),
            stepped_ns: None,
            evict_armed: false,
            first_to_hold: None,
            epoch: Epoch::default(),
            calm_ns: 0,
            stage: Stage::Safety,
            trace: Trace { on: story, ..Trace::default() },
            queue: BinaryHeap::new(),
            sequence: 0,
            events: 0,
            options,
        };
        for client in 0..world.options.everybody() {
            let clock = world.any_clock();
            let seed = world.dice.next();
            world.clients.push(SimClient::new(&world.options, client, clock, 0, seed, 0));
            let begins_ns = world.dice.between(0, 20_000_000);
            world.at(begins_ns, Event::Start { client });
        }
        world.plan_epoch();
        if world.options.scenario == Scenario::RollingRestart {
            let first_ns = world.options.rolling_interval_ns();
            world.at(first_ns, Event::Fault(NodeFault::LoseMemory { node: 0 }));
        }
        world
    }

    fn run(&mut self) {
        while let Some(Reverse(Scheduled { time_ns, event, .. })) = self.queue.pop() {
            if self.is_stale(&event) {
                continue;
            }
            self.now_ns = time_ns;
            self.events += 1;
            self.trace.digest(time_ns, &event);
            self.handle(event);
            if let Some(violation) = &self.violation {
                let line = violation.to_string();
                return self.note(|| format!("VIOLATION: {line}"));
            }
            self.advance();
            if self.stage == Stage::Over {
                break;
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request { link, message, late } => self.handle_request(link, message, late),
            Event::Duplicate { link, message } => self.handle_duplicate(link, &message),
            Event::CutLink { link } => self.cut_link(link),
            Event::Effect { link, tag, effect } => self.handle_effect(link, tag, effect),
            Event::Hello { link } => self.handle_hello(link),
            Event::Survey { link } => self.handle_survey(link),
            Event::HangUp { link, listener } => self.handle_hang_up(link, listener),
            Event::Fault(fault) => self.handle_fault(fault),
            Event::Stage(event) => self.handle_stage(event),
            Event::Planned { epoch, plan } => self.handle_planned(epoch, plan),
            Event::Start { client } => self.start_client(client),
            Event::Resume { client, generation } => self.resume_client(client, generation),
            Event::Timer { client, generation, .. } => {
                self.handle_client_event(client, generation, ClientEvent::Wake);
            }
            Event::Client { client, generation, event } => {
                self.handle_client_event(client, generation, event);
            }
        }
    }

    fn handle_request(&mut self, link: usize, message: Message, late: bool) {
        match self.links[link].broken {
            Some(Broken { strays_ns: None, .. }) => return,
            Some(Broken { strays_ns: Some(later_ns), .. }) if !late => {
                return self.at(self.now_ns + later_ns, Event::Request { link, message, late: true });
            }
            Some(_) if self.is_first_of_stranger(link, &message) => return,
            Some(_) => self.marks.see(Mark::Stray),
            None => {}
        }
        match message {
            Message::Command { tag, command } => {
                if self.begin_effects(link, tag, &command) {
                    return;
                }
                let reply = self.execute_judged(link, tag.to, &command);
                if late {
                    self.mark_ghost(&reply, &command);
                }
                self.reply(link, tag, reply, Some(command));
            }
            Message::Batch(commands) => self.execute_batch(link, commands, late),
            Message::Renewals(renewals) => self.execute_renewals(link, renewals),
        }
        self.wake_waiters(self.links[link].node);
        self.note_in_line();
    }

    /// A message that arrives twice is executed twice, and nobody waits for the second answer.
    fn handle_duplicate(&mut self, link: usize, message: &Message) {
        let node = self.links[link].node;
        let ended = matches!(self.links[link].broken, Some(Broken { strays_ns: None, .. }));
        if ended || !self.nodes[node.get()].up || self.is_first_of_stranger(link, message) {
            return;
        }
        let mut again = |command: &Command| {
            let reply = self.execute_judged(link, Addressee::Nobody, command);
            self.mark_ghost(&reply, command);
        };
        match message {
            Message::Command { command, .. } => again(command),
            Message::Batch(commands) => commands.iter().for_each(|(_, command)| again(command)),
            Message::Renewals(renewals) => renewals.commands().for_each(|(_, command)| again(&command)),
        }
        self.marks.see(Mark::Duplicated);
        self.wake_waiters(node);
        self.note_in_line();
    }

    /// Executes commands together, and answers each.
    fn execute_batch(&mut self, link: usize, commands: Vec<(Tag, Command)>, late: bool) {
        let node = self.links[link].node;
        let execute = |(tag, command): (Tag, Command)| {
            let reply = self.execute_judged(link, tag.to, &command);
            if late {
                self.mark_ghost(&reply, &command);
            }
            self.note_reply(link, &reply, Some(&command));
            (tag, reply, self.options.mutant.is_some().then(|| Box::new(command)))
        };
        let mut answers: Vec<_> = commands.into_iter().map(execute).collect();
        self.maybe_snapshot(node);
        if self.links[link].broken.is_some() {
            return;
        }
        self.bend_batch(&mut answers);
        answers.iter_mut().for_each(|(_, reply, _)| self.bend_time(link, reply));
        self.send_back(link, ClientEvent::Replies { link, answers });
    }

    /// Executes renewals together, and answers them as a whole if all are granted.
    fn execute_renewals(&mut self, link: usize, renewals: Arc<Renewals>) {
        let execute = |(tag, command): (Tag, Command)| {
            let reply = self.execute_judged(link, tag.to, &command);
            self.mark_reply(&reply, Some(&command));
            reply
        };
        let mut replies: Vec<Reply> = renewals.commands().map(execute).collect();
        self.maybe_snapshot(self.links[link].node);
        if self.links[link].broken.is_some() {
            return;
        }
        replies.iter_mut().for_each(|reply| self.bend_time(link, reply));
        let granted = replies.iter().all(|reply| reply.answer == Answer::Granted);
        let event = match replies.last() {
            Some(last) if granted => ClientEvent::Renewed { link, renewals, time: last.time },
            _ => ClientEvent::Split { link, renewals, replies },
        };
        self.send_back(link, event);
    }

    /// Sends an answer back, unless the connection is gone.
    pub(crate) fn reply(&mut self, link: usize, tag: Tag, mut reply: Reply, asked: Option<Command>) {
        self.note_reply(link, &reply, asked.as_ref());
        self.maybe_snapshot(self.links[link].node);
        if self.links[link].broken.is_some() {
            return;
        }
        self.bend_time(link, &mut reply);
        let asked = asked.filter(|_| self.options.mutant.is_some()).map(Box::new);
        self.send_back(link, ClientEvent::Reply { link, tag, reply, asked });
    }

    fn note_reply(&mut self, link: usize, reply: &Reply, asked: Option<&Command>) {
        if self.options.scenario == crate::options::Scenario::Waiting {
            self.note_queue_command(self.links[link].node, link, reply, asked);
        }
        self.mark_reply(reply, asked);
    }

    /// Something travels from a node to its client, in the order of the connection.
    pub(crate) fn send_back(&mut self, link: usize, event: ClientEvent) {
        let delay = delay_ns(&mut self.dice, &self.options);
        let state = &mut self.links[link];
        let (client, generation, arrives) =
            (state.client, state.generation, state.reply_arrives(self.now_ns, delay));
        self.at(arrives, Event::Client { client, generation, event });
    }

    pub(crate) fn any_clock(&mut self) -> ClientClock {
        let start_ns = self.dice.below(CLIENTS_APART_NS);
        ClientClock::new(start_ns, self.dice.around_zero(self.options.client_rate_ppm))
    }

    pub(crate) fn at(&mut self, time_ns: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse(Scheduled { time_ns, sequence: self.sequence, event }));
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        self.trace.note(self.now_ns, line);
    }
}
