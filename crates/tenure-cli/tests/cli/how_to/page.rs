//! A page of the documentation whose commands are run as a reader would: in order, in one shell, in
//! an empty folder.
//!
//! In a `console` block a line that begins with `$ ` is a command, which goes on in lines that
//! begin with `> ` or follow a backslash; other lines are what it prints. `...` stands for any
//! lines. Long numbers, times and process ids may differ. A command has to succeed: where it should
//! not, the page shows its exit code with `; echo "exit $?"`.
//!
//! `UPDATE_TESTDATA=1` writes what commands really print into the page.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::deployment::{Deployment, Done, TOOL};

/// The repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// No page takes longer than this, or one of its commands hangs.
const LIMIT_SECONDS: &str = "120";

/// Waits until somebody has a lock: a reader is slower than this shell.
const PREAMBLE: &str = r#"
set_aside() {
    for _ in $(seq 400); do
        tenure status "$1" --exit-code > /dev/null 2>&1
        if [ $? = 75 ]; then return; fi
        sleep 0.05
    done
}
"#;

pub(crate) struct Page {
    path: PathBuf,
    text: String,
    /// What a page calls something, and what it is called here.
    names: Vec<(String, String)>,
    /// A variable that its reader has not set.
    unset: Option<&'static str>,
}

/// A command, and what the page says that it prints.
#[derive(Debug)]
struct Step {
    command: String,
    shown: Vec<String>,
    /// The lines of the page that `shown` has.
    lines: std::ops::Range<usize>,
}

impl Page {
    /// A page by its path in the repository.
    pub(crate) fn open(path: &str) -> Self {
        let path = Path::new(ROOT).join(path);
        let text = std::fs::read_to_string(&path).unwrap();
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        Self { path, text, names: vec![], unset: None }.with("@web-1", format!("@{}", machine.trim()))
    }

    /// What the page calls `shown` is `real` here.
    pub(crate) fn with(mut self, shown: &str, real: impl Into<String>) -> Self {
        self.names.push((shown.to_owned(), real.into()));
        self
    }

    /// Runs without this variable.
    pub(crate) fn without(self, variable: &'static str) -> Self {
        Self { unset: Some(variable), ..self }
    }

    /// The text of the first block of this language.
    pub(crate) fn block(&self, language: &str) -> &str {
        let (_, rest) = self.text.split_once(&format!("\n```{language}\n")).unwrap();
        rest.split_once("\n```").unwrap().0
    }

    /// Runs all its commands and compares what they print.
    #[track_caller]
    pub(crate) fn run(&self, deployment: &Deployment, variables: &[(&str, String)]) {
        let steps = self.steps();
        assert!(!steps.is_empty(), "{} shows no command", self.path.display());
        let folder = tempfile::tempdir().unwrap();
        let script = self.script(&steps, deployment.folder(), folder.path());
        std::fs::write(folder.path().join("script"), script).unwrap();
        let mut shell = deployment.program("timeout");
        shell.args([LIMIT_SECONDS, "bash"]).arg(folder.path().join("script"));
        shell.envs(variables.iter().map(|(name, value)| (name, value)));
        with_tool_on_path(&mut shell);
        self.unset.iter().for_each(|variable| {
            shell.env_remove(variable);
        });
        let done = Done::of(shell.output().unwrap());
        assert_eq!(done.code, Some(0), "{}: the shell failed: {done:?}", self.path.display());
        let failed = std::fs::read_to_string(folder.path().join("failed")).unwrap_or_default();
        let printed: Vec<String> =
            (0..steps.len()).map(|step| self.as_shown(&read(folder.path(), step))).collect();
        assert!(failed.is_empty(), "{}: {failed}{printed:#?}", self.path.display());
        self.compare(&steps, &printed);
    }

    fn compare(&self, steps: &[Step], printed: &[String]) {
        let mut differences = String::new();
        let mut lines: Vec<String> = self.text.lines().map(str::to_owned).collect();
        // From the end, so that the numbers of the lines before it still count.
        for (step, printed) in steps.iter().zip(printed).rev() {
            let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
            if !matches(&step.shown, &printed) {
                let shown = step.shown.join("\n");
                let _ = writeln!(
                    differences,
                    "$ {}\n--- shown\n{shown}\n--- printed\n{}\n",
                    step.command,
                    printed.join("\n")
                );
                lines.splice(step.lines.clone(), printed.into_iter().map(str::to_owned));
            }
        }
        if !differences.is_empty() && std::env::var_os("UPDATE_TESTDATA").is_some() {
            std::fs::write(&self.path, lines.join("\n") + "\n").unwrap();
            return;
        }
        assert!(differences.is_empty(), "{} is not what happens:\n{differences}", self.path.display());
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = vec![];
        let (mut inside, mut number) = (false, 0);
        for line in self.text.lines() {
            number += 1;
            let last = steps.last_mut().filter(|_| inside);
            if line.starts_with("```") {
                inside = !inside && line == "```console";
            } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
                steps.push(Step { command: command.to_owned(), shown: vec![], lines: number..number });
            } else if let Some(step) = last {
                let more = line.strip_prefix('>').filter(|_| step.shown.is_empty());
                let more = more.map(|more| more.strip_prefix(' ').unwrap_or(more));
                match more.or_else(|| step.command.ends_with('\\').then_some(line)) {
                    Some(more) => {
                        step.command = format!("{}\n{more}", step.command);
                        step.lines.start = number;
                    }
                    None => step.shown.push(line.trim_end().to_owned()),
                }
                step.lines.end = number;
            }
        }
        steps
    }

    fn script(&self, steps: &[Step], work: &Path, results: &Path) -> String {
        let (work, results) = (work.display(), results.display());
        let mut script = format!("cd {work}\n{PREAMBLE}");
        for (number, step) in steps.iter().enumerate() {
            let command = self.as_real(&step.command);
            let _ = writeln!(
                script,
                "{{ {command}\n}} > {results}/{number} 2>&1 || echo 'failed: {number}' >> {results}/failed"
            );
            if let Some(lock) = command.strip_suffix('&').and_then(holds) {
                let _ = writeln!(script, "set_aside {lock}");
            }
        }
        script
            + "running=$(jobs -p); if [ -n \"$running\" ]; then kill $running; wait; fi 2> /dev/null\nexit 0\n"
    }

    fn as_real(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (shown, real)| text.replace(shown, real))
    }

    fn as_shown(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (shown, real)| text.replace(real, shown))
    }
}

/// The tool by its name, as pages call it.
pub(crate) fn with_tool_on_path(command: &mut Command) {
    let own = Path::new(TOOL).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(own).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(path).unwrap());
}

fn read(folder: &Path, step: usize) -> String {
    let printed = std::fs::read(folder.join(step.to_string())).unwrap_or_default();
    String::from_utf8_lossy(&printed).into_owned()
}

/// The lock that a command holds in the background.
fn holds(command: &str) -> Option<&str> {
    let (_, rest) = command.split_once("tenure run ").or_else(|| command.split_once("tenure lead "))?;
    rest.split(' ').next()
}

/// Whether these lines are as shown.
fn matches(shown: &[String], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line == "..." => {
            (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| plain(line) == plain(first) && matches(rest, others)),
    }
}

/// A line without what differs from run to run: long numbers, fractions and times, and process ids
/// with their machine.
fn plain(line: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == ':';
    let (mut plain, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
        let number = rest[..end].trim_end_matches(['.', ':']);
        rest = &rest[number.len()..];
        if let Some(machine) = rest.strip_prefix('@') {
            rest = &machine[machine.find([' ', ',', ';']).unwrap_or(machine.len())..];
            plain.push_str("PROCESS");
        } else if number.len() < 4 && number.bytes().all(|byte| byte.is_ascii_digit()) {
            plain.push_str(number);
        } else {
            // Clocks are ahead or behind.
            plain.truncate(plain.trim_end_matches(['+', '-']).len());
            plain.push_str("NUMBER");
        }
    }
    plain + rest
}

#[test]
fn what_differs_from_run_to_run_is_not_compared() {
    let held = "lock \"backup\" is held by 6367@vm nightly, free in 32.1 s; exit 75";
    assert_eq!(plain(held), "lock \"backup\" is held by PROCESS nightly, free in NUMBER s; exit 75");
    assert_eq!(plain("clock +1.5 ms"), plain("clock -0.2 ms"));
    assert_eq!(plain("at 03:20:09, fence 1794922611052113."), "at NUMBER, fence NUMBER.");
}

#[test]
fn what_is_shown_has_to_be_printed() {
    let shown = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(matches(&shown(&["a", "...", "z"]), &["a", "b", "c", "z"]));
    assert!(!matches(&shown(&["a", "...", "z"]), &["a", "b", "c"]));
    assert!(!matches(&shown(&["exit 75"]), &["exit 69"]));
    assert!(!matches(&[], &["something"]));
}
