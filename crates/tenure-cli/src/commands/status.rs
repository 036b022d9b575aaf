//! `tenure status`: who holds a lock, and what each node says.

use tenure::{LockState, NodeAnswer};

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
        LockState::Unknown => unavailable(settings, report.nodes.iter().map(NodeAnswer::is_misconfigured)),
        LockState::Free => Exit::DONE,
        _ if args.exit_code => Exit::HELD,
        _ => Exit::DONE,
    })
}

/// No majority answered: of nodes elsewhere, or of the one that is a file; or so many nodes are misconfigured that none
/// can.
pub(crate) fn unavailable(settings: &Settings, misconfigured: impl Iterator<Item = bool>) -> Exit {
    let nodes: Vec<bool> = misconfigured.collect();
    let able = nodes.iter().filter(|misconfigured| !**misconfigured).count();
    if settings.is_embedded() {
        Exit::STORE
    } else if able * 2 <= nodes.len() {
        Exit::USAGE
    } else {
        Exit::UNAVAILABLE
    }
}
