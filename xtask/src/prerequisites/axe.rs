//! axe-core, which judges how accessible the dashboard is: for the tests alone, and not committed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::install_missing;
use crate::command::{output, target_folder};

/// The version that was tried, and the digest of its package in the registry.
const PACKAGE: &str = "axe-core@4.14.0";
const SHA256: &str = "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af";

/// The script, where the tests find it.
pub(crate) fn script() -> Result<PathBuf> {
    Ok(std::path::absolute(target_folder())?.join("xtask-axe").join(&SHA256[..16]).join("axe.min.js"))
}

pub(super) fn install() -> Result<()> {
    let script = script()?;
    if script.exists() {
        return Ok(());
    }
    install_missing("npm", "npm")?;
    let folder = script.parent().context("a file is in a folder")?;
    println!("    {PACKAGE} will be fetched into {}", folder.display());
    std::fs::create_dir_all(folder)?;
    let pack = ["pack", "--silent", PACKAGE, "--pack-destination"];
    // It prints the name of the file that it wrote.
    let name = output(Command::new("npm").args(pack).arg(folder).current_dir(folder))?;
    let package = folder.join(name.trim());
    let digest = output(Command::new("sha256sum").arg(&package))?;
    ensure!(digest.starts_with(SHA256), "{PACKAGE} is not what it was: {digest}");
    let mut unpack = Command::new("tar");
    unpack.args(["--extract", "--strip-components=1", "--file"]).arg(&package).arg("--directory").arg(folder);
    output(unpack.args(["package/axe.min.js", "package/LICENSE"]))?;
    Ok(())
}
