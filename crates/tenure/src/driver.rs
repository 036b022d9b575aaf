//! The worker of a manager: the one loop that awaits nodes, timers and callers.
//!
//! What a client does is decided by [`Client`], a state machine of the core. The driver is its
//! hands: it takes requests out of the mailbox and events from the connections, with the time,
//! hands commands to the connections, wakes callers, and sleeps. Callers and dropped guards send it
//! requests, which needs no runtime and never blocks. Clean-up lives here, so it survives whoever
//! caused it.

mod asking;
mod call;
mod callers;
mod diary;
mod lookouts;
mod mailbox;
mod shared_lease;
mod sockets;
mod spans;
mod survey;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::client::{Client, Input};
pub(crate) use tenure_core::client::{Found, Id, Resuming, Unfinished};
use tenure_core::{Entropy, Fleet, HoldState, Time};
use tokio::sync::mpsc;
use tokio::time::Sleep;

pub(crate) use self::asking::Asking;
pub(crate) use self::call::{AcquireFailure, AcquireReply, Call, ReleaseReply, draw_entropy};
use self::callers::{Caller, Replies};
use self::diary::Diary;
use self::lookouts::Lookouts;
pub(crate) use self::shared_lease::SharedLease;
use self::spans::Spans;
pub(crate) use self::survey::Surveyed;
use self::survey::Surveys;
use crate::event::Observer;
use crate::fleet::known_nodes::KnownNodes;
use crate::guard::handover::Lives;
use crate::machine::clock::Clock;
use crate::node::Connection;

/// The longest sleep in one piece: tokio cannot add arbitrarily long ones, and waking too early
/// does no harm.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// While locks are held, the clock is looked at so often. Tokio's timers do not run while the
/// machine is suspended, and the clock does: a holder whose lock ended meanwhile hears of it within
/// this time after the machine woke up.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many calls one reading of the clock serves: it costs as much as handling one of them.
const CLOCK_STRIDE: u32 = 8;

/// Timers are precise to a millisecond. A driver that wakes up so much later was held up.
const LATE: Duration = Duration::from_millis(2);

/// How often the driver goes round before it lets other tasks run.
const TURNS_MAX: usize = 32;

pub(crate) struct Driver {
    clock: Clock,
    /// The last reading of the clock, and how often one was asked for.
    now: Time,
    looks: u32,
    observer: Observer,
    /// How the nodes are called.
    addresses: Vec<Arc<str>>,
    mailbox: mpsc::UnboundedReceiver<Call>,
    /// No caller is left who could ask for anything.
    orphaned: bool,
    client: Client<Caller>,
    nodes: Vec<Box<dyn Connection>>,
    /// In which lives of their memory they were last seen, for whoever hands a lock over.
    lives: Arc<Lives>,
    /// What is known of them from before.
    diary: Diary,
    /// Who else is at work.
    asking: Asking,
    /// How many calls there were when others were last let go first, if that was just now.
    asked_before: usize,
    /// Commands were handed to a node since it was last polled.
    unsent: bool,
    ids: Arc<AtomicU64>,
    /// Callers who wait for something else than a lease.
    replies: Replies,
    /// Randomness that callers drew for their first attempts and that was not used yet.
    drawn: Vec<Entropy>,
    /// Wakes the driver for the next timer, and the time it is set for: at the latest when that
    /// timer is due.
    sleep: Option<(Time, Pin<Box<Sleep>>)>,
    surveys: Surveys,
    spans: Spans,
    lookouts: Lookouts,
}

impl Driver {
    pub(crate) fn new(
        clock: Clock,
        observer: Observer,
        addresses: Vec<Arc<str>>,
        mailbox: mpsc::UnboundedReceiver<Call>,
        nodes: Vec<Box<dyn Connection>>,
        fleet: Fleet,
        (lives, ids): (Arc<Lives>, Arc<AtomicU64>),
    ) -> Self {
        assert_eq!(fleet.quorum().nodes(), nodes.len(), "the quorum is counted over these nodes");
        let now = clock.now();
        Self {
            clock,
            now,
            looks: 0,
            observer,
            addresses,
            mailbox,
            orphaned: false,
            client: Client::new(now, fleet),
            nodes,
            lives,
            diary: Diary::default(),
            asking: Asking::default(),
            asked_before: 0,
            unsent: false,
            ids,
            replies: Replies::default(),
            drawn: vec![],
            sleep: None,
            surveys: Surveys::default(),
            spans: Spans::default(),
            lookouts: Lookouts::default(),
        }
    }

    /// With what this machine knows of the nodes from before.
    pub(crate) fn remembering(mut self, known: Option<KnownNodes>) -> Self {
        self.diary = known.map_or_else(Diary::default, |known| Diary::new(known, self.clock));
        self
    }

    /// Beside callers who are counted there.
    pub(crate) fn beside(mut self, asking: Asking) -> Self {
        self.asking = asking;
        self
    }

    /// Takes in everything that has come, until nothing is left to send.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.gives_way(cx) {
            return Poll::Pending;
        }
        for _ in 0..TURNS_MAX {
            self.now = self.clock.now();
            self.note_pause();
            self.take_calls(cx);
            self.unsent = false;
            if !self.take_memory(cx) {
                return Poll::Pending;
            }
            self.take_events(cx);
            self.now = self.clock.now();
            self.note_tried();
            self.tell(Input::Wake);
            self.surveys.answer(self.now, self.client.fleet());
            if self.orphaned && self.client.is_idle() {
                return Poll::Ready(());
            }
            // Whoever has news wakes the driver again; only commands that came up after their node
            // was polled do not.
            if !self.unsent && self.poll_sleep(cx).is_pending() {
                return Poll::Pending;
            }
        }
        // There is more to do, but others want to run, too.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Tells the client what has happened, and does what it says.
    fn tell(&mut self, input: Input) {
        self.client.handle(self.now, input);
        self.carry_out();
    }

    /// Reads the clock for what is handled next. A reading serves a few things in a row: time that
    /// passed since only makes T1 earlier, and whoever is given a lock looks again.
    fn look_at_the_clock(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(CLOCK_STRIDE) {
            self.now = self.clock.now();
        }
    }

    /// If we should have woken up earlier, what has come meanwhile says little about the nodes.
    fn note_pause(&mut self) {
        if let Some((meant, _)) = self.sleep
            && self.now.since(meant) > LATE
        {
            self.tell(Input::Paused { meant });
        }
    }

    /// Sleeps until the next timer; pending until then. Waking too early does no harm, so a sleep
    /// that is set for an earlier timer, gone meanwhile, is left as it is.
    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let look = (!self.client.holds_nothing()).then(|| self.now + LOOK_EVERY);
        let limits = [self.client.poll_timeout(self.now), self.surveys.next_limit(), look];
        let Some(next) = limits.into_iter().flatten().min() else {
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
}

impl Drop for Driver {
    /// Nobody renews any more: whoever holds a lock is told at once that it must not be counted on.
    fn drop(&mut self) {
        for lease in self.client.leases() {
            self.client.lease(lease).inspect(|caller| caller.tell_ended());
        }
        self.mailbox.close();
        while let Ok(call) = self.mailbox.try_recv() {
            if let Call::Watch { watch, .. } = call {
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
