//! Benchmarks on real servers; `bench/` has them.

use anyhow::{Context, Result, bail, ensure};

use crate::command::cargo;
use crate::prerequisites;

/// The benchmarks by name.
const BENCHMARKS: &[&str] = &[
    "uncontended",
    "fenced",
    "runtimes",
    "contended",
    "cohort",
    "sharing",
    "outsider",
    "line",
    "looking",
    "held",
    "peers",
    "start",
    "distance",
    "service",
    "capacity",
];

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    match arguments.first() {
        Some(name) if !name.starts_with('-') && !BENCHMARKS.contains(name) => {
            bail!("there is no benchmark {name:?}; there is {}", BENCHMARKS.join(", "))
        }
        _ => {}
    }
    if matches!(arguments.first(), Some(&"start" | &"capacity" | &"service")) {
        // What they measure, or ask, is a program of its own.
        let built = cargo(["build", "--release", "--quiet", "--package", "tenure-cli"]).status();
        ensure!(built.context("cargo could not be started")?.success(), "the tool could not be built");
    }
    if matches!(arguments.first(), Some(&"peers" | &"service"))
        && !arguments.iter().any(|word| ["--help", "-h", "--list"].contains(word))
    {
        prerequisites::install_for_peers();
    }
    let mut command = cargo(["run", "--release", "--quiet", "--package", "tenure-bench", "--"]);
    // Nothing is printed here: with `--json` the output belongs to the benchmark alone.
    let status = command.args(arguments).status().context("cargo could not be started")?;
    if !status.success() {
        bail!("the benchmark failed ({status})");
    }
    Ok(())
}
