//! Every kind of key that the library keeps on a node is on the page about keys.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const SOURCE: &str = "crates/tenure/src";
const PAGE: &str = "docs/reference/keys.md";

/// What all of them begin with.
const LEAD: &str = "tenure~";

pub(super) fn problems() -> Result<Vec<String>> {
    let page = std::fs::read_to_string(PAGE).with_context(|| format!("{PAGE} cannot be read"))?;
    let mut files = vec![];
    walk(Path::new(SOURCE), &mut files)?;
    let mut kinds = BTreeSet::new();
    for file in files {
        kinds.extend(kinds_in(&std::fs::read_to_string(file)?));
    }
    let on_the_page = kinds_in(&page);
    Ok(kinds.difference(&on_the_page).map(|kind| format!("{PAGE} lacks the keys {LEAD}{kind}:")).collect())
}

/// The words between the lead and a colon.
fn kinds_in(text: &str) -> BTreeSet<String> {
    let words = text.split(LEAD).skip(1).filter_map(|rest| Some(rest.split_once(':')?.0));
    words
        .filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase()))
        .map(str::to_owned)
        .collect()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, files)?;
        } else if path.extension().is_some_and(|kind| kind == "lua" || kind == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_in_scripts_and_on_the_page() {
        let found = kinds_in(
            "'tenure~holds:{' .. lock\n | `tenure~node:{PREFIX}` | tenure~* tenure~X: tenure~fence:",
        );
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["fence", "holds", "node"]);
    }
}
