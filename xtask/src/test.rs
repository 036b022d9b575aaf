//! Everything a change has to pass.
//!
//! `cargo xtask test` runs what can run here in some ten minutes, and names what was skipped. With
//! `--all`, or where `CI` is set, whatever is missing is installed, long tests run, too, and a
//! skipped test is a failure. Whole searches are commands of their own: `cargo xtask model`.

mod programs;
mod report;

use anyhow::{Result, bail};

pub(crate) use self::report::Report;
use crate::command::{self, cargo};
use crate::{docs, prerequisites, tidy};

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let all = match arguments {
        [] => std::env::var_os("CI")
            .is_some_and(|value| !["", "0", "false"].contains(&value.to_string_lossy().as_ref())),
        ["--all"] => true,
        other => bail!("{other:?} is no option; there is --all"),
    };
    let mut report = Report::begin(10);
    let outcome = steps(&mut report, all);
    report.end(outcome.is_ok());
    outcome
}

fn steps(report: &mut Report, all: bool) -> Result<()> {
    report.step("what the tests need", |report| prerequisites::install(report, all))?;
    report.step("format", |_| command::run(&mut cargo(["fmt", "--all", "--check"])))?;
    report.step("architecture and documents", |_| tidy::run())?;
    report.step("book, links, spelling", docs::check)?;
    report.step("lints", |_| lints(all))?;
    report.step("documentation", |_| {
        let mut docs = cargo(["doc", "--workspace", "--all-features", "--no-deps"]);
        command::run(docs.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    report.step("licences and sources of dependencies", prerequisites::deny)?;
    let mut programs = vec![];
    report.step("build the tests", |_| {
        programs = programs::build()?;
        Ok(())
    })?;
    report.step("tests", |report| programs::run(report, &programs, all))?;
    report.step("examples in the documentation", |_| {
        let mut tests = cargo(["test", "--workspace", "--all-features", "--doc", "--quiet"]);
        command::run(tests.env("PATH", prerequisites::path()?))
    })?;
    Ok(())
}

fn lints(all: bool) -> Result<()> {
    let lint = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    command::run(&mut cargo(lint))?;
    // Without features, too: what only compiles with all of them is broken for most users.
    let some = ["", "redis", "blocking,config", "metrics", "serde", "blocking,metrics,serde"];
    for features in &some[..if all { some.len() } else { 1 }] {
        let mut lint =
            cargo(["clippy", "--package", "tenure", "--no-default-features", "--features", features]);
        command::run(lint.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}
