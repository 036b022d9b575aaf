//! Watches over the command: passes signals on, and stops it in time when the lock is lost.
//!
//! Nothing is printed here: a terminal that is stopped would hold up the one thing that must
//! happen in time.

use std::pin::Pin;
use std::time::Duration;

use tenure::Risk;
use tokio::time::{Instant, sleep};

use super::child::{Change, Child};
use super::keeper::{self, Keepers};
use super::terminal::Terminal;
use crate::backend::{Backend, Holding};
use crate::exit_code::Exit;
use crate::machine_clock;
use crate::settings::Settings;
use crate::signals::{Signal, Signals, ends_wait};

/// What the command leaves behind in its group has this long to leave it before SIGTERM: `setsid`
/// is begun in the group, and a shell that has begun it ends at once.
const LEAVING: Duration = Duration::from_millis(300);

/// What the command leaves behind in its group has this long to end after SIGTERM.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// After SIGKILL nobody is left but for what the kernel itself cannot stop; that is not waited for.
const KILLED_LIMIT: Duration = Duration::from_secs(5);

/// How often we look whether the group is empty, once its command has ended: nobody tells us about
/// the others.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How often we look at the clock and at the lock, at least: timers stand still while the machine
/// sleeps, and the keeper wants to know of renewals.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(1);

/// How it came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The command ended, with this code.
    ByItself(Exit),
    /// The command was stopped.
    Stopped(Cause),
}

/// Why a command was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The lock was lost: it could not be extended in time.
    Lost,
    /// The lock was over when we looked: we stood still.
    Late,
    /// A majority of nodes said that the lock is not ours.
    Taken,
    /// The lock was held for as long as is allowed.
    MaxHold,
    /// The lock was lost before the command could begin.
    NotBegun,
    /// Its keepers were killed, and no other can be started: nobody would end it if we were killed.
    Unkept,
}

impl Cause {
    /// Why this lock ends.
    pub(super) fn of(holding: &Holding) -> Self {
        match holding.risk() {
            Some(Risk::Taken) => Self::Taken,
            Some(Risk::Limit) => Self::MaxHold,
            _ if holding.valid_for().is_zero() => Self::Late,
            _ => Self::Lost,
        }
    }
}

/// How far we are in stopping it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    /// SIGTERM was sent.
    Asked,
    /// SIGKILL was sent.
    Killed,
}

/// What the keepers were told.
struct Told {
    /// For how long the lock is valid.
    left: Duration,
    /// Whether there is a keeper.
    kept: bool,
}

/// A command under its lock.
pub(super) struct Supervised<'a> {
    pub(super) child: Child,
    pub(super) backend: &'a Backend,
    /// Why there is none once the lock is known to be lost.
    pub(super) holding: Result<Holding, Cause>,
    pub(super) keepers: Keepers,
    pub(super) settings: &'a Settings,
    pub(super) terminal: Terminal,
    /// The signal by which somebody wants all of it to end, and not the command alone.
    pub(super) interrupted: Option<Signal>,
}

impl Supervised<'_> {
    /// Lets the command begin, once the keeper knows until when it may run. It does not if the lock
    /// is nearly over.
    fn begin(&mut self) -> Option<Cause> {
        if self.tell_keepers().left <= kill_lead(self.settings.ttl.value) {
            return Some(Cause::NotBegun);
        }
        self.child.begin();
        None
    }

    /// Tells the keepers until when the lock is valid.
    fn tell_keepers(&mut self) -> Told {
        // The clock first: what passes between the two makes it earlier.
        let now = machine_clock::now();
        let left = self.holding.as_ref().map_or(Duration::ZERO, Holding::valid_for);
        // Half the lead: they are there for when we do not do it.
        let until = now + left.saturating_sub(kill_lead(self.settings.ttl.value) / 2);
        Told { left, kept: left.is_zero() || self.keepers.tell(until) }
    }

    /// Lets the command run, and watches until nothing of it is left.
    pub(super) async fn watch(&mut self, signals: &mut Signals) -> Ended {
        let (grace, lead) = (self.settings.grace(), kill_lead(self.settings.ttl.value));
        let mut lost = self.lost();
        let (mut stage, mut is_lost) = (Stage::Running, false);
        let mut cause = self.begin();
        let (mut end, mut killed) = (None::<Ended>, None::<Instant>);
        let (mut unkept_until, mut left_behind) = (None::<Instant>, None::<Instant>);
        loop {
            let (Told { left, kept }, now) = (self.tell_keepers(), Instant::now());
            if !kept && unkept_until.is_none() {
                unkept_until = Some(now + grace);
            }
            let is_over = left <= lead || is_lost || cause == Some(Cause::NotBegun);
            if is_over || unkept_until.is_some_and(|until| now >= until) {
                self.child.signal(Signal::SIGKILL);
                stage = Stage::Killed;
                cause.get_or_insert(self.why());
            } else if stage == Stage::Running && (left <= grace || unkept_until.is_some()) {
                self.child.terminate();
                stage = Stage::Asked;
                cause.get_or_insert(if left <= grace { self.why() } else { Cause::Unkept });
            }
            if let Some(exit) = self.child.ended() {
                // How the command ended counts, not what it left behind.
                let outcome = cause.map_or(Ended::ByItself(exit), Ended::Stopped);
                let outcome = *end.get_or_insert(outcome);
                if self.child.is_gone() {
                    return outcome;
                }
                let leaving = if cause.is_none() { LEAVING } else { Duration::ZERO };
                let ask_from = *left_behind.get_or_insert(now) + leaving;
                if now >= ask_from + LEFT_BEHIND {
                    self.child.signal(Signal::SIGKILL);
                    stage = Stage::Killed;
                } else if now >= ask_from && stage == Stage::Running {
                    self.child.terminate();
                    stage = Stage::Asked;
                }
            }
            if stage == Stage::Killed && now >= *killed.get_or_insert(now) + KILLED_LIMIT {
                return end.unwrap_or(Ended::Stopped(cause.unwrap_or(Cause::Lost)));
            }
            // Often enough that a renewal is known to the keepers long before the time that they
            // know of is over.
            let soon = LOOK_AT_CLOCK.min(left.saturating_sub(lead) / 4).max(Duration::from_millis(1));
            let pause = match stage {
                _ if self.child.ended().is_some() => LOOK_EVERY,
                Stage::Running => {
                    left.saturating_sub(grace).min(soon).min(self.keepers.wants_word_in().unwrap_or(soon))
                }
                Stage::Asked => left.saturating_sub(lead).min(soon),
                Stage::Killed => LOOK_EVERY,
            };
            tokio::select! {
                biased;
                () = &mut lost, if !is_lost => is_lost = true,
                signal = signals.next() => match signal {
                    Signal::SIGCHLD => {}
                    signal => {
                        // Before the command is stopped, a key or a hang-up may be meant for it.
                        if signal == Signal::SIGTERM || cause.is_some() && ends_wait(signal) {
                            self.interrupted.get_or_insert(signal);
                        }
                        self.child.signal(signal);
                    }
                },
                () = sleep(pause) => {}
            }
            let keepers = &mut self.keepers;
            if let Some(Change::Stopped(signal)) =
                self.child.look(|process, change| keepers.hear(process, change))
            {
                self.stopped(signal).await;
                (lost, is_lost) = (self.lost(), self.holding.is_err());
            }
        }
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        match &self.holding {
            Ok(holding) => holding.lost(),
            Err(_) => Box::pin(std::future::ready(())),
        }
    }

    fn why(&self) -> Cause {
        self.holding.as_ref().map_or_else(|cause| *cause, Cause::of)
    }

    /// The command was stopped: because it wants the terminal, which it gets; or by a person, and
    /// then we stop as well, until we are told to go on.
    async fn stopped(&mut self, signal: Signal) {
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if wants_terminal && self.terminal.give(self.child.group()) {
            return self.child.signal(Signal::SIGCONT);
        }
        if !self.terminal.exists() {
            // Nobody there who could make us go on: whoever stopped the command will do that, and
            // we need not stop.
            return;
        }
        // Nobody has it until it is known what becomes of it.
        let Ok(holding) = std::mem::replace(&mut self.holding, Err(Cause::Lost)) else { return };
        self.terminal.take_back();
        let until = machine_clock::now() + holding.valid_for();
        let baton = holding.hand_over();
        self.keepers.take(self.settings, &baton, until);
        // The worker must have let go of it before we stand still.
        tokio::task::yield_now().await;
        stop_our_group();
        // Somebody wants us to go on. The command may not, if the lock was lost meanwhile. A keeper
        // that is gone kept nothing; perhaps the time was short enough.
        self.holding = match self.keepers.back().unwrap_or(Ok(baton)) {
            Ok(baton) => keeper::resume(self.backend, &baton, self.settings.ttl.value / 2).await,
            Err(cause) => Err(cause),
        };
        if self.holding.is_err() {
            return self.child.signal(Signal::SIGKILL);
        }
        self.tell_keepers();
        self.terminal.give(self.child.group());
        self.child.signal(Signal::SIGCONT);
    }
}

/// Stops everybody in our own group, as the key would have if the command had no group of its own:
/// a script that runs us, the others of a pipeline. By a signal that we do not listen to, and not
/// by SIGSTOP, because the kernel leaves it out where nobody could make us go on (`ssh -t host
/// tenure run ...`).
fn stop_our_group() {
    let _ = nix::sys::signal::killpg(nix::unistd::getpgrp(), Signal::SIGTTOU);
}

/// SIGKILL comes as long before the end as the library tells of the loss: the kernel takes a moment
/// to end a group.
pub(super) fn kill_lead(ttl: Duration) -> Duration {
    (ttl / 20).max(Duration::from_millis(50)).min(ttl / 4)
}
