//! Tenure and other lock libraries on the same nodes; `crates/tenure-interop` has the cases.
//!
//! Here are the peers' drivers built and their libraries installed, in a folder that git ignores:
//! from package registries, or, for Ruby and PHP, from the folder that `TENURE_PEERS` names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{cargo, output, target_folder};
use crate::prerequisites::{install_missing, install_package, on_path};

/// The cases and their drivers' sources.
const SOURCES: &str = "crates/tenure-interop/peers";

/// Versions that the cases expect, of what has no manifest: `crates/tenure-interop/src/peer.rs`.
const GEMS: &[&str] = &["redlock:2.0.6", "redis-client:0.30.0"];
const COMPOSER: &[&str] = &["ronnylt/redlock-php:1.0.1", "yiisoft/yii2:2.0.55", "yiisoft/yii2-redis:2.1.2"];

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    if !arguments.iter().any(|word| ["--help", "-h"].contains(word)) {
        // What cannot be had is named again in the table, as not run.
        for missing in missing()? {
            eprintln!("    {missing}");
        }
    }
    let package = ["--quiet", "--package", "tenure-interop"];
    // The clients are programs of their own, which `cargo run` alone would not build.
    let built = cargo(["build", "--bins"]).args(package).status().context("cargo could not be started")?;
    if !built.success() {
        bail!("the cases could not be built ({built})");
    }
    let mut command = cargo(["run", "--bin", "interop"]);
    let status =
        command.args(package).arg("--").args(arguments).status().context("cargo could not be started")?;
    if !status.success() {
        bail!("not every case passed, or a peer is missing that is required ({status})");
    }
    Ok(())
}

/// Installs all of them, or fails.
pub(crate) fn install() -> Result<()> {
    let missing = missing()?;
    if missing.is_empty() { Ok(()) } else { bail!("{}", missing.join("; ")) }
}

/// Installs one language's peers below this folder.
type Step = fn(&Path) -> Result<()>;

/// Installs what can be: the rest, one line each.
fn missing() -> Result<Vec<String>> {
    let folder = std::path::absolute(target_folder())?.join("interop");
    let steps: [(&str, Step); 4] = [
        ("redsync", install_go),
        ("redisson", install_java),
        ("redlock-rb", install_ruby),
        ("redlock-php and yii2", install_php),
    ];
    let mut missing = vec![];
    for (peers, step) in steps {
        if let Err(error) = step(&folder) {
            missing.push(format!("{peers} cannot be run: {error:#}"));
        }
    }
    Ok(missing)
}

fn install_go(folder: &Path) -> Result<()> {
    if !on_path("go") {
        bail!("go is missing: install Go 1.26");
    }
    let driver = folder.join("go/driver");
    let mut command = Command::new("go");
    output(command.current_dir(sources("go")?).args(["build", "-o"]).arg(driver))?;
    Ok(())
}

fn install_java(folder: &Path) -> Result<()> {
    install_missing("mvn", "maven")?;
    install_missing("javac", "default-jdk-headless")?;
    let (sources, folder) = (sources("java")?, folder.join("java"));
    let lib = folder.join("lib");
    once(&folder, &fs::read_to_string(sources.join("pom.xml"))?, || {
        let mut command = Command::new("mvn");
        command.args(["--batch-mode", "--quiet", "dependency:copy-dependencies"]);
        command.arg("-DincludeScope=runtime").arg(format!("-DoutputDirectory={}", lib.display()));
        output(command.current_dir(&sources)).map(|_| ())
    })?;
    let mut command = Command::new("javac");
    command.arg("-nowarn").arg("-cp").arg(lib.join("*")).arg("-d").arg(folder.join("classes"));
    output(command.arg(sources.join("Driver.java")))?;
    Ok(())
}

fn install_ruby(folder: &Path) -> Result<()> {
    if !works("ruby", &["-e", "require 'connection_pool'"]) {
        for package in ["ruby", "ruby-connection-pool"] {
            install_package("ruby with connection_pool", package)?;
        }
    }
    if has_peers() {
        return Ok(());
    }
    if !on_path("gem") {
        bail!("set TENURE_PEERS to a folder with redlock-rb-2.0.6 and redis-client-0.30.0, or install gem");
    }
    let gems = folder.join("gems");
    once(&gems, &GEMS.join("\n"), || {
        let mut command = Command::new("gem");
        command.args(["install", "--no-document", "--install-dir"]).arg(&gems).args(GEMS);
        output(&mut command).map(|_| ()).context("set TENURE_PEERS, or let gem reach its registry")
    })
}

fn install_php(folder: &Path) -> Result<()> {
    let loaded = "exit(extension_loaded('redis') && extension_loaded('mbstring') ? 0 : 1);";
    if !works("php", &["-r", loaded]) {
        for package in ["php-cli", "php-redis", "php-mbstring"] {
            install_package("php with redis and mbstring", package)?;
        }
    }
    if has_peers() {
        return Ok(());
    }
    if !on_path("composer") {
        bail!(
            "set TENURE_PEERS to a folder with redlock-php-1.0.1, yii2-2.0.55 and yii2-redis-2.1.2, or install composer"
        );
    }
    let php = folder.join("php");
    once(&php, &COMPOSER.join("\n"), || {
        let mut command = Command::new("composer");
        command.args(["require", "--no-interaction", "--quiet", "--ignore-platform-reqs", "--working-dir"]);
        output(command.arg(&php).args(COMPOSER))
            .map(|_| ())
            .context("set TENURE_PEERS, or let composer reach its registry")
    })
}

fn has_peers() -> bool {
    std::env::var_os("TENURE_PEERS").is_some_and(|path| !path.is_empty())
}

/// Does this unless it was done for the same versions.
fn once(folder: &Path, wanted: &str, install: impl FnOnce() -> Result<()>) -> Result<()> {
    fs::create_dir_all(folder)?;
    let done = folder.join("installed");
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    eprintln!("    {} is filled, once", folder.display());
    install()?;
    Ok(fs::write(done, wanted)?)
}

fn sources(language: &str) -> Result<PathBuf> {
    Ok(std::path::absolute(Path::new(SOURCES).join(language))?)
}

fn works(program: &str, arguments: &[&str]) -> bool {
    output(Command::new(program).args(arguments)).is_ok()
}
