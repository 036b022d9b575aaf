//! `tenure run`: a command that runs while we hold the lock, and no longer.

use crate::args::{AtLeastOn, RunArgs};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::hold::{Wanted, hold};
use crate::output::Output;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::work::{Outcome, Work};

pub(crate) async fn run(args: &RunArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let settings = settings.for_run(args.grace.as_deref(), args.max_hold.as_deref())?;
    let wanted = Wanted {
        names: &args.names,
        mode: &args.mode,
        slots: args.slots,
        at_least: settings.at_least(args.at_least.as_deref())?,
    };
    if wanted.slots.is_some() && wanted.names.len() > 1 {
        return Err(Failure::usage("--slots takes one name; a set of names has one holder at a time"));
    }
    let name = wanted.name();
    let retries = args.at_least_on == AtLeastOn::Success;
    let work = Work { name: &name, command: &args.command, owner: args.mode.owner.as_deref(), retries };
    let mut signals = Signals::install()?;
    let conflict = Exit::code(args.conflict_exit_code);
    let held = hold(&wanted, &work.note(), &settings, conflict, &mut signals, output).await?;
    match work.run(held, &settings, &mut signals, output).await? {
        Outcome::Ended(exit) => Ok(exit),
        Outcome::Stopped { failure, .. } => Err(failure),
    }
}
