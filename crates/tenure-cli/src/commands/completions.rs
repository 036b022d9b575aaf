//! `tenure completions`: a script for the shell.

use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(args: &CompletionsArgs, output: &Output) -> Result<Exit, Failure> {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut Args::command(), "tenure", &mut script);
    output.raw(&script)?;
    Ok(Exit::DONE)
}
