//! A command that runs while we hold a lock, and no longer: what `run` and `lead` do.

mod child;
mod environment;
mod group;
mod keeper;
mod supervise;
mod terminal;

use std::ffi::OsString;
use std::path::Path;

use nix::unistd::Pid;

use self::child::Child;
pub(crate) use self::child::own_program;
use self::keeper::Keepers;
pub(crate) use self::supervise::Cause;
use self::supervise::{Ended, Supervised};
use self::terminal::Terminal;
use crate::backend::{Backend, Holding};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::Settings;
use crate::signals::{Signal, Signals};

/// What is to be done under the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work<'a> {
    /// The lock, as it is spoken of.
    pub(crate) name: &'a str,
    pub(crate) command: &'a [OsString],
    /// The owner that it is held for, if it is reentrant.
    pub(crate) owner: Option<&'a str>,
    /// Others may have the lock at once if the command fails, though it was to be kept from them.
    pub(crate) retries: bool,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The command has ended by itself.
    Ended(Exit),
    /// It was stopped.
    Stopped {
        cause: Cause,
        /// What is told of it.
        failure: Failure,
        /// Something of it could not be stopped.
        is_left: bool,
        /// By this signal somebody wanted us to end, too.
        interrupted: Option<Signal>,
    },
}

impl Work<'_> {
    /// What others see of the command: its arguments are nobody's business.
    pub(crate) fn note(&self) -> String {
        let program = self.command.first().map(Path::new).and_then(Path::file_name);
        program.map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Runs the command while the lock is ours, and releases it.
    pub(crate) async fn run(
        self,
        (backend, holding): (Backend, Holding),
        settings: &Settings,
        signals: &mut Signals,
        output: &Output,
    ) -> Result<Outcome, Failure> {
        let environment = environment::of(&holding, self.owner, settings);
        let mut terminal = Terminal::open();
        let prepared = Child::prepare(self.command, &environment, terminal.is_wanted()).and_then(|child| {
            let keepers = Keepers::start(child.group(), settings, &holding.baton(), self.retries);
            let keepers = keepers.inspect_err(|_| child.signal(Signal::SIGKILL))?;
            Ok((child, keepers))
        });
        let (child, keepers) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                let _ = holding.release_early().await;
                let _ = backend.shutdown(None).await;
                return Err(Failure::internal(format!("cannot start the command: {error}")));
            }
        };
        let backend = &backend;
        let (holding, interrupted) = (Ok(holding), None);
        let mut supervised = Supervised { child, backend, holding, keepers, settings, terminal, interrupted };
        let ended = supervised.watch(signals).await;

        let Supervised { mut terminal, keepers, holding, child, interrupted, .. } = supervised;
        // What has become another user's (`sudo`) cannot be killed by us.
        let is_gone = child.is_gone();
        terminal.take_back();
        keepers.dismiss();
        let has_failed = !matches!(ended, Ended::ByItself(exit) if exit == Exit::DONE);
        let released = match holding {
            // Nothing was done under it.
            Ok(holding) if ended == Ended::Stopped(Cause::NotBegun) => holding.release_early().await,
            Ok(holding) if self.retries && has_failed => holding.release_early().await,
            Ok(holding) => holding.release().await,
            Err(_) => Ok(()),
        };
        let _ = backend.shutdown(None).await;
        match ended {
            Ended::ByItself(exit) => {
                if let Err(error) = released {
                    output.note(&format!("warning: {}", error.message));
                }
                if !is_gone {
                    output.note(
                        "warning: processes the command left behind cannot be stopped and keep \
                                 running without the lock",
                    );
                }
                Ok(Outcome::Ended(exit))
            }
            Ended::Stopped(cause) => {
                let left = (!is_gone).then(|| child.group());
                let failure = stopped(cause, self.name, left);
                Ok(Outcome::Stopped { cause, failure, is_left: !is_gone, interrupted })
            }
        }
    }
}

/// That the command was stopped, and why. `left` is its group if that could not be stopped.
fn stopped(cause: Cause, name: &str, left: Option<Pid>) -> Failure {
    let lost = |what: String| Failure::new(Exit::LOST, "lost", what);
    let failure = match (cause, left) {
        (Cause::NotBegun, _) => lost(format!(
            "lock {name:?} was lost before the command could start, so it was not run: starting it took \
             longer than the ttl. Retry, with a longer --ttl if the machine is slow"
        )),
        (_, Some(group)) => lost(format!(
            "lock {name:?} was lost while the command ran, and the command cannot be stopped: it keeps \
             running without the lock. Stop process group {group} by hand"
        )),
        (Cause::Unkept, None) => Failure::internal(
            "the command was stopped: its keeper, the process that would stop it if this one were killed, \
             was itself killed and could not be restarted. Raise the limits on processes and open files",
        ),
        (Cause::MaxHold, None) => {
            let message = format!(
                "the command was stopped: it held lock {name:?} for the full max_hold. Allow more with \
                 --max-hold"
            );
            Failure::new(Exit::LOST, "max_hold", message)
        }
        (Cause::Taken, None) => lost(format!(
            "lock {name:?} was lost while the command ran: most nodes no longer have it (released by \
             force, deleted, or expired). The command was stopped, but another process may have held the \
             lock by then"
        )),
        (Cause::Late, None) => lost(format!(
            "lock {name:?} was lost while the command ran: this process or the machine was paused for \
             longer than the ttl. The command was stopped"
        )),
        (Cause::Lost, None) => lost(format!(
            "lock {name:?} was lost while the command ran; the command was stopped before another process \
             could get the lock. Run `tenure doctor` to find out why it could not be renewed"
        )),
    };
    failure.of_lock(name)
}

/// Whether a person at a terminal has us in the foreground.
pub(crate) fn is_at_keyboard() -> bool {
    Terminal::open().is_ours()
}

/// What we call ourselves again for: to become the command, and to look after it. Nobody types
/// this, so it is no part of the arguments, and costs the command no time.
pub(crate) fn in_a_process_of_its_own(arguments: impl Iterator<Item = OsString>) -> Option<Exit> {
    let arguments: Vec<OsString> = arguments.skip(1).collect();
    match arguments.as_slice() {
        [start, parent, foreground, command @ ..] if start == child::START => {
            let failure = child::become_command(parent, foreground, command);
            Some(Output::of_helper().failure(&failure))
        }
        [keep, group] if keeper::NAMES.iter().any(|name| keep == name) => {
            Some(keeper::keep(&group.to_string_lossy()))
        }
        _ => None,
    }
}
