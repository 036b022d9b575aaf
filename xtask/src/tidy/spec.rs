//! `docs/spec.md`: every requirement names a test or says *not yet*, one a line, and every test
//! that it names exists.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

const SPEC: &str = "docs/spec.md";

/// What the requirements name, against the functions of every file.
pub(super) fn problems(functions: &BTreeMap<String, BTreeSet<String>>) -> Result<Vec<String>> {
    let spec = std::fs::read_to_string(SPEC).with_context(|| format!("{SPEC} cannot be read"))?;
    Ok(check(&spec, functions))
}

fn check(spec: &str, functions: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut problems = vec![];
    for requirement in spec.split("\n### ").skip(1) {
        let requirement = requirement.split("\n## ").next().unwrap_or_default();
        let id = requirement.split('.').next().unwrap_or_default();
        let tests = |line: &str| -> Vec<String> {
            let quoted = line.split('`').skip(1).step_by(2);
            quoted.filter(|name| name.contains("::")).map(str::to_owned).collect()
        };
        let named: Vec<Vec<String>> = requirement.lines().map(tests).collect();
        if named.iter().all(Vec::is_empty) && !requirement.contains("*not yet*") {
            problems.push(format!("{SPEC}: {id} names no test and does not say *not yet*"));
        }
        if named.iter().any(|line| line.len() > 1) {
            problems.push(format!("{SPEC}: {id} names more than one test in a line"));
        }
        for name in named.into_iter().flatten() {
            let (file, function) = name.rsplit_once("::").unwrap_or_default();
            if !functions.get(file).is_some_and(|functions| functions.contains(function)) {
                problems.push(format!("{SPEC}: {id} names {name}, which does not exist"));
            }
        }
    }
    if !spec.contains("\n### ") {
        problems.push(format!("{SPEC}: it has no requirements"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(spec: &str) -> Vec<String> {
        let functions = [("a.rs".to_owned(), ["holds", "ends"].map(str::to_owned).into())];
        check(spec, &functions.into())
    }

    #[test]
    fn requirements_that_are_shown_or_say_that_they_are_not_are_in_order() {
        let spec =
            "# Spec\n\n## A\n\n### A1. One\n- `a.rs::holds`\n- `a.rs::ends`\n\n### A2. Two\n- *not yet*\n";
        assert_eq!(found(spec), [""; 0]);
    }

    #[test]
    fn what_is_missing_crowded_or_not_there_is_found() {
        for (body, says) in [
            ("Nothing.", "A1 names no test and does not say *not yet*"),
            ("- `a.rs::holds`, `a.rs::ends`", "A1 names more than one test in a line"),
            ("- `a.rs::begins`", "A1 names a.rs::begins, which does not exist"),
            ("- `b.rs::holds`", "A1 names b.rs::holds, which does not exist"),
        ] {
            let spec =
                format!("# Spec\n\n### A1. One\n{body}\n\n## B\n`a.rs::holds`\n\n### B1. Two\n- *not yet*\n");
            assert_eq!(found(&spec), [format!("docs/spec.md: {says}")]);
        }
        assert_eq!(found("# Spec\n").len(), 1, "a form that is not understood");
    }
}
