//! Which nodes may vote: those whose memory and clock can be relied on.
//!
//! A lock lives in the memory of a majority of nodes. A node that lost its memory would give the
//! lock to the next client, and so would one whose clock jumped. Redlock's documents ask for
//! *delayed restarts* against the first: keep such a node out until every lock that it may have
//! forgotten is over. Here the clients do that.
//!
//! Each node keeps a *record* of the current life of its memory. A client asks for it when it
//! connects, writes it if there is none, and names its nonce in every acquire.
//! - A node whose record is *new* is quarantined for `max_ttl` plus guard band: no grant is asked
//!   of it, none is counted. Extensions and releases of keys that it has do count.
//! - If **all** nodes are new and none has been seen before, it is the first start of a fleet and
//!   nobody can hold anything: each record is marked with the nonces of all, and the nodes vote at
//!   once. Whoever finds a mark that names a node's present nonce may finish the work. With any
//!   node missing, one restarted empty and the rest never asked look just the same, so then the
//!   quarantine is waited out.
//! - A server that was started anew with its data gets a new record too, unless it proves that it
//!   syncs every write to disk.
//! - A node whose clock jumped, or that is far from all others when it is first seen, is kept out
//!   likewise.
//!
//! [`Fleet`] does all this for one client: it takes what happens on the connections and what the
//! replies tell, asks for records, and says for each attempt which nodes to ask and with which
//! fence.

pub mod change;
mod clock_watch;
mod distrust;
mod foreign;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod judgement;
mod member;
mod memory;
mod proposal;
mod record;
mod registration;
mod round_trips;
mod settings;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use self::change::{ChangeNode, NodeListChange};
use self::clock_watch::ClockWatch;
pub use self::distrust::Distrust;
use self::member::{Known, Member, Members};
use self::memory::DiaryState;
pub use self::memory::{KnownLife, LIVES_MAX, NodeMemory};
pub use self::proposal::Proposal;
use self::proposal::Voters;
use self::record::Lasting;
pub use self::record::{Life, Nonce};
pub use self::settings::{RestartGuard, Roster, Settings};
use crate::command::{Answer, Command, Fault, Reply};
use crate::fence::{Fence, FenceClock};
use crate::line::ClientId;
use crate::names::Prefix;
use crate::round::{NodeIndex, NodeSet, Patience, Pause, Quorum, RoundTrips};
use crate::time::Time;

/// Nodes whose clocks differ by more than this when they are first seen do not agree: one may have
/// jumped just now. A smaller jump harms nobody, because it is within the shortest guard band.
const APART: Duration = Duration::from_millis(100);

/// A record that was asked for and has not come by then is asked for again.
const RECORD_TIMEOUT: Duration = Duration::from_millis(500);

/// A server that may not be a node is asked about itself again after this.
const RECHECK: Duration = Duration::from_secs(1);

/// What is sent this much later can be told apart by its time from what was sent before.
const TOLD_APART: Duration = Duration::from_millis(1);

/// The longest silence before a node is asked for its record and time again.
const SILENCE_MAX: Duration = Duration::from_secs(5);

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

/// What a client knows about its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fleet {
    settings: Settings,
    quorum: Quorum,
    prefix: Prefix,
    members: Members,
    fences: FenceClock,
    patience: Patience,
    /// The last time that we were late ourselves.
    pause: Option<Pause>,
    untimed: bool,
    /// Gives the nonces of new records; begun with true randomness.
    random: u64,
    client: ClientId,
    /// How many nodes must be new together for a first start. All of them; fewer only to show why.
    fresh_needs: usize,
    /// A first start that is being made sure of.
    fresh_check: Option<FreshCheck>,
    /// Where the lives of the nodes are written down.
    diary: DiaryState,
    /// The answer to the common question: all nodes may vote, for fences above this.
    all_trusted: Option<(Fence, Voters)>,
    outputs: VecDeque<Output>,
}

/// Records are read one after another, and a node may have been marked and used by others since it
/// told us that it is new. So, once all have said so, all are asked again: if nothing has changed,
/// there was a moment in between at which all of them were new together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FreshCheck {
    nonces: Vec<Nonce>,
    /// When to ask again: later than anything that is under way by now was sent, so that the
    /// answers can be told apart.
    ask_at: Time,
    /// What is known from before is being read again, or has been: before the nodes are asked
    /// again.
    recalling: bool,
    recalled: bool,
    asked: Option<Time>,
    confirmed: NodeSet,
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
    /// What [`Output::Remember`] told is written down, and this is all that is known of our nodes
    /// now.
    Remembered {
        /// One entry a node.
        memory: Vec<NodeMemory>,
    },
    /// Nothing can be written down: the client goes on without a memory that outlives it.
    Forgetful,
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
        /// Whether what it still held may be gone, too: extensions under way must not count it
        /// either.
        forgot: bool,
    },
    /// This is the life of the node's memory from now on.
    Life {
        /// Which node.
        node: NodeIndex,
        /// Its nonce.
        nonce: Nonce,
    },
    /// Write this down, beside what is known already; the answer is [`Input::Remembered`].
    Remember {
        /// One entry a node.
        memory: Vec<NodeMemory>,
    },
    /// Something that people will want to know. `None`: it may vote from now on.
    Notice {
        /// Which node.
        node: NodeIndex,
        /// Why it may not vote.
        distrust: Option<Distrust>,
    },
    /// A node showed a fence that it cannot have granted: somebody else writes there, or its clock
    /// went back far.
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
    pub nonce: Option<Nonce>,
    /// Whether there was an earlier life.
    pub returned: bool,
    /// Whether it may vote now, and why not.
    pub trust: Result<(), Distrust>,
    /// Why there is no connection, or no answer.
    pub fault: Option<Fault>,
    /// How far fences that it has granted are ahead of the present, if its clock was set back.
    pub fences_ahead: Option<Duration>,
    /// How far its clock is from the middle of all nodes, in microseconds.
    pub clock_offset_us: Option<i64>,
    /// How long the last round trip took.
    pub round_trip: Option<Duration>,
}

impl Fleet {
    /// A fleet of which nothing is known. `seed` must be random.
    #[must_use]
    pub fn new(settings: Settings, quorum: Quorum, prefix: Prefix, seed: u64) -> Self {
        let member = Member {
            facts: None,
            facts_fresh: false,
            fault: None,
            record: None,
            objection: None,
            asked: None,
            read: None,
            tried: false,
            seen: None,
            lives: BTreeSet::new(),
            kept: BTreeSet::new(),
            foreign: None,
            foreign_unkept: false,
            epoch: 0,
            lasting: Lasting::default(),
            read_at: None,
            watch: ClockWatch::new(settings.quarantine()),
            first_seen: None,
            round_trip: Duration::ZERO,
            trips: RoundTrips::default(),
            jumped: None,
            surveying: false,
            recheck_at: None,
            trim_at: None,
            shown_ahead: None,
            told: None,
        };
        Self {
            settings,
            quorum,
            prefix,
            members: Members::new(&member, quorum.nodes()),
            fences: FenceClock::default(),
            patience: Patience::default(),
            pause: None,
            untimed: false,
            random: seed,
            client: ClientId::new(seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15),
            fresh_needs: quorum.nodes(),
            fresh_check: None,
            diary: DiaryState::default(),
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
                (member.objection, member.recheck_at, member.trim_at) = (None, None, None);
                member.surveying = false;
            }
            Input::Answer { node, answer } => self.handle_answer(now, node, answer),
            Input::Changed { node } => self.handle_changed(now, node),
            Input::Remembered { memory } => self.handle_remembered(now, memory),
            Input::Forgetful => self.handle_forgetful(),
            Input::Timeout => self.handle_timeout(now),
        }
        self.evaluate(now);
    }

    /// Looks at what a reply tells besides its answer: how far the node is, its clock, and fences
    /// that it knows. To be called for every reply before anything is counted.
    pub fn observe(&mut self, now: Time, node: NodeIndex, sent: Time, reply: &Reply) {
        self.learn_round_trip(now, node, sent);
        let Some(time) = reply.time else { return };
        let bounds = self.settings.bounds;
        if let Some(fence) = reply.fence
            && !self.fences.observe(fence, time, bounds)
        {
            self.outputs.push_back(Output::Poisoned { node, fence });
            let shown = &mut self.members[node.get()].shown_ahead;
            *shown = (*shown).max(Some(fence));
        }
        let quarantine = self.settings.quarantine();
        let member = &mut self.members[node.get()];
        member.round_trip = now.since(sent);
        if let Answer::Record(_) = reply.answer {
            member.read = Some(sent);
        }
        member.first_seen.get_or_insert(now);
        if let Some(by_us) = member.watch.observe(sent, now, time) {
            member.jumped = Some((by_us, now + quarantine));
            self.all_trusted = None;
            self.outputs.push_back(Output::Distrust { node, forgot: false });
            self.evaluate(now);
        }
    }

    /// What its locks begin with.
    #[must_use]
    pub const fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Who its waiters are to the nodes.
    #[must_use]
    pub const fn client(&self) -> ClientId {
        self.client
    }

    /// What to do next, if anything.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Lends the fleet room for its outputs, or takes it back.
    pub(crate) fn swap_outputs(&mut self, room: &mut VecDeque<Output>) {
        assert!(self.outputs.is_empty() && room.is_empty(), "outputs are drained before");
        std::mem::swap(&mut self.outputs, room);
    }

    /// When to call [`Fleet::handle`] with [`Input::Timeout`] at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let recalled = self.is_recalled();
        let check = self.fresh_check.as_ref().filter(|check| check.asked.is_none() && recalled);
        let check = check.map(|check| check.ask_at);
        let (silence_max, barred) = (self.silence_max(), self.is_barred());
        let members = self.members.iter().filter_map(|member| member.timeout(silence_max, barred));
        members.chain(check).min()
    }

    /// The quorum of the nodes.
    #[must_use]
    pub const fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// Whether every node that is connected has told its record, or has not in time.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let checking = self.fresh_check.as_ref().is_some_and(|check| check.asked.is_none());
        !checking && self.diary != DiaryState::Writing && self.members.iter().all(Member::is_settled)
    }

    /// How many nodes may vote now.
    #[must_use]
    pub fn trusted(&self, now: Time) -> usize {
        self.voters(now).len()
    }

    /// Which nodes may vote now.
    #[must_use]
    pub fn voters(&self, now: Time) -> NodeSet {
        self.quorum.indexes().filter(|node| self.trust(now, *node).is_ok()).collect()
    }

    /// The lives of the memory of these nodes, as last seen: what names them to other processes.
    /// Addresses would not do, because a node that has forgotten everything keeps its address, and
    /// other machines may know it under another.
    #[must_use]
    pub fn lives(&self, nodes: NodeSet) -> Vec<Nonce> {
        nodes.iter().filter_map(|node| self.members[node.get()].seen).collect()
    }

    /// The nodes that are in one of these lives now, whatever it is called since.
    #[must_use]
    pub fn nodes_in(&self, lives: &[Nonce]) -> NodeSet {
        let in_life = |node: &NodeIndex| {
            let known = self.members[node.get()].record.as_ref();
            known.is_some_and(|known| lives.iter().any(|life| known.record.is_life(*life)))
        };
        self.quorum.indexes().filter(in_life).collect()
    }

    /// How many nodes are in one of these lives, or may be: theirs is not known now.
    #[must_use]
    pub fn may_be_in(&self, lives: &[Nonce]) -> usize {
        let unknown = self.members.iter().filter(|member| member.record.is_none()).count();
        self.nodes_in(lives).len() + unknown
    }

    /// How a node stands.
    #[must_use]
    pub fn report(&self, now: Time, node: NodeIndex) -> Report {
        let member = &self.members[node.get()];
        let middle = self.middle_offset_us();
        let offset = member.facts.as_ref().and_then(|_| member.watch.offset_us());
        Report {
            connected: member.facts.is_some(),
            nonce: member.record.as_ref().map(|known| known.record.nonce),
            returned: member.record.as_ref().is_some_and(|known| known.record.returned),
            trust: self.trust(now, node).map(|_| ()),
            fault: member.fault.clone(),
            fences_ahead: self.fences_ahead(now, node),
            clock_offset_us: offset.zip(middle).map(|(offset, middle)| offset.saturating_sub(middle)),
            round_trip: member.watch.last_received().map(|_| member.round_trip),
        }
    }

    /// A tenth of the retention, so that at most a tenth more fences lie about than are remembered.
    fn trim_pause(&self) -> Duration {
        Duration::from_micros(self.settings.bounds.retention_us / 10)
    }

    fn silence_max(&self) -> Duration {
        (self.settings.quarantine() / 4).min(SILENCE_MAX)
    }
}
