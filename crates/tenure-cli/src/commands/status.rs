//! `tenure status`: who holds a lock, and what each node says.

use tenure::LockState;

use crate::args::StatusArgs;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::Settings;

pub(crate) async fn run(args: &StatusArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let locks = settings.connect(|_| ())?;
    let report = locks.inspect(&args.name).await?;
    output.status(&report)?;
    Ok(exit_of(&report.state, settings))
}

/// What nobody could tell is not done.
pub(super) fn exit_of(state: &LockState, settings: &Settings) -> Exit {
    match state {
        LockState::Unknown => unreachable(settings),
        _ => Exit::DONE,
    }
}

/// No majority answered: of nodes elsewhere, or of the one that is a file.
pub(super) fn unreachable(settings: &Settings) -> Exit {
    if settings.is_embedded() { Exit::STORE } else { Exit::UNAVAILABLE }
}
