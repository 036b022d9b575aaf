//! The project's own tools: `cargo xtask test`, `cargo xtask tidy`, `cargo xtask bench`, `cargo xtask simulate`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool talks to whoever runs it")]

mod bench;
mod command;
mod prerequisites;
mod simulate;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
The project's own tools.

Usage: cargo xtask <COMMAND>

Commands:
  test   everything a change has to pass: set-up, format, lints, tests, docs, architecture
  tidy   the architecture alone: what each crate may depend on, and what the documents must say
  bench  a benchmark on real servers: `cargo xtask bench uncontended|fenced [--seconds S] [--rounds N] [--json]`
         (runs `cargo run --release -p tenure-bench -- uncontended ...`)
  simulate  histories in the simulator: `cargo xtask simulate [--seeds N] [--first SEED]`, or one again:
         `cargo xtask simulate replay SEED SCENARIO [MUTANT]`, or `story SEED SCENARIO` (see docs/simulator.md)
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    std::env::set_current_dir(project_root())?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["test"] => test::run(),
        ["tidy"] => tidy::run(),
        ["bench", arguments @ ..] => bench::run(arguments),
        ["simulate", arguments @ ..] => simulate::run(arguments),
        ["help" | "--help" | "-h"] | [] => {
            print!("{HELP}");
            Ok(())
        }
        unknown => bail!("unknown command {unknown:?}\n\n{HELP}"),
    }
}

fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}
