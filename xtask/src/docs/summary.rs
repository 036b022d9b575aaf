//! The book has every page, and every page says first what it is for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::page::Page;

/// The list of pages, in their order.
const SUMMARY: &str = "docs/SUMMARY.md";

/// What prose does not begin with: a heading, a list, a table, a block, a remark.
const NO_PROSE: &[&str] = &["#", "- ", "* ", "|", "```", "<", "1. ", "!["];

pub(super) fn problems(pages: &[&Page]) -> Vec<String> {
    let Some(summary) = pages.iter().find(|page| page.file == Path::new(SUMMARY)) else {
        return vec![format!("there is no {SUMMARY}")];
    };
    let listed: BTreeSet<PathBuf> = summary
        .links
        .iter()
        .map(|link| Path::new("docs").join(link.target.trim_start_matches("./")))
        .collect();
    let mut problems = vec![];
    for page in pages.iter().filter(|page| page.file != summary.file) {
        if !listed.contains(&page.file) {
            problems.push(format!("{}: {SUMMARY} does not list it", page.file.display()));
        }
        if let Some(problem) = opening_problem(page) {
            problems.push(format!("{}: {problem}", page.file.display()));
        }
    }
    problems
}

fn opening_problem(page: &Page) -> Option<&'static str> {
    let [title, purpose] = &page.opening;
    if !title.starts_with("# ") {
        return Some("a page begins with its title");
    }
    // A decision begins with what made it necessary.
    if page.file.starts_with("docs/decisions") && purpose == "## Context" {
        return None;
    }
    let is_prose = !purpose.is_empty() && !NO_PROSE.iter().any(|start| purpose.starts_with(start));
    (!is_prose).then_some("below its title a page says in a sentence what it is for")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(summary: &str, page: &str) -> usize {
        let summary = Page::parse(SUMMARY.into(), summary);
        let page = Page::parse("docs/reference/a.md".into(), page);
        problems(&[&summary, &page]).len()
    }

    #[test]
    fn a_page_that_is_not_in_the_book_is_found() {
        assert_eq!(problems_of("- [A](reference/a.md)\n", "# A\n\nWhat A is.\n"), 0);
        assert_eq!(problems_of("- [A](a.md)\n", "# A\n\nWhat A is.\n"), 1);
    }

    #[test]
    fn a_page_that_does_not_say_what_it_is_for_is_found() {
        for page in ["# A\n\n## B\n", "What A is.\n", "# A\n\n| a |\n", "# A\n"] {
            assert_eq!(problems_of("- [A](reference/a.md)\n", page), 1, "{page}");
        }
    }
}
