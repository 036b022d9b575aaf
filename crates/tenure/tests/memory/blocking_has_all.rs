//! `blocking` has everything that the async side has: both sources are read, and compared by name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What `blocking` need not have, and why.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[(
    "Guard",
    &[
        "name",
        "names",
        "slot",
        "ttl",
        "valid_for",
        "validity",
        "is_valid",
        "state",
        "risk",
        "cancellation_token",
        "fence",
        "margin",
        "passed_on_after",
        "votes",
        "mode",
        "to_handover",
    ],
    "its guard shows these by `Deref`: none of them waits",
)];

/// The public methods of each type; whether one of them is async.
#[derive(Default)]
struct Api {
    methods: BTreeMap<String, BTreeSet<String>>,
    awaited: BTreeSet<String>,
    /// Public functions outside of types, and whether they are async.
    functions: BTreeMap<String, bool>,
}

impl Api {
    fn read(&mut self, source: &str) {
        let mut of = String::new();
        let mut hidden = false;
        let lines: Vec<&str> = source.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if line.starts_with("impl") {
                // `impl Trait for Type` has nothing of its own.
                of = if line.contains(" for ") { String::new() } else { type_of(line) };
            }
            let signature = || {
                let text = lines[at..].iter().take(8).copied().collect::<Vec<_>>().join(" ");
                text.split('{').next().unwrap_or_default().to_owned()
            };
            if let Some(name) = line.strip_prefix("    pub ").and_then(function)
                && !of.is_empty()
                && !hidden
            {
                self.methods.entry(of.clone()).or_default().insert(name.to_owned());
                if line.contains("async fn") || signature().contains("impl Future<") {
                    self.awaited.insert(of.clone());
                }
            }
            if let Some(name) = line.strip_prefix("pub ").and_then(function) {
                self.functions.insert(name.to_owned(), line.contains("async fn"));
            }
            hidden = line.contains("#[doc(hidden)]");
        }
    }
}

/// `impl<'a> Name<'a> {` is about `Name`.
fn type_of(line: &str) -> String {
    let rest = line.trim_start_matches("impl");
    let rest = if rest.starts_with('<') { rest.split_once("> ").map_or("", |(_, rest)| rest) } else { rest };
    rest.trim().split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// The name of a function that begins here.
fn function(text: &str) -> Option<&str> {
    let text = text.strip_prefix("const ").unwrap_or(text);
    let text = text.strip_prefix("async ").unwrap_or(text);
    text.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// The public API in `src` without `src/blocking`, and that of `src/blocking`.
fn apis() -> [Api; 2] {
    let mut apis = [Api::default(), Api::default()];
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_blocking = path
                .components()
                .any(|part| Path::new(part.as_os_str()).file_stem().is_some_and(|stem| stem == "blocking"));
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                apis[usize::from(is_blocking)].read(&fs::read_to_string(path).unwrap());
            }
        }
    }
    apis
}

#[test]
fn blocking_has_every_public_method_of_the_async_side() {
    let [plain, blocking] = apis();
    assert!(plain.awaited.len() > 5 && plain.functions["forget_nodes"], "the sources are read");
    let mut missing = vec![];
    for awaited in plain.awaited.iter().filter(|name| !blocking.methods.contains_key(*name)) {
        missing.push(format!("the type {awaited}, which has an async method"));
    }
    for (name, methods) in plain.methods.iter().filter(|(name, _)| blocking.methods.contains_key(*name)) {
        let excepted =
            |method: &str| EXCEPTIONS.iter().any(|(of, methods, _)| of == name && methods.contains(&method));
        let has = &blocking.methods[name];
        let absent = methods.iter().filter(|method| !has.contains(*method) && !excepted(method));
        missing.extend(absent.map(|method| format!("{name}::{method}")));
    }
    let awaited = plain.functions.iter().filter(|(_, is_async)| **is_async).map(|(name, _)| name);
    missing.extend(awaited.filter(|name| !blocking.functions.contains_key(*name)).cloned());
    assert!(missing.is_empty(), "blocking lacks {missing:?}; add them, or an exception with its reason");
}

#[test]
fn no_exception_is_out_of_date() {
    let [plain, blocking] = apis();
    for (name, methods, why) in EXCEPTIONS {
        for method in *methods {
            assert!(plain.methods[*name].contains(*method), "{name}::{method} is gone ({why})");
            assert!(!blocking.methods[*name].contains(*method), "{name}::{method} is there ({why})");
        }
    }
}
