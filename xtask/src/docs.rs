//! The pages, checked: what they link to, what their console blocks show, how they are spelled, and
//! that they make a book.
//!
//! `cargo xtask docs` runs what can run here and names what was skipped; with `--all` the tools
//! that are missing are installed first.

mod blocks;
mod book;
mod guard;
mod keys;
mod links;
mod page;
mod record;
mod spelling;
mod summary;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::page::Page;
use crate::prerequisites;
use crate::test::Report;

/// Pages beside those in `docs`.
const AT_THE_ROOT: &[&str] =
    &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];

pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        [] => {}
        ["--all"] => prerequisites::install_python_tools()?,
        ["--record"] => return record::run(),
        ["--picture"] => return guard::run(),
        other => bail!("{other:?} is no option; there are --all, --record and --picture"),
    }
    let mut report = Report::begin(1);
    let outcome = report.step("book, links, spelling", check);
    report.end(outcome.is_ok());
    outcome
}

/// All checks; what cannot be tried here is skipped and named.
pub(crate) fn check(report: &mut Report) -> Result<()> {
    let pages = pages()?;
    let book: Vec<&Page> = pages.iter().filter(|page| page.is_in_the_book()).collect();
    let mut problems = [
        links::problems(&pages),
        blocks::problems(&pages)?,
        summary::problems(&book),
        keys::problems()?,
        spelling::problems(report)?,
    ]
    .concat();
    println!("    {} pages, {}, {}", pages.len(), links::summary(&pages), blocks::summary(&pages));
    if problems.is_empty() {
        problems = book::problems(report, &book)?;
    }
    if problems.is_empty() {
        return Ok(());
    }
    bail!("the pages are not in order:\n  {}", problems.join("\n  "))
}

/// Every page, in order.
fn pages() -> Result<Vec<Page>> {
    let mut files: Vec<PathBuf> =
        AT_THE_ROOT.iter().map(PathBuf::from).filter(|file| file.exists()).collect();
    walk(Path::new("docs"), &mut files)?;
    files.into_iter().map(Page::read).collect()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    Ok(())
}
