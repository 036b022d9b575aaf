//! The campaigns against the lock service; `crates/tenure-cli/tests/service` has them.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{cargo, run as run_command};
use crate::prerequisites;

const HELP: &str = "\
Campaigns against the lock service: real instances, servers, proxies and clients, while they break.

Usage: cargo xtask service [--runs N] [--seed S] [PART OF A NAME]

  --runs N   how often each campaign runs, with one seed after the other [default: 1]
  --seed S   the first seed [default: 1]
";

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (mut runs, mut seed, mut filter) = ("1", "1", None);
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        match argument {
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            "--runs" => runs = number(rest.next())?,
            "--seed" => seed = number(rest.next())?,
            option if option.starts_with('-') => bail!("{option:?} is no option\n\n{HELP}"),
            name => filter = Some(name),
        }
    }
    prerequisites::install_for_service();
    let (program, folder) = build()?;
    let figures = std::env::temp_dir().join(format!("tenure-figures-{}", std::process::id()));
    let mut command = Command::new(program);
    command.current_dir(folder).args(["--test-threads=1", "--nocapture"]).args(filter);
    command.env("TENURE_CAMPAIGNS", runs).env("TENURE_SEED", seed).env("TENURE_FIGURES", &figures);
    let outcome = run_command(&mut command);
    let table = fs::read_to_string(&figures).unwrap_or_default();
    let _ = fs::remove_file(&figures);
    println!("\n{:<24} {:>5}  figures", "campaign", "seed");
    for row in table.lines() {
        let mut cells = row.split('\t');
        let mut cell = || cells.next().unwrap_or_default();
        println!("{:<24} {:>5}  {}", cell(), cell(), cell());
    }
    outcome
}

fn number<'a>(text: Option<&&'a str>) -> Result<&'a str> {
    let text = text.copied().filter(|text| text.parse::<u32>().is_ok_and(|number| number > 0));
    text.context("--runs and --seed want a number from 1 on")
}

/// The test program, and the folder that it expects to be in. Optimized, since it also measures.
fn build() -> Result<(String, String)> {
    let mut command =
        cargo(["test", "--package", "tenure-cli", "--test", "service", "--no-run", "--release"]);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output().context("cargo could not be started")?;
    let messages = String::from_utf8(output.stdout)?;
    let of_test =
        |message: &Value| message["target"]["name"] == "service" && message["profile"]["test"] == true;
    let built = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).find(of_test);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let built = built.filter(|_| output.status.success()).context("the campaigns could not be built")?;
    let program = text(&built["executable"]).context("cargo names no program")?;
    let manifest = text(&built["manifest_path"]).context("cargo names no package")?;
    Ok((program, manifest.trim_end_matches("Cargo.toml").to_owned()))
}
