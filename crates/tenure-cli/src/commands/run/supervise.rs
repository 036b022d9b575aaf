//! Watches over the command: passes signals on, and stops it in time when the lock is lost.
//!
//! Nothing is printed here: a terminal that stands still would hold up the one thing that must happen in time.

use std::pin::pin;
use std::time::Duration;

use tenure::{Guard, HoldState};
use tokio::time::{Instant, sleep};

use super::child::{Change, Child};
use super::terminal::Terminal;
use crate::exit_code::Exit;
use crate::settings::Settings;
use crate::signals::{Signal, Signals};

/// What the command leaves behind in its group has this long to end after SIGTERM.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// After SIGKILL nobody is left but for what the kernel itself cannot stop; that is not waited for.
const KILLED_LIMIT: Duration = Duration::from_secs(5);

/// How often we look whether the group is empty, once its command has ended: nobody tells us about the others.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How it came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The command ended, with this code.
    ByItself(Exit),
    /// The lock was lost and the command stopped.
    Stopped,
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

pub(super) async fn supervise(
    child: &mut Child,
    guard: &Guard,
    settings: &Settings,
    signals: &mut Signals,
    terminal: &mut Terminal,
) -> Ended {
    let (grace, lead) = (settings.grace(), kill_lead(settings.ttl.value));
    let mut lost = pin!(guard.lost());
    let (mut stage, mut is_lost) = (Stage::Running, false);
    let (mut end, mut killed) = (None::<Ended>, None::<Instant>);
    let mut left_behind_until = None::<Instant>;
    loop {
        let left = guard.valid_for();
        if left <= lead || is_lost {
            child.signal(Signal::SIGKILL);
            stage = Stage::Killed;
        } else if left <= grace && stage == Stage::Running {
            child.terminate();
            stage = Stage::Asked;
        }
        let now = Instant::now();
        if let Some(exit) = child.ended() {
            // How the command ended counts, not what it left behind.
            let outcome = if stage == Stage::Running { Ended::ByItself(exit) } else { Ended::Stopped };
            let outcome = *end.get_or_insert(outcome);
            if child.is_gone() {
                return outcome;
            }
            let until = *left_behind_until.get_or_insert_with(|| {
                child.terminate();
                now + LEFT_BEHIND
            });
            if now >= until {
                child.signal(Signal::SIGKILL);
                stage = Stage::Killed;
            }
        }
        if stage == Stage::Killed && now >= *killed.get_or_insert(now) + KILLED_LIMIT {
            return end.unwrap_or(Ended::Stopped);
        }
        let pause = match stage {
            _ if child.ended().is_some() => LOOK_EVERY,
            Stage::Running => left.saturating_sub(grace),
            Stage::Asked => left.saturating_sub(lead),
            Stage::Killed => LOOK_EVERY,
        };
        tokio::select! {
            biased;
            () = &mut lost, if !is_lost => is_lost = true,
            signal = signals.next() => match signal {
                Signal::SIGCHLD => {}
                signal => child.signal(signal),
            },
            () = sleep(pause) => {}
        }
        if let Some(Change::Stopped(signal)) = child.look() {
            stopped(child, guard, terminal, signal);
        }
    }
}

/// SIGKILL comes as long before the end as the library tells of the loss: the kernel takes a moment to end a group.
fn kill_lead(ttl: Duration) -> Duration {
    (ttl / 20).max(Duration::from_millis(50)).min(ttl / 4)
}

/// The command was stopped: because it wants the terminal, which it gets; or by a person, and then we stop as well, until
/// we are told to go on.
fn stopped(child: &Child, guard: &Guard, terminal: &mut Terminal, signal: Signal) {
    let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
    if wants_terminal && terminal.give(child.group()) {
        return child.signal(Signal::SIGCONT);
    }
    if !terminal.exists() {
        // Nobody there who could make us go on: whoever stopped it will do that.
        return;
    }
    terminal.take_back();
    let _ = nix::sys::signal::raise(Signal::SIGSTOP);
    // Somebody wants us to go on. The command must not, if the lock was lost meanwhile.
    if guard.state() == HoldState::Lost {
        return child.signal(Signal::SIGKILL);
    }
    terminal.give(child.group());
    child.signal(Signal::SIGCONT);
}
