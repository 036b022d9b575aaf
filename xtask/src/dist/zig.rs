//! The compilers for other systems: Rust's own standard libraries from rustup, and Zig from the
//! Python registry for what is written in C (`SQLite`, ring, the allocator) and for linking.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::Target;
use crate::command::{cargo, output, target_folder};
use crate::prerequisites::on_path;

/// The versions that were tried: another compiler gives other bytes.
const TOOLS: &[&str] = &["ziglang==0.17.0", "cargo-zigbuild==0.24.0"];

/// Installs what is missing.
pub(super) fn install(targets: &[Target]) -> Result<()> {
    let folder = folder();
    let (list, wanted) = (folder.join("tools"), TOOLS.join("\n"));
    if !std::fs::read_to_string(&list).is_ok_and(|installed| installed == wanted) {
        println!("    {} are installed into {}, once", TOOLS.join(" and "), folder.display());
        output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        output(Command::new(folder.join("bin/pip")).args(["install", "--quiet"]).args(TOOLS))?;
        std::fs::write(list, wanted).context("what was installed cannot be kept")?;
    }
    // Without rustup the compiler is the distribution's, which says itself what it lacks.
    if on_path("rustup") {
        let names = targets.iter().map(|target| target.triple);
        output(Command::new("rustup").args(["target", "add"]).args(names))?;
    }
    Ok(())
}

/// `cargo zigbuild`: cargo, with Zig in the place of the C compiler and the linker.
pub(super) fn cargo_zigbuild() -> Result<Command> {
    let own = std::path::absolute(folder().join("bin"))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(own.clone()).chain(std::env::split_paths(&path)))?;
    let mut command = cargo(["zigbuild"]);
    command.env("PATH", path).env("CARGO_ZIGBUILD_PYTHON_PATH", own.join("python"));
    Ok(command)
}

fn folder() -> PathBuf {
    target_folder().join("xtask-dist-python")
}
