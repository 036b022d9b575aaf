//! `tenure config`: what is in force and where it comes from.

use tenure_server::Door;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    settings.check()?;
    settings.for_run(None, None)?;
    Door::check(&settings.serve).map_err(|error| Failure::usage(error.to_string()))?;
    output.config(settings)?;
    Ok(Exit::DONE)
}
