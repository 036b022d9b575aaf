//! What clients do: acquire, extend, release, forget, stop for a while, die and come back knowing nothing.

use std::time::Duration;

use tenure_core::{
    Command, HoldState, Lease, LockKey, NodeIndex, NotExtended, Prefix, Renewal, Reply, Standing, Terms,
    Wait, lease,
};

use crate::checker::{Holder, Violation};
use crate::client::{Act, Client, Slot};
use crate::options::{Options, Scenario};
use crate::trace::Mark;
use crate::world::{ClientEvent, Event, World};

/// How many leases one client has at a time.
const LEASES_MAX: usize = 2;

impl World {
    pub(crate) fn start_client(&mut self, client: usize) {
        let calm_ns = self.options.quarantine_us() * 1_000;
        if let Some(stepped_ns) = self.stepped_ns.filter(|stepped_ns| self.now_ns < stepped_ns + calm_ns) {
            // A client that is new could not know that a clock has just stepped.
            return self.at(stepped_ns + calm_ns, Event::Start { client });
        }
        if self.clients[client].alive {
            return;
        }
        // Some reach only a minority of nodes, and different ones; the first client reaches all.
        if self.options.scenario == Scenario::Waiting && client > 0 && self.dice.chance(250) {
            let count = self.options.nodes - self.options.quorum().majority();
            let first = self.dice.index(self.options.nodes);
            let nodes = self.options.quorum().indexes().cycle().skip(first).take(count);
            self.clients[client].reach = nodes.collect();
            self.marks.see(Mark::MinorityOnly);
        }
        let state = &mut self.clients[client];
        state.alive = true;
        let life = state.life;
        self.note(|| format!("client {client}.{life} starts"));
        for node in self.options.quorum().indexes() {
            self.connect_later(client, node, 500_000);
        }
        self.act_later(client, 50_000_000, Act::Begin);
    }

    pub(crate) fn handle_act(&mut self, client: usize, act: Act) {
        match act {
            Act::Begin => self.begin_lease(client),
            Act::Extend { lease } => {
                let now = self.time(client);
                if let Some(slot) = self.clients[client].slot(lease) {
                    slot.lease.handle(now, lease::Input::Extend(slot.terms.term));
                    self.drain_lease(client, lease);
                }
            }
            Act::End { lease } => self.end_lease(client, lease),
        }
    }

    fn begin_lease(&mut self, client: usize) {
        let long_hold = self.options.scenario == Scenario::RollingRestart && client == 0;
        let leases_max = if long_hold { 1 } else { LEASES_MAX };
        if self.clients[client].leases.len() < leases_max {
            let name = self.dice.index(self.options.names);
            let terms = self.any_terms(long_hold);
            let key = LockKey::new(&Prefix::default(), &format!("lock-{name}")).expect("a short name");
            let quorum = self.options.quorum();
            let state = &mut self.clients[client];
            state.leases_begun += 1;
            let id = state.leases_begun;
            let mut slot = Slot::new(id, name, Lease::new(key, terms, quorum), terms);
            slot.called_ns = self.now_ns;
            state.leases.push(slot);
            self.note(|| format!("client {client} lease {id}: wants lock {name} for {:?}", terms.term.ttl()));
            let state = &self.clients[client];
            let lease = &state.leases[state.leases.len() - 1].lease;
            let wanted = lease.waits() && state.waiters.is_wanted(lease.key());
            self.attempt(client, id, terms.fenced, wanted);
            self.drain_lease(client, id);
        }
        self.act_later(client, self.options.max_ttl_ms * 1_000_000, Act::Begin);
    }

    fn any_terms(&mut self, whole_term: bool) -> Terms {
        let mut options = tenure_core::Options::default();
        let max_ttl_ms = self.options.max_ttl_ms;
        let ttl_ms = if whole_term { max_ttl_ms } else { self.dice.of_any_size(50, max_ttl_ms) };
        options.ttl = Duration::from_millis(ttl_ms);
        options.wait = match self.dice.below(3) {
            _ if whole_term => Wait::Forever,
            0 | 1 if self.options.scenario == Scenario::Waiting => Wait::Forever,
            0 => Wait::No,
            1 => Wait::AtMost(Duration::from_millis(self.dice.below(ttl_ms * 4))),
            _ => Wait::AtMost(Duration::from_millis(self.dice.below(ttl_ms))),
        };
        options.retry.delay = Duration::from_millis(self.dice.between(5 + ttl_ms / 20, 10 + ttl_ms));
        options.retry.jitter = options.retry.delay;
        options.fenced = self.options.fenced;
        options.queued = !whole_term && self.dice.chance(self.options.queued_per_mille);
        if whole_term || self.dice.chance(500) {
            options.renewal = Renewal::Off;
        }
        // A waiter that wants a margin needs more nodes than a majority, and lets others go first while it cannot have them.
        if self.dice.chance(100) && self.options.scenario != Scenario::Waiting {
            options.min_margin = self.options.nodes / 2;
        }
        if self.options.scenario == Scenario::Waiting {
            // Longer than any answer takes.
            options.ttl = Duration::from_millis(max_ttl_ms);
            options.node_timeout = Some(Duration::from_millis(max_ttl_ms / 4));
        } else if self.dice.chance(300) && ttl_ms > 200 && !whole_term {
            options.node_timeout = Some(Duration::from_millis(self.dice.between(1, ttl_ms / 2)));
        }
        options.check(self.options.max_ttl()).expect("drawn within the limits")
    }

    pub(crate) fn handle_acquired(&mut self, client: usize, lease: u32) {
        self.marks.see(Mark::Acquired);
        let extensions = self.dice.below(4);
        let (counted, rolling) =
            (self.options.counts_shown_fences(), self.options.scenario == Scenario::RollingRestart);
        let Some(slot) = self.clients[client].slot(lease) else { return };
        slot.extensions_left =
            if rolling && client == 0 { 1_000_000 } else { u32::try_from(extensions).unwrap_or(0) };
        let (name, begun_ns, shown) = (slot.name, slot.begun_ns, slot.shown);
        let Some(fence) = slot.lease.standing().map(Standing::fence) else { return };
        let fence = fence.map(|fence| if counted { shown } else { fence.get() });
        self.note(|| format!("client {client} lease {lease}: ACQUIRED lock {name}, fence {fence:?}"));
        let holder = self.holder(client, lease);
        if client == 0 {
            self.first_to_hold.get_or_insert(holder);
        }
        self.check_order(client, lease);
        if let Some(fence) = fence {
            let violation = self.fencing.acquired(self.now_ns, begun_ns, name, holder, fence);
            self.judge(violation);
        }
        self.hold(client, lease);
        self.plan_next(client, lease);
    }

    pub(crate) fn handle_extended(&mut self, client: usize, lease: u32) {
        self.marks.see(Mark::Extended);
        self.note(|| format!("client {client} lease {lease}: extended"));
        self.hold(client, lease);
        self.plan_next(client, lease);
    }

    pub(crate) fn handle_not_extended(&mut self, client: usize, lease: u32, reason: &NotExtended) {
        self.marks.see(Mark::NotExtended);
        self.note(|| format!("client {client} lease {lease}: not extended, {reason:?}"));
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let name = slot.name;
        if slot.lease.standing().is_some_and(Standing::is_lost) {
            self.marks.see(Mark::Lost);
            let holder = self.holder(client, lease);
            self.exclusion.end(name, holder);
        }
        self.plan_next(client, lease);
    }

    /// A holder hears of the loss while its lock is still valid, unless the process stood still.
    pub(crate) fn handle_state(&mut self, client: usize, lease: u32, state: HoldState) {
        self.note(|| format!("client {client} lease {lease}: {state:?}"));
        match state {
            HoldState::Held => self.marks.see(Mark::SafeAgain),
            HoldState::AtRisk => self.marks.see(Mark::AtRisk),
            HoldState::Lost => {
                self.marks.see(Mark::LossTold);
                let (now, holder) = (self.time(client), self.holder(client, lease));
                let resumed_ns = self.clients[client].resumed_ns;
                let Some(slot) = self.clients[client].slot(lease) else { return };
                let name = slot.name;
                let Some(standing) = slot.lease.standing() else { return };
                let (loss, over) = (standing.validity().loss(), standing.validity().is_over(now));
                let paused =
                    resumed_ns.is_some_and(|resumed_ns| self.clients[client].clock.when(loss) <= resumed_ns);
                if over && !paused {
                    self.judge(Some(Violation::LossToldLate { name, holder }));
                }
            }
        }
    }

    /// Takes note of those whom a majority of nodes has in line.
    pub(crate) fn note_in_line(&mut self) {
        if self.options.scenario != Scenario::Waiting {
            return;
        }
        let (nodes, majority, now_ns) = (&self.nodes, self.options.quorum().majority(), self.now_ns);
        for slot in self.clients.iter_mut().flat_map(|client| &mut client.leases) {
            if let Some(ticket) = slot.lease.ticket().filter(|_| slot.in_line_ns.is_none()) {
                let in_line =
                    nodes.iter().filter(|node| node.table.is_in_line(slot.lease.key(), ticket)).count();
                slot.in_line_ns = (in_line >= majority).then_some(now_ns);
            }
        }
    }

    /// Writes down what a node did with a command that has to do with waiting.
    pub(crate) fn note_queue_command(
        &mut self,
        node: NodeIndex,
        link: usize,
        reply: &Reply,
        asked: Option<&Command>,
    ) {
        let (client, node) = (self.links[link].client, node.get());
        match asked {
            Some(Command::Acquire { beside, .. }) => {
                let turn = beside.as_ref().and_then(|beside| beside.turn);
                self.note(|| {
                    format!(
                        "node {node}: acquire of client {client}, {turn:?}: {:?} {:?}",
                        reply.answer, reply.queue
                    )
                });
            }
            Some(
                command @ (Command::PassOn { .. }
                | Command::Requeue { .. }
                | Command::Leave { .. }
                | Command::Enqueue { .. }
                | Command::Nudge { .. }),
            ) => self.note(|| format!("node {node}: client {client} {command:?}: {:?}", reply.answer)),
            _ => {}
        }
    }

    /// Whoever was in line on a majority of nodes before another asked is served before that one.
    fn check_order(&mut self, client: usize, lease: u32) {
        if self.options.scenario != Scenario::Waiting {
            return;
        }
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let (called_ns, name) = (slot.called_ns, slot.name);
        let later = self.holder(client, lease);
        for (number, state) in self.clients.iter().enumerate().filter(|(_, state)| state.alive) {
            let overtaken = |slot: &&Slot| {
                slot.lease.ticket().is_some()
                    && slot.in_line_ns.is_some_and(|in_line_ns| in_line_ns < called_ns)
            };
            if let Some(slot) = state.leases.iter().find(overtaken) {
                let earlier = Holder { client: number, life: state.life, lease: slot.id };
                return self.judge(Some(Violation::Overtaken { name, earlier, later }));
            }
        }
    }

    /// At the end nobody has waited for too long who could reach a majority.
    pub(crate) fn check_stuck(&mut self) {
        if self.options.scenario != Scenario::Waiting || self.now_ns < Options::STUCK_NS {
            return;
        }
        let majority = self.options.quorum().majority();
        let since_ns = self.now_ns - Options::STUCK_NS;
        for (number, state) in self.clients.iter().enumerate() {
            let stuck = |slot: &&Slot| slot.lease.standing().is_none() && slot.called_ns < since_ns;
            if state.alive
                && state.reach.len() >= majority
                && let Some(slot) = state.leases.iter().find(stuck)
            {
                let waiter = Holder { client: number, life: state.life, lease: slot.id };
                return self.judge(Some(Violation::Stuck { name: slot.name, waiter }));
            }
        }
    }

    /// Tells the checker until when the client counts on the lock.
    fn hold(&mut self, client: usize, lease: u32) {
        let (clock, holder) = (self.clients[client].clock, self.holder(client, lease));
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let Some(standing) = slot.lease.standing() else { return };
        let (name, until_ns) = (slot.name, clock.when(standing.validity().end()));
        let violation = self.exclusion.hold(self.now_ns, name, holder, until_ns);
        self.judge(violation);
    }

    fn plan_next(&mut self, client: usize, lease: u32) {
        let rolling = self.options.scenario == Scenario::RollingRestart && client == 0;
        let waiting = self.options.scenario == Scenario::Waiting;
        let share = if rolling {
            333
        } else if waiting {
            self.dice.between(0, 200)
        } else {
            self.dice.between(50, 1_050)
        };
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let ttl_us = u64::try_from(slot.terms.term.ttl().as_micros()).unwrap_or(u64::MAX);
        let act = if slot.extensions_left > 0 {
            slot.extensions_left -= 1;
            Act::Extend { lease }
        } else {
            Act::End { lease }
        };
        let life = self.clients[client].life;
        self.at(self.now_ns + ttl_us * share, Event::Client { client, life, event: ClientEvent::Act(act) });
    }

    fn end_lease(&mut self, client: usize, lease: u32) {
        let (now, holder) = (self.time(client), self.holder(client, lease));
        let release = self.dice.chance(800);
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let name = slot.name;
        self.exclusion.end(name, holder);
        self.note(|| format!("client {client} lease {lease}: gives lock {name} up (release: {release})"));
        if release {
            if let Some(slot) = self.clients[client].slot(lease) {
                slot.lease.handle(now, lease::Input::Release);
                self.drain_lease(client, lease);
            }
        } else {
            self.clients[client].leases.retain(|slot| slot.id != lease);
        }
    }

    fn act_later(&mut self, client: usize, within_ns: u64, act: Act) {
        let (life, delay_ns) = (self.clients[client].life, self.dice.between(within_ns / 20, within_ns));
        self.at(self.now_ns + delay_ns, Event::Client { client, life, event: ClientEvent::Act(act) });
    }

    pub(crate) fn pause_any_client(&mut self) {
        let client = self.dice.index(self.clients.len());
        // The most telling moment is right after commands were sent.
        if self.dice.chance(500) {
            self.clients[client].pause_armed = true;
        } else {
            self.pause_client(client);
        }
    }

    pub(crate) fn pause_client(&mut self, client: usize) {
        let pause_ns = self.dice.of_any_size(1_000_000, self.options.max_ttl_ms * 2_000_000);
        let state = &mut self.clients[client];
        state.pause_armed = false;
        if !state.alive || state.paused {
            return;
        }
        state.paused = true;
        let life = state.life;
        self.marks.see(Mark::Paused);
        self.note(|| format!("client {client} is paused for {:.3} ms", pause_ns as f64 / 1e6));
        self.at(self.now_ns + pause_ns, Event::Resume { client, life });
    }

    pub(crate) fn resume_client(&mut self, client: usize, life: u32) {
        let state = &mut self.clients[client];
        if !state.alive || state.life != life {
            return;
        }
        state.paused = false;
        state.resumed_ns = Some(self.now_ns);
        let now = state.clock.read(self.now_ns);
        let over = |slot: &Slot| slot.lease.standing().is_some_and(|held| held.validity().is_over(now));
        if state.leases.iter().any(over) {
            self.marks.see(Mark::ExpiredInPause);
        }
        self.note(|| format!("client {client} goes on"));
        // Timers and what waits on the sockets are looked at in either order.
        let mut waiting = std::mem::take(&mut self.clients[client].inbox);
        if self.dice.chance(500) {
            waiting.push_front(ClientEvent::Wake);
        } else {
            waiting.push_back(ClientEvent::Wake);
        }
        for event in waiting {
            self.handle_client_event(client, life, event);
        }
        // If it was paused again at once, what is left waits on.
    }

    pub(crate) fn crash_any_client(&mut self) {
        let client = self.dice.index(self.clients.len());
        if !self.clients[client].alive {
            return;
        }
        let life = self.clients[client].life;
        self.marks.see(Mark::ClientCrashed);
        self.note(|| format!("client {client}.{life} dies"));
        self.exclusion.end_client(client);
        for link in self.links.of_client(client, life) {
            let broken = self.any_break();
            self.break_link(link, broken);
        }
        let (clock, seed) = (self.any_clock(), self.dice.next());
        self.clients[client] = Client::new(&self.options, clock, life + 1, seed);
        let pause_ns = self.dice.of_any_size(1_000_000, self.options.max_ttl_ms * 1_000_000);
        self.at(self.now_ns + pause_ns, Event::Start { client });
    }

    /// Whether every client has seen this node's clock, so that none misses a step.
    pub(crate) fn everybody_watches(&self, node: usize) -> bool {
        let index = self.options.quorum().indexes().nth(node);
        let watches = |client: &Client| index.is_some_and(|node| client.watched.contains(node));
        self.clients.iter().filter(|client| client.alive).all(watches)
    }

    /// Whoever extends in time keeps the lock while all nodes are restarted one after another.
    pub(crate) fn check_rolling_restart(&mut self) {
        if self.options.scenario != Scenario::RollingRestart || self.violation.is_some() {
            return;
        }
        let first = self.first_to_hold;
        if let Some(first) = first.filter(|first| self.exclusion.holder(self.now_ns, 0) != Some(*first)) {
            self.judge(Some(Violation::Gap { name: 0, holder: first }));
        }
    }

    fn holder(&self, client: usize, lease: u32) -> Holder {
        Holder { client, life: self.clients[client].life, lease }
    }
}

impl Slot {
    fn new(id: u32, name: usize, lease: Lease, terms: Terms) -> Self {
        // No plan yet: it is made when the lock is held.
        let extensions_left = u32::MAX;
        let (called_ns, in_line_ns) = (0, None);
        Self {
            id,
            name,
            lease,
            terms,
            called_ns,
            in_line_ns,
            begun_ns: 0,
            extensions_left,
            grants: 0,
            shown: 0,
        }
    }
}
