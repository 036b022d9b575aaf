//! Campaigns of the simulator; `crates/tenure-sim` has it.

use anyhow::{Context, Result, bail};

use crate::command::cargo;

const SEEDS: &str = "10000";

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let words = match arguments {
        ["replay" | "find" | "story", ..] => arguments.to_vec(),
        _ => campaign(arguments)?.to_vec(),
    };
    let mut command =
        cargo(["run", "--release", "--quiet", "--package", "tenure-sim", "--example", "simulate", "--"]);
    let status = command.args(words).status().context("cargo could not be started")?;
    if !status.success() {
        bail!("the simulation failed ({status})");
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
