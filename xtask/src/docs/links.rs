//! Every link leads somewhere: to a file that is there, to a heading that is on it. Addresses
//! elsewhere are looked at, not called.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::page::Page;

/// Where files of the project are, when text names one by its path.
const FOLDERS: &[&str] = &["bench", "crates", "docs", "packaging", "xtask", ".ci", ".cargo"];

pub(super) fn problems(pages: &[Page]) -> Vec<String> {
    let by_file: BTreeMap<&Path, &Page> = pages.iter().map(|page| (page.file.as_path(), page)).collect();
    let mut problems = vec![];
    for page in pages {
        for link in &page.links {
            if let Some(problem) = problem(page, &link.target, &by_file) {
                problems.push(format!("{}: {problem}", page.at(link.line)));
            }
        }
        for span in page.spans.iter().filter(|_| !page.is_history()) {
            if is_path(&span.target) && !Path::new(&span.target).exists() {
                problems.push(format!("{}: there is no `{}`", page.at(span.line), span.target));
            }
        }
    }
    problems
}

pub(super) fn summary(pages: &[Page]) -> String {
    let count: usize = pages.iter().map(|page| page.links.len()).sum();
    format!("{count} links")
}

fn problem(page: &Page, target: &str, pages: &BTreeMap<&Path, &Page>) -> Option<String> {
    if target.is_empty() {
        return Some("a link without a target".to_owned());
    }
    if let Some((scheme, rest)) = target.split_once(':') {
        return address_problem(scheme, rest).map(|problem| format!("{target}: {problem}"));
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = match path {
        "" => page.file.clone(),
        path => resolved(page.file.parent().unwrap_or(Path::new("")), path)?,
    };
    if !file.exists() {
        return Some(format!("{target}: there is no {}", file.display()));
    }
    // On a forge anything can be looked at; the book has no more than its own folder.
    if page.is_in_the_book() && !file.starts_with("docs") {
        return Some(format!("{target} leads out of the book: name the file, `{}`", file.display()));
    }
    if page.is_in_the_book() && file.is_dir() {
        return Some(format!("{target} leads to a folder: link to a page in it"));
    }
    let anchor = anchor?;
    match pages.get(file.as_path()) {
        Some(page) if page.anchors.contains(anchor) => None,
        Some(_) => Some(format!("{target}: {} has no heading for #{anchor}", file.display())),
        None => Some(format!("{target}: only a page has headings")),
    }
}

/// What an address elsewhere must look like.
fn address_problem(scheme: &str, rest: &str) -> Option<String> {
    match scheme {
        "https" => {}
        "mailto" => return (!rest.contains('@')).then(|| "no mail address".to_owned()),
        // Whoever is on this machine needs no certificate.
        "http" if rest.starts_with("//127.0.0.1") || rest.starts_with("//localhost") => {}
        "http" => return Some("use https".to_owned()),
        _ => return Some("neither https nor a file".to_owned()),
    }
    let host = rest.trim_start_matches("//").split(['/', ':', '?', '#']).next().unwrap_or_default();
    let is_name =
        |label: &str| !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let good =
        rest.starts_with("//") && (host == "localhost" || host.contains('.')) && host.split('.').all(is_name);
    (!good).then(|| "no host".to_owned())
}

/// The path without its steps up; none if it leads out of the project.
fn resolved(folder: &Path, path: &str) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::ParentDir if !resolved.pop() => return Some(PathBuf::from("..")),
            Component::ParentDir | Component::CurDir => {}
            part => resolved.push(part),
        }
    }
    Some(resolved)
}

/// Whether code within text is the path of a file, rather than a pattern or a command.
fn is_path(code: &str) -> bool {
    let first = code.split('/').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    code.contains('/') && FOLDERS.contains(&first) && code.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a link on a page of `docs`, where there is a page with one heading. The
    /// tests run in the folder of this package, so its own files stand for those of the project.
    fn wrong(target: &str) -> Option<String> {
        let here = Page::parse("docs/here.md".into(), "# Here\n");
        let there = Page::parse("src/docs/page.rs".into(), "## A heading\n");
        let pages = [&here, &there].map(|page| (page.file.as_path(), page)).into();
        let source = Page::parse("src/main.md".into(), "");
        problem(if target.starts_with('#') { &here } else { &source }, target, &pages)
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        assert!(
            wrong("docs/nowhere.md")
                .is_some_and(|problem| problem.contains("there is no src/docs/nowhere.md"))
        );
        assert!(wrong("docs/page.rs").is_none());
        assert!(wrong("docs/page.rs#a-heading").is_none());
        assert!(wrong("docs/page.rs#another").is_some());
        assert!(wrong("main.rs#a-heading").is_some());
        assert!(wrong("").is_some());
    }

    #[test]
    fn an_address_is_looked_at_and_not_called() {
        assert!(wrong("https://example.org/a#b").is_none());
        assert!(wrong("http://127.0.0.1:7420/").is_none());
        for bad in [
            "http://example.org",
            "https:/example.org",
            "https://nowhere",
            "https://exa mple.org",
            "ftp://example.org",
        ] {
            assert!(wrong(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_page_of_the_book_links_to_files_of_the_book() {
        let book = Page::parse("docs/explanation/here.md".into(), "# Here\n");
        let problem = |target| problem(&book, target, &BTreeMap::new());
        assert!(
            problem("../../src/main.rs").is_some_and(|problem| problem.contains("leads out of the book"))
        );
    }

    #[test]
    fn code_is_a_path_if_it_looks_like_one() {
        for path in ["docs/spec.md", "crates/tenure/src/lib.rs", "crates/tenure-sim", ".ci/run"] {
            assert!(is_path(path), "{path}");
        }
        for other in ["docs", "crates/*/src", "redis://a", "cargo xtask docs", "src/main.rs", "docs/{a,b}.md"]
        {
            assert!(!is_path(other), "{other}");
        }
    }
}
