//! Changing the node list of a fleet while its clients run.
//!
//! No majority of the old list and none of the new one may count at the same time. Any design that lets both count in
//! turn has to know that no round of the old one can still win; this one does so in the simplest way, by a pause:
//!
//! 1. *Prepare* the nodes that are new: they belong to the new list from now on, and do not vote yet.
//! 2. *Close* the old nodes: a new nonce, so no acquire counts any more that was not executed before. Until here the change can
//!    be given up. All of them are read once more; if nothing has changed, there was a moment at which all were closing for
//!    this change, and no other change can have got further than that.
//! 3. *Clear* each of them of its locks, and mark it as closed with its time. An extension needs a majority that still has
//!    the key, so none succeeds after that; a key that is put back counts only after a quarantine, and by then the lock is lost.
//! 4. *Wait* until every lock that was there is over: a quarantine after the last node was closed.
//! 5. *Open* the new list. Its fences begin above all that the old one can have granted.
//!
//! All of it is in the records: whoever runs it next, after a crash at any point, reads them and goes on. Two that run at once
//! do the same. A node that is emptied in the middle begins a new life, and is closed again from the start.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::record::{Phase, Record, State};
use super::{Facts, Nonce, Settings};
use crate::command::{Answer, Command, Fault, Holding, Reply, Swap};
use crate::fence::Fence;
use crate::names::{LockKey, Prefix};
use crate::quorum::{NodeIndex, Quorum};
use crate::time::{NodeTime, Time};
use crate::token::OwnerToken;

/// How long an answer may take before the node is asked again.
const PATIENCE: Duration = Duration::from_secs(5);

/// A node that has kept us waiting so often in a row is not asked again.
const LATE_MAX: u32 = 3;

/// How often the clocks of the nodes are looked at while the last locks run out.
const LOOK: Duration = Duration::from_millis(100);

/// A change of a node list, step by step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FleetChange {
    from: Settings,
    to: Settings,
    prefix: Prefix,
    quorum: Quorum,
    nodes: Vec<ChangeNode>,
    /// Gives the nonces of records; begun with true randomness.
    random: u64,
    /// Nothing is changed that has not been; what can be taken back is.
    abort: bool,
    look_at: Option<Time>,
    told: Option<Progress>,
    outputs: VecDeque<Output>,
    ended: bool,
}

/// A node of the old list, of the new one, or of both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangeNode {
    old: Option<NodeIndex>,
    new: Option<NodeIndex>,
    /// It is switched off for good, says whoever runs the change.
    gone: bool,
    facts: Option<Facts>,
    asked: Option<Time>,
    /// How often in a row it gave no answer that is one, and what it said last.
    late: u32,
    fault: Option<Fault>,
    read: Option<Reading>,
    /// What was read the time before.
    before: Option<Arc<str>>,
    clearing: Option<Clearing>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reading {
    text: Option<Arc<str>>,
    time: NodeTime,
}

/// What is being removed from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Clearing {
    /// Something was found on this walk: another one follows.
    again: bool,
    releasing: usize,
    next: Option<u64>,
    done: bool,
}

/// What happens to a change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A connection is up.
    Connected {
        /// Which node, in the order they were given.
        node: usize,
        /// What its server said about itself.
        facts: Facts,
    },
    /// There is no connection any more.
    Disconnected {
        /// Which node.
        node: usize,
    },
    /// A node's answer.
    Answer {
        /// Which node.
        node: usize,
        /// What it said, or why it did not.
        answer: Result<Reply, Fault>,
    },
    /// The time of [`FleetChange::poll_timeout`] has come.
    Timeout,
}

/// What a change asks for or tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send this command to this node.
    Send {
        /// Which node.
        node: usize,
        /// What to send.
        command: Command,
    },
    /// How far it is.
    Progress(Progress),
    /// It is done, or has been taken back.
    Done,
    /// It cannot be done, for this reason.
    Failed(Refused),
}

/// How far a change is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// These nodes have not been reached yet.
    Reaching(Vec<usize>),
    /// The new nodes are ready: clients may be given the new list from now on.
    Prepared,
    /// The old list gives no locks any more.
    Closed,
    /// The last locks of the old list run out.
    Waiting {
        /// For so much longer, at most.
        left: Duration,
    },
    /// The new list gives locks.
    Opened,
}

/// Why a change cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// The node belongs to another fleet, or has a record of another form.
    Foreign {
        /// Which node.
        node: usize,
    },
    /// The node is in use under the new list already.
    InUse {
        /// Which node.
        node: usize,
    },
    /// The old list is being changed to another one.
    Other {
        /// That list.
        to: Arc<str>,
    },
    /// It cannot be taken back any more: locks of the old list are gone.
    TooLate,
    /// With so many nodes gone, nobody knows what the old list granted.
    TooManyGone,
    /// The node is connected, and does not do what it is asked.
    Silent {
        /// Which node.
        node: usize,
        /// What it said, if anything.
        fault: Option<Fault>,
    },
    /// The two lists go by the same words: nobody could tell which of them a node belongs to.
    Same,
}

/// What to write over this record so that the node belongs to nobody; `None` if it does already. `seed` must be random.
#[must_use]
pub fn vacate(text: &str, mut seed: u64) -> Option<Swap> {
    if Record::parse(text).is_some_and(|record| record.phase == Phase::Vacant) {
        return None;
    }
    let vacant = Record::vacant(text, super::registration::draw_nonce(&mut seed));
    Some(Swap { expected: Some(text.into()), text: vacant.to_text(), stamp: vacant.wants_time() })
}

impl ChangeNode {
    /// A node with its place in the old list and in the new one.
    #[must_use]
    pub const fn new(old: Option<NodeIndex>, new: Option<NodeIndex>) -> Self {
        let (asked, late, fault, read, before, clearing) = (None, 0, None, None, None, None);
        Self { old, new, gone: false, facts: None, asked, late, fault, read, before, clearing }
    }

    /// It is switched off, and will not come back while clients have the old list.
    #[must_use]
    pub const fn gone(mut self) -> Self {
        self.gone = true;
        self
    }
}

impl FleetChange {
    /// A change of the nodes of `from` to those of `to`. `seed` must be random.
    #[must_use]
    pub fn new(from: Settings, to: Settings, prefix: Prefix, nodes: Vec<ChangeNode>, seed: u64) -> Self {
        let old = nodes.iter().filter(|node| node.old.is_some()).count();
        let quorum = Quorum::of(old).expect("a fleet has nodes");
        let (look_at, told, outputs) = (None, None, VecDeque::new());
        let mut change = Self {
            from,
            to,
            prefix,
            quorum,
            nodes,
            random: seed,
            abort: false,
            look_at,
            told,
            outputs,
            ended: false,
        };
        let gone = change.nodes.iter().filter(|node| node.gone && node.old.is_some()).count();
        if gone >= quorum.majority() || change.nodes.iter().any(|node| node.gone && node.new.is_some()) {
            change.fail(Refused::TooManyGone);
        } else if change.from.roster().list() == change.to.roster().list() {
            change.fail(Refused::Same);
        }
        change
    }

    /// Takes back what was begun, as far as that can be done.
    #[must_use]
    pub fn aborting(mut self) -> Self {
        self.abort = true;
        self
    }

    /// Takes one input at `now`; drain [`FleetChange::poll_output`] afterwards.
    pub fn handle(&mut self, now: Time, input: Input) {
        if self.ended {
            return;
        }
        match input {
            Input::Connected { node, facts } => {
                self.nodes[node].facts = Some(facts);
                self.ask(now, node, None);
            }
            Input::Disconnected { node } => {
                let node = &mut self.nodes[node];
                (node.facts, node.asked, node.read, node.clearing) = (None, None, None, None);
                (node.late, node.fault) = (0, None);
            }
            Input::Answer { node, answer } => self.handle_answer(now, node, answer),
            Input::Timeout => {
                let late = |asked: Time| now >= asked + PATIENCE;
                for node in 0..self.nodes.len() {
                    if self.nodes[node].facts.is_some() && self.nodes[node].asked.is_some_and(late) {
                        self.nodes[node].late += 1;
                        if self.nodes[node].late >= LATE_MAX && !self.nodes[node].gone {
                            let fault = self.nodes[node].fault.take();
                            return self.fail(Refused::Silent { node, fault });
                        }
                        self.nodes[node].clearing = None;
                        self.ask(now, node, None);
                    }
                }
                if self.look_at.take_if(|at| now >= *at).is_some() {
                    self.read_again(now);
                }
            }
        }
        self.decide(now);
    }

    /// What to do next, if anything.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`FleetChange::handle`] with [`Input::Timeout`] at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let asked = self.nodes.iter().filter_map(|node| node.asked.map(|asked| asked + PATIENCE));
        asked.chain(self.look_at).min().filter(|_| !self.ended)
    }

    fn handle_answer(&mut self, now: Time, index: usize, answer: Result<Reply, Fault>) {
        let node = &mut self.nodes[index];
        if node.facts.is_none() || node.asked.is_none() {
            return;
        }
        match &answer {
            // What it can be asked may still be more than what it does.
            Ok(_) if node.fault.is_none() => node.late = 0,
            Ok(_) => {}
            Err(fault) => node.fault = Some(fault.clone()),
        }
        match answer {
            Ok(Reply { answer: Answer::Record(text), time: Some(time), .. }) => {
                (node.asked, node.read) = (None, Some(Reading { text, time }));
            }
            Ok(Reply { answer: Answer::Told { holdings, next, .. }, .. }) => {
                node.asked = Some(now);
                self.clear(now, index, &holdings, next);
            }
            Ok(Reply { answer: Answer::Granted | Answer::Refused(_), .. }) => {
                node.asked = Some(now);
                if let Some(clearing) = &mut node.clearing {
                    clearing.releasing = clearing.releasing.saturating_sub(1);
                    self.go_on_clearing(now, index);
                }
            }
            // It is asked again when its time is up.
            Ok(_) | Err(_) => {}
        }
    }

    /// Reads all records, and acts on what they say when all are there.
    fn decide(&mut self, now: Time) {
        let missing = |node: &ChangeNode| !node.gone && (node.read.is_none() || node.asked.is_some());
        if self.ended || self.look_at.is_some() || self.nodes.iter().any(missing) {
            let unreached = |index: &usize| !self.nodes[*index].gone && self.nodes[*index].facts.is_none();
            let unreached: Vec<usize> = (0..self.nodes.len()).filter(unreached).collect();
            if !unreached.is_empty() && !self.ended {
                self.tell(Progress::Reaching(unreached));
            }
            return;
        }
        let mut seen: Vec<Seen> = (0..self.nodes.len()).map(|node| self.look(node)).collect();
        self.find_outdated(&mut seen);
        match self.next(&seen) {
            Ok(Step::Swap(swaps)) => {
                for (node, record) in swaps {
                    let expected = self.nodes[node].read.as_ref().and_then(|read| read.text.clone());
                    let (text, stamp) = (record.to_text(), record.wants_time());
                    self.ask(now, node, Some(Swap { expected, text, stamp }));
                }
            }
            Ok(Step::Confirm) => {
                for node in &mut self.nodes {
                    node.before = node.read.as_ref().and_then(|read| read.text.clone());
                }
                self.read_again(now);
            }
            Ok(Step::Clear(nodes)) => {
                for node in nodes {
                    self.nodes[node].clearing = Some(Clearing { next: Some(0), ..Clearing::default() });
                    self.nodes[node].asked = Some(now);
                    self.go_on_clearing(now, node);
                }
            }
            Ok(Step::Wait(left)) => {
                self.tell(Progress::Waiting { left });
                self.look_at = Some(now + left.clamp(Duration::from_millis(1), LOOK));
            }
            Ok(Step::Done) => {
                self.tell(Progress::Opened);
                self.outputs.push_back(Output::Done);
                self.ended = true;
            }
            Err(refused) => self.fail(refused),
        }
    }

    /// What is to be done, from what the records say.
    fn next(&mut self, seen: &[Seen]) -> Result<Step, Refused> {
        let epoch = seen.iter().filter_map(Seen::epoch).max().unwrap_or(0);
        let was_closed = |record: &Record| matches!(record.phase, Phase::Closed(_) | Phase::Reclosing(_));
        let closed = seen
            .iter()
            .any(|seen| matches!(seen, Seen::Closing(record) | Seen::Closed(record) if was_closed(record)));
        let opened = seen.iter().any(|seen| matches!(seen, Seen::Opened(_)));
        for (node, seen) in seen.iter().enumerate() {
            match seen {
                Seen::Foreign if self.abort && self.nodes[node].old.is_none() => {}
                Seen::Foreign => return Err(Refused::Foreign { node }),
                // What was begun is taken back all the same: else two changes could be in each other's way for ever.
                Seen::Elsewhere { to, .. } if !self.abort => {
                    return Err(Refused::Other { to: Arc::clone(to) });
                }
                _ => {}
            }
        }
        if self.abort {
            return self.take_back(seen, closed || opened);
        }
        let epoch = epoch.max(1);
        if opened {
            return Ok(self.finish(seen, epoch));
        }
        let mut swaps = vec![];
        for (node, seen) in seen.iter().enumerate() {
            match seen {
                _ if self.nodes[node].old.is_some() => {}
                Seen::InUse => return Err(Refused::InUse { node }),
                Seen::Prepared(_) => {}
                // Its last fleet may still have locks there.
                Seen::Vacant(vacant) => {
                    let prepared = self.prepared(node, epoch);
                    let wait = prepared.wait.max(vacant.wait);
                    swaps.push((node, Record { returned: true, wait, floor: vacant.floor, ..prepared }));
                }
                _ => swaps.push((node, self.prepared(node, epoch))),
            }
        }
        if !swaps.is_empty() {
            return Ok(Step::Swap(swaps));
        }
        self.tell(Progress::Prepared);
        for (node, seen) in seen.iter().enumerate() {
            let phase = Phase::Closing(Arc::clone(self.to.roster().list()));
            match seen {
                _ if self.nodes[node].old.is_none() => {}
                Seen::Gone | Seen::Closing(_) | Seen::Closed(_) => {}
                Seen::Ours(record) => {
                    let (nonce, continues) = (self.draw_nonce(), Some(record.nonce));
                    swaps.push((node, Record { nonce, continues, phase, ..record.clone() }));
                }
                // It was emptied: what it had is not known, so its locks are waited out.
                _ => swaps.push((node, Record { phase, returned: true, ..self.record(node, false) })),
            }
        }
        if !swaps.is_empty() {
            return Ok(Step::Swap(swaps));
        }
        let is_closing = |(node, seen): (usize, &Seen)| matches!(seen, Seen::Closing(_)).then_some(node);
        let closing: Vec<usize> = seen.iter().enumerate().filter_map(is_closing).collect();
        if !closing.is_empty() {
            self.tell(Progress::Closed);
            let text = |node: &ChangeNode| node.read.as_ref().and_then(|read| read.text.clone());
            if !closed && self.nodes.iter().any(|node| node.before != text(node)) {
                return Ok(Step::Confirm);
            }
            // From here on there is no way back, and whoever would give the change up has to see that before a lock is gone.
            for node in &closing {
                if let Seen::Closing(record) = &seen[*node]
                    && let Phase::Closing(to) = &record.phase
                {
                    let phase = Phase::Reclosing(Arc::clone(to));
                    swaps.push((*node, Record { phase, ..record.clone() }));
                }
            }
            if !swaps.is_empty() {
                return Ok(Step::Swap(swaps));
            }
            let uncleared =
                |node: &usize| !self.nodes[*node].clearing.as_ref().is_some_and(|clearing| clearing.done);
            let to_clear: Vec<usize> = closing.iter().copied().filter(uncleared).collect();
            if !to_clear.is_empty() {
                return Ok(Step::Clear(to_clear));
            }
            for node in closing {
                let Seen::Closing(record) = &seen[node] else { continue };
                swaps.push((node, self.closed(record)));
            }
            return Ok(Step::Swap(swaps));
        }
        if let Some(left) = self.left(seen) {
            return Ok(Step::Wait(left));
        }
        let floor = self.floor(seen);
        let ready = |seen: &Seen| match seen {
            Seen::Prepared(record) | Seen::Closed(record) => Some(record.nonce),
            _ => None,
        };
        let of_new = seen.iter().zip(&self.nodes).filter(|(_, node)| node.new.is_some());
        let nonces: Vec<Nonce> = of_new.filter_map(|(seen, _)| ready(seen)).collect();
        for (node, seen) in seen.iter().enumerate() {
            if let (Some(place), Seen::Prepared(record) | Seen::Closed(record)) = (self.nodes[node].new, seen)
            {
                swaps.push((node, self.opened(place, record, epoch, floor, &nonces)));
            }
        }
        Ok(Step::Swap(swaps))
    }

    /// Opens the rest of the new list. A node that was there, ready, when the first one was opened has forgotten nothing since
    /// then; any other is a new life like every other of the new list.
    fn finish(&mut self, seen: &[Seen], epoch: u64) -> Step {
        let floor = self.floor(seen);
        let nonces = seen.iter().find_map(|seen| match seen {
            Seen::Opened(Record { state: State::Fresh(nonces), .. }) => Some(nonces.clone()),
            _ => None,
        });
        let nonces = nonces.unwrap_or_default();
        let mut swaps = vec![];
        for (node, seen) in seen.iter().enumerate() {
            let Some(place) = self.nodes[node].new else { continue };
            match seen {
                Seen::Prepared(record) | Seen::Closed(record) if nonces.contains(&record.nonce) => {
                    swaps.push((node, self.opened(place, record, epoch, floor, &nonces)));
                }
                Seen::Ours(_) | Seen::Closing(_) | Seen::Prepared(_) | Seen::Closed(_) => {
                    let new = self.record(node, true);
                    swaps.push((node, Record { returned: true, epoch, floor, ..new }));
                }
                Seen::Opened(_) | Seen::InUse | Seen::Empty | Seen::Gone => {}
                Seen::Vacant(_) | Seen::Foreign | Seen::Elsewhere { .. } | Seen::Retired { .. } => {}
            }
        }
        if swaps.is_empty() { Step::Done } else { Step::Swap(swaps) }
    }

    fn take_back(&mut self, seen: &[Seen], late: bool) -> Result<Step, Refused> {
        if late {
            return Err(Refused::TooLate);
        }
        let mut swaps = vec![];
        for (node, seen) in seen.iter().enumerate() {
            match seen {
                Seen::Closing(record) => {
                    let (nonce, continues, phase) = (self.draw_nonce(), Some(record.nonce), Phase::Open);
                    swaps.push((node, Record { nonce, continues, phase, ..record.clone() }));
                }
                Seen::Prepared(record) => {
                    let nonce = self.draw_nonce();
                    let vacant = Record::vacant(&record.to_text(), nonce);
                    // Clients have been given the new list: they are to leave the node alone until it is open.
                    swaps.push((node, Record { terms: Arc::clone(&record.terms), ..vacant }));
                }
                _ => {}
            }
        }
        Ok(if swaps.is_empty() { Step::Done } else { Step::Swap(swaps) })
    }

    /// What a node's record says about the change.
    fn look(&self, index: usize) -> Seen {
        let node = &self.nodes[index];
        if node.gone {
            return Seen::Gone;
        }
        let Some(Reading { text: Some(text), time }) = &node.read else { return Seen::Empty };
        let Some(record) = Record::parse(text) else { return Seen::Foreign };
        let old = node.old.is_some_and(|node| record.terms == self.from.terms(node));
        let new = node.new.is_some_and(|node| record.terms == self.to.terms(node));
        let age_us = time.as_micros().saturating_sub(record.created.unwrap_or(*time).as_micros());
        let young = Duration::from_micros(age_us) < self.to.quarantine();
        match record.phase.clone() {
            Phase::Vacant => Seen::Vacant(record),
            Phase::Open if old => Seen::Ours(record),
            Phase::Closing(to) | Phase::Closed(to) | Phase::Reclosing(to)
                if old && to != *self.to.roster().list() =>
            {
                Seen::Elsewhere { to, epoch: record.epoch }
            }
            Phase::Closing(_) | Phase::Reclosing(_) if old => Seen::Closing(record),
            Phase::Closed(_) if old => Seen::Closed(record),
            // Prepared from another list than ours, it is foreign: that list may still give locks.
            Phase::Prepared(from) if new && from == *self.from.roster().list() => Seen::Prepared(record),
            Phase::Closed(to) | Phase::Reclosing(to) if new && node.old.is_none() => {
                Seen::Retired { to, epoch: record.epoch }
            }
            Phase::Open if new && record.floor > Fence::NONE => Seen::Opened(record),
            // A client came with the new list before it was time, and has not been given anything.
            Phase::Open if new && record.state == State::New && young && node.old.is_none() => Seen::Empty,
            Phase::Open if new => Seen::InUse,
            _ => Seen::Foreign,
        }
    }

    /// A node that was switched off when the new list was left behind some time ago still says that it is open.
    fn find_outdated(&self, seen: &mut [Seen]) {
        let mut epochs: Vec<u64> = seen.iter().filter_map(Seen::old_epoch).collect();
        epochs.sort_unstable_by(|a, b| b.cmp(a));
        // One alone may have been forgotten and taken back by a client that still has the old list.
        let now = epochs.get(self.quorum.majority() - 1).copied();
        for seen in seen {
            match seen {
                Seen::Opened(record) if now.is_some_and(|now| record.epoch <= now) => {
                    *seen = Seen::Vacant(record.clone());
                }
                // This change was made long ago, and the new list has been left for another one.
                Seen::Retired { to, epoch } if now.is_none_or(|now| *epoch >= now) => {
                    *seen = Seen::Elsewhere { to: Arc::clone(to), epoch: *epoch };
                }
                Seen::Retired { .. } => *seen = Seen::Empty,
                _ => {}
            }
        }
    }

    /// How long the last lock of the old list may still be.
    fn left(&self, seen: &[Seen]) -> Option<Duration> {
        let left = seen.iter().zip(&self.nodes).filter_map(|(seen, node)| {
            let time = node.read.as_ref()?.time;
            let (wait, since) = match seen {
                Seen::Closed(record) => (record.wait, record.closed),
                Seen::Prepared(record) if record.returned => (record.wait, record.created),
                _ => return None,
            };
            let age_us = time.as_micros().saturating_sub(since.unwrap_or(time).as_micros());
            Some(wait.saturating_sub(Duration::from_micros(age_us)))
        });
        // Its first fence must be above those of the old list, and not far ahead of its own clocks.
        let (floor_us, ahead_us) = (self.floor(seen).get(), self.to.bounds().slack_us / 2);
        let of_new = self.nodes.iter().filter(|node| node.new.is_some());
        let fences = of_new.filter_map(|node| {
            let time_us = node.read.as_ref()?.time.as_micros();
            Some(Duration::from_micros(floor_us.saturating_sub(time_us.saturating_add(ahead_us))))
        });
        // A majority of them is enough: a node whose clock is wrong stays behind.
        let mut fences: Vec<Duration> = fences.collect();
        fences.sort_unstable();
        let fences = fences.get(fences.len() / 2).copied();
        left.chain(fences).max().filter(|left| !left.is_zero())
    }

    /// The highest fence that the old list can have granted. A majority has granted it, so one clock that is far ahead
    /// says nothing; of nodes that are gone nobody knows.
    fn floor(&self, seen: &[Seen]) -> Fence {
        let carried = |seen: &Seen| match seen {
            Seen::Opened(record) | Seen::Prepared(record) | Seen::Closed(record) => record.floor,
            _ => Fence::NONE,
        };
        let of = |seen: &Seen| match seen {
            Seen::Closed(record) => {
                let before = match (&record.state, record.created) {
                    (State::New | State::Waited, Some(created)) => self.from.floor(created, Duration::ZERO),
                    _ => Fence::NONE,
                };
                let granted = record.closed.map_or(Fence::NONE, |closed| self.from.bounds().highest(closed));
                Some(granted.max(before))
            }
            _ => None,
        };
        let mut granted: Vec<Fence> = seen.iter().filter_map(of).collect();
        granted.sort_unstable_by(|a, b| b.cmp(a));
        let unknown = self.nodes.iter().filter(|node| node.gone).count();
        let granted = granted.get(self.quorum.majority().saturating_sub(1 + unknown)).copied();
        seen.iter().map(carried).chain(granted).max().unwrap_or(Fence::NONE).max(Fence::new(1))
    }

    fn quarantine(&self) -> Duration {
        self.from.quarantine().max(self.to.quarantine())
    }

    fn record(&mut self, node: usize, new: bool) -> Record {
        let part = &self.nodes[node];
        let facts = part.facts.clone().unwrap_or_default();
        let terms = match (new, part.old, part.new) {
            (false, Some(place), _) => self.from.terms(place),
            (_, _, Some(place)) => self.to.terms(place),
            _ => unreachable!("it is asked for a list that the node is in"),
        };
        Record {
            nonce: self.draw_nonce(),
            continues: None,
            life: facts.life,
            state: State::New,
            returned: false,
            durable: facts.durable,
            phase: Phase::Open,
            epoch: 0,
            wait: self.quarantine(),
            floor: Fence::NONE,
            terms,
            created: None,
            closed: None,
        }
    }

    fn prepared(&mut self, node: usize, epoch: u64) -> Record {
        let phase = Phase::Prepared(Arc::clone(self.from.roster().list()));
        Record { phase, epoch, ..self.record(node, true) }
    }

    /// Whoever ran this before may have removed locks already, so it does not matter whether we found any.
    fn closed(&mut self, record: &Record) -> Record {
        let (nonce, continues, wait) = (self.draw_nonce(), Some(record.nonce), self.quarantine());
        let phase = Phase::Closed(Arc::clone(self.to.roster().list()));
        Record { nonce, continues, phase, wait, closed: None, ..record.clone() }
    }

    fn opened(
        &mut self,
        place: NodeIndex,
        record: &Record,
        epoch: u64,
        floor: Fence,
        nonces: &[Nonce],
    ) -> Record {
        Record {
            nonce: self.draw_nonce(),
            continues: Some(record.nonce),
            state: State::Fresh(nonces.to_vec()),
            phase: Phase::Open,
            epoch: epoch.max(record.epoch),
            wait: self.to.quarantine(),
            floor,
            terms: self.to.terms(place),
            closed: None,
            ..record.clone()
        }
    }

    /// Takes a page of a node's locks and removes what is on it.
    fn clear(&mut self, now: Time, index: usize, holdings: &[Holding], next: u64) {
        let Some(clearing) = &mut self.nodes[index].clearing else { return };
        clearing.next = (next != 0).then_some(next);
        let mut releases = vec![];
        for holding in holdings {
            let owner = holding.owner.split('~').next().unwrap_or_default();
            let name = holding.key.strip_prefix(self.prefix.as_str()).unwrap_or_default();
            // What other libraries hold is theirs, and what is only set aside is nobody's.
            if let (Ok(token), Ok(key)) = (OwnerToken::parse(owner), LockKey::new(&self.prefix, name)) {
                releases.push(Command::Release { key, token });
            }
        }
        clearing.releasing = releases.len();
        clearing.again |= !releases.is_empty();
        for command in releases {
            self.outputs.push_back(Output::Send { node: index, command });
        }
        self.go_on_clearing(now, index);
    }

    fn go_on_clearing(&mut self, now: Time, index: usize) {
        let Some(clearing) = &mut self.nodes[index].clearing else { return };
        if clearing.releasing > 0 {
            return;
        }
        let cursor = match clearing.next.take() {
            Some(cursor) => cursor,
            // Once more, until nothing is found.
            None if std::mem::take(&mut clearing.again) => 0,
            None => {
                clearing.done = true;
                return self.ask(now, index, None);
            }
        };
        let (prefix, node) = (self.prefix.clone(), index);
        self.outputs.push_back(Output::Send { node, command: Command::List { prefix, cursor } });
    }

    fn read_again(&mut self, now: Time) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].facts.is_some() && !self.nodes[node].gone {
                self.ask(now, node, None);
            }
        }
    }

    fn ask(&mut self, now: Time, node: usize, swap: Option<Swap>) {
        self.nodes[node].asked = Some(now);
        let prefix = self.prefix.clone();
        self.outputs.push_back(Output::Send { node, command: Command::Record { prefix, swap } });
    }

    fn tell(&mut self, progress: Progress) {
        let rank = |progress: &Progress| match progress {
            Progress::Reaching(_) => 0,
            Progress::Prepared => 1,
            Progress::Closed => 2,
            Progress::Waiting { .. } => 3,
            Progress::Opened => 4,
        };
        let is_news = match (&self.told, &progress) {
            (Some(Progress::Waiting { .. }), Progress::Waiting { .. }) => true,
            (Some(told), progress) => {
                rank(progress) > rank(told) || (rank(progress) == 0 && told != progress)
            }
            (None, _) => true,
        };
        if is_news {
            self.told = Some(progress.clone());
            self.outputs.push_back(Output::Progress(progress));
        }
    }

    fn fail(&mut self, refused: Refused) {
        self.ended = true;
        self.outputs.push_back(Output::Failed(refused));
    }

    fn draw_nonce(&mut self) -> Nonce {
        super::registration::draw_nonce(&mut self.random)
    }
}

/// What the record of a node says about the change.
#[derive(Clone, Debug)]
enum Seen {
    /// There is no record, or one that nobody can have been given anything by.
    Empty,
    /// It was taken out of its last fleet, or that fleet has gone on without it.
    Vacant(Record),
    /// It is switched off, and not looked at.
    Gone,
    Foreign,
    /// It serves the new list, by no doing of ours.
    InUse,
    /// It is being changed to another list.
    Elsewhere {
        to: Arc<str>,
        epoch: u64,
    },
    /// It was in the new list before, and was taken out of it when that was changed to this one.
    Retired {
        to: Arc<str>,
        epoch: u64,
    },
    Ours(Record),
    Closing(Record),
    Closed(Record),
    Prepared(Record),
    Opened(Record),
}

impl Seen {
    /// The epoch of the old list, if the node belongs to that.
    fn old_epoch(&self) -> Option<u64> {
        match self {
            Self::Ours(record) | Self::Closing(record) | Self::Closed(record) => Some(record.epoch),
            _ => None,
        }
    }

    /// The epoch that the new list has, as far as this record says.
    fn epoch(&self) -> Option<u64> {
        match self {
            Self::Ours(record) | Self::Closing(record) | Self::Closed(record) => Some(record.epoch + 1),
            Self::Prepared(record) | Self::Opened(record) => Some(record.epoch),
            Self::Elsewhere { epoch, .. } | Self::Retired { epoch, .. } => Some(*epoch),
            Self::Vacant(record) => Some(record.epoch),
            Self::Empty | Self::Gone | Self::Foreign | Self::InUse => None,
        }
    }
}

enum Step {
    /// Change these records.
    Swap(Vec<(usize, Record)>),
    /// Read all records once more.
    Confirm,
    /// Remove the locks of these nodes.
    Clear(Vec<usize>),
    Wait(Duration),
    Done,
}
