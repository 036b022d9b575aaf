//! What a small world is made of and what may happen in it.

use std::time::Duration;

use tenure_core::{
    LockKey, MaxTtl, Mode, NodeIndex, Options, OwnerId, Quorum, Renewal, RestartGuard, Settings, Terms, Wait,
};

use super::action::{Action, Memory};
use super::world::{LOCK, NEIGHBOUR, TICK_MS};

/// A lock is valid at the tick at which it was asked for and the two after it; its key is gone at
/// the third. So with no guard band every mistake of one tick shows.
const TTL_MS: u64 = 147;

/// One small world.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) clients: usize,
    /// How many of them are there only later, and know nothing then.
    pub(super) newcomers: usize,
    /// How many ticks pass after all nodes may vote.
    pub(super) ticks: u64,
    /// How often each client asks for the lock, in how many attempts, and how often it extends one
    /// hold.
    pub(super) begins: u8,
    pub(super) tries: u32,
    pub(super) extends: u8,
    pub(super) queued: bool,
    /// How each client wants the lock; all want it alone if none is named.
    pub(super) wants: &'static [Want],
    /// Each client has two callers, which pass the lock on.
    pub(super) cohort: bool,
    pub(super) fenced: bool,
    pub(super) min_margin: usize,
    pub(super) guard_band_ms: u64,
    pub(super) restart_guard: RestartGuard,
    /// Nodes are taken at their word that they forget nothing: no quarantine, no floor for fences.
    pub(super) believed: bool,
    /// Nodes keep every acknowledged write.
    pub(super) durable: bool,
    /// Every message takes any time. Otherwise those do that are held, and the others need none.
    pub(super) any_time: bool,
    /// Records are asked for and answered at any time, not at once, and nothing has begun at first.
    pub(super) first_start: bool,
    /// How many new nodes are taken for the first start of a fleet.
    pub(super) fresh_needs: usize,
    /// How far the nodes' clocks are ahead.
    pub(super) ahead_ms: [i64; 3],
    /// How much faster the nodes' clocks run than they should.
    pub(super) node_rate_percent: u64,
    /// By how much a clock jumps.
    pub(super) jump_ms: i64,
    /// Which server each client takes for which node, if not all do alike.
    pub(super) lists: Option<[[usize; 3]; 2]>,
    /// Clients and the nodes that they never reach.
    pub(super) cut: &'static [(usize, usize)],
    /// Clients and the nodes that they are not connected to at first.
    pub(super) late: &'static [(usize, usize)],
    /// Clients and the nodes that they connect to only once.
    pub(super) once: &'static [(usize, usize)],
    /// The nodes that are restarted or emptied.
    pub(super) forgetful: &'static [usize],
    /// The nodes whose connections may be slow.
    pub(super) slow: &'static [usize],
    /// The clients that stand still.
    pub(super) pausing: &'static [usize],
    /// Holders do not release.
    pub(super) kept: bool,
    /// The others ask when the first one has the lock.
    pub(super) one_holds: bool,
    /// Nodes forget only while somebody holds the lock, which is when it matters.
    pub(super) forget_in_hold: bool,
    pub(super) writes: Writes,
    /// The ttl of the last client is a tick shorter, and it alone extends.
    pub(super) shorter: bool,
    /// A lease only drops the vote of a node that forgot while it was asked: if it has the key, it
    /// counts at once.
    pub(super) discarded_counts: bool,
    /// Whoever asks for the lock asks for another one at the same moment, and gives both up
    /// together. Commands for both leave together.
    pub(super) neighbour: bool,
    /// Nodes count the holders of both locks up to two, and do not look who has which.
    pub(super) counting: bool,
    pub(super) faults: Budget,
}

/// How a client wants the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Alone,
    /// Alone at first, and shared at any time after that.
    AloneThenShared,
    Shared,
    /// As this owner, which may hold it again.
    Owned(&'static str),
    /// Together with the other one.
    Both,
    /// It wants the other one alone: of a semaphore, another slot.
    Other,
}

/// What clients do with the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    None,
    /// They look at the lock, and write some time later.
    Unchecked,
    /// They claim the resource with their fence, and it refuses smaller ones.
    Fenced,
}

/// How often what may happen. All clients and nodes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// A connection is slow in one direction: what is on its way there takes any time.
    pub(super) holds: u8,
    /// A connection breaks.
    pub(super) breaks: u8,
    /// Commands of a broken connection may still be executed.
    pub(super) strays: bool,
    /// A client pauses for a while.
    pub(super) pauses: u8,
    /// A client's clock pauses with the client.
    pub(super) sleeps: bool,
    /// A client dies.
    pub(super) deaths: u8,
    /// A node is restarted with its memory.
    pub(super) restarts: u8,
    /// A node is restarted without it.
    pub(super) losses: u8,
    /// A node is restarted with an old snapshot.
    pub(super) tails: u8,
    /// A node is emptied without a restart.
    pub(super) flushes: u8,
    /// A lock is deleted, and nobody can see it.
    pub(super) evictions: u8,
    /// That happens only where the margin allows for it.
    pub(super) within_margin: bool,
    /// A clock jumps.
    pub(super) jumps: u8,
    /// A clock jumps where memory is lost.
    pub(super) jump_with_loss: bool,
}

impl Budget {
    /// Takes off what an action costs.
    pub(super) fn spend(&mut self, action: Action) {
        let spent = match action {
            Action::Hold { .. } => &mut self.holds,
            Action::Break { .. } => &mut self.breaks,
            Action::Pause { .. } => &mut self.pauses,
            Action::Die { .. } => &mut self.deaths,
            Action::Restart { memory: Memory::Kept, .. } => &mut self.restarts,
            Action::Restart { memory: Memory::Lost, .. } => &mut self.losses,
            Action::Restart { memory: Memory::Old, .. } => &mut self.tails,
            Action::Flush { .. } => &mut self.flushes,
            Action::Evict { .. } => &mut self.evictions,
            Action::Jump { .. } => &mut self.jumps,
            _ => return,
        };
        *spent -= 1;
    }
}

impl Config {
    /// Two clients, one hold each, nothing but messages that take their time.
    pub(super) fn base() -> Self {
        Self {
            clients: 2,
            newcomers: 0,
            ticks: 6,
            begins: 1,
            tries: 1,
            extends: 0,
            queued: false,
            wants: &[],
            cohort: false,
            fenced: true,
            min_margin: 0,
            guard_band_ms: 0,
            restart_guard: RestartGuard::Evidence,
            believed: false,
            durable: false,
            any_time: false,
            first_start: false,
            fresh_needs: 3,
            ahead_ms: [0; 3],
            node_rate_percent: 0,
            jump_ms: 0,
            lists: None,
            cut: &[],
            late: &[],
            once: &[],
            forgetful: &[0, 1, 2],
            slow: &[0, 1, 2],
            pausing: &[0, 1, 2],
            kept: false,
            one_holds: false,
            forget_in_hold: false,
            writes: Writes::None,
            shorter: false,
            discarded_counts: false,
            neighbour: false,
            counting: false,
            faults: Budget::default(),
        }
    }

    pub(super) fn quorum(&self) -> Quorum {
        Quorum::of(3).expect("three nodes")
    }

    /// How a client wants the lock.
    pub(super) fn want(&self, client: usize) -> Want {
        self.wants.get(client).copied().unwrap_or(Want::Alone)
    }

    /// Whether all clients are alike but for how they want the lock: of those who want it in the
    /// same way, it does not matter who is called the first.
    pub(super) fn alike(&self) -> bool {
        self.newcomers == 0
            && self.cut.is_empty()
            && self.late.is_empty()
            && self.once.is_empty()
            && self.lists.is_none()
            && !self.shorter
            && !self.first_start
    }

    pub(super) fn servers(&self) -> usize {
        self.lists.map_or(3, |lists| lists.into_iter().flatten().max().unwrap_or(0) + 1)
    }

    /// Whether a client is connected to a node in the beginning.
    pub(super) fn begins_connected(&self, client: usize, node: NodeIndex) -> bool {
        let place = (client, node.get());
        !self.cut.contains(&place) && !self.late.contains(&place)
    }

    /// Whether a client connects to a node, for the first time or again.
    pub(super) fn connects(&self, client: usize, node: NodeIndex, again: bool) -> bool {
        let place = (client, node.get());
        !(self.cut.contains(&place) || again && self.once.contains(&place))
    }

    /// The server that a client takes for a node.
    pub(super) fn server(&self, client: usize, node: usize) -> usize {
        self.lists.map_or(node, |lists| lists[client.min(1)][node])
    }

    pub(super) fn settings(&self) -> Settings {
        Settings::new(max_ttl(), "a,b,c").restart_guard(self.restart_guard)
    }

    /// What a client wants.
    pub(super) fn key(&self, client: usize) -> LockKey {
        match self.want(client) {
            Want::Both => LockKey::all_of([LOCK.clone(), NEIGHBOUR.clone()]).expect("two"),
            Want::Other => NEIGHBOUR.clone(),
            _ => LOCK.clone(),
        }
    }

    /// How often a client extends one hold.
    pub(super) fn extends_of(&self, client: usize) -> u8 {
        if self.shorter && client + 1 < self.clients { 0 } else { self.extends }
    }

    pub(super) fn terms(&self, client: usize) -> Terms {
        let mut options = Options::default();
        let shorter = self.shorter && client + 1 == self.clients;
        options.ttl = Duration::from_millis(if shorter { TTL_MS - TICK_MS } else { TTL_MS });
        options.node_timeout = Some(options.ttl / 2);
        options.guard_band = Some(Duration::from_millis(self.guard_band_ms));
        options.wait = if self.tries > 1 || self.queued { Wait::Forever } else { Wait::No };
        options.retry = options.retry.tries_max(self.tries).delay(Duration::from_millis(50));
        options.retry = options.retry.jitter(Duration::ZERO);
        options.renewal = Renewal::Off;
        (options.fenced, options.queued, options.min_margin) = (self.fenced, self.queued, self.min_margin);
        options.cohort = self.cohort;
        options.mode = match self.want(client) {
            Want::Alone | Want::AloneThenShared | Want::Both | Want::Other => Mode::Exclusive,
            Want::Shared => Mode::Shared,
            Want::Owned(id) => Mode::Owned(OwnerId::new(id).expect("a short id")),
        };
        options.check(max_ttl()).expect("within the limits")
    }
}

/// As short as the locks, so that a quarantine is over within a few ticks.
fn max_ttl() -> MaxTtl {
    MaxTtl::new(Duration::from_millis(TTL_MS)).expect("within the limits")
}
