//! Every console block is run by a test, or says that it is a sketch.
//!
//! `CONTRIBUTING.md` has the rules. The test that runs a page is in [`RUNNER`] and names the page;
//! another test is named by a remark before the block, and has to name the page as well. What
//! `cargo test` runs are tests: those that a page shows have to be there.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use super::page::{Block, Page};
use crate::tidy;

/// The tests that run whole pages.
const RUNNER: &str = "crates/tenure-cli/tests/cli/pages.rs";

/// A remark that names another test: `<!-- run by crates/x/tests/y.rs -->`.
const RUN_BY: &str = "run by ";

pub(super) fn problems(pages: &[Page]) -> Result<Vec<String>> {
    let runner = std::fs::read_to_string(RUNNER).with_context(|| format!("{RUNNER} cannot be read"))?;
    let tests: BTreeSet<String> = tidy::functions()?.into_values().flatten().collect();
    let mut problems = vec![];
    for page in pages {
        for block in consoles(page) {
            if let Some(problem) = problem(page, block, &runner, &tests) {
                problems.push(format!("{}: {problem}", page.at(block.line)));
            }
        }
    }
    Ok(problems)
}

pub(super) fn summary(pages: &[Page]) -> String {
    let (mut run, mut sketches) = (0, 0);
    for block in pages.iter().flat_map(consoles) {
        *if is_sketch(block) { &mut sketches } else { &mut run } += 1;
    }
    format!("{run} console blocks that are run, {sketches} sketches")
}

/// Blocks with commands and what they print.
fn consoles(page: &Page) -> impl Iterator<Item = &Block> {
    page.blocks.iter().filter(|block| {
        let language = block.info.split([',', ' ']).next().unwrap_or_default();
        // Nobody gets around the rule by another name for the language.
        ["console", "shell-session"].contains(&language)
            || block.lines.iter().any(|line| line.starts_with("$ "))
    })
}

fn is_sketch(block: &Block) -> bool {
    block.info == "console,sketch"
}

fn problem(page: &Page, block: &Block, runner: &str, tests: &BTreeSet<String>) -> Option<String> {
    let file = page.file.display().to_string();
    if !["console", "console,sketch"].contains(&block.info.as_str()) {
        return Some(format!(
            "commands are in blocks of `console` or `console,sketch`, not {:?}",
            block.info
        ));
    }
    if !block.lines.first().is_some_and(|line| line.starts_with("$ ")) {
        return Some("a console block begins with `$ ` and a command".to_owned());
    }
    if is_sketch(block) {
        return None;
    }
    if commands(block).all(|command| command.starts_with("cargo test ")) {
        return tests_problem(block, tests);
    }
    let Some(test) = block.remarks.iter().find_map(|remark| remark.strip_prefix(RUN_BY)) else {
        let named = runner.contains(&format!("{file:?}"));
        return (!named)
            .then(|| format!("no test runs it: add the page to {RUNNER}, or mark it `console,sketch`"));
    };
    let text = std::fs::read_to_string(Path::new(test)).unwrap_or_default();
    (!text.contains(&file)).then(|| format!("{test} does not run it: it does not name {file}"))
}

/// The commands of a block, by their first lines.
fn commands(block: &Block) -> impl Iterator<Item = &str> {
    block.lines.iter().filter_map(|line| line.strip_prefix("$ "))
}

/// Tests that a block shows and nobody has written; or that it shows none.
fn tests_problem(block: &Block, tests: &BTreeSet<String>) -> Option<String> {
    let name = |line: &String| line.strip_prefix("test ")?.strip_suffix(" ... ok").map(str::to_owned);
    let shown: Vec<String> = block.lines.iter().filter_map(name).collect();
    if shown.is_empty() {
        return Some("it shows no test: `test NAME ... ok`".to_owned());
    }
    let is_missing = |test: &&String| !tests.contains(test.rsplit("::").next().unwrap_or_default());
    shown.iter().find(is_missing).map(|test| format!("there is no test {test}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> bool {
        let page = Page::parse("docs/page.md".into(), text);
        let tests = ["it_works".to_owned()].into();
        consoles(&page).any(|block| problem(&page, block, "run(\"docs/other.md\")", &tests).is_some())
    }

    #[test]
    fn a_block_that_nobody_runs_is_found() {
        assert!(wrong("```console\n$ true\n```\n"));
        assert!(!wrong("```console,sketch\n$ true\n```\n"));
        let page = Page::parse("docs/other.md".into(), "```console\n$ true\n```\n");
        assert!(
            consoles(&page)
                .all(|block| problem(&page, block, "run(\"docs/other.md\")", &BTreeSet::new()).is_none())
        );
    }

    #[test]
    fn another_name_for_the_language_does_not_help() {
        for block in [
            "```text\n$ true\n```\n",
            "```\n$ true\n```\n",
            "```console,ignore\n$ true\n```\n",
            "```console\ntrue\n```\n",
        ] {
            assert!(wrong(block), "{block}");
        }
        assert!(!wrong("```sh\ntrue\n```\n"));
    }

    #[test]
    fn a_test_that_is_named_has_to_name_the_page() {
        // Files are found from the folder of this package here.
        assert!(!wrong("<!-- run by src/docs/blocks.rs -->\n```console\n$ true\n```\n"));
        assert!(wrong("<!-- run by src/docs/links.rs -->\n```console\n$ true\n```\n"));
        assert!(wrong("<!-- run by src/nowhere.rs -->\n```console\n$ true\n```\n"));
    }

    #[test]
    fn tests_that_a_page_shows_have_to_be_there() {
        assert!(!wrong("```console\n$ cargo test -p x\ntest a::it_works ... ok\n```\n"));
        assert!(wrong("```console\n$ cargo test -p x\ntest a::it_worked ... ok\n```\n"));
        assert!(wrong("```console\n$ cargo test -p x\n```\n"));
    }
}
