//! The console blocks of the pages, run as a reader would run them: what a page shows is what
//! happens.
//!
//! All blocks of a page run in order in one shell, with the tool under test first in the path, and
//! a folder that is their home. `CONTRIBUTING.md` says how a page marks what varies. With
//! `UPDATE_TESTDATA=1` the pages are rewritten from what happened: read the difference.

mod markdown;
mod shell;
mod varies;

use std::path::Path;
use std::process::Command;

use regex::Regex;
use tenure_testkit::{Port, RedisServer, require};

use self::markdown::{Block, Page, Step};
use self::shell::Shell;
use self::varies::differences;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_readme_is_what_happens() {
    run("README.md");
}

#[test]
fn the_tutorial_is_what_happens() {
    require("redis-server");
    run("docs/tutorial.md");
}

// It runs the demo.
#[cfg(feature = "top")]
#[test]
fn the_page_about_redlock_is_what_happens() {
    require("redis-server");
    run("docs/explanation/is-redlock-safe.md");
}

#[test]
fn the_page_about_exit_codes_is_what_happens() {
    run("docs/reference/exit-codes.md");
}

#[test]
fn the_page_about_settings_is_what_happens() {
    run("docs/reference/settings.md");
}

#[test]
fn the_page_about_the_dashboard_is_what_happens() {
    run("docs/reference/dashboard.md");
}

#[test]
fn the_page_about_the_tool_is_what_happens() {
    require("redis-server");
    run("docs/reference/cli.md");
}

#[test]
fn the_examples_of_capacity_are_what_happens() {
    run("docs/capacity.md");
}

/// Runs the blocks of a page, and compares.
#[track_caller]
fn run(file: &str) {
    let path = Path::new(ROOT).join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let page = Page::parse(&text);
    assert!(!page.blocks.is_empty(), "{file} has no block to run");
    let stage = Stage::set(&page);
    let mut shell = Shell::start(stage.folder.path());
    let (mut problems, mut rewritten) = (vec![], vec![]);
    for block in &page.blocks {
        let mut shown = vec![];
        for command in &block.setup {
            let (said, code) = shell.execute(&stage.real(command));
            assert_eq!(code, 0, "{file}: {command}: {said}");
        }
        for step in &block.steps {
            let (happened, code) = shell.execute(&stage.real(&step.command));
            let happened = stage.shown(&happened);
            if let Some(problem) = problem(block, step, &happened, code) {
                problems.push(format!("{file}:{}: $ {}\n{problem}", step.line, step.command));
                shown.push(step.with(&happened));
            } else {
                shown.push(step.with(&step.output));
            }
        }
        rewritten.push(shown.concat());
    }
    if problems.is_empty() {
        return;
    }
    if std::env::var_os("UPDATE_TESTDATA").is_some() {
        std::fs::write(&path, page.rewritten(&text, &rewritten)).unwrap();
        return;
    }
    panic!("{}\nif that is right, run this test with UPDATE_TESTDATA=1", problems.join("\n"));
}

/// What differs from what the page shows. A command that shows nothing has to succeed: otherwise
/// nothing about it could fail.
fn problem(block: &Block, step: &Step, happened: &str, code: i32) -> Option<String> {
    if let Some(difference) = differences(&block.varies, &step.output, happened) {
        return Some(difference);
    }
    (step.output.trim().is_empty() && code != 0).then(|| format!("it ended with {code}"))
}

/// What a page is played with: a folder, servers for the nodes it names, free ports for those that
/// it starts servers on.
struct Stage {
    folder: tempfile::TempDir,
    /// What the page says, and what it is here.
    names: Vec<(String, String)>,
    _servers: Vec<RedisServer>,
    _ports: Vec<Port>,
}

impl Stage {
    fn set(page: &Page<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut names = vec![("/home/ann".to_owned(), folder.path().to_str().unwrap().to_owned())];
        let (mut servers, mut ports) = (vec![], vec![]);
        for node in page.settings("nodes") {
            let server = RedisServer::start(&[]);
            names.push((node.to_owned(), format!("127.0.0.1:{}", server.port())));
            servers.push(server);
        }
        for port in page.settings("ports") {
            let claimed = Port::claim();
            names.push((port.to_owned(), claimed.number().to_string()));
            ports.push(claimed);
        }
        let host = Command::new("uname").arg("-n").output().unwrap().stdout;
        names.push(("@web-1".to_owned(), format!("@{}", String::from_utf8(host).unwrap().trim())));
        Self { folder, names, _servers: servers, _ports: ports }
    }

    /// What the page says, as it is here.
    fn real(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (shown, real)| text.replace(shown, real))
    }

    /// What happened here, as the page would say it.
    fn shown(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (shown, real)| {
            // A port is not a part of a longer number.
            let whole = Regex::new(&format!(r"{}\b", regex::escape(real))).unwrap();
            whole.replace_all(&text, regex::NoExpand(shown)).into_owned()
        })
    }
}
