//! The book: all pages with a search, in `target/book`, which needs no network to build or to read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::page::Page;
use crate::command::{output, target_folder};
use crate::prerequisites;
use crate::test::Report;

/// Builds it, and looks at what came out: every page and the search are there, and every link
/// within the book leads to a file of it.
pub(super) fn problems(report: &mut Report, pages: &[&Page]) -> Result<Vec<String>> {
    let Some(mdbook) = prerequisites::program("mdbook") else {
        report.skip("the book (mdbook is not installed: `cargo xtask docs --all`)");
        return Ok(vec![]);
    };
    let book = std::path::absolute(target_folder().join("book"))?;
    // What is left of pages that are gone would hide that something links to them.
    if book.exists() {
        std::fs::remove_dir_all(&book)?;
    }
    output(Command::new(mdbook).args(["build", "--dest-dir"]).arg(&book))?;
    let files = files(&book)?;
    let mut problems = missing(&book, pages, &files);
    // That of a page that is not there is shown under any address, so its links mean nothing here.
    for (file, text) in files.iter().filter(|(file, _)| *file != Path::new("404.html")) {
        problems
            .extend(broken(file, text, &files).map(|link| format!("the book's {}: {link}", file.display())));
    }
    println!("    {} files in {}", files.len(), book.display());
    Ok(problems)
}

/// Pages that were not made, and a search that was not.
fn missing(book: &Path, pages: &[&Page], files: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let made = |page: &&&Page| page.file.strip_prefix("docs").ok().map(|file| file.with_extension("html"));
    let pages = pages.iter().filter(|page| !page.file.ends_with("SUMMARY.md"));
    let mut problems: Vec<String> = pages
        .filter(|page| made(page).is_some_and(|file| !files.contains_key(&file)))
        .map(|page| format!("the book lacks {}", page.file.display()))
        .collect();
    let is_index = |file: &&PathBuf| file.to_string_lossy().starts_with("searchindex");
    if !files.keys().any(|file| is_index(&file)) {
        problems.push(format!("{} has no search", book.display()));
    }
    problems
}

/// Links of a page that lead to no file of the book, and what it would load from elsewhere.
fn broken<'a>(
    file: &'a Path,
    text: &'a str,
    files: &'a BTreeMap<PathBuf, String>,
) -> impl Iterator<Item = String> + 'a {
    let is_page = file.extension().is_some_and(|kind| kind == "html");
    let folder = file.parent().unwrap_or(Path::new(""));
    attributes(text).filter(move |_| is_page).filter_map(move |(kind, target)| {
        if target.contains(':') {
            let loads = kind == "src" && !target.starts_with("data:");
            return loads.then(|| format!("{target} is loaded from elsewhere"));
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { file.to_owned() } else { flat(&folder.join(path)) };
        match files.get(&path) {
            None => Some(format!("there is no {}", path.display())),
            Some(text) if anchor.is_empty() || text.contains(&format!("id=\"{anchor}\"")) => None,
            Some(_) => Some(format!("{} has no #{anchor}", path.display())),
        }
    })
}

/// Links and what is loaded, by the attribute they are in.
fn attributes(text: &str) -> impl Iterator<Item = (&'static str, &str)> {
    ["href", "src"].into_iter().flat_map(move |kind| {
        let opening = if kind == "href" { " href=\"" } else { " src=\"" };
        text.split(opening).skip(1).filter_map(move |rest| Some((kind, rest.split('"').next()?)))
    })
}

fn flat(path: &Path) -> PathBuf {
    let mut flat = PathBuf::new();
    for part in path {
        if part == ".." {
            flat.pop();
        } else if part != "." {
            flat.push(part);
        }
    }
    flat
}

/// The files of the book with their text, by their path in it. Of what is not text the name is
/// enough.
fn files(book: &Path) -> Result<BTreeMap<PathBuf, String>> {
    fn walk(book: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) -> Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                walk(book, &path, files)?;
            } else {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                files.insert(path.strip_prefix(book)?.to_owned(), text);
            }
        }
        Ok(())
    }
    let mut files = BTreeMap::new();
    walk(book, book, &mut files).with_context(|| format!("{} cannot be read", book.display()))?;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_within_the_book_are_followed() {
        let files: BTreeMap<PathBuf, String> = [("a/b.html", "<h2 id=\"c\">"), ("d.svg", "")]
            .map(|(file, text)| (file.into(), text.to_owned()))
            .into();
        let wrong = |text| broken(Path::new("a/b.html"), text, &files).count();
        assert_eq!(
            wrong(
                "<a href=\"#c\"> <a href=\"b.html#c\"> <img src=\"../d.svg\"> <a href=\"https://example.org\">"
            ),
            0
        );
        assert_eq!(
            wrong(
                "<a href=\"#d\"> <a href=\"c.html\"> <img src=\"d.svg\"> <img src=\"https://example.org/x.png\">"
            ),
            4
        );
    }
}
