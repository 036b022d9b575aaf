//! Everything a change has to pass.

use std::time::Instant;

use anyhow::Result;

use crate::command::{self, cargo};
use crate::{prerequisites, tidy};

pub(crate) fn run() -> Result<()> {
    let start = Instant::now();
    prerequisites::install()?;
    command::run(&mut cargo(["fmt", "--all", "--check"]))?;
    command::run(&mut cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ]))?;
    tidy::run()?;
    command::run(&mut cargo(["test", "--workspace", "--all-features"]))?;
    // Without features, too: what only compiles with all of them is broken for most users.
    for features in ["", "redis", "blocking,config"] {
        let lint = [
            "clippy",
            "-p",
            "tenure",
            "--no-default-features",
            "--features",
            features,
            "--",
            "-D",
            "warnings",
        ];
        command::run(&mut cargo(lint))?;
    }
    let mut docs = cargo(["doc", "--workspace", "--all-features", "--no-deps"]);
    command::run(docs.env("RUSTDOCFLAGS", "-D warnings"))?;
    command::run(&mut cargo(["deny", "check", "bans", "licenses", "sources"]))?;
    println!("\nall passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
