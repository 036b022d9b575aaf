//! Campaigns of the simulator; `crates/tenure-sim` has it.

use anyhow::{Context, Result, bail};

use crate::command::cargo;

const SEEDS: &str = "10000";

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let words = match arguments {
        ["replay" | "find" | "mutants" | "story", ..] => arguments.to_vec(),
        _ => campaign(arguments)?.to_vec(),
    };
    example("simulate", &words)
}

/// Runs a program of `crates/tenure-sim`.
pub(crate) fn example(name: &str, arguments: &[&str]) -> Result<()> {
    let mut command =
        cargo(["run", "--release", "--quiet", "--package", "tenure-sim", "--example", name, "--"]);
    let status = command.args(arguments).status().context("cargo could not be started")?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}

fn campaign<'a>(arguments: &[&'a str]) -> Result<[&'a str; 2]> {
    let (mut seeds, mut first) = (SEEDS, "0");
    for option in arguments.chunks(2) {
        match *option {
            ["--seeds", number] => seeds = number,
            ["--first", number] => first = number,
            _ => bail!("{option:?} is no option; there are --seeds N and --first SEED"),
        }
    }
    for number in [seeds, first] {
        number.parse::<u64>().with_context(|| format!("{number:?} is no number of seeds"))?;
    }
    Ok([seeds, first])
}
