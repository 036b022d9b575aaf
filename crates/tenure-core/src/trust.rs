//! Which nodes may vote: those whose memory and clock can be relied on.
//!
//! A lock lives in the memory of a majority of nodes. A node that lost its memory would give the lock to the next
//! client, and so would one whose clock jumped. Redlock's documents ask for *delayed restarts* against the first:
//! keep such a node out until every lock that it may have forgotten is over. Here the clients do that.
//!
//! Each node keeps a [record](record) of the current life of its memory. A client asks for it when it connects,
//! writes it if there is none, and names its nonce in every acquire.
//! - A node whose record is *new* is quarantined for `max_ttl` plus guard band: no grant is asked of it, none is
//!   counted. Extensions and releases of keys that it has do count.
//! - If **all** nodes are new and none has been seen before, it is the first start of a fleet and nobody can hold
//!   anything: each record is marked with the nonces of all, and the nodes vote at once. Whoever finds a mark
//!   that names a node's present nonce may finish the work. With any node missing, one restarted empty and the
//!   rest never asked look just the same, so then the quarantine is waited out.
//! - A server that was started anew with its data gets a new record too, unless it proves that it syncs every
//!   write to disk.
//! - A node whose clock jumped, or that is far from all others when it is first seen, is kept out likewise.
//!
//! [`Fleet`] does all this for one client: it takes what happens on the connections and what the replies tell,
//! asks for records, and says for each attempt which nodes to ask and with which fence.

mod clock_watch;
mod record;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::clock_watch::ClockWatch;
use self::record::{Foreign, Record, State};
pub use self::record::{Life, Nonce};
use crate::command::{Answer, Command, Fault, Reply, Swap};
use crate::config::MaxTtl;
use crate::fence::{Fence, FenceBounds, FenceClaim, FenceClock};
use crate::lock_table::TRIM_FENCES;
use crate::names::Prefix;
use crate::quorum::{NodeIndex, Quorum};
use crate::time::{NodeTime, Time};

/// How far fences may run ahead of a node's clock, unless the quarantine is shorter: clocks of nodes that are kept
/// in step at all differ by less.
const SLACK_DEFAULT: Duration = Duration::from_secs(10);

/// How long nodes remember fences: longer than any process sits on a stale lock unnoticed.
const RETENTION_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);

/// The shortest retention: fences must outlive the retries of one acquire.
const RETENTION_MIN: Duration = Duration::from_secs(1);

/// Nodes whose clocks differ by more than this when they are first seen do not agree: one may have jumped just now. A
/// smaller jump harms nobody, because it is within the shortest guard band.
const APART: Duration = Duration::from_millis(100);

/// A record that was asked for and has not come by then is asked for again.
const RECORD_TIMEOUT: Duration = Duration::from_millis(500);

/// A server that may not be a node is asked about itself again after this.
const RECHECK: Duration = Duration::from_secs(1);

/// The longest silence before a node is asked for its record and time again.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// What is done about nodes that may have forgotten locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RestartGuard {
    /// A node that shows signs of a lost memory is quarantined. It cannot see that *all* nodes lost their memory
    /// within one quarantine while no client remembered. The default.
    #[default]
    Evidence,
    /// Every new life of a node's memory is quarantined, also at the first start of a fleet and where the disk
    /// should have kept everything. Replicas and eviction are not tolerated.
    Strict,
    /// Nodes vote at once, whatever they forgot. Fences still grow; exclusion does not survive a restart.
    Off,
}

/// What all clients of the same nodes and prefix must agree on. It is part of every record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    max_ttl: MaxTtl,
    bounds: FenceBounds,
    restart_guard: RestartGuard,
    /// The nodes, under the names that all clients use, in the same order.
    nodes: Arc<str>,
}

/// What a node's server says about itself when a client connects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Which life of which server this is, if it can be seen.
    pub life: Option<Life>,
    /// It has forgotten nothing since it came to be, and knows.
    pub intact: bool,
    /// It keeps every acknowledged write over a restart.
    pub durable: bool,
    /// It was a replica of another server in the life of this process, or may have been.
    pub promoted: bool,
    /// Why it must not be used as a node at all.
    pub unfit: Option<Arc<str>>,
    /// Why it is not to be used where `restart_guard` is strict.
    pub doubtful: Option<Arc<str>>,
}

/// Why a node may not vote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Distrust {
    /// Its record is not known yet, or has just changed.
    Unknown,
    /// It may have forgotten locks.
    Quarantined {
        /// How much longer it is kept out.
        left: Duration,
    },
    /// Its clock jumped.
    ClockJumped {
        /// By how many microseconds, at least.
        by_us: i64,
        /// How much longer it is kept out.
        left: Duration,
    },
    /// Its clock was far from those of the others when it was first seen.
    ClockApart {
        /// By how many microseconds.
        by_us: i64,
        /// How much longer it is kept out.
        left: Duration,
    },
    /// Its clock is so far behind the others that it takes no present fence.
    ClockBehind,
    /// The fences it may have forgotten are above those of the present.
    FencesAhead,
    /// It must not be used at all, for this reason.
    Unfit(Arc<str>),
}

/// What an attempt is to propose, and to whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// The fence, if the lock has one.
    pub fence: Option<FenceClaim>,
    /// For each node the life it may vote in, `None` to ask in any; or why it is not asked.
    pub nodes: Voters,
}

type Voters = Arc<[Result<Option<Nonce>, Fault>]>;

/// What a client knows about its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fleet {
    settings: Settings,
    quorum: Quorum,
    prefix: Prefix,
    members: Vec<Member>,
    fences: FenceClock,
    /// Gives the nonces of new records; begun with true randomness.
    random: u64,
    /// How many nodes must be new together for a first start. All of them; fewer only to show why.
    fresh_needs: usize,
    /// The answer to the common question: all nodes may vote, for fences above this.
    all_trusted: Option<(Fence, Voters)>,
    outputs: VecDeque<Output>,
}

/// What a client knows about one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Member {
    /// While it is connected.
    facts: Option<Facts>,
    /// Why there is no connection, or no answer.
    fault: Option<Fault>,
    /// While it is connected and the record was told.
    record: Option<Known>,
    objection: Option<Arc<str>>,
    /// When its record was asked for without an answer so far.
    asked: Option<Time>,
    /// A first answer has come, or has not come in time.
    tried: bool,
    /// The last life of its memory that this client saw.
    seen: Option<Nonce>,
    watch: ClockWatch,
    first_seen: Option<Time>,
    round_trip: Duration,
    jumped: Option<(i64, Time)>,
    /// Its server was asked about itself, and the answer is needed.
    surveying: bool,
    /// When to look again at a server that may not vote as it is.
    recheck_at: Option<Time>,
    trim_at: Option<Time>,
    /// What was last told about it.
    told: Option<Distrust>,
}

/// A record and what it means to us.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Known {
    record: Record,
    text: Arc<str>,
    /// When its quarantine is over, by our clock.
    trusted_from: Time,
}

/// What happens to a client's nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A connection is up, and the server said this about itself.
    Connected {
        /// Which node.
        node: NodeIndex,
        /// What it said.
        facts: Facts,
    },
    /// The server said this about itself when it was asked again.
    Surveyed {
        /// Which node.
        node: NodeIndex,
        /// What it said.
        facts: Facts,
    },
    /// There is no connection, or not any more.
    Disconnected {
        /// Which node.
        node: NodeIndex,
        /// Why not.
        fault: Fault,
    },
    /// A node's answer to a command of ours.
    Answer {
        /// Which node.
        node: NodeIndex,
        /// What it said, or why it did not.
        answer: Result<Reply, Fault>,
    },
    /// An acquire, or the connection, found that the node's record is another one.
    Changed {
        /// Which node.
        node: NodeIndex,
    },
    /// The time of [`Fleet::poll_timeout`] has come.
    Timeout,
}

/// What a fleet asks for or tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send this command to this node.
    Send {
        /// Which node.
        node: NodeIndex,
        /// What to send.
        command: Command,
    },
    /// Ask this node's server about itself again; the answer comes with [`Input::Surveyed`].
    Survey {
        /// Which node.
        node: NodeIndex,
    },
    /// What this node granted in undecided attempts must not be counted.
    Distrust {
        /// Which node.
        node: NodeIndex,
        /// Whether what it still held may be gone, too: extensions under way must not count it either.
        forgot: bool,
    },
    /// Something that people will want to know. `None`: it may vote from now on.
    Notice {
        /// Which node.
        node: NodeIndex,
        /// Why it may not vote.
        distrust: Option<Distrust>,
    },
    /// A node showed a fence that it cannot have granted: somebody else writes there, or its clock went back far.
    Poisoned {
        /// Which node.
        node: NodeIndex,
        /// The fence.
        fence: Fence,
    },
}

/// How a node stands with a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// Whether a connection is up.
    pub connected: bool,
    /// The life of its memory, if it is known.
    pub incarnation: Option<Nonce>,
    /// Whether there was an earlier life.
    pub returned: bool,
    /// Whether it may vote now, and why not.
    pub trust: Result<(), Distrust>,
    /// Why there is no connection, or no answer.
    pub fault: Option<Fault>,
    /// How far its clock is from the middle of all nodes, in microseconds.
    pub clock_offset_us: Option<i64>,
    /// How long the last round trip took.
    pub round_trip: Option<Duration>,
}

impl Settings {
    /// Settings with the defaults for everything else.
    #[must_use]
    pub fn new(max_ttl: MaxTtl, nodes: &str) -> Self {
        let bounds = FenceBounds::new(SLACK_DEFAULT.min(max_ttl.quarantine()), RETENTION_DEFAULT);
        // The record is one line of words.
        let nodes = nodes.replace(char::is_whitespace, "%20").into();
        Self { max_ttl, bounds, restart_guard: RestartGuard::default(), nodes }
    }

    /// With another restart guard.
    #[must_use]
    pub fn restart_guard(mut self, restart_guard: RestartGuard) -> Self {
        self.restart_guard = restart_guard;
        self
    }

    /// With another time for which nodes remember fences; at least a second.
    #[must_use]
    pub fn fence_retention(mut self, retention: Duration) -> Self {
        let slack = Duration::from_micros(self.bounds.slack_us);
        self.bounds = FenceBounds::new(slack, retention.max(RETENTION_MIN));
        self
    }

    /// How far from a node's clock a fence may lie.
    #[must_use]
    pub const fn bounds(&self) -> FenceBounds {
        self.bounds
    }

    /// How long a node is kept out that may have forgotten locks.
    #[must_use]
    pub fn quarantine(&self) -> Duration {
        self.max_ttl.quarantine()
    }

    fn to_text(&self) -> String {
        let FenceBounds { slack_us, retention_us } = self.bounds;
        format!(
            "nodes={} max_ttl_ms={} guard_ms={} slack_us={slack_us} retention_us={retention_us} restart_guard={}",
            self.nodes,
            self.max_ttl.get().as_millis(),
            self.max_ttl.guard_band_max().as_millis(),
            self.restart_guard,
        )
    }
}

impl Proposal {
    /// A proposal to all nodes without fence or record: what any other Redlock client does.
    #[must_use]
    pub fn plain(quorum: Quorum) -> Self {
        Self { fence: None, nodes: vec![Ok(None); quorum.nodes()].into() }
    }
}

impl Fleet {
    /// A fleet of which nothing is known. `seed` must be random.
    #[must_use]
    pub fn new(settings: Settings, quorum: Quorum, prefix: Prefix, seed: u64) -> Self {
        let member = Member {
            facts: None,
            fault: None,
            record: None,
            objection: None,
            asked: None,
            tried: false,
            seen: None,
            watch: ClockWatch::new(settings.quarantine()),
            first_seen: None,
            round_trip: Duration::ZERO,
            jumped: None,
            surveying: false,
            recheck_at: None,
            trim_at: None,
            told: None,
        };
        Self {
            settings,
            quorum,
            prefix,
            members: vec![member; quorum.nodes()],
            fences: FenceClock::default(),
            random: seed,
            fresh_needs: quorum.nodes(),
            all_trusted: None,
            outputs: VecDeque::new(),
        }
    }

    /// Takes fewer than all nodes for a first start. Unsafe, and only there to show it.
    #[doc(hidden)]
    #[must_use]
    pub fn starting_fresh_with(mut self, nodes: usize) -> Self {
        self.fresh_needs = nodes;
        self
    }

    /// Takes one input at `now`; drain [`Fleet::poll_output`] afterwards.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.all_trusted = None;
        match input {
            Input::Connected { node, facts } => self.handle_connected(now, node, facts),
            Input::Surveyed { node, facts } => self.handle_surveyed(now, node, facts),
            Input::Disconnected { node, fault } => {
                let member = &mut self.members[node.get()];
                member.fault = Some(fault);
                (member.facts, member.record, member.asked) = (None, None, None);
                (member.objection, member.trim_at, member.recheck_at) = (None, None, None);
                member.surveying = false;
            }
            Input::Answer { node, answer } => self.handle_answer(now, node, answer),
            Input::Changed { node } => self.handle_changed(now, node),
            Input::Timeout => self.handle_timeout(now),
        }
        self.evaluate(now);
    }

    /// Looks at what a reply tells besides its answer: the node's clock, and fences that it knows. To be called
    /// for every reply before anything is counted.
    pub fn observe(&mut self, now: Time, node: NodeIndex, sent: Time, reply: &Reply) {
        let Some(time) = reply.time else { return };
        let bounds = self.settings.bounds;
        if let Some(fence) = reply.fence
            && !self.fences.observe(fence, time, bounds)
        {
            self.outputs.push_back(Output::Poisoned { node, fence });
        }
        let quarantine = self.settings.quarantine();
        let member = &mut self.members[node.get()];
        member.round_trip = now.since(sent);
        member.first_seen.get_or_insert(now);
        if let Some(by_us) = member.watch.observe(sent, now, time) {
            member.jumped = Some((by_us, now + quarantine));
            self.all_trusted = None;
            self.outputs.push_back(Output::Distrust { node, forgot: false });
            self.evaluate(now);
        }
    }

    /// What to propose in an attempt that begins now.
    pub fn propose(&mut self, now: Time, fenced: bool) -> Proposal {
        let fence = match self.nodes_time(now) {
            Some(time) if fenced => {
                let bounds = self.settings.bounds;
                Some(FenceClaim { fence: self.fences.propose(time, bounds), bounds })
            }
            None if fenced => {
                let unknown = self.quorum.indexes().map(|node| {
                    let distrust = self.trust(now, node).err().unwrap_or(Distrust::Unknown);
                    Err(self.fault(node, distrust))
                });
                return Proposal { fence: None, nodes: unknown.collect() };
            }
            _ => None,
        };
        if fence.is_some() {
            self.plan_trims(now);
        }
        if let Some((floor, nodes)) = &self.all_trusted
            && fence.is_none_or(|claim| claim.fence > *floor)
        {
            return Proposal { fence, nodes: Arc::clone(nodes) };
        }
        let nodes: Voters = self.quorum.indexes().map(|node| self.voter(now, node, fence)).collect();
        if nodes.iter().all(Result::is_ok) {
            let floors = self.quorum.indexes().map(|node| self.floor(node));
            self.all_trusted = Some((floors.max().unwrap_or(Fence::NONE), Arc::clone(&nodes)));
        }
        Proposal { fence, nodes }
    }

    /// What to do next, if anything.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`Fleet::handle`] with [`Input::Timeout`] at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.members.iter().filter_map(|member| member.timeout(self.silence_max())).min()
    }

    /// The quorum of the nodes.
    #[must_use]
    pub const fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// Whether every node that is connected has told its record, or has not in time.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.members.iter().all(Member::is_settled)
    }

    /// How many nodes may vote now.
    #[must_use]
    pub fn trusted(&self, now: Time) -> usize {
        self.quorum.indexes().filter(|node| self.trust(now, *node).is_ok()).count()
    }

    /// How a node stands.
    #[must_use]
    pub fn report(&self, now: Time, node: NodeIndex) -> Report {
        let member = &self.members[node.get()];
        let middle = self.middle_offset_us();
        let offset = member.facts.as_ref().and_then(|_| member.watch.offset_us());
        Report {
            connected: member.facts.is_some(),
            incarnation: member.record.as_ref().map(|known| known.record.nonce),
            returned: member.record.as_ref().is_some_and(|known| known.record.returned),
            trust: self.trust(now, node).map(|_| ()),
            fault: member.fault.clone(),
            clock_offset_us: offset.zip(middle).map(|(offset, middle)| offset.saturating_sub(middle)),
            round_trip: member.watch.last_received().map(|_| member.round_trip),
        }
    }

    fn handle_surveyed(&mut self, now: Time, node: NodeIndex, facts: Facts) {
        let member = &mut self.members[node.get()];
        let Some(known) = &member.facts else { return };
        if member.surveying || member.objection.is_some() || known.life != facts.life {
            self.handle_connected(now, node, facts);
        } else {
            member.facts = Some(facts);
        }
    }

    fn handle_connected(&mut self, now: Time, node: NodeIndex, facts: Facts) {
        let strict = self.settings.restart_guard == RestartGuard::Strict;
        let doubt = facts.doubtful.clone().filter(|_| strict);
        let member = &mut self.members[node.get()];
        member.objection = facts.unfit.clone().or(doubt);
        member.tried |= member.objection.is_some();
        (member.facts, member.record, member.asked) = (Some(facts), None, None);
        (member.fault, member.surveying) = (None, false);
        if member.objection.is_some() {
            member.recheck_at = Some(now + RECHECK);
        } else {
            self.ask_or_create(now, node);
            self.send(node, Command::Trim { prefix: self.prefix.clone(), bounds: self.settings.bounds });
        }
    }

    fn handle_answer(&mut self, now: Time, node: NodeIndex, answer: Result<Reply, Fault>) {
        let member = &mut self.members[node.get()];
        if member.facts.is_none() {
            return;
        }
        match answer {
            Ok(Reply { answer: Answer::Record(text), time: Some(time), .. }) => {
                (member.asked, member.tried, member.fault) = (None, true, None);
                self.handle_record(now, node, time, text);
            }
            Ok(Reply { answer: Answer::Trimmed { removed, left }, .. }) => {
                let pause = trim_pause(self.settings.bounds);
                member.trim_at = match left {
                    0 => None,
                    _ if removed >= TRIM_FENCES as u64 => Some(now),
                    _ => Some(now + pause),
                };
            }
            Ok(_) => {}
            // It is asked again when its time is up. Until then it does not vote.
            Err(fault) => (member.tried, member.fault) = (true, Some(fault)),
        }
    }

    fn handle_record(&mut self, now: Time, node: NodeIndex, time: NodeTime, text: Option<Arc<str>>) {
        let Some(text) = text else { return self.ask_or_create(now, node) };
        let record = match Record::parse(&text, &self.settings) {
            Ok(record) => record,
            Err(foreign) => return self.object(now, node, &self.objection(&foreign)),
        };
        let member = &mut self.members[node.get()];
        member.objection = None;
        let facts = member.facts.clone().unwrap_or_default();
        if facts.life.is_some() && record.life != facts.life {
            let record = if self.remembers(&record, &facts) {
                Record { life: facts.life, ..record }
            } else {
                self.new_record(facts.life, true)
            };
            return self.swap(now, node, text, &record);
        }
        let remembered = member.seen.is_some_and(|seen| seen != record.nonce);
        if remembered && record.state == State::New && !record.returned {
            // Whoever remembers an earlier life of this memory tells all others.
            return self.swap(now, node, text, &Record { returned: true, ..record });
        }
        if member.seen.replace(record.nonce).is_some_and(|seen| seen != record.nonce) {
            self.outputs.push_back(Output::Distrust { node, forgot: true });
        }
        let created = record.created.unwrap_or(time);
        if let State::Fresh(_) = record.state {
            // Its clock may be ahead of the others': fences begin above.
            self.fences.observe(Fence::new(created.as_micros()), time, self.settings.bounds);
        }
        let age = Duration::from_micros(time.as_micros().saturating_sub(created.as_micros()));
        let left = self.settings.quarantine().saturating_sub(age);
        let member = &mut self.members[node.get()];
        // Seen before on this connection: our own clock has counted since.
        let trusted_from = match &member.record {
            Some(known) if known.record.nonce == record.nonce => known.trusted_from,
            _ => now + left,
        };
        member.record = Some(Known { record, text, trusted_from });
    }

    /// Whether a server with another life than its record names has all the same forgotten nothing: it is a new
    /// process that syncs every write; or the same process, whose lineage changes also when it gets its first replica,
    /// or loses its last, as long as it never followed another itself.
    fn remembers(&self, record: &Record, facts: &Facts) -> bool {
        let (Some(before), Some(now)) = (&record.life, &facts.life) else { return false };
        let durable = facts.durable && self.settings.restart_guard != RestartGuard::Strict;
        (durable || before.process == now.process) && !facts.promoted
    }

    fn handle_changed(&mut self, now: Time, node: NodeIndex) {
        let member = &mut self.members[node.get()];
        if member.facts.is_some() && member.objection.is_none() && !member.surveying {
            member.record = None;
            self.outputs.push_back(Output::Distrust { node, forgot: true });
            self.survey(now, node);
        }
    }

    /// Finds out who the server is now. What it said when we connected is not good enough to judge a record by that
    /// others have written since.
    fn survey(&mut self, now: Time, node: NodeIndex) {
        let member = &mut self.members[node.get()];
        (member.surveying, member.asked) = (true, None);
        member.recheck_at = Some(now + RECHECK);
        self.outputs.push_back(Output::Survey { node });
    }

    fn handle_timeout(&mut self, now: Time) {
        let silence_max = self.silence_max();
        for node in self.quorum.indexes() {
            let member = &mut self.members[node.get()];
            if member.trim_at.is_some_and(|at| now >= at) {
                member.trim_at = None;
                self.send(node, Command::Trim { prefix: self.prefix.clone(), bounds: self.settings.bounds });
            }
            let member = &mut self.members[node.get()];
            if member.jumped.is_some_and(|(_, until)| now >= until) {
                member.jumped = None;
            }
            if member.recheck_at.is_some_and(|at| now >= at) {
                member.recheck_at = None;
                if member.surveying || member.objection.is_some() {
                    self.survey(now, node);
                }
            } else if member.asked.is_some_and(|asked| now >= asked + RECORD_TIMEOUT) {
                member.tried = true;
                member.fault.get_or_insert(Fault::Timeout);
                self.ask_or_create(now, node);
            } else if member.asked.is_none()
                && member.silent_since().is_some_and(|since| now >= since + silence_max)
            {
                self.ask(now, node, None);
            }
        }
    }

    /// Draws conclusions: which nodes are the same server, whether this is a first start, whose quarantine is over.
    fn evaluate(&mut self, now: Time) {
        self.find_duplicates(now);
        if self.settings.restart_guard == RestartGuard::Evidence {
            self.start_fresh(now);
        }
        for node in self.quorum.indexes() {
            let over = |known: &Known| known.record.state == State::New && now >= known.trusted_from;
            if let Some(known) = self.members[node.get()].idle_record().filter(|known| over(known)).cloned() {
                self.swap(now, node, known.text, &Record { state: State::Waited, ..known.record });
            }
            self.tell(now, node);
        }
    }

    /// Marks the nodes of a first start, or finishes what another client began.
    fn start_fresh(&mut self, now: Time) {
        let knows = |member: &Member| member.record.as_ref().map(|known| known.record.clone());
        let records: Vec<Option<Record>> = self.members.iter().map(knows).collect();
        let is_new = |record: &Option<Record>, member: &Member| {
            let waited = member.record.as_ref().is_some_and(|known| now >= known.trusted_from);
            record.as_ref().is_some_and(|record| record.state == State::New && !record.returned) && !waited
        };
        let new = records.iter().zip(&self.members).filter(|(record, member)| is_new(record, member)).count();
        let known = records.iter().flatten().count();
        let marks = records.iter().flatten().find_map(|record| match &record.state {
            State::Fresh(nonces) => Some(nonces.clone()),
            _ => None,
        });
        let nonces = match marks {
            Some(nonces) => nonces,
            None if new == known && new >= self.fresh_needs => {
                records.iter().flatten().map(|record| record.nonce).collect()
            }
            None => return,
        };
        for node in self.quorum.indexes() {
            let known = self.members[node.get()].idle_record().cloned();
            let Some(Known { record, text, .. }) = known else { continue };
            if record.state == State::New && nonces.contains(&record.nonce) {
                self.swap(now, node, text, &Record { state: State::Fresh(nonces.clone()), ..record });
            }
        }
    }

    /// A server that is listed twice would vote twice.
    fn find_duplicates(&mut self, now: Time) {
        for later in 1..self.members.len() {
            let life = |member: &Member| member.facts.as_ref().and_then(|facts| facts.life.clone());
            let Some(life_later) = life(&self.members[later]) else { continue };
            let twin = self.members[..later].iter().position(|member| {
                life(member).is_some_and(|other| {
                    other.process == life_later.process || other.lineage == life_later.lineage
                })
            });
            if let Some(first) = twin {
                let (first, later_number) = (first + 1, later + 1);
                let message = format!(
                    "node {later_number} is the same server as node {first} of the list, or a copy of it; every node \
                     must be a server of its own"
                );
                let member = &mut self.members[later];
                (member.objection, member.record, member.tried) = (Some(message.into()), None, true);
                member.recheck_at.get_or_insert(now + RECHECK);
            }
        }
    }

    fn ask_or_create(&mut self, now: Time, node: NodeIndex) {
        let life = self.members[node.get()].facts.as_ref().and_then(|facts| facts.life.clone());
        let returned = self.members[node.get()].seen.is_some();
        let text = self.new_record(life, returned).to_text(&self.settings);
        self.ask(now, node, Some(Swap { expected: None, text, stamp: true }));
    }

    fn swap(&mut self, now: Time, node: NodeIndex, expected: Arc<str>, record: &Record) {
        let (text, stamp) = (record.to_text(&self.settings), record.created.is_none());
        self.ask(now, node, Some(Swap { expected: Some(expected), text, stamp }));
    }

    fn ask(&mut self, now: Time, node: NodeIndex, swap: Option<Swap>) {
        self.members[node.get()].asked = Some(now);
        self.send(node, Command::Record { prefix: self.prefix.clone(), swap });
    }

    fn send(&mut self, node: NodeIndex, command: Command) {
        self.outputs.push_back(Output::Send { node, command });
    }

    fn new_record(&mut self, life: Option<Life>, returned: bool) -> Record {
        // SplitMix64: every seed gives a sequence of its own.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Record { nonce: Nonce::new(mixed ^ (mixed >> 31)), life, state: State::New, returned, created: None }
    }

    /// Whether the node may vote at `now`, in which life, and if not, why.
    fn trust(&self, now: Time, node: NodeIndex) -> Result<Nonce, Distrust> {
        let member = &self.members[node.get()];
        if let Some(reason) = &member.objection {
            return Err(Distrust::Unfit(Arc::clone(reason)));
        }
        let Some(known) = &member.record else { return Err(Distrust::Unknown) };
        let intact = member.facts.as_ref().is_some_and(|facts| facts.intact);
        let off = self.settings.restart_guard == RestartGuard::Off;
        if known.record.state == State::New && now < known.trusted_from && !intact && !off {
            return Err(Distrust::Quarantined { left: known.trusted_from.since(now) });
        }
        if let Some((by_us, until)) = member.jumped.filter(|(_, until)| now < *until && !off) {
            return Err(Distrust::ClockJumped { by_us, left: until.since(now) });
        }
        match self.apart(now, member) {
            Some((by_us, left)) if !off => Err(Distrust::ClockApart { by_us, left }),
            _ => Ok(known.record.nonce),
        }
    }

    /// Whether the node may vote for this fence.
    fn voter(&self, now: Time, node: NodeIndex, fence: Option<FenceClaim>) -> Result<Option<Nonce>, Fault> {
        let nonce = self.trust(now, node).map_err(|distrust| self.fault(node, distrust))?;
        match fence {
            Some(claim) if claim.fence <= self.floor(node) => Err(Fault::Untrusted(Distrust::FencesAhead)),
            _ => Ok(Some(nonce)),
        }
    }

    /// What to say of a node that may not vote: what is wrong with the connection, if that is why.
    fn fault(&self, node: NodeIndex, distrust: Distrust) -> Fault {
        match &self.members[node.get()].fault {
            Some(fault) if distrust == Distrust::Unknown => fault.clone(),
            _ => Fault::Untrusted(distrust),
        }
    }

    /// The highest fence that the node may have granted in an earlier life: what it granted was at most the slack
    /// ahead of its clock then, which was before this life began.
    fn floor(&self, node: NodeIndex) -> Fence {
        let member = &self.members[node.get()];
        let intact = member.facts.as_ref().is_some_and(|facts| facts.intact);
        match &member.record {
            Some(Known { record: Record { created: Some(created), state, .. }, .. }) if !intact => {
                match state {
                    State::Fresh(_) => Fence::new(created.as_micros()),
                    State::New | State::Waited => self.settings.bounds.highest(*created),
                }
            }
            _ => Fence::NONE,
        }
    }

    /// By how much a node's clock is away from a majority that agree, if it is and we have not watched it for long
    /// enough to know that it did not jump just now.
    fn apart(&self, now: Time, member: &Member) -> Option<(i64, Duration)> {
        let watched_until = member.first_seen? + self.settings.quarantine();
        let offset = member.watch.offset_us().filter(|_| now < watched_until)?;
        let apart = i64::try_from(APART.as_micros()).unwrap_or(i64::MAX);
        let offsets = self.offsets_us();
        let agreeing =
            |from: &i64| offsets.iter().filter(|other| (*from..=*from + apart).contains(other)).count();
        let from = offsets.iter().copied().max_by_key(agreeing)?;
        let count = agreeing(&from);
        let middle = offsets.iter().filter(|other| **other >= from).nth(count.saturating_sub(1) / 2)?;
        let by_us = offset - middle;
        // When within the round trip the clock was read is not known.
        let unknown = i64::try_from(member.round_trip.as_micros()).unwrap_or(i64::MAX);
        (count >= self.quorum.majority() && by_us.abs() > apart.saturating_add(unknown))
            .then(|| (by_us, watched_until.since(now)))
    }

    /// The clock of the nodes, by the middle one.
    fn nodes_time(&self, now: Time) -> Option<NodeTime> {
        let now_us = i64::try_from(now.as_nanos() / 1_000).ok()?;
        let micros = self.middle_offset_us()?.saturating_add(now_us);
        Some(NodeTime::from_micros(u64::try_from(micros).ok()?))
    }

    fn middle_offset_us(&self) -> Option<i64> {
        let offsets = self.offsets_us();
        offsets.get(offsets.len().checked_sub(1)? / 2).copied()
    }

    fn offsets_us(&self) -> Vec<i64> {
        let known =
            self.members.iter().filter(|member| member.record.is_some() && member.objection.is_none());
        let mut offsets: Vec<i64> = known.filter_map(|member| member.watch.offset_us()).collect();
        offsets.sort_unstable();
        offsets
    }

    fn plan_trims(&mut self, now: Time) {
        let pause = trim_pause(self.settings.bounds);
        for member in &mut self.members {
            member.trim_at.get_or_insert(now + pause);
        }
    }

    fn silence_max(&self) -> Duration {
        (self.settings.quarantine() / 4).min(SILENCE_MAX)
    }

    fn tell(&mut self, now: Time, node: NodeIndex) {
        let distrust = self.trust(now, node).err().filter(|_| self.members[node.get()].facts.is_some());
        let told = &mut self.members[node.get()].told;
        let news = match (&*told, &distrust) {
            // Not known is the ordinary beginning, and passes.
            (_, Some(Distrust::Unknown)) | (None, None) => false,
            (Some(before), Some(after)) => std::mem::discriminant(before) != std::mem::discriminant(after),
            (Some(_), None) => self.members[node.get()].facts.is_some(),
            (None, Some(_)) => true,
        };
        if news {
            self.members[node.get()].told = distrust.clone();
            self.outputs.push_back(Output::Notice { node, distrust });
        }
    }

    fn object(&mut self, now: Time, node: NodeIndex, reason: &str) {
        let member = &mut self.members[node.get()];
        (member.objection, member.record) = (Some(reason.into()), None);
        member.recheck_at = Some(now + RECHECK);
    }

    fn objection(&self, foreign: &Foreign) -> String {
        match foreign {
            Foreign::Form => {
                "the node was set up by another version of Tenure, or its record is damaged; see \
                              docs/operating.md on upgrades"
                    .to_owned()
            }
            Foreign::Settings(theirs) => format!(
                "the node is used with other settings ({theirs}) than ours ({}); give all clients of these nodes the \
                 same ones, or use another prefix",
                self.settings.to_text()
            ),
        }
    }
}

impl Member {
    /// Nothing that was asked of it is still to come, unless it has kept us waiting before.
    fn is_settled(&self) -> bool {
        let answered = self.tried && !self.surveying && (self.asked.is_none() || self.fault.is_some());
        self.facts.is_none() || self.objection.is_some() || answered
    }

    /// The record, if nothing about it is under way.
    fn idle_record(&self) -> Option<&Known> {
        self.record.as_ref().filter(|_| self.asked.is_none() && self.objection.is_none())
    }

    fn silent_since(&self) -> Option<Time> {
        self.watch.last_received().filter(|_| self.record.is_some())
    }

    fn timeout(&self, silence_max: Duration) -> Option<Time> {
        self.facts.as_ref()?;
        let asked = self.asked.map(|asked| asked + RECORD_TIMEOUT);
        let silent = self.silent_since().filter(|_| self.asked.is_none()).map(|since| since + silence_max);
        let waited = self
            .idle_record()
            .filter(|known| known.record.state == State::New)
            .map(|known| known.trusted_from);
        let jumped = self.jumped.map(|(_, until)| until);
        let planned = self.trim_at.into_iter().chain(self.recheck_at);
        asked.into_iter().chain(silent).chain(waited).chain(jumped).chain(planned).min()
    }
}

/// A tenth of the retention, so that at most a tenth more fences are kept than must be.
fn trim_pause(bounds: FenceBounds) -> Duration {
    Duration::from_micros(bounds.retention_us / 10)
}

impl fmt::Display for RestartGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Evidence => "evidence",
            Self::Strict => "strict",
            Self::Off => "off",
        })
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |by_us: &i64| Duration::from_micros(by_us.unsigned_abs());
        match self {
            Self::Unknown => f.write_str("it has not told its record yet"),
            Self::Quarantined { left } => {
                write!(f, "quarantined for {left:.1?} more: it may have forgotten locks")
            }
            Self::ClockJumped { by_us, left } => {
                let direction = if *by_us < 0 { "back" } else { "ahead" };
                write!(
                    f,
                    "its clock jumped {direction} by {:.2?}; not counted for {left:.1?} more",
                    seconds(by_us)
                )
            }
            Self::ClockApart { by_us, left } => {
                let direction = if *by_us < 0 { "behind" } else { "ahead of" };
                write!(
                    f,
                    "its clock is {:.2?} {direction} the other nodes; not counted until it was watched for {left:.1?} \
                     more",
                    seconds(by_us)
                )
            }
            Self::ClockBehind => f.write_str("its clock is too far behind the other nodes"),
            Self::FencesAhead => f.write_str("it may have forgotten larger fences than the present ones"),
            Self::Unfit(reason) => f.write_str(reason),
        }
    }
}
