//! `tenure run`: a command that runs while we hold the lock, and no longer.

mod child;
mod environment;
mod group;
mod keeper;
mod supervise;
mod terminal;

use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use self::child::Child;
use self::keeper::Keepers;
use self::supervise::{Cause, Ended, Supervised};
use self::terminal::Terminal;
use crate::args::RunArgs;
use crate::commands::acquire::hold;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::Settings;
use crate::signals::{Signal, Signals};

pub(crate) async fn run(args: &RunArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let settings = settings.for_run(args.grace.as_deref(), args.max_hold.as_deref())?;
    let mut signals = Signals::install()?;
    // Others see what is run; its arguments are nobody's business.
    let program = args.command.first().map(Path::new).and_then(Path::file_name);
    let note = program.map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    let conflict = Exit::code(args.conflict_exit_code);
    let (locks, guard) = hold(&args.name, &note, &settings, conflict, &mut signals, output).await?;
    let begun = Instant::now();

    let environment = environment::of(&locks, &guard, &settings);
    let mut terminal = Terminal::open();
    let prepared = Child::prepare(&args.command, &environment, terminal.is_wanted()).and_then(|child| {
        let keepers = Keepers::start(child.group(), &settings, &guard.to_handover());
        let keepers = keepers.inspect_err(|_| child.signal(Signal::SIGKILL))?;
        Ok((child, keepers))
    });
    let (child, keepers) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = guard.release().await;
            let _ = locks.shutdown().await;
            return Err(Failure::internal(format!("the command cannot be started: {error}")));
        }
    };
    let (locks, settings) = (&locks, &settings);
    let mut supervised = Supervised { child, locks, guard: Some(guard), keepers, settings, terminal };
    let ended = supervised.watch(&mut signals).await;

    let Supervised { mut terminal, keepers, guard, child, .. } = supervised;
    // What has become another user's (`sudo`) cannot be killed by us.
    let is_gone = child.is_gone();
    terminal.take_back();
    keepers.dismiss();
    let released = match guard {
        Some(guard) => guard.release().await.map(|_| ()),
        None => Ok(()),
    };
    let _ = locks.shutdown().await;
    match ended {
        Ended::ByItself(exit) => {
            if let Err(error) = released {
                output.note(&format!("warning: {error}"));
            }
            if !is_gone {
                output.note("warning: what the command left in its process group cannot be stopped and goes on without the lock");
            }
            Ok(exit)
        }
        Ended::Stopped(Cause::NotBegun) => {
            let message = format!(
                "lock {:?} was lost before the command could begin, so it was not run: starting it took longer than the lock lasts. \
                 Try again, with a longer --ttl if the machine is slow",
                args.name
            );
            Err(Failure::new(Exit::LOST, "lost", message).of_lock(&args.name))
        }
        Ended::Stopped(Cause::Unkept) if is_gone => {
            let message = "the command was stopped: the process that would end it if this one were killed was killed itself, and the \
                 system does not let another one start. Make room for processes and open files";
            Err(Failure::internal(message).of_lock(&args.name))
        }
        Ended::Stopped(_) if !is_gone => {
            let message = format!(
                "lock {:?} was lost while the command ran, and the command cannot be stopped: it goes on without the lock. Stop \
                 process group {} by hand",
                args.name,
                child.group()
            );
            Err(Failure::new(Exit::LOST, "lost", message).of_lock(&args.name))
        }
        Ended::Stopped(_) if settings.is_held_long_enough(begun.elapsed()) => {
            let message = format!(
                "the command was stopped: it has held lock {:?} for as long as max_hold allows. Let it hold for longer with \
                 --max-hold",
                args.name
            );
            Err(Failure::new(Exit::LOST, "max_hold", message).of_lock(&args.name))
        }
        Ended::Stopped(_) => {
            let message = format!(
                "lock {:?} was lost while the command ran; the command was stopped before another could have the lock. \
                 Find out why it could not be renewed: `tenure doctor` looks at the nodes",
                args.name
            );
            Err(Failure::new(Exit::LOST, "lost", message).of_lock(&args.name))
        }
    }
}

/// Whether a person at a terminal has us in the foreground.
pub(crate) fn is_at_keyboard() -> bool {
    Terminal::open().is_ours()
}

/// What `run` calls us again for: to become the command, and to look after it. Nobody types this, so it is no part of the
/// arguments, and costs the command no time.
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
