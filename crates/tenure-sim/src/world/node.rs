//! One server: the keys that it remembers, the process that it is, its clock; and what can happen
//! to it.

use std::sync::Arc;

use tenure_core::{Answer, Command, Entry, Facts, Hold, Life, LockKey, LockTable, NodeIndex, Prefix};

use super::clock::{FROZEN, NodeClock};
use super::links::Broken;
use super::stage::Stage;
use super::{Event, World};
use crate::mutant::BentNode;
use crate::options::Scenario;
use crate::trace::Mark;

/// A step of a clock that is small against every guard band.
const SMALL_STEP_US: u64 = 20_000;

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) table: LockTable,
    pub(crate) clock: NodeClock,
    pub(crate) process: u32,
    /// How often this process has followed another server.
    pub(crate) followed: u32,
    pub(crate) up: bool,
    pub(crate) durable: bool,
    rate_ppm: i64,
    snapshot: LockTable,
    /// Another database of the same server, with what only known-bad variants keep there.
    spare: Box<(LockTable, BentNode)>,
    /// When its memory was last lost.
    lost_ns: Option<u64>,
    small_step_ns: Option<u64>,
    /// What only known-bad variants keep.
    pub(crate) bent: BentNode,
}

/// What happens to a node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeFault {
    /// One of the kinds that the options allow.
    Any,
    LoseMemory {
        node: usize,
    },
    LoseAllMemory,
    Evict {
        node: usize,
    },
    ComeUp {
        node: usize,
    },
    RightRate {
        node: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Kept,
    Lost,
    Tail,
}

impl Node {
    pub(crate) fn new(clock: NodeClock, rate_ppm: i64, durable: bool) -> Self {
        Self {
            table: LockTable::default(),
            clock,
            process: 0,
            followed: 0,
            up: true,
            durable,
            rate_ppm,
            snapshot: LockTable::default(),
            spare: Box::default(),
            lost_ns: None,
            small_step_ns: None,
            bent: BentNode::default(),
        }
    }

    /// What it has for a lock at this moment.
    pub(crate) fn entry(&self, now_ns: u64, key: &LockKey) -> Option<Entry> {
        let mut keys = self.table.keys(self.clock.read(now_ns));
        keys.find(|(other, _)| *other == key).map(|(_, entry)| *entry)
    }

    /// Who shares a lock.
    pub(crate) fn holds(&self, now_ns: u64, key: &LockKey) -> Vec<Hold> {
        self.table.holds(self.clock.read(now_ns), key)
    }

    pub(crate) fn facts(&self, index: usize) -> Facts {
        let process = format!("p{index}.{}", self.process).into();
        let lineage = format!("l{index}.{}.{}", self.process, self.followed).into();
        let (life, promoted) = (Some(Life { process, lineage }), self.followed > 0);
        Facts { life, durable: self.durable, promoted, ..Facts::default() }
    }

    /// Whether its record says that it is not just new: it then tells everybody that this is no
    /// first start.
    fn remembers(&self, now_ns: u64) -> bool {
        let aware = |text: Arc<str>| !text.contains(" new returned=0 ") || !self.bent.returned_to.is_empty();
        self.record(now_ns).is_some_and(aware)
    }

    /// Whether its record is of the fleet with this list.
    pub(crate) fn is_of(&self, list: &str, now_ns: u64) -> bool {
        self.record(now_ns).is_some_and(|text| text.contains(&format!(" nodes={list} ")))
    }

    fn record(&self, now_ns: u64) -> Option<Arc<str>> {
        let command = Command::Record { prefix: Prefix::default(), swap: None };
        match self.table.clone().execute(self.clock.read(now_ns), &command).answer {
            Answer::Record(text) => text,
            _ => None,
        }
    }

    /// Has the data of the last snapshot again.
    pub(crate) fn go_back(&mut self, now_ns: u64) {
        self.table = self.snapshot.clone();
        self.lost_ns = Some(now_ns);
    }

    fn forget(&mut self, now_ns: u64) {
        self.table.forget();
        self.snapshot = LockTable::default();
        self.lost_ns = Some(now_ns);
        self.bent = BentNode::default();
    }
}

impl World {
    pub(crate) fn handle_fault(&mut self, fault: NodeFault) {
        match fault {
            NodeFault::Any => self.any_fault(),
            NodeFault::LoseMemory { .. } if self.stage != Stage::Safety => {}
            NodeFault::LoseMemory { node } => self.restart_when_safe(node),
            NodeFault::Evict { node } => self.evict(node),
            NodeFault::LoseAllMemory => {
                (0..self.nodes.len()).for_each(|node| self.restart(node, Memory::Lost));
            }
            NodeFault::ComeUp { node } => {
                self.nodes[node].up = true;
                self.note(|| format!("node {node} is up again"));
            }
            NodeFault::RightRate { node } => {
                let rate_ppm = self.nodes[node].rate_ppm;
                self.nodes[node].clock.set_rate(self.now_ns, rate_ppm);
                self.note(|| format!("node {node}: the clock runs as it should"));
            }
        }
    }

    fn any_fault(&mut self) {
        let node = self.dice.index(self.nodes.len());
        let kinds = self.options.kinds;
        let durable = self.nodes[node].durable;
        type Do = fn(&mut World, usize);
        let mut possible: Vec<Do> = vec![];
        let mut allow = |allowed: bool, action: Do| {
            if allowed {
                possible.push(action);
            }
        };
        allow(kinds.restart, |world, node| world.restart(node, Memory::Kept));
        allow(kinds.loss && !durable, |world, node| world.restart(node, Memory::Lost));
        allow(kinds.tail && !durable, |world, node| world.restart(node, Memory::Tail));
        allow(kinds.flush, World::flush);
        allow(kinds.swap, World::swap_databases);
        allow(kinds.promotion, World::promote);
        allow(kinds.evict, World::evict);
        allow(kinds.small_steps, World::step_a_little);
        allow(kinds.steps_forward, World::step_forward);
        allow(kinds.steps_back, World::step_back);
        allow(kinds.freeze, |world, node| world.change_rate(node, FROZEN, Mark::Frozen));
        allow(kinds.slew, |world, node| {
            let ppm = world.dice.pick(&[-80_000, 30_000, 80_000]);
            world.change_rate(node, ppm, Mark::Slewed);
        });
        if let Some(action) = possible.get(self.dice.index(possible.len())) {
            action(self, node);
        }
    }

    /// Restarts a node empty as a careful operator does: when the long-held lock is on all nodes.
    fn restart_when_safe(&mut self, node: usize) {
        let full = self.options.quorum().margin(self.nodes.len());
        let first = &self.clients[0];
        let standing = first.slots.iter().find_map(|slot| first.standing(slot.id));
        if standing.is_some_and(|standing| standing.margin() == full) {
            self.marks.see(Mark::Rolled);
            self.restart(node, Memory::Lost);
            let (next, next_ns) =
                ((node + 1) % self.nodes.len(), self.now_ns + self.options.rolling_interval_ns());
            self.at(next_ns, Event::Fault(NodeFault::LoseMemory { node: next }));
        } else {
            self.marks.see(Mark::Postponed);
            let again_ns = self.now_ns + self.options.max_ttl_ms * 250_000;
            self.at(again_ns, Event::Fault(NodeFault::LoseMemory { node }));
        }
    }

    fn restart(&mut self, node: usize, memory: Memory) {
        if memory != Memory::Kept && !self.may_forget(node) {
            return self.marks.see(Mark::Forgone);
        }
        let now_ns = self.now_ns;
        let state = &mut self.nodes[node];
        (state.process, state.followed) = (state.process + 1, 0);
        state.up = false;
        let mark = match memory {
            Memory::Kept if state.durable => Mark::DurableRestart,
            Memory::Kept => Mark::Restarted,
            Memory::Lost => {
                state.forget(now_ns);
                if let Some((least_us, most_us)) = self.options.back_with_loss_us() {
                    // Several losses add up.
                    let room = most_us.saturating_sub(self.nodes[node].clock.behind_us(now_ns));
                    let by_us = self.dice.between(least_us, most_us).min(room);
                    self.step(node, -by_us.cast_signed());
                }
                Mark::MemoryLost
            }
            Memory::Tail => {
                state.go_back(now_ns);
                Mark::TailLost
            }
        };
        self.nodes[node].table.hang_up();
        self.marks.see(mark);
        self.note(|| format!("node {node} goes down, memory {memory:?}"));
        let answers = self.dice.chance(500);
        for link in self.links.to_node(node) {
            self.break_link(link, Broken { strays_ns: None, answers });
        }
        let down_ns = self.dice.between(100_000, self.options.max_ttl_ms * 300_000);
        self.lasts_until(self.now_ns + down_ns);
        self.at(self.now_ns + down_ns, Event::Fault(NodeFault::ComeUp { node }));
    }

    /// The same process and connections, but nothing in memory.
    fn flush(&mut self, node: usize) {
        if !self.may_forget(node) {
            return self.marks.see(Mark::Forgone);
        }
        self.nodes[node].forget(self.now_ns);
        self.marks.see(Mark::Flushed);
        self.note(|| format!("node {node} is flushed"));
    }

    /// The same process and connections, but another memory, which was its own before or is empty.
    /// Servers tell nobody.
    fn swap_databases(&mut self, node: usize) {
        if !self.may_forget(node) {
            return self.marks.see(Mark::Forgone);
        }
        let state = &mut self.nodes[node];
        state.table.exchange(&mut state.spare.0);
        std::mem::swap(&mut state.bent, &mut state.spare.1);
        state.lost_ns = Some(self.now_ns);
        self.note(|| format!("node {node}: two databases change places"));
    }

    /// Whether a node may lose its memory: somebody knows that this is not the first start of the
    /// fleet.
    pub(crate) fn may_forget(&self, node: usize) -> bool {
        (!self.options.one_node_remembers() || self.another_remembers(node)) && self.strangers_know(node)
    }

    /// Whether another node can tell everybody that this is not the first start of the fleet: one
    /// that lost nothing for so long that nobody takes it for new.
    fn another_remembers(&self, node: usize) -> bool {
        let long_ns = self.options.quarantine_us() * 2_000;
        self.nodes.iter().enumerate().any(|(other, state)| {
            let lately = state.lost_ns.is_some_and(|lost_ns| self.now_ns < lost_ns + long_ns)
                && !self.options.extra.all_lose;
            other != node && !lately && state.remembers(self.now_ns)
        })
    }

    fn step_a_little(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        let long_ns = self.options.quarantine_us() * 2_000;
        if state.small_step_ns.is_some_and(|last_ns| self.now_ns < last_ns + long_ns) {
            return;
        }
        state.small_step_ns = Some(self.now_ns);
        let by_us = self.dice.between(1, SMALL_STEP_US);
        self.step(node, by_us.cast_signed());
    }

    /// Large enough that no round trip that could still win a lock hides it from whoever has
    /// watched the clock; or of any size, if exclusion is not at stake.
    fn step_forward(&mut self, node: usize) {
        let quarantine_us = self.options.quarantine_us();
        let by_us = if self.options.steps_are_watched() {
            if !self.everybody_watches(node) {
                return self.marks.see(Mark::Forgone);
            }
            self.stepped_ns = Some(self.now_ns);
            let (least_us, most_us) =
                self.options.extra.steps_us.unwrap_or((2 * quarantine_us + 1_000_000, 100 * quarantine_us));
            self.dice.of_any_size(least_us, most_us)
        } else {
            self.dice.of_any_size(50_000, 3 * quarantine_us)
        };
        self.step(node, by_us.cast_signed());
    }

    fn step_back(&mut self, node: usize) {
        let room = self.options.back_max_us().saturating_sub(self.nodes[node].clock.behind_us(self.now_ns));
        let wish = self.options.quarantine_us().max(self.options.retention_ms * 1_000) * 3;
        let by_us = self.dice.of_any_size(10_000, wish).min(room);
        if self.options.scenario == Scenario::BackAcrossTrim {
            // One clock alone is seen to be apart from the others.
            (0..self.nodes.len()).for_each(|node| self.step(node, -by_us.cast_signed()));
        } else {
            self.step(node, -by_us.cast_signed());
        }
    }

    pub(crate) fn step(&mut self, node: usize, by_us: i64) {
        self.nodes[node].clock.step(self.now_ns, by_us);
        self.marks.see(if by_us < 0 { Mark::SteppedBack } else { Mark::SteppedForward });
        self.note(|| format!("node {node}: the clock steps by {:.3} ms", by_us as f64 / 1e3));
    }

    fn change_rate(&mut self, node: usize, rate_ppm: i64, mark: Mark) {
        self.nodes[node].clock.set_rate(self.now_ns, rate_ppm);
        self.marks.see(mark);
        self.note(|| format!("node {node}: the clock runs {rate_ppm} ppm off"));
        let for_ns = self.dice.between(1_000_000, self.options.quarantine_us() * 1_000);
        self.lasts_until(self.now_ns + for_ns);
        self.at(self.now_ns + for_ns, Event::Fault(NodeFault::RightRate { node }));
    }

    /// Takes a snapshot now and then, for whoever loses the tail later.
    pub(crate) fn maybe_snapshot(&mut self, node: NodeIndex) {
        let possible = self.options.possible;
        if (possible.tail || possible.promotion) && self.dice.chance(60) {
            let state = &mut self.nodes[node.get()];
            state.snapshot = state.table.clone();
        }
    }
}
