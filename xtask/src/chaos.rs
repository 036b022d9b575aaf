//! The chaos campaign; `crates/tenure-chaos` has it.

use anyhow::{Context, Result, bail};

use crate::command::cargo;

const PACKAGE: [&str; 4] = ["--release", "--quiet", "--package", "tenure-chaos"];

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    // The clients are a program of their own, which `cargo run` alone would not build.
    let built = cargo(["build", "--bins"]).args(PACKAGE).status().context("cargo could not be started")?;
    if !built.success() {
        bail!("the campaign could not be built ({built})");
    }
    let mut command = cargo(["run", "--bin", "chaos"]);
    let status =
        command.args(PACKAGE).arg("--").args(arguments).status().context("cargo could not be started")?;
    if !status.success() {
        bail!("the campaign failed ({status})");
    }
    Ok(())
}
