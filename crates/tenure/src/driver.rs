//! The worker of a manager: the one loop that awaits nodes, timers and callers.
//!
//! It owns every lease and every release that is under way. Callers and dropped guards send it requests,
//! which needs no runtime and never blocks; it feeds the core, passes commands to the nodes, and wakes a
//! caller once, when the core has decided. Clean-up lives here, so it survives whoever caused it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::{
    Ballot, Entropy, Fault, Lease, NodeIndex, NodeSet, NotAcquired, NotExtended, OwnerToken, Quorum, Release,
    ReleaseOutcome, Reply, RoundNumber, Standing, Term, Time, lease, release,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use crate::clock::Clock;
use crate::node::{Connection, Tag};
use crate::observe::{Event, Observer};

/// The longest sleep in one piece: tokio cannot add arbitrarily long ones, and waking too early does no harm.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// Names a lease or release under way. Never used twice.
pub(crate) type MachineId = u64;

/// A lease that its caller can look at while the driver moves it on.
pub(crate) type SharedLease = Arc<Mutex<Lease>>;

/// Locks a lease. A panic of another thread cannot have left it half changed in a way that matters more
/// than the lock it protects.
pub(crate) fn look(lease: &SharedLease) -> MutexGuard<'_, Lease> {
    lease.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What callers ask of the driver.
pub(crate) enum Request {
    Acquire { id: MachineId, lease: SharedLease, entropy: Entropy, reply: oneshot::Sender<AcquireReply> },
    Extend { id: MachineId, term: Term, reply: oneshot::Sender<Result<(), NotExtended>> },
    Release { id: MachineId, reply: oneshot::Sender<ReleaseReply> },
    Abandon { id: MachineId },
    Shutdown { limit: Duration, reply: oneshot::Sender<Option<Unfinished>> },
}

pub(crate) type AcquireReply = Result<(), AcquireFailure>;

/// Why an acquire ended without the lock.
pub(crate) enum AcquireFailure {
    NotAcquired(NotAcquired),
    NoRandomness(getrandom::Error),
    ShutDown,
}

/// The outcome of a release, with its votes and the time until the keys have freed themselves.
pub(crate) struct ReleaseReply {
    pub(crate) outcome: ReleaseOutcome,
    pub(crate) ballots: Vec<Option<Ballot>>,
    pub(crate) frees_within: Duration,
}

/// Clean-up that a shutdown did not wait for.
#[derive(Default)]
pub(crate) struct Unfinished {
    pub(crate) keys: usize,
    pub(crate) nodes: NodeSet,
    pub(crate) frees_within: Duration,
}

/// Draws the randomness of one attempt from the operating system.
pub(crate) fn draw_entropy() -> Result<Entropy, getrandom::Error> {
    let mut bytes = [0; 28];
    getrandom::fill(&mut bytes)?;
    let (token, dice) = bytes.split_at(20);
    Ok(Entropy {
        token: OwnerToken::from_bytes(token.try_into().expect("20 of 28 bytes")),
        dice: u64::from_ne_bytes(dice.try_into().expect("8 of 28 bytes")),
    })
}

pub(crate) struct Driver {
    clock: Clock,
    observer: Observer,
    mailbox: mpsc::UnboundedReceiver<Request>,
    /// No caller is left who could ask for anything.
    orphaned: bool,
    quorum: Quorum,
    nodes: Vec<Box<dyn Connection>>,
    ids: Arc<AtomicU64>,
    leases: HashMap<MachineId, LeaseEntry>,
    releases: HashMap<MachineId, ReleaseEntry>,
    /// The release that undoes a round of a lease, for answers that come when the round is over.
    undoing: HashMap<(MachineId, RoundNumber), MachineId>,
    timers: BTreeSet<(Time, MachineId)>,
    /// Wakes the driver for the next timer, and the time it is set for: at the latest when that timer is due.
    sleep: Option<(Time, Pin<Box<Sleep>>)>,
    shutdown: Option<Shutdown>,
}

struct LeaseEntry {
    lease: SharedLease,
    timer: Option<Time>,
    acquire: Option<oneshot::Sender<AcquireReply>>,
    extend: Option<oneshot::Sender<Result<(), NotExtended>>>,
}

struct ReleaseEntry {
    release: Release,
    undoes: (MachineId, RoundNumber),
    timer: Option<Time>,
    reply: Option<oneshot::Sender<ReleaseReply>>,
}

/// A shutdown under way: no new locks, and an answer when the clean-up is done or the limit is reached.
struct Shutdown {
    limit: Time,
    replies: Vec<oneshot::Sender<Option<Unfinished>>>,
}

impl Driver {
    pub(crate) fn new(
        clock: Clock,
        observer: Observer,
        mailbox: mpsc::UnboundedReceiver<Request>,
        quorum: Quorum,
        nodes: Vec<Box<dyn Connection>>,
        ids: Arc<AtomicU64>,
    ) -> Self {
        assert_eq!(quorum.nodes(), nodes.len(), "the quorum is counted over these nodes");
        Self {
            clock,
            observer,
            mailbox,
            orphaned: false,
            quorum,
            nodes,
            ids,
            leases: HashMap::new(),
            releases: HashMap::new(),
            undoing: HashMap::new(),
            timers: BTreeSet::new(),
            sleep: None,
            shutdown: None,
        }
    }

    /// Takes in everything that has come, until nothing moves any more.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut moved = self.take_requests(cx);
            moved |= self.take_answers(cx);
            moved |= self.fire_timers();
            self.answer_shutdown();
            if self.orphaned && self.leases.is_empty() && self.releases.is_empty() {
                return Poll::Ready(());
            }
            if !moved && self.poll_sleep(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn take_requests(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while !self.orphaned
            && let Poll::Ready(request) = self.mailbox.poll_recv(cx)
        {
            moved = true;
            match request {
                Some(request) => self.handle_request(request),
                None => self.orphaned = true,
            }
        }
        moved
    }

    fn take_answers(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        for node in self.quorum.indexes() {
            while let Poll::Ready((tag, answer)) = self.nodes[node.get()].poll_answer(cx) {
                moved = true;
                self.handle_answer(tag, node, answer);
            }
        }
        moved
    }

    fn fire_timers(&mut self) -> bool {
        let now = self.clock.now();
        let mut moved = false;
        while let Some((_, id)) = self.timers.first().copied().filter(|(time, _)| *time <= now) {
            self.timers.pop_first();
            moved = true;
            if let Some(entry) = self.leases.get_mut(&id) {
                entry.timer = None;
                self.advance_lease(id, lease::Input::Timeout);
            } else if let Some(entry) = self.releases.get_mut(&id) {
                entry.timer = None;
                self.advance_release(id, release::Input::Timeout);
            }
        }
        moved
    }

    /// Sleeps until the next timer; pending until then. Waking too early does no harm, so a sleep that is
    /// set for an earlier timer, gone meanwhile, is left as it is.
    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let limit = self.shutdown.as_ref().map(|shutdown| shutdown.limit);
        let Some(next) = self.timers.first().map(|(time, _)| *time).into_iter().chain(limit).min() else {
            return Poll::Pending;
        };
        if self.sleep.as_ref().is_none_or(|(set, _)| next < *set) {
            let deadline = tokio::time::Instant::now() + next.since(self.clock.now()).min(SLEEP_MAX);
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

    fn handle_request(&mut self, request: Request) {
        match request {
            Request::Acquire { reply, .. } if self.shutdown.is_some() => {
                let _ = reply.send(Err(AcquireFailure::ShutDown));
            }
            Request::Acquire { id, lease, entropy, reply } => {
                let entry = LeaseEntry { lease, timer: None, acquire: Some(reply), extend: None };
                self.leases.insert(id, entry);
                self.advance_lease(id, lease::Input::Attempt(entropy));
            }
            Request::Extend { id, term, reply } => {
                if let Some(entry) = self.leases.get_mut(&id) {
                    entry.extend = Some(reply);
                    self.advance_lease(id, lease::Input::Extend(term));
                }
            }
            Request::Release { id, reply } => {
                if let Some(release) = self.advance_lease(id, lease::Input::Release) {
                    self.releases.entry(release).and_modify(|entry| entry.reply = Some(reply));
                }
            }
            Request::Abandon { id } => {
                self.advance_lease(id, lease::Input::Abandon);
            }
            Request::Shutdown { limit, reply } => self.begin_shutdown(limit, reply),
        }
    }

    fn handle_answer(&mut self, Tag { machine, round }: Tag, node: NodeIndex, answer: Result<Reply, Fault>) {
        if let Some(release) = self.undoing.get(&(machine, round)) {
            self.advance_release(*release, release::Input::AcquireAnswer { node, answer: answer.clone() });
        }
        if self.leases.contains_key(&machine) {
            self.advance_lease(machine, lease::Input::Answer { round, node, answer });
        } else {
            self.advance_release(machine, release::Input::Answer { node, answer });
        }
    }

    /// Feeds one input to a lease and does what it says. Returns the clean-up that it began, if any.
    fn advance_lease(&mut self, id: MachineId, input: lease::Input) -> Option<MachineId> {
        let entry = self.leases.get_mut(&id)?;
        let shared = Arc::clone(&entry.lease);
        let mut lease = look(&shared);
        let mut clean_up = None;
        let now = self.clock.now();
        if matches!(input, lease::Input::Release | lease::Input::Abandon) {
            self.observer.observe(&Event::GivenUp { name: lease.key().name() });
        }
        lease.handle(now, input);
        while let Some(output) = lease.poll_output() {
            match output {
                lease::Output::Send { round, node, command } => {
                    self.nodes[node.get()].send(Tag { machine: id, round }, command);
                }
                lease::Output::CleanUp(release) => clean_up = Some(release),
                lease::Output::DrawEntropy => match draw_entropy() {
                    Ok(entropy) => lease.handle(self.clock.now(), lease::Input::Attempt(entropy)),
                    Err(error) => {
                        lease.handle(now, lease::Input::Abandon);
                        entry.tell_acquired(Err(AcquireFailure::NoRandomness(error)));
                    }
                },
                told => entry.tell(&mut self.observer, now, &lease, told),
            }
        }
        set_timer(&mut self.timers, id, &mut entry.timer, lease.poll_timeout());
        let ended = lease.is_ended();
        drop(lease);
        if ended {
            self.leases.remove(&id);
        }
        clean_up.map(|release| self.begin_release(id, release))
    }

    fn begin_release(&mut self, lease: MachineId, release: Release) -> MachineId {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let undoes = (lease, release.acquire_round());
        self.undoing.insert(undoes, id);
        self.releases.insert(id, ReleaseEntry { release, undoes, timer: None, reply: None });
        self.drain_release(id);
        id
    }

    fn advance_release(&mut self, id: MachineId, input: release::Input) {
        if let Some(entry) = self.releases.get_mut(&id) {
            entry.release.handle(self.clock.now(), input);
            self.drain_release(id);
        }
    }

    fn drain_release(&mut self, id: MachineId) {
        let Some(entry) = self.releases.get_mut(&id) else { return };
        let mut done = None;
        while let Some(output) = entry.release.poll_output() {
            match output {
                release::Output::Send { node, command } => {
                    self.nodes[node.get()].send(Tag { machine: id, round: RoundNumber::default() }, command);
                }
                release::Output::Outcome { outcome, ballots } => {
                    if let Some(reply) = entry.reply.take() {
                        let frees_within = entry.release.give_up_at().since(self.clock.now());
                        let _ = reply.send(ReleaseReply { outcome, ballots, frees_within });
                    }
                }
                release::Output::Done { unconfirmed } => done = Some(unconfirmed),
            }
        }
        set_timer(&mut self.timers, id, &mut entry.timer, entry.release.poll_timeout());
        if let Some(unconfirmed) = done {
            let name = entry.release.key().name();
            self.observer.observe(&match unconfirmed.len() {
                0 => Event::CleanedUp { name },
                nodes => Event::NotCleanedUp { name, nodes },
            });
            self.undoing.remove(&entry.undoes);
            self.releases.remove(&id);
        }
    }

    fn begin_shutdown(&mut self, limit: Duration, reply: oneshot::Sender<Option<Unfinished>>) {
        let limit = self.clock.now() + limit;
        let shutdown = self.shutdown.get_or_insert(Shutdown { limit, replies: vec![] });
        shutdown.limit = limit;
        shutdown.replies.push(reply);
        // Whoever still waits for a lock is told; whoever holds one keeps it and can release it.
        let waiting: Vec<MachineId> =
            self.leases.iter().filter(|(_, entry)| entry.acquire.is_some()).map(|(id, _)| *id).collect();
        for id in waiting {
            if let Some(entry) = self.leases.get_mut(&id) {
                entry.tell_acquired(Err(AcquireFailure::ShutDown));
            }
            self.advance_lease(id, lease::Input::Abandon);
        }
    }

    fn answer_shutdown(&mut self) {
        let Some(shutdown) = &mut self.shutdown else { return };
        let now = self.clock.now();
        if shutdown.replies.is_empty() || !(self.releases.is_empty() || now >= shutdown.limit) {
            return;
        }
        let unfinished = || {
            (!self.releases.is_empty()).then(|| {
                self.releases.values().fold(Unfinished::default(), |mut sum, entry| {
                    let owed = entry.release.owed();
                    owed.iter().for_each(|node| sum.nodes.insert(node));
                    sum.keys += owed.len();
                    sum.frees_within = sum.frees_within.max(entry.release.give_up_at().since(now));
                    sum
                })
            })
        };
        shutdown.replies.drain(..).for_each(|reply| drop(reply.send(unfinished())));
        shutdown.limit = Time::from_nanos(u64::MAX);
    }
}

impl LeaseEntry {
    /// Passes on what a lease tells its caller.
    fn tell(&mut self, observer: &mut Observer, now: Time, lease: &Lease, told: lease::Output) {
        let name = lease.key().name();
        let valid_for = lease.standing().map_or(Duration::ZERO, |standing| standing.validity().left(now));
        match told {
            lease::Output::Acquired => {
                let (attempts, elapsed) = (lease.attempts(), lease.elapsed(now));
                let margin = lease.standing().map_or(0, Standing::margin);
                observer.observe(&Event::Acquired { name, attempts, elapsed, margin });
                self.tell_acquired(Ok(()));
            }
            lease::Output::NotAcquired(end) => {
                let NotAcquired { cause, attempts, elapsed, .. } = end;
                observer.observe(&Event::NotAcquired { name, cause, attempts, elapsed });
                self.tell_acquired(Err(AcquireFailure::NotAcquired(end)));
            }
            lease::Output::Retrying { cause, at } => {
                observer.observe(&Event::Retrying { name, cause, pause: at.since(now) });
            }
            lease::Output::Extended => {
                observer.observe(&Event::Extended { name, valid_for });
                self.tell_extended(Ok(()));
            }
            lease::Output::NotExtended(reason) => {
                let lost = matches!(reason, NotExtended::Lost { .. });
                observer.observe(&Event::NotExtended { name, lost, valid_for });
                self.tell_extended(Err(reason));
            }
            // The guard sees late votes when it looks. The rest is for the driver itself.
            lease::Output::Widened
            | lease::Output::Send { .. }
            | lease::Output::DrawEntropy
            | lease::Output::CleanUp(_) => {}
        }
    }

    fn tell_acquired(&mut self, reply: AcquireReply) {
        // A caller that is gone has sent, or will send, an `Abandon`.
        self.acquire.take().map(|caller| caller.send(reply));
    }

    fn tell_extended(&mut self, reply: Result<(), NotExtended>) {
        self.extend.take().map(|caller| caller.send(reply));
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.get_mut().advance(cx)
    }
}

fn set_timer(
    timers: &mut BTreeSet<(Time, MachineId)>,
    id: MachineId,
    set: &mut Option<Time>,
    next: Option<Time>,
) {
    if *set != next {
        set.map(|time| timers.remove(&(time, id)));
        next.map(|time| timers.insert((time, id)));
        *set = next;
    }
}
