//! The worker of a manager: the one loop that awaits nodes, timers and callers.
//!
//! It owns every lease and every release that is under way. Callers and dropped guards send it requests,
//! which needs no runtime and never blocks; it feeds the core, passes commands to the nodes, and wakes a
//! caller once, when the core has decided. Clean-up lives here, so it survives whoever caused it.

mod caller;
mod debt;
mod diary;
mod fleet;
mod leases;
mod machines;
mod mailbox;
mod queries;
mod releases;
mod renewals;
mod request;
mod shutdown;
mod survey;
#[cfg(test)]
mod tests;
mod timers;
mod waiting;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::{
    Answer, Command, Fault, Fleet, HoldState, Lease, NodeIndex, Quorum, Refusal, Reply, RoundNumber, Time,
    Waiters, lease, query, release, trust,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use self::caller::LeaseEntry;
use self::debt::Debts;
use self::diary::Diary;
use self::machines::Machines;
pub(crate) use self::queries::Found;
use self::queries::QueryEntry;
use self::releases::ReleaseEntry;
use self::renewals::Batches;
pub(crate) use self::request::{
    AcquireFailure, AcquireReply, ReleaseReply, Request, Resuming, Unfinished, draw_entropy,
};
use self::shutdown::Shutdown;
pub(crate) use self::survey::Surveyed;
use self::survey::Surveys;
use self::timers::{Timer, Timers};
use crate::clock::Clock;
use crate::handover::Lives;
use crate::known_nodes::KnownNodes;
use crate::node::{Connection, NodeEvent, Tag};
use crate::observe::Observer;

/// The longest sleep in one piece: tokio cannot add arbitrarily long ones, and waking too early does no harm.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// While locks are held, the clock is looked at so often. Tokio's timers stand still while the machine is suspended, and the
/// clock does not: a holder whose lock ended meanwhile hears of it within this time after the machine woke up.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many requests or answers one reading of the clock serves: it costs as much as handling one of them.
const CLOCK_STRIDE: u32 = 8;

/// Timers are precise to a millisecond. Whoever wakes up so much later was held up.
const LATE: Duration = Duration::from_millis(2);

/// How much of what one node says is heard at a time.
const EVENTS_MAX: usize = 1_024;

/// How often the driver goes round before it lets other tasks run.
const TURNS_MAX: usize = 32;

/// The machine that answers about records belong to.
const FLEET: MachineId = MachineId::MAX;

/// The machine that answers about trimming belong to. A user may not be allowed to, and that is no harm.
const TRIM: MachineId = MachineId::MAX - 1;

/// Whoever asks for a crowded lock that was just passed on gets in line so much later, when the next holder has it.
const POLITE: Duration = Duration::from_millis(1);

/// The machine that answers belong to which nobody waits for.
const UNHEARD: MachineId = MachineId::MAX - 2;

/// The machine that answers to waiters who leave the line belong to. Only a shutdown waits for them.
const LEAVING: MachineId = MachineId::MAX - 3;

/// Names a lease or release under way. Never used twice.
pub(crate) type MachineId = u64;

/// A lease that its caller can look at while the driver moves it on.
pub(crate) type SharedLease = Arc<Mutex<Lease>>;

/// Locks a lease. A panic of another thread cannot have left it half changed in a way that matters more
/// than the lock it protects.
pub(crate) fn look(lease: &SharedLease) -> MutexGuard<'_, Lease> {
    lease.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Driver {
    clock: Clock,
    /// The last reading of the clock, and how often one was asked for.
    now: Time,
    looks: u32,
    observer: Observer,
    /// How the nodes are called.
    addresses: Vec<Arc<str>>,
    mailbox: mpsc::UnboundedReceiver<Request>,
    /// No caller is left who could ask for anything.
    orphaned: bool,
    quorum: Quorum,
    nodes: Vec<Box<dyn Connection>>,
    /// Which of them may vote.
    fleet: Fleet,
    /// In which lives of their memory they were last seen, for whoever hands a lock over.
    lives: Arc<Lives>,
    fleet_timer: Option<Timer>,
    /// What is known of them from before.
    diary: Diary,
    /// Acquires and hand-overs that came before the nodes were known; `None` once they are.
    early: Option<Vec<Request>>,
    begun: Time,
    /// Since when enough nodes may vote.
    enough_since: Option<Time>,
    /// Acquires that let a hand-over of their lock go first, and until when.
    polite: VecDeque<(Time, Request)>,
    /// Commands were handed to a node since it was last polled.
    unsent: bool,
    ids: Arc<AtomicU64>,
    leases: Machines<MachineId, LeaseEntry>,
    releases: Machines<MachineId, ReleaseEntry>,
    queries: Machines<MachineId, QueryEntry>,
    /// The release that undoes a round of a lease, for answers that come when the round is over.
    undoing: Machines<(MachineId, RoundNumber), MachineId>,
    timers: Timers,
    /// Room for what a lease says while it is handled, so that none keeps room of its own: many are held at once.
    outputs: VecDeque<lease::Output>,
    told: Vec<lease::Output>,
    /// Wakes the driver for the next timer, and the time it is set for: at the latest when that timer is due.
    sleep: Option<(Time, Pin<Box<Sleep>>)>,
    settling: Vec<oneshot::Sender<()>>,
    shutdown: Shutdown,
    surveys: Surveys,
    debts: Debts,
    batches: Batches,
    /// Those who wait in line.
    waiters: Waiters<MachineId>,
}

impl Driver {
    pub(crate) fn new(
        clock: Clock,
        observer: Observer,
        addresses: Vec<Arc<str>>,
        mailbox: mpsc::UnboundedReceiver<Request>,
        nodes: Vec<Box<dyn Connection>>,
        fleet: Fleet,
        (lives, ids): (Arc<Lives>, Arc<AtomicU64>),
    ) -> Self {
        let quorum = fleet.quorum();
        assert_eq!(quorum.nodes(), nodes.len(), "the quorum is counted over these nodes");
        Self {
            clock,
            now: clock.now(),
            looks: 0,
            observer,
            addresses,
            mailbox,
            orphaned: false,
            quorum,
            nodes,
            fleet,
            lives,
            fleet_timer: None,
            diary: Diary::default(),
            early: Some(vec![]),
            begun: clock.now(),
            enough_since: None,
            polite: VecDeque::new(),
            unsent: false,
            ids,
            leases: Machines::default(),
            releases: Machines::default(),
            queries: Machines::default(),
            undoing: Machines::default(),
            timers: Timers::new(clock.now()),
            outputs: VecDeque::new(),
            told: vec![],
            sleep: None,
            settling: vec![],
            shutdown: Shutdown::new(clock.now()),
            surveys: Surveys::default(),
            debts: Debts::default(),
            batches: Batches::default(),
            waiters: Waiters::default(),
        }
    }

    /// With what this machine knows of the nodes from before.
    pub(crate) fn remembering(mut self, known: Option<KnownNodes>) -> Self {
        self.diary = known.map_or_else(Diary::default, |known| Diary::new(known, self.clock));
        self
    }

    /// Takes in everything that has come, until nothing is left to send.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURNS_MAX {
            self.now = self.clock.now();
            self.note_pause();
            self.take_requests(cx);
            self.unsent = false;
            if !self.take_memory(cx) {
                return Poll::Pending;
            }
            self.take_events(cx);
            self.fire_timers();
            self.nudge();
            self.begin_polite();
            self.start_early();
            self.answer_settled();
            self.surveys.answer(self.now, &self.fleet, &self.quorum);
            self.answer_shutdown();
            if self.orphaned && self.leases.is_empty() && self.releases.is_empty() {
                return Poll::Ready(());
            }
            // Whoever has news wakes the driver again; only commands that came up behind their node's turn do not.
            if !self.unsent && self.poll_sleep(cx).is_pending() {
                return Poll::Pending;
            }
        }
        // There is more to do, but others want to run, too.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn take_events(&mut self, cx: &mut Context<'_>) {
        for node in self.quorum.indexes() {
            // One that talks without end must not keep us from the others.
            for turn in 0..=EVENTS_MAX {
                let Poll::Ready(event) = self.nodes[node.get()].poll_event(cx) else { break };
                self.unsent |= turn == EVENTS_MAX;
                self.look_at_the_clock();
                match event {
                    NodeEvent::Answer(tag, answer) => self.handle_answer(tag, node, answer),
                    NodeEvent::Connected(server) => {
                        let facts = server.facts();
                        self.shutdown.note_reached(node);
                        self.surveys.learn(node, *server);
                        self.advance_fleet(trust::Input::Connected { node, facts });
                        self.handle_connected(node);
                    }
                    NodeEvent::Surveyed(server) => {
                        let facts = server.facts();
                        self.surveys.learn(node, *server);
                        self.advance_fleet(trust::Input::Surveyed { node, facts });
                    }
                    NodeEvent::Disconnected(fault) => {
                        self.advance_fleet(trust::Input::Disconnected { node, fault });
                        self.handle_disconnected(node);
                    }
                    NodeEvent::Unreachable(fault) => {
                        self.advance_fleet(trust::Input::Disconnected { node, fault });
                    }
                    NodeEvent::Renewed(renewals, time) => self.handle_renewed(node, &renewals, time),
                    NodeEvent::Split(batch) => self.split_batch(batch),
                    NodeEvent::Changed => self.advance_fleet(trust::Input::Changed { node }),
                    NodeEvent::Woken { number, key } => self.handle_woken(node, number, &key),
                }
            }
        }
    }

    /// Reads the clock for what is handled next. A reading serves a few things in a row: time that passed since only
    /// makes T1 earlier, and whoever is given a lock looks again.
    fn look_at_the_clock(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(CLOCK_STRIDE) {
            self.now = self.clock.now();
        }
    }

    /// If we should have woken up earlier, what has come meanwhile says little about the nodes.
    fn note_pause(&mut self) {
        if let Some((meant, _)) = &self.sleep
            && self.now.since(*meant) > LATE
        {
            self.fleet.note_pause(*meant, self.now);
        }
    }

    fn fire_timers(&mut self) {
        self.now = self.clock.now();
        while let Some(id) = self.timers.pop_due(self.now) {
            if id == FLEET {
                self.fleet_timer = None;
                self.advance_fleet(trust::Input::Timeout);
            } else if let Some(entry) = self.leases.get_mut(&id) {
                entry.timer = None;
                if !self.begin_renewal(id) {
                    self.advance_lease(id, lease::Input::Timeout);
                }
            } else if let Some(entry) = self.releases.get_mut(&id) {
                entry.timer = None;
                self.advance_release(id, release::Input::Timeout);
            } else if let Some(entry) = self.queries.get_mut(&id) {
                entry.timer = None;
                self.advance_query(id, query::Input::Timeout);
            }
        }
        self.send_renewals();
    }

    /// Sleeps until the next timer; pending until then. Waking too early does no harm, so a sleep that is
    /// set for an earlier timer, gone meanwhile, is left as it is.
    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let limits = self.shutdown.next_limit(self.now).into_iter().chain(self.surveys.next_limit());
        let limits = limits.chain(self.next_start()).chain(self.waiters.poll_timeout());
        let limits = limits.chain(self.polite.front().map(|(due, _)| *due)).chain(self.next_late_grants());
        let look = (!self.leases.is_empty()).then(|| self.now + LOOK_EVERY);
        let limits = limits.chain(look);
        let Some(next) = self.timers.next().into_iter().chain(limits).min() else {
            return Poll::Pending;
        };
        let next = next.max(self.now);
        if self.sleep.as_ref().is_none_or(|(set, _)| next < *set) {
            let deadline = tokio::time::Instant::now() + next.since(self.now).min(SLEEP_MAX);
            match &mut self.sleep {
                Some((set, sleep)) => {
                    *set = next;
                    sleep.as_mut().reset(deadline);
                }
                None => self.sleep = Some((next, Box::pin(tokio::time::sleep_until(deadline)))),
            }
        }
        let (_, sleep) = self.sleep.as_mut().expect("just set");
        std::task::ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        Poll::Ready(())
    }

    fn handle_answer(&mut self, tag: Tag, node: NodeIndex, answer: Result<Reply, Fault>) {
        let Tag { machine, round, sent } = tag;
        // What the reply tells about the node's clock decides whether the reply counts.
        if let Ok(reply) = &answer {
            self.shutdown.note_heard(self.now, node);
            self.fleet.observe(self.now, node, sent, reply);
            if reply.answer == Answer::Refused(Refusal::Stranger) {
                self.advance_fleet(trust::Input::Changed { node });
            }
            self.drain_fleet();
        }
        if machine == LEAVING {
            return self.shutdown.handle_left();
        }
        if machine == TRIM && answer.is_err() {
            return;
        }
        if machine == FLEET || machine == TRIM {
            return self.advance_fleet(trust::Input::Answer { node, answer });
        }
        if let Some(release) = self.undoing.get(&(machine, round)) {
            self.advance_release(*release, release::Input::AcquireAnswer { node, answer: answer.clone() });
        }
        if self.leases.contains_key(&machine) {
            self.advance_lease(machine, lease::Input::Answer { round, node, answer });
        } else if self.queries.contains_key(&machine) {
            self.advance_query(machine, query::Input::Answer { node, answer });
        } else {
            self.advance_release(machine, release::Input::Answer { node, answer });
        }
    }

    fn send(&mut self, machine: MachineId, round: RoundNumber, node: NodeIndex, command: Command) {
        self.unsent = true;
        self.nodes[node.get()].send(Tag { machine, round, sent: self.now }, command);
    }
}

impl Drop for Driver {
    /// Nobody renews any more: whoever holds a lock is told at once that it must not be counted on.
    fn drop(&mut self) {
        self.leases.values().for_each(LeaseEntry::tell_ended);
        self.mailbox.close();
        while let Ok(request) = self.mailbox.try_recv() {
            if let Request::Watch { watch, .. } = request {
                watch.tell(HoldState::Lost);
            }
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.get_mut().advance(cx)
    }
}
