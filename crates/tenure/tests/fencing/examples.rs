//! The programs in `examples/`, run as a reader runs them: they print what they promise, and end.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tenure_testkit::{blocks, nursery, require};

/// The longest takes five seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// An example that cargo has built with this test, or builds now if it has built the test alone.
fn program(name: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let source = [examples.join(format!("{name}.rs")), examples.join(name).join("main.rs")];
    let source = source.into_iter().find(|source| source.exists()).unwrap();
    // This program lies in `target/debug/deps`.
    let target = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
    let program = target.join("examples").join(name);
    let changed = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    if changed(&program) < changed(&source) {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "tenure", "--example", name]);
        assert!(cargo.status().unwrap().success(), "{name} is not built");
    }
    program
}

fn start(name: &str) -> Child {
    let mut command = nursery::command(program(name));
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    nursery::spawn(command).unwrap()
}

/// What it prints, line by line. It has to end by itself, and well.
fn lines(name: &str) -> Vec<String> {
    let mut process = start(name);
    let mut printed = String::new();
    process.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    ends(process, name);
    printed.lines().map(str::to_owned).collect()
}

fn ends(mut process: Child, name: &str) {
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match process.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                process.kill().unwrap();
                panic!("{name} does not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(status.success(), "{name}: {status}");
}

fn assert_sorted(lines: &[String]) {
    assert!(lines.is_sorted() && lines.len() > 1, "{lines:?}");
}

#[test]
fn every_example_does_what_it_says() {
    let first_lock = lines("first_lock");
    assert!(first_lock[0].starts_with("I hold the lock; votes: memory:a: granted"), "{first_lock:?}");
    assert_eq!(first_lock[1..], ["nobody else can get it", "released"]);

    let mut calls = lines("web_handler");
    assert_eq!(calls.pop().unwrap(), "POST /import/acme: 200 imported acme", "it was free again");
    calls.sort();
    let at_the_same_time = [
        "POST /import/acme: 200 imported acme",
        "POST /import/acme: 409 an import of acme is running",
        "POST /import/globex: 200 imported globex",
    ];
    assert_eq!(calls, at_the_same_time);

    let mut reports = lines("cron");
    assert_eq!(reports.pop().unwrap(), "3 periods, 3 machines, 3 reports");
    let periods: Vec<&str> = reports.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(periods, ["period 0", "period 1", "period 2"], "{reports:?}");

    let terms = lines("leader");
    assert_eq!((terms.len(), terms.last().unwrap().as_str()), (7, "nobody is left"), "{terms:?}");
    let elected = terms.iter().filter_map(|line| line.split_once(" leads, epoch "));
    let (names, epochs): (Vec<&str>, Vec<String>) =
        elected.map(|(name, epoch)| (name, epoch.to_owned())).unzip();
    assert_sorted(&epochs);
    let left = terms.iter().filter_map(|line| line.strip_suffix(" leaves"));
    assert_eq!(left.collect::<Vec<_>>(), names, "one after the other");

    assert_eq!(
        lines("fencing_sql"),
        [
            "ann reads 100 and is paused",
            "bob writes 90: true",
            "ann writes 99: false",
            "ann writes 89: true",
            "89 pieces are left"
        ]
    );

    let ends_by_itself = lines("graceful_shutdown");
    assert_eq!(ends_by_itself[1], "stopped by nobody, in time", "{ends_by_itself:?}");
    assert_eq!(ends_by_itself.last().unwrap(), "free for the next: true");
}

#[test]
fn the_example_that_is_told_to_stop_releases_its_lock() {
    let mut process = start("graceful_shutdown");
    let mut printed = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(printed.next().unwrap().starts_with("working; "));
    let pid = rustix::process::Pid::from_child(&process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let printed: Vec<String> = printed.collect();
    ends(process, "graceful_shutdown");
    assert_eq!(printed[0], "stopped by SIGTERM");
    assert!(printed[1].ends_with(" whole steps, released: true"), "{printed:?}");
    assert_eq!(printed[2], "free for the next: true");
}

/// Line by line, but for the fences.
#[test]
fn the_example_with_paused_processes_is_what_the_page_shows() {
    require("redis-server");
    let page = include_str!("../../../../docs/how-to/fencing.md");
    let [block]: [&str; 1] = blocks(page, "console").try_into().unwrap();
    let shown: Vec<&str> = block.lines().collect();
    assert_eq!(shown[..2], ["$ cargo run -p tenure --example fencing", "..."], "docs/how-to/fencing.md");
    let plain = |line: &str| line.replace(|c: char| c.is_ascii_digit(), "");
    let printed: Vec<String> = lines("fencing").iter().map(|line| plain(line)).collect();
    let shown: Vec<String> = shown[2..].iter().map(|line| plain(line)).collect();
    assert!(printed.ends_with(&shown), "{printed:#?}");
}
