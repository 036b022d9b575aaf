//! Spelling, by `typos`: pages, messages and comments alike. `_typos.toml` has what is right though
//! it looks wrong.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::prerequisites;
use crate::test::Report;

pub(super) fn problems(report: &mut Report) -> Result<Vec<String>> {
    let Some(typos) = prerequisites::program("typos") else {
        report.skip("spelling (typos is not installed: `cargo xtask docs --all`)");
        return Ok(vec![]);
    };
    let output =
        Command::new(typos).args(["--format", "brief"]).output().context("typos could not be started")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let problems: Vec<String> = said.lines().map(|line| line.trim_start_matches("./").to_owned()).collect();
    if problems.is_empty() && !output.status.success() {
        bail!("typos failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(problems)
}
