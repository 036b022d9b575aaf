//! The project's own tools: `cargo xtask test`, `cargo xtask tidy`, `cargo xtask docs`, `cargo
//! xtask bench`, `cargo xtask simulate`, `cargo xtask model`, `cargo xtask chaos`, `cargo xtask
//! service`, `cargo xtask interop`, `cargo xtask dist`, `cargo xtask release`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool talks to whoever runs it")]

mod bench;
mod chaos;
mod command;
mod dist;
mod docs;
mod interop;
mod model;
mod prerequisites;
mod release;
mod service;
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
  test   everything a change has to pass: set-up, format, lints, tests, docs, architecture. What is missing here is skipped
         and named, as are long tests; with `--all`, or with CI=true, it is installed, and nothing is skipped
  tidy   the architecture alone: what each crate may depend on, and what the documents must say
  docs   the pages alone: links, spelling, console blocks, and the book in target/book (`--all` installs what is missing);
         `--record` and `--picture` make docs/tenure.svg and docs/explanation/guard.svg from real runs
  bench  a benchmark on real servers: `cargo xtask bench uncontended|fenced [--seconds S] [--rounds N] [--json]`
         (runs `cargo run --release -p tenure-bench -- uncontended ...`); `bench --help` has all of them, among them
         `peers`, which installs other lock libraries and measures Tenure beside them
  simulate  histories in the simulator: `cargo xtask simulate [--seeds N] [--first SEED]`, or one again:
         `cargo xtask simulate replay SEED SCENARIO [MUTANT]`, or `story SEED SCENARIO`, or all `mutants`
         (see docs/explanation/simulator.md)
  model  every state of small worlds, and the fault matrix: `cargo xtask model [--stories] [--small] [PART OF A ROW]`
         (see docs/explanation/simulator.md)
  chaos  real servers and client processes while everything goes wrong: `cargo xtask chaos [--seed S] [--minutes M]
         [--unguarded] [--rolling] [--picture FILE.svg]`, and more with `--help` (see docs/explanation/chaos.md)
  service  instances of the lock service behind proxies, with clients in several languages, while they are killed,
         paused and cut off: `cargo xtask service [--runs N] [--seed S] [PART OF A NAME]` (see docs/explanation/overload.md)
  interop  Redsync, Redisson, redlock-rb, redlock-php and Yii2 on the same nodes as Tenure: `cargo xtask interop
         [--peer NAME] [--case PART] [--quick] [--require all] [--json]` (see docs/reference/interop.md)
  dist   packages: static binaries, tarballs, Debian packages and OCI archives: `cargo xtask dist [--target TARGET]
         [--check-reproducible] [--no-trial]` (see packaging/README.md)
  release  everything that must be true before a version is published: `cargo xtask release --dry-run`
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
        ["test", arguments @ ..] => test::run(arguments),
        ["tidy"] => tidy::run(),
        ["docs", arguments @ ..] => docs::run(arguments),
        ["bench", arguments @ ..] => bench::run(arguments),
        ["chaos", arguments @ ..] => chaos::run(arguments),
        ["dist", arguments @ ..] => dist::run(arguments),
        ["interop", arguments @ ..] => interop::run(arguments),
        ["model", arguments @ ..] => model::run(arguments),
        ["release", arguments @ ..] => release::run(arguments),
        ["service", arguments @ ..] => service::run(arguments),
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
