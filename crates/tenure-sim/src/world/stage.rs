//! How far a history is: faults first, then what must come about without them.
//!
//! ```text
//!   Safety ──► Calming ──► Live ──► Stopping ──► Over
//!   epochs     what is     every    everybody    nothing is
//!   of faults  under way   lock is  releases     left behind
//!              ends        got      and stops
//! ```
//! When the last epoch is over, no new fault happens, and the world waits until what lasts has
//! ended: pauses, partitions, restarts, clocks that run wrong, strays. Then everybody is connected,
//! the clocks are set right if they are far apart, and every client asks for a lock, so that each
//! lock is asked for. From there on the bounds count: [`Options::first_within_ns`] until every lock
//! was got once, [`Options::all_within_ns`] until everybody was served.

use std::time::Duration;

use tenure_core::client::Request;
use tenure_core::{CLAIM_WINDOW, POLL_MAX, Terms, Wait};

use super::client::{Slot, id};
use super::{Event, World};
use crate::checker::Holder;
use crate::options::Options;
use crate::trace::Mark;

/// How often one waiter yields to another one at most, as the core has it.
const YIELDS_MAX: u64 = 16;

/// How long after the last release its messages are under way, and what it set aside is given up.
const SETTLING_NS: u64 = 500_000_000;

/// How often it is looked whether everybody sees all clocks.
const LOOK_NS: u64 = 20_000_000;

/// How far a history is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Safety,
    Calming,
    Live { calmed_ns: u64 },
    Stopping { calmed_ns: u64 },
    Over,
}

/// What the stages wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StageEvent {
    Calmed,
    SetClocks,
    Look,
    Stopped,
}

impl Options {
    /// How long it may take after the last fault until every lock was got once.
    ///
    /// - A quarantine, for nodes that lost their memory or whose clock jumped, from the first look
    ///   that a client has at them. Keys of the dead end within the same time: it is the longest
    ///   ttl + guard band.
    /// - The slack: nodes take no fence below what they may have forgotten, and clocks are apart by
    ///   no more than that.
    /// - A term, for the pauses of whoever asks by itself.
    /// - The backstop of a waiter, and a second for connections and records.
    pub(crate) fn first_within_ns(&self) -> u64 {
        let us = self.quarantine_us() + self.slack_us() + self.max_ttl_ms * 1_000;
        us * 1_000 + nanos(POLL_MAX) + 1_000_000_000
    }

    /// How long it may take until everybody was served: for each one a short hold, a wake-up that
    /// is lost, and yielding.
    pub(crate) fn all_within_ns(&self, waiters: u64) -> u64 {
        let turn_ns = self.max_ttl_ms * 1_000_000 + nanos(POLL_MAX) + YIELDS_MAX * nanos(CLAIM_WINDOW);
        self.first_within_ns() + waiters * turn_ns
    }

    /// No more faults.
    fn calm_down(&mut self) {
        (self.spike_per_mille, self.cut_off_per_mille, self.duplicates_per_mille) = (0, 0, 0);
    }
}

impl World {
    /// Something that was begun goes on until then.
    pub(crate) fn lasts_until(&mut self, ns: u64) {
        self.calm_ns = self.calm_ns.max(ns);
    }

    /// Goes on to the next stage, if it is time.
    pub(crate) fn advance(&mut self) {
        match self.stage {
            Stage::Safety if self.epoch_is_over() && self.events < self.options.events_min => {
                self.next_epoch();
            }
            Stage::Safety if self.epoch_is_over() => self.end_safety(),
            Stage::Live { calmed_ns } if self.liveness.is_satisfied() => self.stop(calmed_ns),
            _ => {}
        }
    }

    pub(crate) fn handle_stage(&mut self, event: StageEvent) {
        match (event, self.stage) {
            // What lasts may have been lengthened meanwhile.
            (StageEvent::Calmed, _) if self.now_ns < self.calm_ns => {
                self.at(self.calm_ns, Event::Stage(StageEvent::Calmed));
            }
            (StageEvent::Calmed, _) => self.begin_live(),
            (StageEvent::SetClocks, _) => self.set_clocks(),
            (StageEvent::Look, Stage::Live { .. }) => {
                let violation = self.liveness.overdue(self.now_ns);
                self.judge(violation);
                // A known-bad variant that another checker has to catch may never come right.
                if self.liveness.is_hopeless(self.now_ns) {
                    self.stage = Stage::Over;
                }
            }
            (StageEvent::Stopped, Stage::Stopping { calmed_ns }) => {
                self.check_leftovers(calmed_ns);
                self.check_answers();
                self.stage = Stage::Over;
            }
            _ => {}
        }
    }

    fn end_safety(&mut self) {
        self.check_continuity();
        self.check_stuck();
        if !self.options.scenario.promises_liveness() {
            self.stage = Stage::Over;
            return;
        }
        self.stage = Stage::Calming;
        self.epoch.number += 1;
        self.options.calm_down();
        self.evict_armed = false;
        self.clients.iter_mut().for_each(|client| client.pause_armed = false);
        self.note(|| "NO MORE FAULTS".into());
        // Messages are under way for up to a term.
        let calm_ns = self.calm_ns.max(self.now_ns + self.options.max_ttl_ms * 1_000_000);
        self.at(calm_ns, Event::Stage(StageEvent::Calmed));
    }

    /// The last fault is over: everybody connects and asks for a lock.
    fn begin_live(&mut self) {
        let calmed_ns = self.now_ns;
        self.stage = Stage::Live { calmed_ns };
        self.note(|| "ALL IS WELL AGAIN".into());
        let all = self.options.quorum().all();
        for client in 0..self.options.clients {
            self.clients[client].reach = all;
            for node in all.iter() {
                let state = &self.clients[client];
                if state.links[node.get()].is_none() && state.greeting[node.get()].is_none() {
                    self.connect(client, node);
                }
            }
        }
        let (clients, names) = (self.options.clients, self.options.names);
        let probes = clients.max(names);
        let wanted = self.waiting() + probes as u64;
        // Each may wait for an inner hold.
        let turns = if self.options.owners.nested_per_mille > 0 { 2 * wanted } else { wanted };
        let (first_ns, all_ns) = (self.options.first_within_ns(), self.options.all_within_ns(turns));
        self.liveness.begin(calmed_ns, first_ns, all_ns);
        self.count_the_patient();
        for probe in 0..probes {
            let (client, name) = (probe % clients, probe % names);
            let terms = self.patient_terms();
            let terms = self.terms_for(name, terms);
            let lease = self.begin_lease(client, name, terms);
            self.settle(client);
            let waiter = self.holder(client, lease);
            self.liveness.wants(name, waiter);
        }
        self.at(calmed_ns + first_ns + 1, Event::Stage(StageEvent::Look));
        self.at(calmed_ns + all_ns + 1, Event::Stage(StageEvent::Look));
        self.set_clocks();
    }

    /// Whoever waits for ever must be served as well.
    fn count_the_patient(&mut self) {
        for (client, state) in self.clients.iter().take(self.options.clients).enumerate() {
            let patient =
                |slot: &&Slot| slot.terms.wait == Wait::Forever && state.standing(slot.id).is_none();
            for slot in state.slots.iter().filter(patient) {
                self.liveness
                    .wants(slot.name, Holder { client, generation: state.generation, lease: slot.id });
            }
        }
    }

    fn waiting(&self) -> u64 {
        let own = self.clients.iter().take(self.options.clients);
        own.map(|client| client.slots.len() as u64).sum()
    }

    /// Terms for which nobody is in a hurry.
    pub(crate) fn patient_terms(&mut self) -> Terms {
        let mut options = tenure_core::Options::default();
        options.ttl = Duration::from_millis(self.options.max_ttl_ms);
        options.node_timeout = Some(options.ttl / 2);
        options.wait = Wait::Forever;
        options.retry.delay = options.ttl / 4;
        options.retry.jitter = options.retry.delay;
        options.fenced = self.options.fenced;
        options.queued = self.dice.chance(self.options.queued_per_mille);
        options.check(self.options.max_ttl()).expect("within the limits")
    }

    /// Clocks that are too far apart to agree on a fence are set by whoever runs the nodes: all
    /// forward, by so much that everybody sees it, and when everybody looks.
    pub(crate) fn set_clocks(&mut self) {
        let shown: Vec<u64> =
            self.nodes.iter().map(|node| node.clock.read(self.now_ns).as_micros()).collect();
        let (Some(first), Some(last)) = (shown.iter().min(), shown.iter().max()) else { return };
        if last - first <= self.options.slack_us() / 2 {
            return;
        }
        if !(0..self.nodes.len()).all(|node| self.everybody_watches(node)) {
            if self.stage != Stage::Safety {
                self.at(self.now_ns + LOOK_NS, Event::Stage(StageEvent::SetClocks));
            }
            return;
        }
        let target = last + 2 * self.options.quarantine_us() + 1_000_000;
        self.stepped_ns = Some(self.now_ns);
        self.marks.see(Mark::ClocksSet);
        for (node, shown_us) in shown.iter().enumerate() {
            self.step(node, (target - shown_us).cast_signed());
        }
    }

    /// Everybody has had a lock. All release what they have, and nobody asks any more.
    fn stop(&mut self, calmed_ns: u64) {
        self.stage = Stage::Stopping { calmed_ns };
        if self.liveness.used_per_mille() > 500 {
            self.marks.see(Mark::NearBound);
        }
        self.note(|| "EVERYBODY STOPS".into());
        for client in 0..self.clients.len() {
            let leases: Vec<u32> = self.clients[client].slots.iter().map(|slot| slot.id).collect();
            for lease in leases {
                let holder = self.holder(client, lease);
                self.exclusion.end_holder(holder);
                self.loss.end(holder);
                self.release_lease(client, lease);
            }
            self.shut_down(client);
            self.settle(client);
        }
        self.at(self.now_ns + SETTLING_NS, Event::Stage(StageEvent::Stopped));
    }

    /// Ends a client. It says so when what it released is gone, however long that takes.
    fn shut_down(&mut self, client: usize) {
        let state = &mut self.clients[client];
        state.leases_begun += 1;
        let asked = state.leases_begun;
        state.awaited.insert(asked);
        let (limit, silent_too) = (Duration::MAX, asked.is_multiple_of(2));
        self.ask(client, Request::Shutdown { id: id(asked), limit, silent_too });
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
