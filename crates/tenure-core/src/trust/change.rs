//! Changing the node list of a fleet while its clients run.
//!
//! No majority of the old list and none of the new one may count at the same time. Any design that
//! lets both count in turn has to know that no round of the old one can still win; this one does so
//! in the simplest way, by a pause:
//!
//! 1. *Prepare* the nodes that are new: they belong to the new list from now on, and do not vote
//!    yet.
//! 2. *Close* the old nodes: a new nonce, so no acquire counts any more that was not executed
//!    before. Until here the change can be given up. All of them are read once more; if nothing has
//!    changed, there was a moment at which all were closing for this change, and no other change
//!    can have got further than that.
//! 3. *Clear* each of them of its locks, and mark it as closed with its time. An extension needs a
//!    majority that still has the key, so none succeeds after that; a key that is put back counts
//!    only after a quarantine, and by then the lock is lost.
//! 4. *Wait* until every lock that was there is over: a quarantine after the last node was closed.
//! 5. *Open* the new list. Its fences begin above all that the old one can have granted.
//!
//! All of it is in the records: whoever runs it next, after a crash at any point, reads them and
//! goes on. Two that run at once do the same. A node that is emptied in the middle begins a new
//! life, and is closed again from the start.

mod clearing;
mod plan;
mod records;
mod seen;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use self::clearing::Clearing;
use self::plan::Step;
use self::seen::Seen;
use super::record::{Phase, Record};
use super::{Facts, Nonce, RestartGuard, Settings};
use crate::command::{Answer, Command, Fault, Refusal, Reply, Swap};
use crate::names::Prefix;
use crate::round::{NodeIndex, Quorum};
use crate::time::{NodeTime, Time};

/// How long an answer may take before the node is asked again.
const PATIENCE: Duration = Duration::from_secs(5);

/// A node that has kept us waiting so often in a row is not asked again.
const LATE_MAX: u32 = 3;

/// How often the clocks of the nodes are looked at while the last locks run out.
const LOOK: Duration = Duration::from_millis(100);

/// A change of a node list, step by step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeListChange {
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
    /// The life that was read last, and when it was first.
    since: Option<(Nonce, Time)>,
    clearing: Option<Clearing>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reading {
    text: Option<Arc<str>>,
    time: NodeTime,
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
    /// The time of [`NodeListChange::poll_timeout`] has come.
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
    /// The old list has granted fences that are ahead of the clocks of the new one.
    Clocks {
        /// By so much.
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
    /// These nodes of the old list, a majority, have never been used with it, or have forgotten
    /// that they were.
    Unused {
        /// Which nodes.
        nodes: Vec<usize>,
    },
    /// The two lists go by the same words: nobody could tell which of them a node belongs to.
    Same,
}

/// What to write over this record so that the node belongs to nobody; `None` if it does already.
/// `seed` must be random.
#[must_use]
pub fn vacate(text: &str, mut seed: u64) -> Option<Swap> {
    if Record::parse(text).is_some_and(|record| record.phase == Phase::Vacant) {
        return None;
    }
    let vacant = Record::vacant(text, super::registration::draw_nonce(&mut seed));
    Some(Swap { expected: Some(text.into()), text: vacant.to_text(), stamp: vacant.wants_time() })
}

/// What to write over this record so that nothing is left of its prefix; `None` if its clients
/// count on what the node remembers, which is so unless their restart guard is off.
#[must_use]
pub fn give_up(text: &str) -> Option<Swap> {
    let off = format!("restart_guard={}", RestartGuard::Off);
    let is_off = text.split_whitespace().any(|word| word == off);
    is_off.then(|| Swap { expected: Some(text.into()), text: "".into(), stamp: false })
}

impl ChangeNode {
    /// A node with its place in the old list and in the new one.
    #[must_use]
    pub const fn new(old: Option<NodeIndex>, new: Option<NodeIndex>) -> Self {
        let (asked, late, fault, read, before) = (None, 0, None, None, None);
        let (since, clearing) = (None, None);
        Self { old, new, gone: false, facts: None, asked, late, fault, read, before, since, clearing }
    }

    /// It is switched off, and will not come back while clients have the old list.
    #[must_use]
    pub const fn gone(mut self) -> Self {
        self.gone = true;
        self
    }
}

impl NodeListChange {
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

    /// Takes one input at `now`; drain [`NodeListChange::poll_output`] afterwards.
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

    /// When to call [`NodeListChange::handle`] with [`Input::Timeout`] at the latest.
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
                let nonce = text.as_deref().and_then(|text| Nonce::parse(text.get(..16)?));
                if node.since.map(|(nonce, _)| nonce) != nonce {
                    node.since = nonce.map(|nonce| (nonce, now));
                }
                (node.asked, node.read) = (None, Some(Reading { text, time }));
            }
            Ok(Reply { answer: Answer::Holdings(told), .. }) => {
                self.handle_cleared(now, index, !told.found.is_empty(), told.next);
            }
            // Its record has changed: somebody else has gone on, or its memory is gone.
            Ok(Reply { answer: Answer::Refused(Refusal::Stranger), .. }) => {
                node.clearing = None;
                self.ask(now, index, None);
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
        match self.next(now, &seen) {
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
                for (node, nonce) in nodes {
                    self.nodes[node].clearing = Some(Clearing { nonce, found: false, done: false });
                    self.clear(now, node, 0);
                }
            }
            Ok(Step::Wait(left, why)) => {
                self.tell(why);
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
            Progress::Waiting { .. } | Progress::Clocks { .. } => 3,
            Progress::Opened => 4,
        };
        // Who waits, or is waited for, changes.
        let changes = |rank: u32| rank == 0 || rank == 3;
        let is_news = self.told.as_ref().is_none_or(|told| {
            rank(&progress) > rank(told)
                || rank(&progress) == rank(told) && changes(rank(told)) && *told != progress
        });
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
