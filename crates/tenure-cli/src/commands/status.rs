//! `tenure status`: who holds a lock, and what each node says.

use tenure::LockState;

use crate::args::StatusArgs;
use crate::commands::looking::Looking;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::Settings;

pub(crate) async fn run(args: &StatusArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let report = Looking::connect(settings, output)?.inspect(&args.name).await?;
    output.status(&report)?;
    Ok(match report.state {
        // What nobody could tell is not done.
        LockState::Unknown => unreachable(settings),
        LockState::Free => Exit::DONE,
        _ if args.exit_code => Exit::HELD,
        _ => Exit::DONE,
    })
}

/// No majority answered: of nodes elsewhere, or of the one that is a file.
pub(super) fn unreachable(settings: &Settings) -> Exit {
    if settings.is_embedded() { Exit::STORE } else { Exit::UNAVAILABLE }
}
