//! What the tests need beyond Rust, installed if it is missing.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{cargo, output, run};

/// The version that was tried; the licences and bans it checks do not change with the day.
const CARGO_DENY: &str = "cargo-deny@0.20.2";

pub(crate) fn install() -> Result<()> {
    redis_server()?;
    cargo_deny()
}

/// The tests start real servers, of the kind people run.
fn redis_server() -> Result<()> {
    if on_path("redis-server") {
        return Ok(());
    }
    if !on_path("apt-get") {
        bail!("the tests need redis-server 7.0 or newer: install it with this system's package manager");
    }
    if !is_root()? {
        bail!(
            "the tests need redis-server, and installing it needs root. Run this and try again:\n\n    sudo apt-get install redis-server\n"
        );
    }
    println!("redis-server is missing and will be installed");
    let _quiet = NoServices::begin()?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        run(&mut command)
    };
    apt(&["update", "-qq"])?;
    apt(&["install", "-y", "-qq", "--no-install-recommends", "redis-server"])
}

fn cargo_deny() -> Result<()> {
    if output(&mut cargo(["deny", "--version"])).is_ok() {
        return Ok(());
    }
    println!("cargo-deny is missing and will be built; that takes some minutes, once");
    run(&mut cargo(["install", "--quiet", "--locked", CARGO_DENY]))
}

fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// While it lives, packages do not start their services: the tests start the servers they need, and nothing
/// may be left running.
struct NoServices {
    policy: Option<&'static Path>,
}

impl NoServices {
    fn begin() -> Result<Self> {
        let policy = Path::new("/usr/sbin/policy-rc.d");
        if policy.exists() {
            return Ok(Self { policy: None });
        }
        std::fs::write(policy, "#!/bin/sh\nexit 101\n").context("services cannot be kept from starting")?;
        output(Command::new("chmod").arg("755").arg(policy))?;
        Ok(Self { policy: Some(policy) })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(policy) = self.policy {
            let _ = std::fs::remove_file(policy);
        }
    }
}
