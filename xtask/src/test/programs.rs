//! The test programs: built by cargo, run from here, so that it can be seen what is running and how
//! far it is.
//!
//! A few run at a time, because most of them wait for terms to end. The last times they took are
//! kept, and the longest begin first.

mod again;
mod long;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::report::{Report, clock};
use crate::command::{cargo, shown, target_folder};
use crate::prerequisites;

/// How many programs run at a time. More would not end sooner on two cores.
const LANES: usize = 2;

/// What makes some tests longer runs, where the time is there.
const LONG_RUNS: &[(&str, &str)] =
    &[("TENURE_INCREMENTS", "1000"), ("TENURE_PARTITION_RUNS", "50"), ("TENURE_CONTRACT_EXAMPLES", "100")];

/// A program that takes longer than this hangs: several times the longest, on a busy machine.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// How often those are named that are running, where no terminal can show it all the time.
const NEWS: Duration = Duration::from_secs(20);

/// The most characters of the line about what is running: more would wrap in many terminals.
const LINE_MAX: usize = 79;

/// Those that take longest, the longest first: where nothing is known yet they begin first.
const LONGEST: &[&str] = &[
    "tenure-sim/tests/model",
    "tenure-cli/tests/cli",
    "tenure/tests/redis",
    "tenure/src/tenure",
    "tenure-sim/tests/histories",
    "tenure-testkit/tests/processes",
    "tenure-interop/tests/peers",
    "tenure-cli/tests/dashboard",
];

/// How many skipped tests are named one by one.
const NAMED_MAX: usize = 6;

/// A test program, and where it runs.
#[derive(Clone)]
pub(super) struct Program {
    name: String,
    path: PathBuf,
    folder: PathBuf,
}

/// Builds all tests with all features.
pub(super) fn build() -> Result<Vec<Program>> {
    let mut command = cargo(["test", "--workspace", "--all-features", "--no-run"]);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("{} could not be started", shown(&command)))?;
    ensure!(output.status.success(), "{} failed ({})", shown(&command), output.status);
    let messages = String::from_utf8(output.stdout)?;
    let mut programs: Vec<Program> = vec![];
    for message in messages.lines() {
        programs.extend(program(&serde_json::from_str(message)?));
    }
    ensure!(!programs.is_empty(), "cargo built no test");
    Ok(programs)
}

/// The test program that a message of cargo's is about.
fn program(message: &Value) -> Option<Program> {
    let is_test = message["profile"]["test"] == true && message["reason"] == "compiler-artifact";
    let path = Path::new(message["executable"].as_str().filter(|_| is_test)?).to_owned();
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let target = &message["target"];
    let kind = if target["kind"][0] == "test" { "tests" } else { "src" };
    let package = folder.file_name()?.to_string_lossy();
    let name = format!("{package}/{kind}/{}", target["name"].as_str()?);
    Some(Program { name, path, folder })
}

/// Runs all of them, whatever fails; with `all`, some for longer.
pub(super) fn run(report: &mut Report, programs: &[Program], all: bool) -> Result<()> {
    let logs = Logs::open()?;
    let mut waiting = logs.longest_last(programs);
    let (mut running, mut done, mut failed, mut unknown) = (Vec::<Running>::new(), 0, vec![], vec![]);
    let mut screen = Screen::new();
    while !waiting.is_empty() || !running.is_empty() {
        while running.len() < LANES
            && let Some(program) = waiting.pop()
        {
            running.push(Running::start(program, &logs, all)?);
        }
        std::thread::sleep(Duration::from_millis(20));
        let mut still = vec![];
        for mut program in running {
            match program.end()? {
                None => still.push(program),
                Some(end) => {
                    done += 1;
                    screen.line(&format!("[{done}/{}] {}: {end}", programs.len(), program.program.name));
                    logs.keep(&program);
                    match end {
                        End::Failed { tests, .. } => {
                            println!("{}", program.output());
                            failed.push((program, tests));
                        }
                        End::Passed(_) if all => unknown.extend(program.unknown()),
                        End::Passed(_) => {}
                    }
                }
            }
        }
        running = still;
        screen.news(&running, done, programs.len());
    }
    logs.skipped(programs).into_iter().for_each(|skipped| report.skip(skipped));
    let left_out: usize = programs.iter().map(|program| long::of(&program.name).count()).sum();
    if !all && left_out > 0 {
        report.skip(format!("{left_out} long tests (`cargo xtask test --all` runs them, in half an hour)"));
    }
    let failed = again::run(report, failed, all)?;
    ensure!(failed.is_empty(), "these tests failed: {}", failed.join(", "));
    ensure!(unknown.is_empty(), "programs/long.txt lists tests that do not exist: {}", unknown.join(", "));
    Ok(())
}

/// A program that runs.
struct Running {
    program: Program,
    process: Child,
    begun: Instant,
    log: PathBuf,
    skips: PathBuf,
}

/// How a program ended.
enum End {
    Passed(String),
    Failed { words: String, tests: Vec<String> },
}

impl Running {
    fn start(program: Program, logs: &Logs, all: bool) -> Result<Self> {
        let (log, skips) = (logs.file(&program, "log"), logs.file(&program, "skipped"));
        let left_out = if all { vec![] } else { long::leave_out(&program.name) };
        Self::spawn(program, log, skips, all, &left_out)
    }

    fn spawn(program: Program, log: PathBuf, skips: PathBuf, all: bool, arguments: &[&str]) -> Result<Self> {
        let _ = fs::remove_file(&skips);
        let output = File::create(&log)?;
        let mut command = Command::new(&program.path);
        command.args(arguments);
        command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
        command.env("TENURE_TEST_SKIPS", &skips).env("PATH", prerequisites::path()?);
        command.env("TENURE_AXE", prerequisites::axe::script()?);
        command.envs(LONG_RUNS.iter().copied().filter(|_| all));
        // Nothing is skipped then.
        command.envs([("TENURE_PEERS_REQUIRED", "1")].into_iter().filter(|_| all));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let process = command.spawn().with_context(|| format!("{} could not be started", program.name))?;
        Ok(Self { program, process, begun: Instant::now(), log, skips })
    }

    /// Names in the list of long tests that no test has, once all tests have run.
    fn unknown(&self) -> Vec<String> {
        let (output, name) = (self.output(), &self.program.name);
        let unknown = long::unknown(name, &ended(&output).map(|(test, _)| test).collect::<BTreeSet<_>>());
        unknown.into_iter().map(|test| format!("{name} {test}")).collect()
    }

    fn output(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// How it ended, if it has.
    fn end(&mut self) -> Result<Option<End>> {
        let Some(status) = self.process.try_wait()? else {
            if self.begun.elapsed() < LIMIT {
                return Ok(None);
            }
            self.process.kill()?;
            self.process.wait()?;
            let words = format!("hangs: killed after {}", clock(LIMIT));
            return Ok(Some(End::Failed { words, tests: vec![] }));
        };
        let (output, took) = (self.output(), clock(self.begun.elapsed()));
        let (tests, failed) =
            (ended(&output).count(), ended(&output).filter(|(_, result)| *result == "FAILED"));
        let skipped = fs::read_to_string(&self.skips).unwrap_or_default();
        let is_skipped = |test: &str| skipped.lines().any(|line| line.split(": ").next() == Some(test));
        let failed: Vec<&str> = failed.map(|(test, _)| test).filter(|test| !is_skipped(test)).collect();
        // What needs something that is missing fails, and says so.
        let is_harmless =
            status.success() || (!skipped.is_empty() && status.code() == Some(101) && failed.is_empty());
        Ok(Some(match (is_harmless, skipped.lines().count()) {
            (true, 0) => End::Passed(format!("{tests} tests in {took}")),
            (true, skips) => End::Passed(format!("{tests} tests in {took}, {skips} of them skipped")),
            (false, _) => End::Failed {
                words: format!("FAILED ({status}) after {took}: {}", failed.join(", ")),
                tests: failed.into_iter().map(str::to_owned).collect(),
            },
        }))
    }
}

/// The tests that have ended, and how, as the test program says.
fn ended(output: &str) -> impl Iterator<Item = (&str, &str)> {
    output.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "))
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Passed(words) | Self::Failed { words, .. } => f.write_str(words),
        }
    }
}

/// What is kept of each program: its output, what it skipped, and how long it took.
struct Logs(PathBuf);

impl Logs {
    fn open() -> Result<Self> {
        let folder = std::path::absolute(target_folder().join("xtask-test"))?;
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    fn file(&self, program: &Program, ending: &str) -> PathBuf {
        self.0.join(format!("{}.{ending}", program.name.replace('/', "-")))
    }

    fn keep(&self, running: &Running) {
        // Only the order of the next run depends on it.
        let took = running.begun.elapsed().as_millis().to_string();
        let _ = fs::write(self.file(&running.program, "milliseconds"), took);
    }

    /// Those that took longest the last time come last, and those after them that are known to be
    /// long.
    fn longest_last(&self, programs: &[Program]) -> Vec<Program> {
        let took = |program: &Program| {
            let text = fs::read_to_string(self.file(program, "milliseconds"));
            let place = LONGEST.iter().rev().position(|name| *name == program.name);
            let presumed = || place.map_or(0, |place| u64::MAX / 2 + place as u64);
            text.ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or_else(presumed)
        };
        let mut sorted = programs.to_vec();
        sorted.sort_by_key(took);
        sorted
    }

    /// What was skipped, by the reason.
    fn skipped(&self, programs: &[Program]) -> Vec<String> {
        let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for program in programs {
            let text = fs::read_to_string(self.file(program, "skipped")).unwrap_or_default();
            for (test, reason) in text.lines().filter_map(|line| line.split_once(": ")) {
                reasons.entry(reason.to_owned()).or_default().push(format!("{} {test}", program.name));
            }
        }
        let told = |(reason, tests): (String, Vec<String>)| match tests.len() {
            0..=NAMED_MAX => format!("{} ({reason})", tests.join(", ")),
            more => format!("{more} tests ({reason}); {} has their names", self.0.display()),
        };
        reasons.into_iter().map(told).collect()
    }
}

/// What whoever waits sees.
struct Screen {
    terminal: bool,
    told: Instant,
}

impl Screen {
    fn new() -> Self {
        Self { terminal: std::io::stdout().is_terminal(), told: Instant::now() }
    }

    fn line(&mut self, line: &str) {
        self.clear();
        println!("    {line}");
    }

    fn clear(&self) {
        if self.terminal {
            print!("\r\x1b[2K");
        }
    }

    /// Says now and then what is running and for how long.
    fn news(&mut self, running: &[Running], done: usize, all: usize) {
        if self.told.elapsed() < if self.terminal { Duration::from_secs(1) } else { NEWS } {
            return;
        }
        self.told = Instant::now();
        let each = |running: &Running| {
            let (tests, took) = (ended(&running.output()).count(), clock(running.begun.elapsed()));
            format!("{} ({tests} tests in {took})", running.program.name)
        };
        let running = running.iter().map(each).collect::<Vec<_>>().join(", ");
        if self.terminal {
            self.clear();
            let line: String =
                format!("    {done}/{all} done, running {running}").chars().take(LINE_MAX).collect();
            print!("{line}");
            let _ = std::io::stdout().flush();
        } else {
            println!("    {done}/{all} done, running {running}");
        }
    }
}
