//! One client process: a fleet, its leases and releases, and the duties of a driver.
//!
//! The order of things here is what a real driver must keep: a reply is shown to the fleet before it is counted; a
//! clean-up goes out before the next attempt on the same connections; distrust reaches every lease at once.

use std::collections::{BTreeMap, VecDeque};

use tenure_core::trust;
use tenure_core::{
    Answer, Cause, Command, Distrust, Entropy, Facts, Fault, Fleet, Lease, LockKey, NodeIndex, NodeSet,
    OwnerToken, Prefix, Refusal, Release, Reply, Terms, Ticket, Time, Waiters, lease, release,
};

use crate::clock::ClientClock;
use crate::mutant::BentLease;
use crate::network::{Link, To};
use crate::options::Options;
use crate::trace::Mark;
use crate::world::{ClientEvent, Event, World};

/// A client process.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) life: u32,
    pub(crate) alive: bool,
    pub(crate) clock: ClientClock,
    pub(crate) fleet: Fleet,
    pub(crate) leases: Vec<Slot>,
    releases: Vec<Cleaning>,
    /// The connection to each node, while it is up as far as the client knows.
    pub(crate) links: Vec<Option<usize>>,
    pub(crate) paused: bool,
    /// The nodes that it can reach.
    pub(crate) reach: NodeSet,
    /// When it last went on after a pause.
    pub(crate) resumed_ns: Option<u64>,
    /// It will be paused when it has sent the commands of its next attempt.
    pub(crate) pause_armed: bool,
    pub(crate) inbox: VecDeque<ClientEvent>,
    wake_ns: Option<u64>,
    /// Nodes whose clock it has seen.
    pub(crate) watched: NodeSet,
    pub(crate) leases_begun: u32,
    releases_begun: u32,
    pub(crate) waiters: Waiters<u32>,
    /// The place in line of each lease that has one.
    pub(crate) tickets: BTreeMap<u32, Ticket>,
}

/// A lease and what the workload means to do with it.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) id: u32,
    pub(crate) name: usize,
    pub(crate) lease: Lease,
    pub(crate) terms: Terms,
    /// When it asked for the lock, in true time, and when a majority of nodes had it in line.
    pub(crate) called_ns: u64,
    pub(crate) in_line_ns: Option<u64>,
    /// When the present attempt began, in true time.
    pub(crate) begun_ns: u64,
    pub(crate) extensions_left: u32,
    /// Grants of the present attempt.
    pub(crate) grants: u32,
    /// What only known-bad variants keep.
    pub(crate) bent: BentLease,
}

#[derive(Clone, Debug)]
struct Cleaning {
    id: u32,
    lease: u32,
    release: Release,
}

/// What the workload does next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Begin,
    Extend {
        lease: u32,
    },
    End {
        lease: u32,
    },
    /// Of a known-bad variant.
    TellLoss {
        lease: u32,
    },
}

impl Client {
    pub(crate) fn new(options: &Options, clock: ClientClock, life: u32, seed: u64) -> Self {
        let quorum = options.quorum();
        let fleet = Fleet::new(options.settings(), quorum, Prefix::default(), seed);
        Self {
            life,
            alive: false,
            clock,
            fleet,
            leases: vec![],
            releases: vec![],
            links: vec![None; options.nodes],
            paused: false,
            reach: quorum.all(),
            resumed_ns: None,
            pause_armed: false,
            inbox: VecDeque::new(),
            wake_ns: None,
            watched: NodeSet::default(),
            leases_begun: 0,
            releases_begun: 0,
            waiters: Waiters::default(),
            tickets: BTreeMap::new(),
        }
    }

    pub(crate) fn slot(&mut self, lease: u32) -> Option<&mut Slot> {
        self.leases.iter_mut().find(|slot| slot.id == lease)
    }
}

impl World {
    pub(crate) fn handle_client_event(&mut self, client: usize, life: u32, event: ClientEvent) {
        let state = &mut self.clients[client];
        if !state.alive || state.life != life {
            return;
        }
        if state.paused {
            return state.inbox.push_back(event);
        }
        let attempts = self.marks.count(Mark::Attempt);
        match event {
            ClientEvent::Reply { link, to, sent, reply, asked } => {
                let Link { broken, noticed, node, .. } = self.links[link];
                if !noticed && broken.is_none_or(|broken| broken.answers) {
                    self.links[link].pending.pop_front();
                    self.handle_reply(client, node, to, sent, reply, asked);
                }
            }
            ClientEvent::Unsent { node, to } => {
                self.deliver(client, node, to, Err(Fault::Unreachable("no connection".into())));
            }
            ClientEvent::Welcome { link, facts } => self.handle_welcome(client, link, facts),
            ClientEvent::Surveyed { link, facts } => self.handle_surveyed(client, link, facts),
            ClientEvent::Broken { link } => self.handle_broken(client, link),
            ClientEvent::Woken { link, number, key } => self.handle_woken(client, link, number, key),
            ClientEvent::Changed { link } => self.handle_changed(client, link),
            ClientEvent::Reconnect { node } => self.connect(client, node),
            ClientEvent::Wake => self.handle_wake(client),
            ClientEvent::Act(act) => self.handle_act(client, act),
        }
        self.clients[client].leases.retain(|slot| !slot.lease.is_ended());
        self.clients[client].releases.retain(|cleaning| cleaning.release.poll_timeout().is_some());
        self.plan_wake(client);
        if self.clients[client].pause_armed && self.marks.count(Mark::Attempt) > attempts {
            self.pause_client(client);
        }
    }

    fn handle_welcome(&mut self, client: usize, link: usize, facts: Facts) {
        let Link { broken, noticed, node, .. } = self.links[link];
        if noticed || broken.is_some() {
            return;
        }
        let now = self.time(client);
        self.note(|| format!("client {client} is connected to node {}", node.get()));
        self.clients[client].links[node.get()] = Some(link);
        self.clients[client].fleet.handle(now, trust::Input::Connected { node, facts });
        self.drain_fleet(client);
        for index in 0..self.clients[client].releases.len() {
            let cleaning = &mut self.clients[client].releases[index];
            cleaning.release.handle(now, release::Input::Connected { node });
            self.drain_release(client, index);
        }
        self.tell_leases(client, &lease::Input::Connected { node });
    }

    fn handle_woken(&mut self, client: usize, link: usize, number: u64, key: LockKey) {
        let (now, node) = (self.time(client), self.links[link].node);
        if self.links[link].noticed {
            return;
        }
        match self.clients[client].waiters.find(number) {
            Some(lease) => {
                self.marks.see(Mark::Woken);
                if let Some(slot) = self.clients[client].slot(lease) {
                    slot.lease.handle(now, lease::Input::Woken { node });
                    self.drain_lease(client, lease);
                }
            }
            None => {
                self.marks.see(Mark::WokenInVain);
                let ticket = Ticket { number, client: self.clients[client].fleet.client() };
                self.send(client, To::Nobody, node, Command::Leave { key, ticket });
            }
        }
    }

    /// Locks that were passed on to somebody who did not come go to the next in line.
    fn nudge(&mut self, client: usize) {
        let now = self.time(client);
        while let Some(key) = self.clients[client].waiters.poll_nudge(now) {
            self.marks.see(Mark::Nudged);
            for node in self.options.quorum().indexes() {
                self.send(client, To::Nobody, node, Command::Nudge { key: key.clone() });
            }
        }
    }

    /// Keeps the list of those who wait, and tells them who is ahead of whom.
    pub(crate) fn note_ticket(&mut self, client: usize, lease: u32, key: &LockKey, after: Option<Ticket>) {
        let now = self.time(client);
        let before = self.clients[client].tickets.get(&lease).copied();
        if before == after {
            return;
        }
        match after {
            Some(ticket) => self.clients[client].tickets.insert(lease, ticket),
            None => self.clients[client].tickets.remove(&lease),
        };
        let told: Vec<(u32, bool)> = self.clients[client].waiters.change(key, lease, before, after).collect();
        for (other, behind) in told {
            if let Some(slot) = self.clients[client].slot(other) {
                slot.lease.handle(now, lease::Input::BehindOwn(behind));
            }
        }
    }

    fn handle_surveyed(&mut self, client: usize, link: usize, facts: Facts) {
        let Link { noticed, node, .. } = self.links[link];
        if !noticed && self.clients[client].links[node.get()] == Some(link) {
            let now = self.time(client);
            self.clients[client].fleet.handle(now, trust::Input::Surveyed { node, facts });
            self.drain_fleet(client);
        }
    }

    fn handle_broken(&mut self, client: usize, link: usize) {
        let now = self.time(client);
        let node = self.links[link].node;
        self.links[link].noticed = true;
        if self.clients[client].links[node.get()] == Some(link) {
            self.note(|| format!("client {client} sees the connection to node {} break", node.get()));
            self.clients[client].links[node.get()] = None;
            self.clients[client]
                .fleet
                .handle(now, trust::Input::Disconnected { node, fault: Fault::Disconnected });
            self.drain_fleet(client);
            self.tell_leases(client, &lease::Input::Disconnected { node });
            for to in std::mem::take(&mut self.links[link].pending) {
                self.deliver(client, node, to, Err(Fault::Disconnected));
            }
        }
        self.connect_later(client, node, self.options.max_ttl_ms * 500_000);
    }

    fn handle_reply(
        &mut self,
        client: usize,
        node: NodeIndex,
        to: To,
        sent: Time,
        reply: Reply,
        asked: Option<Box<Command>>,
    ) {
        let now = self.time(client);
        let state = &mut self.clients[client];
        state.watched.insert(node);
        state.fleet.observe(now, node, sent, &reply);
        self.drain_fleet(client);
        if reply.answer == Answer::Refused(Refusal::Stranger) {
            self.clients[client].fleet.handle(now, trust::Input::Changed { node });
            self.drain_fleet(client);
        }
        let Some((to, reply)) = self.bend_reply(client, node, to, reply, asked) else { return };
        self.deliver(client, node, to, Ok(reply));
    }

    fn deliver(&mut self, client: usize, node: NodeIndex, to: To, answer: Result<Reply, Fault>) {
        let now = self.time(client);
        match to {
            To::Nobody => {}
            To::Fleet => {
                self.clients[client].fleet.handle(now, trust::Input::Answer { node, answer });
                self.drain_fleet(client);
            }
            To::Release { release } => {
                let releases = &mut self.clients[client].releases;
                if let Some(index) = releases.iter().position(|cleaning| cleaning.id == release) {
                    releases[index].release.handle(now, release::Input::Answer { node, answer });
                    self.drain_release(client, index);
                }
            }
            To::Lease { lease, round } => {
                let undoes = |cleaning: &Cleaning| {
                    cleaning.lease == lease && cleaning.release.acquire_round() == round
                };
                if let Some(index) = self.clients[client].releases.iter().position(undoes) {
                    let input = release::Input::AcquireAnswer { node, answer: answer.clone() };
                    self.clients[client].releases[index].release.handle(now, input);
                    self.drain_release(client, index);
                }
                if let Some(slot) = self.clients[client].slot(lease) {
                    let granted = matches!(&answer, Ok(reply) if reply.answer == Answer::Granted);
                    slot.grants += u32::from(granted);
                    slot.lease.handle(now, lease::Input::Answer { round, node, answer });
                    self.drain_lease(client, lease);
                }
            }
        }
    }

    fn handle_wake(&mut self, client: usize) {
        let now = self.time(client);
        self.clients[client].wake_ns = None;
        let due = |timeout: Option<Time>| timeout.is_some_and(|timeout| timeout <= now);
        self.nudge(client);
        if due(self.clients[client].fleet.poll_timeout()) {
            self.clients[client].fleet.handle(now, trust::Input::Timeout);
            self.drain_fleet(client);
        }
        let leases: Vec<u32> = self.clients[client].leases.iter().map(|slot| slot.id).collect();
        for lease in leases {
            if let Some(slot) = self.clients[client].slot(lease).filter(|slot| due(slot.lease.poll_timeout()))
            {
                slot.lease.handle(now, lease::Input::Timeout);
                self.drain_lease(client, lease);
            }
        }
        for index in 0..self.clients[client].releases.len() {
            let release = &mut self.clients[client].releases[index].release;
            if due(release.poll_timeout()) {
                release.handle(now, release::Input::Timeout);
                self.drain_release(client, index);
            }
        }
    }

    pub(crate) fn plan_wake(&mut self, client: usize) {
        let state = &self.clients[client];
        let leases = state.leases.iter().filter_map(|slot| slot.lease.poll_timeout());
        let releases = state.releases.iter().filter_map(|cleaning| cleaning.release.poll_timeout());
        let releases = releases.chain(state.waiters.poll_timeout());
        let Some(next) = leases.chain(releases).chain(state.fleet.poll_timeout()).min() else { return };
        let life = state.life;
        let late_ns = if self.dice.chance(100) { self.dice.below(2_000_000) } else { 0 };
        let next_ns = (self.clients[client].clock.when(next) + late_ns).max(self.now_ns + 1_000);
        if self.clients[client].wake_ns.is_none_or(|wake_ns| next_ns < wake_ns) {
            self.clients[client].wake_ns = Some(next_ns);
            self.at(next_ns, Event::Client { client, life, event: ClientEvent::Wake });
        }
    }

    pub(crate) fn drain_fleet(&mut self, client: usize) {
        while let Some(output) = self.clients[client].fleet.poll_output() {
            match output {
                trust::Output::Send { node, command } => self.send(client, To::Fleet, node, command),
                trust::Output::Distrust { node, forgot } if !self.tolerates(client, node, forgot) => {
                    self.note(|| format!("client {client} distrusts node {} (forgot: {forgot})", node.get()));
                    self.tell_leases(client, &lease::Input::Distrusted { node });
                    if forgot {
                        self.tell_leases(client, &lease::Input::Disconnected { node });
                    }
                }
                trust::Output::Distrust { .. } => {}
                trust::Output::Notice { node, distrust } => {
                    match distrust {
                        Some(Distrust::Quarantined { .. }) => self.marks.see(Mark::Quarantined),
                        Some(Distrust::ClockJumped { .. }) => self.marks.see(Mark::ClockJumped),
                        Some(Distrust::ClockApart { .. }) => self.marks.see(Mark::ClockApart),
                        _ => {}
                    }
                    self.note(|| format!("client {client} on node {}: {distrust:?}", node.get()));
                }
                trust::Output::Survey { node } => self.survey(client, node),
                trust::Output::Poisoned { .. } => self.marks.see(Mark::Poisoned),
            }
        }
    }

    fn tell_leases(&mut self, client: usize, input: &lease::Input) {
        let now = self.time(client);
        let leases: Vec<u32> = self.clients[client].leases.iter().map(|slot| slot.id).collect();
        for lease in leases {
            if let Some(slot) = self.clients[client].slot(lease) {
                slot.lease.handle(now, input.clone());
                self.drain_lease(client, lease);
            }
        }
    }

    pub(crate) fn drain_lease(&mut self, client: usize, lease: u32) {
        let mut cleaned_up = false;
        while let Some(output) = self.clients[client].slot(lease).and_then(|slot| slot.lease.poll_output()) {
            match output {
                lease::Output::Send { round, node, command } => {
                    self.note_round(client, lease, round, &command);
                    self.send(client, To::Lease { lease, round }, node, command);
                }
                lease::Output::CleanUp(release) => {
                    cleaned_up = true;
                    self.clean_up(client, lease, *release);
                }
                lease::Output::Propose { fenced, ticket } => {
                    if cleaned_up && !ticket {
                        self.marks.see(Mark::Reproposed);
                    }
                    self.attempt(client, lease, fenced, ticket);
                }
                lease::Output::Waiting { .. } => self.marks.see(Mark::Waiting),
                lease::Output::Retrying { cause, .. } => self.mark_cause(cause),
                lease::Output::NotAcquired(not) => {
                    self.mark_cause(not.cause);
                    self.note(|| format!("client {client} lease {lease}: not acquired, {:?}", not.cause));
                }
                lease::Output::Acquired => self.handle_acquired(client, lease),
                lease::Output::Extended => self.handle_extended(client, lease),
                lease::Output::NotExtended(reason) => self.handle_not_extended(client, lease, &reason),
                lease::Output::State(state) => self.handle_state(client, lease, state),
                lease::Output::Widened => {}
            }
        }
        if let Some(slot) = self.clients[client].slot(lease) {
            let (key, ticket) = (slot.lease.key().clone(), slot.lease.ticket());
            self.note_ticket(client, lease, &key, ticket);
        }
    }

    pub(crate) fn attempt(&mut self, client: usize, lease: u32, fenced: bool, ticket: bool) {
        let now = self.time(client);
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.dice.next().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.dice.next().to_be_bytes());
        let token = OwnerToken::from_bytes(bytes);
        let mut entropy = Entropy { token, dice: self.dice.next() };
        let fleet = &mut self.clients[client].fleet;
        let mut proposal = fleet.propose(now, fenced);
        proposal.ticket = ticket.then(|| fleet.draw_ticket(now));
        self.bend_attempt(client, lease, &mut entropy, &mut proposal);
        self.marks.see(Mark::Attempt);
        let (begun_ns, fence) = (self.now_ns, proposal.fence.map(|claim| claim.fence.get()));
        let voters = proposal.nodes.iter().filter(|voter| voter.is_ok()).count();
        self.note(|| {
            format!("client {client} lease {lease}: attempt with fence {fence:?} at {voters} nodes")
        });
        if let Some(slot) = self.clients[client].slot(lease) {
            (slot.begun_ns, slot.grants) = (begun_ns, 0);
            slot.lease.handle(now, lease::Input::Attempt { entropy, proposal });
        }
    }

    fn clean_up(&mut self, client: usize, lease: u32, release: Release) {
        let held = self.clients[client].slot(lease).is_some_and(|slot| slot.extensions_left < u32::MAX);
        let grants = self.clients[client].slot(lease).map_or(0, |slot| slot.grants);
        if !held && grants > 0 {
            self.marks.see(Mark::PartialGrant);
        }
        if self.leaves_keys(client, lease, held) {
            return;
        }
        let state = &mut self.clients[client];
        state.releases_begun += 1;
        state.releases.push(Cleaning { id: state.releases_begun, lease, release });
        let index = state.releases.len() - 1;
        self.drain_release(client, index);
    }

    fn drain_release(&mut self, client: usize, index: usize) {
        let id = self.clients[client].releases[index].id;
        while let Some(output) = self.clients[client].releases[index].release.poll_output() {
            match output {
                release::Output::Send { node, command } => {
                    if matches!(&command, Command::PassOn { requeue: Some(_), .. }) {
                        self.marks.see(Mark::Yielded);
                    }
                    self.send(client, To::Release { release: id }, node, command);
                }
                release::Output::Outcome { .. } => {
                    let now = self.time(client);
                    let state = &mut self.clients[client];
                    let release = &state.releases[index].release;
                    if release.passed_on() {
                        state.waiters.passed_on(now, release.key());
                    }
                }
                release::Output::Done { .. } => {}
            }
        }
    }

    pub(crate) fn time(&self, client: usize) -> Time {
        self.clients[client].clock.read(self.now_ns)
    }

    fn mark_cause(&mut self, cause: Cause) {
        match cause {
            Cause::Contended { .. } => self.marks.see(Mark::Contended),
            Cause::TooLate => self.marks.see(Mark::TooLate),
            _ => {}
        }
    }
}
