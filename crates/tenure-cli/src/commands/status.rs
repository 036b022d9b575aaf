//! `tenure status`: who holds a lock, and what each node says.

use crate::args::StatusArgs;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::looking::Looking;
use crate::output::Output;
use crate::report::State;
use crate::settings::Settings;

pub(crate) async fn run(args: &StatusArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let report = Looking::connect(settings, output)?.inspect(&args.name).await?;
    output.status(&report)?;
    Ok(match report.state {
        // What nobody could tell is not done.
        State::Unknown => {
            Exit::without_majority(settings, report.nodes.iter().map(|answer| answer.is_misconfigured))
        }
        State::Free => Exit::DONE,
        _ if args.exit_code => Exit::HELD,
        _ => Exit::DONE,
    })
}
