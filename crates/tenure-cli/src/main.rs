//! The command `tenure`: locks for scripts and people.
//!
//! What was typed is in `args`, what it means in `settings`; each command has a file in `commands`;
//! everything that is said is said in `output`, and `exit_code` has the numbers that scripts rely
//! on. `docs/reference/cli.md` is the contract.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(not(target_os = "linux"))]
compile_error!("the tool needs Linux: it relies on its signals and clocks to end a command in time");

mod advice;
mod args;
mod backend;
mod ballot;
mod capacity;
mod commands;
mod demo;
mod exit_code;
mod failure;
mod hold;
mod lease;
mod looking;
mod machine_clock;
mod output;
mod report;
mod service;
mod settings;
mod sight;
mod signals;
#[cfg(feature = "top")]
mod top;
mod work;

use std::process::ExitCode;

use mimalloc::MiMalloc;

use crate::args::{Args, Command};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::Settings;

/// A service that allocates for every call spends a fifth less CPU with it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(Output::panic));
    // Whoever holds a lock lets go of it while the panic unwinds; what is said then is one line, as
    // ever.
    let exit = std::panic::catch_unwind(start).unwrap_or_else(|_| {
        Output::as_typed().refuse_eval(Exit::INTERNAL);
        Exit::INTERNAL
    });
    if exit.is_interrupted() && work::is_at_keyboard() {
        signals::die_of_the_key();
    }
    exit.into()
}

fn start() -> Exit {
    if let Some(exit) = work::in_a_process_of_its_own(std::env::args_os()) {
        return exit;
    }
    if let Some(exit) = demo::in_a_process_of_its_own(std::env::args_os()) {
        return exit;
    }
    let args = match Args::read() {
        Ok(args) => args,
        Err(error) => return Output::as_typed().parse_error(&error),
    };
    let output = Output::new(&args);
    match run(args, &output) {
        Ok(exit) => exit,
        Err(failure) => output.failure(&failure),
    }
}

fn run(args: Args, output: &Output) -> Result<Exit, Failure> {
    if let Some(flag) = args.ignored() {
        let command = args.command.word();
        return Err(Failure::usage(format!("--{flag} does not apply to `tenure {command}`; remove it")));
    }
    let Args { common, command } = args;
    match command {
        Command::Completions(args) => commands::completions::run(&args, output),
        Command::Man(args) => commands::man::run(&args, output),
        Command::Demo(args) => commands::demo::run(&args, output),
        Command::Plan(args) => commands::plan::run(&args, &common, output),
        Command::Token(command) => commands::token::run(&command, &common, output),
        command => {
            let settings = Settings::resolve(&common, command.may_use_service())?;
            output.warn_all(&settings.warnings);
            let mut runtime = match command {
                Command::Serve(_) => commands::serve::runtime(),
                _ => tokio::runtime::Builder::new_current_thread(),
            };
            let runtime = runtime.enable_all().build();
            let runtime = runtime.map_err(|error| Failure::internal(format!("cannot start: {error}")))?;
            runtime.block_on(dispatch(command, &settings, output))
        }
    }
}

async fn dispatch(command: Command, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    match command {
        Command::Run(args) => commands::run::run(&args, settings, output).await,
        Command::Lead(args) => commands::lead::run(&args, settings, output).await,
        Command::Acquire(args) => commands::acquire::run(&args, settings, output).await,
        Command::Extend(args) => commands::extend::run(&args, settings, output).await,
        Command::Release(args) => commands::release::run(&args, settings, output).await,
        Command::Status(args) => commands::status::run(&args, settings, output).await,
        Command::Ls => commands::ls::run(settings, output).await,
        #[cfg(feature = "top")]
        Command::Top(args) => commands::top::run(&args, settings, output).await,
        Command::Watch(args) => commands::watch::run(&args, settings, output).await,
        Command::Doctor => commands::doctor::run(settings, output).await,
        Command::Fleet(command) => commands::fleet::run(&command, settings, output).await,
        Command::Serve(args) => commands::serve::run(&args, settings, output).await,
        Command::Bench(args) => commands::bench::run(&args, settings, output).await,
        Command::Config
        | Command::Completions(_)
        | Command::Demo(_)
        | Command::Man(_)
        | Command::Plan(_)
        | Command::Token(_) => commands::config::run(settings, output),
    }
}
