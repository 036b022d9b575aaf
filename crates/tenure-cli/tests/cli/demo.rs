//! The demo, with real keys in a real terminal, and in a pipe.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tenure_testkit::installed;

use crate::deployment::{Deployment, TOOL, embedded_store, is_alive};
use crate::tmux::Tmux;

const PATIENCE: Duration = Duration::from_secs(60);

/// The demo in a terminal; `None` without tmux or `redis-server`.
fn demo(deployment: &Deployment) -> Option<Tmux> {
    installed("redis-server")?;
    let tmux = Tmux::run(deployment, (120, 40), &format!("exec '{TOOL}' demo"))?;
    tmux.shows("acquired");
    Some(tmux)
}

/// The line that a node has.
fn node(screen: &str, number: u32) -> &str {
    let is_it =
        |line: &&str| line.trim_start_matches(['>', ' ']).starts_with(&format!("{number}  127.0.0.1:"));
    screen.lines().find(is_it).unwrap_or_default()
}

/// Types a key until the screen shows what comes of it: at some moments nobody holds the lock.
fn pause_the_holder(tmux: &Tmux) {
    let begun = Instant::now();
    while !tmux.screen().contains("paused while it holds") {
        assert!(begun.elapsed() < PATIENCE, "nobody is paused:\n{}", tmux.screen());
        tmux.types(&["p"]);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Everything that a process has started.
fn children(process: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    listed.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

/// The folder of a demo, as one of its processes knows it.
fn folder(children: &[u32]) -> std::path::PathBuf {
    let words = |child: &u32| std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
    let sweeper = children.iter().map(words).find(|words| words.contains("__demo-sweep")).unwrap();
    sweeper.split('\0').nth(2).unwrap().into()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nodes_are_killed_emptied_and_back_and_a_paused_holder_is_passed_over() {
    let deployment = embedded_store();
    let Some(tmux) = demo(&deployment) else { return };
    tmux.shows_that("five votes", |screen| (1..=5).all(|number| node(screen, number).contains("votes")));
    tmux.types(&["2", "k"]);
    tmux.shows_that("node 2 gone", |screen| {
        node(screen, 2).contains("KILLED") && node(screen, 2).contains("unreachable")
    });
    tmux.types(&["e"]);
    tmux.shows("node 2 is down");
    tmux.types(&["5", "s"]);
    tmux.shows_that("node 5 stopped", |screen| node(screen, 5).contains("STOPPED"));
    tmux.types(&["c", "2", "r"]);
    tmux.shows_that("node 5 continued", |screen| !node(screen, 5).contains("STOPPED"));
    tmux.shows_that("node 2 back", |screen| node(screen, 2).contains("in quarantine, votes in"));
    tmux.types(&["3", "e"]);
    tmux.shows_that("node 3 emptied", |screen| node(screen, 3).contains("in quarantine, votes in"));
    pause_the_holder(&tmux);
    tmux.shows("expired");
    tmux.types(&["u"]);
    tmux.shows("is late: write with fence");
    tmux.shows_that("five votes", |screen| {
        (1..=5).all(|number| node(screen, number).contains("up") && node(screen, number).contains("votes"))
    });
    let screen = tmux.shows("never two holders at once");
    assert!(screen.contains("http://127.0.0.1:"), "{screen}");
    tmux.types(&["?"]);
    tmux.shows("(SIGSTOP): it keeps its connections");
    let process = tmux.pid();
    let (children, begun) = (children(process), Instant::now());
    let folder = folder(&children);
    tmux.types(&["q"]);
    tmux.ends(process);
    assert!(children.len() >= 15 && !children.iter().any(|child| is_alive(*child)), "{children:?}");
    assert!(!folder.exists() && begun.elapsed() < PATIENCE);
}

#[test]
fn without_the_guard_two_hold_the_lock_and_fences_tell_them_apart_and_nothing_outlives_a_kill() {
    let deployment = embedded_store();
    let Some(tmux) = demo(&deployment) else { return };
    tmux.types(&["g"]);
    tmux.shows("restart guard OFF");
    // A machine that is too busy may pass a moment by; then once more.
    let begun = Instant::now();
    let screen = loop {
        tmux.types(&["m"]);
        tmux.shows("emptied while");
        let tried = Instant::now();
        let mut screen = tmux.screen();
        while !screen.contains("TWO HOLDERS AT ONCE") && tried.elapsed() < Duration::from_secs(8) {
            std::thread::sleep(Duration::from_millis(50));
            screen = tmux.screen();
        }
        if screen.contains("TWO HOLDERS AT ONCE") {
            break screen;
        }
        assert!(begun.elapsed() < PATIENCE, "{screen}");
    };
    let both = screen.lines().find(|line| line.contains(" with fence ")).unwrap();
    let fences: Vec<u64> = both.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    assert!(fences.len() == 2 && fences[0] < fences[1], "{both}");
    tmux.shows(&format!("fence {} rejected", fences[0]));
    tmux.shows("two holders at once");
    tmux.types(&["4", "s"]);
    tmux.shows_that("node 4 stopped", |screen| node(screen, 4).contains("STOPPED"));
    pause_the_holder(&tmux);

    let process = tmux.pid();
    let children = children(process);
    let folder = folder(&children);
    assert!(children.len() >= 15 && children.iter().all(|child| is_alive(*child)) && folder.exists());
    let kill = Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap();
    assert!(kill.success());
    wait_until("processes are left", || !children.iter().any(|child| is_alive(*child)));
    wait_until("the folder is left", || !folder.exists());
}

/// The demo in a pipe, with JSON.
struct Piped {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Piped {
    fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn types(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// The next line about this, and the lines before it.
    fn next(&mut self, event: &str) -> (Value, Vec<Value>) {
        self.next_that(event, |line| line["event"] == event)
    }

    fn next_that(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> (Value, Vec<Value>) {
        let mut before = vec![];
        loop {
            let line = self.lines.next().unwrap_or_else(|| panic!("no {what} after {before:?}")).unwrap();
            let line: Value = serde_json::from_str(&line).unwrap();
            if is_it(&line) {
                return (line, before);
            }
            before.push(line);
        }
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn with_the_guard_nobody_gets_a_lock_that_a_majority_forgot_while_it_is_held() {
    let deployment = embedded_store();
    if installed("redis-server").is_none() {
        return;
    }
    let mut demo =
        Piped::start(&mut deployment.command(&["demo", "--json", "--no-dashboard", "--seconds", "60"]));
    let (begun, _) = demo.next("begun");
    assert_eq!((&begun["nodes"], &begun["dashboard"]), (&5.into(), &Value::Null));
    demo.next("acquired");
    demo.types("m\n");
    let (emptied, _) = demo.next("majority_emptied");
    // The release of the one before may be reported a moment later than the grant.
    let (released, before) = demo.next_that("release", |line| {
        line["event"] == "released" && line["contender"] == emptied["contender"]
    });
    let is_wrong = |line: &Value| line["event"] == "acquired" || line["event"] == "two_holders";
    assert!(!before.iter().any(is_wrong), "{before:?}");
    let (next, before) = demo.next("acquired");
    assert!(next["fence"].as_u64() > released["fence"].as_u64(), "{released} {next}");
    assert!(!before.iter().any(is_wrong), "{before:?}");
    demo.types("q");
    assert!(demo.child.wait().unwrap().success());
}

#[test]
fn without_redis_server_the_embedded_store_is_shown_and_what_to_install_is_said() {
    let deployment = embedded_store();
    let mut command = deployment.command(&["demo", "--json"]);
    let mut demo = Piped::start(command.env("PATH", deployment.folder()));
    let (begun, _) = demo.next("begun");
    assert_eq!(begun["nodes"], 1);
    assert!(begun["dashboard"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{begun}");
    let (note, _) = demo.next("note");
    assert!(note["note"].as_str().unwrap().contains("apt install redis-server"), "{note}");
    demo.next("released");
    for key in ["k", "g", "m", "2"] {
        demo.types(key);
        let (note, _) = demo.next("note");
        let note = note["note"].as_str().unwrap();
        assert!(note.contains("install redis-server") || note.contains("there is one node"), "{key}: {note}");
    }
    let children = children(demo.child.id());
    // The end of the input is the end.
    drop(demo.child.stdin.take());
    assert!(demo.child.wait().unwrap().success());
    assert!(children.len() >= 10 && !children.iter().any(|child| is_alive(*child)), "{children:?}");
}
