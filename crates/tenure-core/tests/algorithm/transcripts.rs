//! The life-cycles of a lock, told in `tests/testdata`: what happens, and what is said then.
//!
//! A story begins with its nodes (`3 nodes`; `3 new nodes`, to hear of records as well). Each step
//! is what happens, a line each ([`Story::happen`]); then `----`; then who says what to whom, up to
//! an empty line. What was said before a `...` is left out. A `#` begins a comment.
//!
//! To write down what is said now, and look at the difference with git:
//! `UPDATE_TESTDATA=1 cargo test -p tenure-core --test algorithm transcripts`

use std::path::PathBuf;

use crate::support::story::Story;

macro_rules! life_cycles {
    ($($name:ident)*) => {
        const FILES: &[&str] = &[$(concat!(stringify!($name), ".txt")),*];
        $(#[test] fn $name() { check(concat!(stringify!($name), ".txt")); })*
    };
}

life_cycles! { acquire handover heal loss release renewal shutdown trust waiting }

#[test]
fn every_file_is_checked() {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name());
    let mut files: Vec<_> = files.map(|name| name.to_str().unwrap().to_owned()).collect();
    files.sort();
    assert_eq!(files, FILES, "in {}", folder().display());
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testdata"))
}

fn check(file: &str) {
    let path = folder().join(file);
    let written = std::fs::read_to_string(&path).unwrap();
    let played = play(&written);
    assert!(played.lines().any(|line| line.contains(" ms  ")), "{} tells nothing", path.display());
    if std::env::var_os("UPDATE_TESTDATA").is_some() {
        return std::fs::write(&path, played).unwrap();
    }
    assert!(
        played == written,
        "{} differs from what is said now:\n{}\nIf that is right, write it down:\n  \
         UPDATE_TESTDATA=1 cargo test -p tenure-core --test algorithm transcripts\n",
        path.display(),
        difference(&written, &played)
    );
}

/// The same text with what is said now.
fn play(text: &str) -> String {
    let (mut played, mut story, mut lines) = (String::new(), Story::of(1, false), text.lines());
    while let Some(line) = lines.next() {
        played = played + line + "\n";
        if line == "----" {
            played = played + &story.said() + "\n";
            lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
        } else if line.is_empty() || line.starts_with('#') {
            continue;
        } else if let [nodes, new @ .., "nodes"] = &line.split(' ').collect::<Vec<_>>()[..] {
            story.end();
            story = Story::of(nodes.parse().unwrap(), new == ["new"]);
        } else {
            story.happen(line);
        }
    }
    story.end();
    played.trim_end().to_owned() + "\n"
}

/// The lines that differ, with a few around them.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    // How many lines the rests of both have in common.
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for (i, j) in (0..old.len()).rev().flat_map(|i| (0..new.len()).rev().map(move |j| (i, j))) {
        let without = common[i + 1][j].max(common[i][j + 1]);
        common[i][j] = if old[i] == new[j] { common[i + 1][j + 1] + 1 } else { without };
    }
    let (mut i, mut j, mut lines) = (0, 0, vec![]);
    while i < old.len() || j < new.len() {
        if i < old.len() && old.get(i) == new.get(j) {
            lines.push(format!("  {}\n", old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
            lines.push(format!("- {}\n", old[i]));
            i += 1;
        } else {
            lines.push(format!("+ {}\n", new[j]));
            j += 1;
        }
    }
    let around = |at: usize| &lines[at.saturating_sub(3)..lines.len().min(at + 4)];
    let near = |at: &usize| around(*at).iter().any(|line| !line.starts_with(' '));
    (0..lines.len()).filter(near).map(|at| lines[at].as_str()).collect()
}
