//! `tenure run`: a command that runs while we hold the lock, and no longer.

mod child;
mod environment;
mod keeper;
mod supervise;
mod terminal;

use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use self::child::Child;
use self::keeper::Keeper;
use self::supervise::{Ended, Supervised};
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
        let keeper = Keeper::start(child.group()).inspect_err(|_| child.signal(Signal::SIGKILL))?;
        Ok((child, keeper))
    });
    let (child, keeper) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = guard.release().await;
            let _ = locks.shutdown().await;
            return Err(Failure::internal(format!("the command cannot be started: {error}")));
        }
    };
    let (locks, settings) = (&locks, &settings);
    let mut supervised = Supervised { child, locks, guard: Some(guard), keeper, settings, terminal };
    supervised.begin();
    let ended = supervised.watch(&mut signals).await;

    let Supervised { mut terminal, keeper, guard, child, .. } = supervised;
    // What has become another user's (`sudo`) cannot be killed by us.
    let is_gone = child.is_gone();
    terminal.take_back();
    keeper.dismiss();
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
        Ended::Stopped if !is_gone => {
            let message = format!(
                "lock {:?} was lost while the command ran, and the command cannot be stopped: it goes on without the lock. Stop \
                 process group {} by hand",
                args.name,
                child.group()
            );
            Err(Failure::new(Exit::LOST, "lost", message).of_lock(&args.name))
        }
        Ended::Stopped if settings.is_held_long_enough(begun.elapsed()) => {
            let message = format!(
                "the command was stopped: it has held lock {:?} for as long as max_hold allows. Let it hold for longer with \
                 --max-hold",
                args.name
            );
            Err(Failure::new(Exit::LOST, "max_hold", message).of_lock(&args.name))
        }
        Ended::Stopped => {
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
        [keep, group] if keep == keeper::KEEP => Some(keeper::keep(&group.to_string_lossy())),
        _ => None,
    }
}
