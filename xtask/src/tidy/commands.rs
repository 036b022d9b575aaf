//! The commands of the tool stand side by side: `main` calls them, and nothing else knows any of
//! them. What two of them need, or a command and `output`, lies beside `commands/`.

use std::path::{Path, PathBuf};

use anyhow::Result;

const SOURCE: &str = "crates/tenure-cli/src";

pub(super) fn problems(files: &[PathBuf]) -> Result<Vec<String>> {
    let ours = files.iter().filter(|file| file.starts_with(SOURCE));
    let texts = ours.map(|file| Ok((file.strip_prefix(SOURCE)?.to_owned(), std::fs::read_to_string(file)?)));
    let texts = texts.collect::<Result<Vec<_>>>()?;
    let commands: Vec<&str> = texts.iter().filter_map(|(file, _)| command(file)).collect();
    Ok(texts.iter().flat_map(|(file, text)| intrusions(file, text, &commands)).collect())
}

/// The commands that a file names and should know nothing of.
fn intrusions(file: &Path, text: &str, commands: &[&str]) -> Vec<String> {
    if ["main.rs", "commands.rs"].iter().any(|root| file == Path::new(root)) {
        return vec![];
    }
    let own = command(file);
    let named = |way: &'static str| text.split(way).skip(1).map(move |rest| (way, first_word(rest)));
    let by_path = named("commands::").filter(|(_, name)| own != Some(name));
    // From a command's own file, its siblings are one step up.
    let is_sibling = |(_, name): &(_, &str)| own != Some(name) && commands.contains(name);
    let by_step = named("use super::").filter(|_| is_top(file)).filter(is_sibling);
    let all = by_path.chain(by_step);
    all.map(|(way, name)| format!("{SOURCE}/{}: {way}{name}: only main may know a command", file.display()))
        .collect()
}

/// The command that a file belongs to.
fn command(file: &Path) -> Option<&str> {
    let inside = file.strip_prefix("commands").ok()?;
    Path::new(inside.iter().next()?).file_stem()?.to_str()
}

fn is_top(file: &Path) -> bool {
    file.parent() == Some(Path::new("commands"))
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(file: &str, text: &str) -> usize {
        intrusions(Path::new(file), text, &["acquire", "run"]).len()
    }

    #[test]
    fn output_that_knows_a_command_is_found() {
        assert_eq!(count("output/json.rs", "use crate::commands::acquire::Lease;"), 1);
        assert_eq!(count("output/json.rs", "use crate::lease::Lease;"), 0);
        assert_eq!(count("main.rs", "commands::acquire::run(&args)"), 0);
    }

    #[test]
    fn a_command_that_knows_another_is_found_and_its_own_files_are_not() {
        assert_eq!(count("commands/run.rs", "use crate::commands::acquire::hold;"), 1);
        assert_eq!(count("commands/run.rs", "use crate::commands::{acquire, run};"), 1);
        assert_eq!(count("commands/run.rs", "use super::acquire::hold;"), 1);
        assert_eq!(count("commands/run/child.rs", "crate::commands::acquire::hold()"), 1);
        assert_eq!(count("commands/run/child.rs", "use super::environment::Environment;"), 0);
        assert_eq!(count("commands/run/keeper.rs", "use crate::commands::run::child::Child;"), 0);
    }
}
