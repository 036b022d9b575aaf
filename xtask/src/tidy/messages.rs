//! Every problem that the tool can tell of has a row in `docs/reference/troubleshooting.md`, and
//! every row has its problem.
//!
//! What counts as a message is a rule, so that nobody has to register one: a text of at least three
//! words in the sources of the tool and of the library it is made of, that does not begin with a
//! capital letter. Sentences that do are the advice behind a message, and stand in its row anyway.
//! [`NO_PROBLEMS`] has the few texts that are something else.
//!
//! In the page a value that is filled in is written `…`, and a backtick as a simple quote.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const PAGE: &str = "docs/reference/troubleshooting.md";

/// A text with fewer words is a part of another one.
const WORDS_MIN: usize = 3;

/// Where messages come from.
const SOURCES: &[&str] =
    &["crates/tenure-core/src", "crates/tenure/src", "crates/tenure-server/src", "crates/tenure-cli/src"];

/// Files that tell results, or problems that only programs see.
const NO_MESSAGES: &[&str] = &[
    "crates/tenure/src/blocking.rs",
    "crates/tenure/src/circle/held.rs",
    "crates/tenure/src/config/fuzzing.rs",
    "crates/tenure/src/fenced/file.rs",
    "crates/tenure/src/form/circle.rs",
    "crates/tenure/src/fuzzing.rs",
    "crates/tenure/src/guard/handover.rs",
    "crates/tenure/src/node/redis/fuzzing.rs",
    "crates/tenure-core/src/trust/fuzzing.rs",
    "crates/tenure-server/src/caller/session.rs",
    "crates/tenure-server/src/ui/policy.rs",
    "crates/tenure-cli/src/args.rs",
    "crates/tenure-cli/src/capacity/limits.rs",
    "crates/tenure-cli/src/capacity/plan.rs",
    "crates/tenure-cli/src/output/bench.rs",
    "crates/tenure-cli/src/output/clock.rs",
    "crates/tenure-cli/src/output/config.rs",
    "crates/tenure-cli/src/output/demo.rs",
    "crates/tenure-cli/src/output/plan.rs",
    "crates/tenure-cli/src/output/progress.rs",
    "crates/tenure-cli/src/output/serve.rs",
    "crates/tenure-cli/src/output/text.rs",
    "crates/tenure-cli/src/output/token.rs",
    "crates/tenure-cli/src/output/waiting.rs",
    "crates/tenure-cli/src/output/watch.rs",
    "crates/tenure-cli/src/demo/contender.rs",
    "crates/tenure-cli/src/demo/draw.rs",
    "crates/tenure-cli/src/demo/keys.rs",
    "crates/tenure-cli/src/demo/picture.rs",
    "crates/tenure-cli/src/demo/setup.rs",
    "crates/tenure-cli/src/top/draw.rs",
    "crates/tenure-cli/src/top/keys.rs",
];

/// Texts that are no problems: good news, results, and parts of messages.
const NO_PROBLEMS: &[&str] = &[
    "…. Running for election again",
    "all … nodes vote; … may fail",
    "works, with 1 warning: …",
    "works, with … warnings: …",
    "the only node votes; without it no lock can be acquired",
    "token … fence … valid until … (…) nodes … of …, margin …",
    "export TENURE_LOCK=… TENURE_TOKEN=… TENURE_FENCE=… TENURE_VALID_UNTIL_MS=…",
    "… … … … … returned=… durable=… continues=… phase=… epoch=… opened=… wait_ms=… floor=… … created=……",
    "nodes=… node=… max_ttl_ms=… guard_ms=… slack_us=… retention_us=… restart_guard=…",
    "… of … nodes …, … … needed. …",
    "… ahead of us, … in line",
    "we are first of … in line",
    "after … attempts in …",
    ", free in … unless renewed",
    ", free in … unless it still runs then",
    "did not answer",
    "no reason given",
    "not a vote",
    "it failed before listing all its locks",
    "nobody holds it",
    "released by force in tenure top",
    "took … from its holder",
    "starting nodes and contenders",
    "the demo has ended, and so has everything it started",
    "there is one node",
    "there are … nodes",
    "node … is down; press r to restart it",
    "node … is stopped; press c to continue it",
    "node … is not stopped",
    "fewer than three nodes are up; press r to restart one",
    "nobody holds the lock right now; try again",
    "nothing is paused; press p to pause the holder",
    "… is already paused; press u to resume it",
    "the node was emptied",
    "the other one had it before it was emptied",
    "(a long text)",
    "reloaded callers, certificates and lease keys; reopened log files",
    "the service configured in [serve] can start",
    "a label's owner",
    "(ARGV[…] ~= '' and ARGV[…])",
    "max number of clients",
];

/// What a text is an argument of if it is not for users.
const FOR_OTHERS: &[&str] = &[
    "assert",
    "compile_error!(",
    "expect(",
    "panic!(",
    "unreachable!(",
    "tracing::",
    "debug_span!(",
    "must_use = ",
    "reason = ",
];

/// The beginnings of texts for databases and scripts.
const STATEMENTS: &[&str] = &["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "PRAGMA ", "CREATE ", "local "];

/// What is missing on either side.
pub(super) fn problems(files: &[PathBuf]) -> Result<Vec<String>> {
    let files = files.iter().filter(|file| SOURCES.iter().any(|source| file.starts_with(source)));
    let read = |file: &PathBuf| Ok((file.clone(), std::fs::read_to_string(file)?));
    let sources: Vec<(PathBuf, String)> = files.map(read).collect::<Result<_>>()?;
    let page = std::fs::read_to_string(PAGE).with_context(|| format!("{PAGE} cannot be read"))?;
    Ok(compare(&sources, &page, NO_PROBLEMS))
}

fn compare(sources: &[(PathBuf, String)], page: &str, no_problems: &[&str]) -> Vec<String> {
    let (mut texts, mut messages) = (BTreeSet::new(), BTreeSet::new());
    for (file, source) in sources {
        let is_source = !is_test(file) && !NO_MESSAGES.iter().any(|other| file.ends_with(other));
        for (text, context) in literals(without_tests(source)) {
            let text = as_in_the_page(&text);
            if is_source && is_message(&text, context) && !no_problems.contains(&&*text) {
                messages.insert((text.clone(), file.display().to_string()));
            }
            texts.insert(text);
        }
    }
    let rows: BTreeSet<String> = rows(page).map(str::to_owned).collect();
    let unexplained = messages.iter().filter(|(text, _)| !rows.contains(text));
    let unexplained = unexplained.map(|(text, file)| format!("{PAGE} has no row for `{text}` ({file})"));
    let unsaid = rows.iter().filter(|row| !texts.contains(*row));
    let unsaid = unsaid.map(|row| format!("{PAGE} explains `{row}`, which nothing says"));
    let unused = no_problems.iter().filter(|text| !texts.contains(**text));
    let unused = unused.map(|text| format!("`{text}` is listed as no problem, and nothing says it"));
    unexplained.chain(unsaid).chain(unused).collect()
}

fn is_test(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == "tests")
        || file.file_name().is_some_and(|name| name == "tests.rs" || name == "conformance.rs")
}

fn without_tests(source: &str) -> &str {
    source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source)
}

/// The messages in the first column of the page's tables.
fn rows(page: &str) -> impl Iterator<Item = &str> {
    let first = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2))
}

fn is_message(text: &str, context: &str) -> bool {
    let words = text.split(' ').filter(|word| word.contains(char::is_alphabetic)).count();
    let mut first = text.chars();
    let is_advice =
        first.next().is_some_and(char::is_uppercase) && first.next().is_some_and(char::is_lowercase);
    words >= WORDS_MIN
        && !is_advice
        && !STATEMENTS.iter().any(|statement| text.starts_with(statement))
        && !FOR_OTHERS.iter().any(|other| context.contains(other))
}

/// With `…` for what is filled in, in one line.
fn as_in_the_page(text: &str) -> String {
    let (mut plain, mut depth) = (String::new(), 0_u32);
    for c in text.replace("{{", "\u{1}").replace("}}", "\u{2}").chars() {
        match c {
            '{' => {
                depth += 1;
                plain.push('…');
            }
            '}' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            '`' => plain.push('\''),
            '|' => plain.push('/'),
            '\u{1}' => plain.push('{'),
            '\u{2}' => plain.push('}'),
            c => plain.push(c),
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The texts of a source, each with the code of its statement before it.
fn literals(source: &str) -> Vec<(String, &str)> {
    let (mut found, mut rest, mut statement) = (vec![], source, source.len());
    let context = |statement: usize, rest: &str| &source[source.len() - statement..source.len() - rest.len()];
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if let Some(raw) = raw_string(rest) {
            found.push((raw.0.to_owned(), context(statement, rest)));
            rest = raw.1;
        } else if c == '"' {
            let (text, behind) = string(&rest[1..]);
            found.push((text, context(statement, rest)));
            rest = behind;
        } else if let Some(behind) = character(rest) {
            rest = behind;
        } else {
            // A word is taken as a whole, so that its last letter does not begin a raw string.
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            rest = &rest[word.max(c.len_utf8())..];
            if matches!(c, ';' | '{' | '}') {
                statement = rest.len();
            }
        }
    }
    found
}

/// A string up to its closing quote, and what follows.
fn string(source: &str) -> (String, &str) {
    let mut text = String::new();
    let mut chars = source.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, &source[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n' | 't')) => text.push(' '),
                // A line that goes on: the blanks before the rest do not count.
                Some((_, '\n')) => {
                    let rest = chars.as_str();
                    let blanks = rest.len() - rest.trim_start().len();
                    (0..rest[..blanks].chars().count()).for_each(|_| _ = chars.next());
                }
                Some((_, escaped)) => text.push(escaped),
                None => {}
            },
            c => text.push(c),
        }
    }
    (text, "")
}

/// A raw string at the beginning, and what follows.
fn raw_string(source: &str) -> Option<(&str, &str)> {
    let rest = source.strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let inside = rest[hashes..].strip_prefix('"')?;
    inside.split_once(&format!("\"{}", &rest[..hashes]))
}

/// What follows a character at the beginning; a lifetime is none.
fn character(source: &str) -> Option<&str> {
    let inside = source.strip_prefix('\'')?;
    match inside.strip_prefix('\\') {
        Some(escaped) => escaped[1..].split_once('\'').map(|(_, behind)| behind),
        None => {
            let c = inside.chars().next()?;
            inside[c.len_utf8()..].strip_prefix('\'')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r##"
        //! "in a comment" said nothing
        fn f<'a>(quote: char) -> &'a str {
            assert!(quote != '"', "the quote is not one");
            let text = format!("lock {name:?} is held \
                                by `{}`; {{wait}}");
            let raw = r#"the "store" is busy"#;
            tracing::warn!(target: "tenure", "a node is away");
        }
    "##;

    #[test]
    fn texts_are_found_as_the_page_writes_them() {
        let texts = literals(SOURCE).into_iter().map(|(text, _)| as_in_the_page(&text));
        assert_eq!(
            texts.collect::<Vec<_>>(),
            [
                "the quote is not one",
                "lock … is held by '…'; {wait}",
                "the \"store\" is busy",
                "tenure",
                "a node is away"
            ]
        );
    }

    #[test]
    fn only_what_users_are_told_is_a_message() {
        let messages = literals(SOURCE).into_iter().map(|(text, context)| (as_in_the_page(&text), context));
        let messages: Vec<_> = messages.filter(|(text, context)| is_message(text, context)).collect();
        let texts: Vec<_> = messages.iter().map(|(text, _)| &**text).collect();
        assert_eq!(texts, ["lock … is held by '…'; {wait}", "the \"store\" is busy"]);
        assert!(!is_message("Fix the settings of this client", ""), "advice");
        assert!(!is_message("SELECT name FROM life", "") && !is_message("not held", ""));
    }

    /// What is missing if the tool says these things and the page explains those.
    fn missing(said: &[&str], explained: &[&str], no_problems: &[&str]) -> Vec<String> {
        let source = said.iter().map(|text| format!("fn f() {{ say(\"{text}\"); }}\n")).collect();
        let page = explained.iter().map(|text| format!("| `{text}` | means | do |\n")).collect::<String>();
        compare(&[("crates/tenure-cli/src/main.rs".into(), source)], &page, no_problems)
    }

    #[test]
    fn a_message_without_a_row_and_a_row_without_a_message_are_noticed() {
        let message = "lock {name:?} is away";
        assert_eq!(missing(&[message], &["lock … is away"], &[]), [""; 0]);
        let unexplained = missing(&[message, "the node is new"], &["lock … is away"], &[]);
        assert!(
            unexplained.len() == 1 && unexplained[0].contains("no row for `the node is new`"),
            "{unexplained:?}"
        );
        let unsaid = missing(&[message], &["lock … is away", "it was old"], &[]);
        assert!(unsaid.len() == 1 && unsaid[0].contains("explains `it was old`"), "{unsaid:?}");
        assert_eq!(missing(&[message], &[], &["lock … is away"]), [""; 0], "no problem");
        assert_eq!(missing(&[], &[], &["lock … is away"]).len(), 1, "and nothing says it");
    }

    #[test]
    fn every_problem_has_a_row_and_every_row_a_problem() {
        std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        assert_eq!(problems(&super::super::rust_files().unwrap()).unwrap(), [""; 0]);
    }

    #[test]
    fn a_row_may_explain_several_messages() {
        let page = "text `not a row`\n| message | means |\n|---|---|\n| `a b c`, `d e f` | `g` |\n";
        assert_eq!(rows(page).collect::<Vec<_>>(), ["a b c", "d e f"]);
    }
}
