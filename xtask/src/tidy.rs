//! The architecture, checked: what each crate may depend on, and what the documents must say.

mod commands;
mod messages;
mod spec;
mod width;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::{cargo, output};

/// Crates that a crate may never reach through its normal dependencies, and why.
const BANS: &[(&str, &[&str], &str)] = &[
    ("tenure-core", &["*"], "the core is pure: no dependency at all"),
    (
        "tenure",
        &[
            "axum",
            "hyper",
            "serde_json",
            "clap",
            "ratatui",
            "tenure-chaos",
            "tenure-interop",
            "tenure-testkit",
        ],
        "the library knows no HTTP, JSON or terminal, and nothing of its tests",
    ),
    (
        "tenure-sim",
        &[
            "tokio",
            "redis",
            "redis-protocol",
            "rusqlite",
            "tenure",
            "tenure-chaos",
            "tenure-interop",
            "tenure-testkit",
        ],
        "the simulated world has nothing of the real one",
    ),
    (
        "tenure-cli",
        &["tenure-chaos", "tenure-interop", "tenure-sim", "tenure-testkit", "redis", "reqwest", "figment"],
        "the tool asks nodes through the library alone",
    ),
    (
        "tenure-testkit",
        &["tenure-chaos", "tenure-interop", "tenure-sim"],
        "the kit knows nothing of what is tested with it",
    ),
    ("tenure-bench", &["tenure-chaos", "tenure-interop", "tenure-sim"], "nothing depends on a campaign"),
];

/// What prints, in Rust.
const PRINTING: &[&str] = &["print!(", "println!(", "io::stdout()", "io::stderr()"];

pub(crate) fn run() -> Result<()> {
    let problems: Vec<String> = [
        banned_dependencies()?,
        banned_names()?,
        forgotten_tests()?,
        spec::problems(&functions()?)?,
        guarantees_name_tests()?,
        printing()?,
        commands::problems(&rust_files()?)?,
        readme_and_changelog()?,
        messages::problems(&rust_files()?)?,
        width::problems()?,
    ]
    .concat();
    if problems.is_empty() {
        println!("    tidy: in order");
        return Ok(());
    }
    bail!("not in order:\n  {}", problems.join("\n  "))
}

fn banned_dependencies() -> Result<Vec<String>> {
    let mut problems = vec![];
    for (package, banned, why) in BANS {
        let tree = ["tree", "--package", package, "--all-features", "--edges", "normal", "--prefix", "none"];
        let tree = output(cargo(tree).args(["--format", "{p}"]))?;
        let reached = tree.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        for dependency in reached.collect::<BTreeSet<_>>() {
            if banned.contains(&"*") || banned.contains(&dependency) {
                problems.push(format!("{package} depends on {dependency}: {why}"));
            }
        }
    }
    Ok(problems)
}

/// File names that say nothing.
fn banned_names() -> Result<Vec<String>> {
    let banned = ["mod.rs", "utils.rs", "helpers.rs", "common.rs", "types.rs", "misc.rs"];
    let named =
        |file: &&PathBuf| file.file_name().is_some_and(|name| banned.iter().any(|banned| name == *banned));
    let files = rust_files()?;
    Ok(files
        .iter()
        .filter(named)
        .map(|file| format!("{}: a name that says nothing", file.display()))
        .collect())
}

/// Files of a test program that no `mod` names: cargo would not miss their tests.
fn forgotten_tests() -> Result<Vec<String>> {
    let files = rust_files()?;
    let mut problems = vec![];
    for main in files.iter().filter(|file| file.ends_with("main.rs") && parts(file).contains(&"tests")) {
        let program = main.parent().context("a file is in a folder")?;
        let parts_of_it: Vec<&PathBuf> = files.iter().filter(|file| file.starts_with(program)).collect();
        let text = parts_of_it.iter().map(std::fs::read_to_string).collect::<Result<String, _>>()?;
        for file in parts_of_it.into_iter().filter(|file| *file != main) {
            let module = file.file_stem().unwrap_or_default().to_string_lossy();
            if !text.contains(&format!("mod {module};")) {
                problems.push(format!("{}: no `mod` names it, so its tests do not run", file.display()));
            }
        }
    }
    Ok(problems)
}

fn parts(file: &Path) -> Vec<&str> {
    file.iter().filter_map(|part| part.to_str()).collect()
}

/// The command-line tool prints in `output` alone. Asking whether a stream is a terminal is not
/// printing.
fn printing() -> Result<Vec<String>> {
    let source = "crates/tenure-cli/src";
    let mut problems = vec![];
    for file in rust_files()?.iter().filter(|file| file.starts_with(source)) {
        let text = std::fs::read_to_string(file)?.replace("std::io::stdout().is_terminal()", "");
        let is_output = file.starts_with(format!("{source}/output")) || file.ends_with("src/output.rs");
        for printing in PRINTING.iter().filter(|printing| !is_output && text.contains(**printing)) {
            problems.push(format!("{}: {printing} outside output", file.display()));
        }
    }
    Ok(problems)
}

/// The pages that say which test shows a promise.
const PAGES_WITH_TESTS: [&str; 2] = ["docs/guarantees.md", "docs/explanation/known-failures.md"];

/// Every test that these pages name exists.
fn guarantees_name_tests() -> Result<Vec<String>> {
    let functions: BTreeSet<String> = functions()?.into_values().flatten().collect();
    let is_sentence = |word: &&str| {
        word.matches('_').count() > 2 && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut problems = vec![];
    for page in PAGES_WITH_TESTS {
        let text = std::fs::read_to_string(page).with_context(|| format!("{page} cannot be read"))?;
        let named = text.split('`').skip(1).step_by(2).filter(is_sentence);
        let missing = named.filter(|name| !functions.contains(*name));
        problems.extend(missing.map(|name| format!("{page} names {name}, which does not exist")));
    }
    Ok(problems)
}

/// The functions of every file.
pub(crate) fn functions() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut functions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in rust_files()? {
        let text = std::fs::read_to_string(&file)?;
        let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
        functions.entry(file.display().to_string()).or_default().extend(names.map(str::to_owned));
    }
    Ok(functions)
}

fn readme_and_changelog() -> Result<Vec<String>> {
    let mut problems = vec![];
    for (file, must_say) in [
        ("README.md", "cargo xtask test"),
        ("CHANGELOG.md", "## "),
        ("ARCHITECTURE.md", "crates/"),
        (".ci/run", "cargo xtask test"),
    ] {
        let text = std::fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?;
        if !text.contains(must_say) {
            problems.push(format!("{file} does not mention {must_say:?}"));
        }
    }
    Ok(problems)
}

fn rust_files() -> Result<Vec<PathBuf>> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                walk(&path, files)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
        Ok(())
    }
    let mut files = vec![];
    for folder in ["bench", "crates", "xtask"] {
        walk(Path::new(folder), &mut files)?;
    }
    files.sort();
    Ok(files)
}
