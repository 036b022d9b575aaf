//! Everything that must be true before a version is published, checked.
//!
//! Nothing leaves the machine: at the end there is a tag at most, and the commands that a person
//! runs. With `--dry-run` there is not even a tag, and what a real release would refuse is only
//! named.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::command::{cargo, output, run as run_command};
use crate::dist;

const HELP: &str = "\
Everything that must be true before a version is published. Nothing is pushed or published.

Usage: cargo xtask release [--dry-run]

  --dry-run   change nothing, and only name what would stop a release
";

/// What is published, in the order in which one needs the other.
const PUBLISHED: [&str; 4] = ["tenure-core", "tenure", "tenure-server", "tenure-cli"];

/// What every published crate says about itself.
const SAID: [&str; 7] =
    ["description", "license", "repository", "readme", "rust_version", "keywords", "categories"];

/// Where the library has to build, though it is not tested there.
const PLATFORMS: [&str; 2] = ["aarch64-apple-darwin", "x86_64-pc-windows-gnu"];

/// What every published crate has in it.
const PACKED: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let dry = match arguments {
        [] => false,
        ["--dry-run"] => true,
        ["--help" | "-h"] => {
            print!("{HELP}");
            return Ok(());
        }
        other => bail!("unknown options {other:?}\n\n{HELP}"),
    };
    let version = dist::version()?;
    let packages = packages()?;
    let mut problems =
        [described(&packages, &version), packed()?, requirements(&packages, &version)].concat();
    let stops = [unclean()?, tagged(&version)?, unheaded(&version)?].concat();
    if !dry {
        problems.extend(stops.iter().cloned());
    }
    ensure!(problems.is_empty(), "not ready:\n  {}", problems.join("\n  "));
    println!("    {} crates say what they are and have their licences", PUBLISHED.len());
    publishes(dry)?;
    documents()?;
    platforms()?;
    if dry {
        println!("\n{version} can be packaged.");
        for stop in &stops {
            println!("    before the release: {stop}");
        }
    } else {
        let message = format!("Tenure {version}");
        run_command(Command::new("git").args(["tag", "--annotate", "--message", &message, &tag(&version)]))?;
    }
    next_steps(&version);
    Ok(())
}

fn tag(version: &str) -> String {
    format!("v{version}")
}

/// What is left to do for a person.
fn next_steps(version: &str) {
    let tag = tag(version);
    println!("\nThe tests that a release needs, if they have not passed for this commit:");
    println!("    cargo xtask test --all");
    println!("    cargo xtask model");
    println!("    cargo xtask chaos --minutes 30");
    println!("    cargo xtask dist --check-reproducible");
    println!("Then:");
    println!("    git push origin {tag}");
    println!("    cargo publish --locked {}", PUBLISHED.map(|name| format!("--package {name}")).join(" "));
    println!("    upload target/packages/* to the release {tag}");
}

fn packages() -> Result<Vec<Value>> {
    let text = output(&mut cargo(["metadata", "--no-deps", "--locked", "--format-version=1"]))?;
    let mut metadata: Value = serde_json::from_str(&text)?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => bail!("cargo names no packages"),
    }
}

/// Exactly these are published, all with one version, and each says what it is.
fn described(packages: &[Value], version: &str) -> Vec<String> {
    let mut problems = vec![];
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let published = package["publish"].is_null();
        if published != PUBLISHED.contains(&name) {
            let wrong =
                if published { "would be published: say publish = false" } else { "is not published" };
            problems.push(format!("{name} {wrong}"));
        }
        if !published {
            continue;
        }
        if package["version"] != version {
            problems.push(format!("{name} has version {}, not {version}", package["version"]));
        }
        let says = |field: &str| match &package[field] {
            Value::Null => false,
            Value::Array(list) => !list.is_empty(),
            _ => true,
        };
        let missing = SAID.iter().filter(|field| !says(field));
        problems.extend(missing.map(|field| format!("{name} does not say its {field}")));
    }
    problems
}

/// A crate that asks for another version of one of ours would get the one that is published.
fn requirements(packages: &[Value], version: &str) -> Vec<String> {
    let mut problems = vec![];
    for package in packages.iter().filter(|package| package["publish"].is_null()) {
        let needs = package["dependencies"].as_array().into_iter().flatten();
        for need in needs.filter(|need| need["kind"] != "dev" && !need["path"].is_null()) {
            if need["req"] != format!("^{version}") {
                problems.push(format!(
                    "{} needs {} {}, not {version}",
                    package["name"], need["name"], need["req"]
                ));
            }
        }
    }
    problems
}

/// Each package has its licences, and they are texts, not links that lead nowhere.
fn packed() -> Result<Vec<String>> {
    let mut problems = vec![];
    for name in PUBLISHED {
        let list = output(
            cargo(["package", "--list", "--allow-dirty", "--package", name])
                .stdin(std::process::Stdio::null()),
        )?;
        let list: BTreeSet<&str> = list.lines().collect();
        let missing = PACKED.iter().filter(|file| !list.contains(**file));
        problems.extend(missing.map(|file| format!("{name} is packaged without {file}")));
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            if fs::read(licence)? != fs::read(format!("crates/{name}/{licence}")).unwrap_or_default() {
                problems.push(format!("crates/{name}/{licence} is not the {licence} of the project"));
            }
        }
    }
    Ok(problems)
}

/// Packages all of them, and builds each from its package.
fn publishes(dry: bool) -> Result<()> {
    let mut command = cargo(["publish", "--dry-run", "--locked"]);
    if dry {
        command.arg("--allow-dirty");
    }
    run_command(command.args(PUBLISHED.iter().flat_map(|name| ["--package", name])))
}

/// The documentation as docs.rs builds it.
fn documents() -> Result<()> {
    for name in PUBLISHED.iter().filter(|name| **name != "tenure-cli") {
        let mut command = cargo(["doc", "--locked", "--no-deps", "--all-features", "--package", name]);
        // What docs.rs sets; it has a nightly compiler.
        run_command(command.env("RUSTDOCFLAGS", "--cfg docsrs -D warnings").env("RUSTC_BOOTSTRAP", "1"))?;
    }
    Ok(())
}

/// The library on other systems, where their standard libraries are installed. Without the parts
/// that need a C compiler for that system; the workflow builds those on real machines.
fn platforms() -> Result<()> {
    let installed =
        output(Command::new("rustup").args(["target", "list", "--installed"])).unwrap_or_default();
    for target in PLATFORMS {
        if !installed.lines().any(|line| line == target) {
            println!("    not checked: {target} (rustup target add {target})");
            continue;
        }
        let mut command = cargo(["check", "--locked", "--package", "tenure", "--no-default-features"]);
        run_command(command.args(["--features", "redis,blocking,config,metrics,serde", "--target", target]))?;
    }
    Ok(())
}

fn unclean() -> Result<Vec<String>> {
    let changed = output(Command::new("git").args(["status", "--porcelain"]))?;
    let problem = || "commit or stash what has changed (git status)".to_owned();
    Ok((!changed.is_empty()).then(problem).into_iter().collect())
}

fn tagged(version: &str) -> Result<Vec<String>> {
    let tag = tag(version);
    let found = output(Command::new("git").args(["tag", "--list", &tag]))?;
    let problem = || format!("the tag {tag} exists: raise the version in Cargo.toml");
    Ok((!found.trim().is_empty()).then(problem).into_iter().collect())
}

/// The newest heading of the changelog is this version, with a day.
fn unheaded(version: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string("CHANGELOG.md").context("CHANGELOG.md cannot be read")?;
    Ok(heading_problem(&text, version).into_iter().collect())
}

fn heading_problem(changelog: &str, version: &str) -> Option<String> {
    let heading = changelog.lines().find_map(|line| line.strip_prefix("## ")).unwrap_or_default();
    let day = heading.strip_prefix(version).and_then(|rest| rest.strip_prefix(" - "));
    let is_day = |day: &str| {
        let parts: Vec<&str> = day.split('-').collect();
        parts.iter().map(|part| part.len()).eq([4, 2, 2])
            && parts.iter().all(|part| part.parse::<u16>().is_ok())
    };
    let problem = || format!("CHANGELOG.md begins with {heading:?}; it has to be \"{version} - YYYY-MM-DD\"");
    (!day.is_some_and(is_day)).then(problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_changelog_begins_with_the_version_and_a_day() {
        let problem = |text: &str| heading_problem(text, "0.2.0").is_some();
        assert!(!problem("# Changelog\n\n## 0.2.0 - 2026-11-17\n\n## 0.1.0 - 2026-10-01\n"));
        for wrong in ["## Unreleased", "## 0.2.0", "## 0.2.0 - soon", "## 0.1.0 - 2026-10-01", ""] {
            assert!(problem(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_crate_that_says_nothing_or_slips_in_is_named() {
        let silent = json!({ "name": "tenure", "version": "0.1.0", "publish": null, "keywords": [] });
        let problems = described(&[silent], "0.2.0").join("\n");
        assert!(problems.contains("not 0.2.0") && problems.contains("its keywords"), "{problems}");
        let stray = json!({ "name": "tenure-sim", "version": "0.2.0", "publish": null });
        assert!(described(&[stray], "0.2.0")[0].contains("would be published"));
        let kept = json!({ "name": "tenure-sim", "version": "0.2.0", "publish": [] });
        assert_eq!(described(&[kept], "0.2.0"), [""; 0]);
    }

    #[test]
    fn crates_of_one_version_need_each_other_in_that_version() {
        let need = json!({ "name": "tenure-core", "kind": null, "path": "/x", "req": "^0.1.0" });
        let package = json!({ "name": "tenure", "publish": null, "dependencies": [need] });
        assert_eq!(requirements(std::slice::from_ref(&package), "0.1.0"), [""; 0]);
        assert_eq!(requirements(&[package], "0.2.0").len(), 1);
    }
}
