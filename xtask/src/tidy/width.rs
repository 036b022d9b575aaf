//! Prose has one width: Markdown and comments wrap at 100 columns.
//!
//! Tables, code, addresses, single words and comments for the tests of a page are as wide as they
//! are.

use std::path::{Path, PathBuf};

use anyhow::Result;

/// The most characters of a line.
const COLUMNS_MAX: usize = 100;

/// What a whole line of comment begins with, by the kind of file; Markdown is prose as it is.
const MARKS: &[(&str, &str)] = &[("rs", "//"), ("lua", "--"), ("sql", "--"), ("md", "")];

/// The lines that are too wide.
pub(super) fn problems() -> Result<Vec<String>> {
    let mut files = vec![];
    for folder in [".", "docs", "bench", "crates", "xtask"] {
        walk(Path::new(folder), folder != ".", &mut files)?;
    }
    let mut problems = vec![];
    for file in files {
        let mark = file.extension().and_then(|kind| MARKS.iter().find(|(known, _)| kind == *known));
        let Some((_, mark)) = mark else { continue };
        for (number, columns) in too_wide(&std::fs::read_to_string(&file)?, mark) {
            problems.push(format!(
                "{}:{number}: prose of {columns} columns; wrap it at {COLUMNS_MAX}",
                file.display()
            ));
        }
    }
    Ok(problems)
}

/// The numbers of lines of prose that are too wide, and how wide they are.
fn too_wide<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
    let mut in_code = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let Some(prose) = line.trim_start().strip_prefix(mark) else {
            in_code = false;
            return None;
        };
        let prose = prose.trim_start_matches(['/', '!']).trim_start();
        let fence = prose.starts_with("```");
        in_code ^= fence;
        let columns = line.chars().count();
        let one_word = !prose.trim_start_matches("- ").contains(' ');
        let for_tests = prose.starts_with("<!--");
        let free =
            in_code || fence || one_word || for_tests || prose.starts_with('|') || line.contains("://");
        (columns > COLUMNS_MAX && !free).then_some((number, columns))
    })
}

fn walk(folder: &Path, deeper: bool, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.is_dir() {
            files.push(path);
        } else if deeper {
            walk(&path, deeper, files)?;
        }
    }
    files.sort();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_narrow_and_the_rest_is_as_wide_as_it_is() {
        let wide = "word ".repeat(21);
        let found = |text: &str, mark| too_wide(text, mark).map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!(found(&format!("short\n{wide}\n| {wide}\n"), ""), [2]);
        assert_eq!(found(&format!("```\n{wide}\n```\n{wide}\n"), ""), [4]);
        assert_eq!(found(&format!("/// {wide}\nlet {wide};\n    // {wide}\n"), "//"), [1, 3]);
        assert_eq!(found(&format!("/// ```\n/// {wide}\n/// ```\n"), "//"), [0; 0]);
        assert_eq!(found(&format!("see https://example.org/{wide}"), ""), [0; 0]);
        assert_eq!(found(&format!("- `{}`", wide.replace(' ', "_")), ""), [0; 0]);
    }
}
