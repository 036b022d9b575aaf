//! `docs/tenure.svg`: the tool in a terminal, drawn from a real run.
//!
//! Each command runs at a terminal of its own (`script` makes one), with a home and a store that
//! exist for the recording alone. What it prints, and when, goes through a small terminal
//! ([`terminal`]) and becomes a picture that moves ([`svg`]).

mod svg;
mod terminal;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::svg::Film;
use self::terminal::Terminal;
use crate::command::{cargo, run as run_shown, target_folder};

const PICTURE: &str = "docs/tenure.svg";
const COLUMNS: usize = 104;
const ROWS: usize = 18;

/// What is typed. The first goes on in the background while the others run.
const BACKGROUND: &str = "tenure run backup --label 'nightly backup' -- ./backup.sh &";
const COMMANDS: &[&str] = &[
    "tenure run backup -- ./backup.sh; echo \"exit $?\"",
    "tenure status backup",
    "tenure run backup --wait 1m -- echo 'my turn'",
];

/// What the first command does: long enough for the others to be seen.
const BACKUP: &str = "#!/bin/sh\nsleep 9\n";

/// How long people need to read a line that was typed, and what it printed.
const TYPING: Duration = Duration::from_millis(900);
const READING: Duration = Duration::from_millis(1800);

pub(super) fn run() -> Result<()> {
    run_shown(&mut cargo(["build", "--quiet", "--package", "tenure-cli"]))?;
    let stage = Stage::set()?;
    let mut terminal = Terminal::new(COLUMNS, ROWS);
    let mut film = Film::default();
    terminal.write(format!("$ {BACKGROUND}\r\n").as_bytes());
    film.show(&terminal, TYPING);
    let mut background = stage.background()?;
    std::thread::sleep(TYPING);
    for command in COMMANDS {
        terminal.write(format!("$ {command}\r\n").as_bytes());
        film.show(&terminal, TYPING);
        stage.record(command, &mut terminal, &mut film)?;
        film.show(&terminal, READING);
    }
    background.wait()?;
    film.show(&terminal, READING);
    std::fs::write(PICTURE, film.svg(COLUMNS, ROWS))?;
    println!("    {PICTURE}: {} pictures", film.len());
    Ok(())
}

/// A home, and the tool first in the path.
struct Stage {
    folder: std::path::PathBuf,
    tools: std::path::PathBuf,
    host: String,
}

impl Stage {
    fn set() -> Result<Self> {
        let folder = std::path::absolute(target_folder())?.join("xtask-record");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("backup.sh"), BACKUP)?;
        run_shown(Command::new("chmod").arg("755").arg(folder.join("backup.sh")))?;
        let tools = std::path::absolute(target_folder())?.join("debug");
        let host =
            std::fs::read_to_string("/proc/sys/kernel/hostname").context("this machine has no name")?;
        Ok(Self { folder, tools, host: host.trim().to_owned() })
    }

    fn command(&self, program: &str) -> Result<Command> {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths(std::iter::once(self.tools.clone()).chain(std::env::split_paths(&path)))?;
        command.env_clear().env("PATH", path).env("HOME", &self.folder).env("TERM", "xterm-256color");
        command.env("COLUMNS", COLUMNS.to_string()).env("LINES", ROWS.to_string()).env("TZ", "UTC");
        command.current_dir(&self.folder).stdin(Stdio::null());
        Ok(command)
    }

    fn background(&self) -> Result<Child> {
        let words = BACKGROUND.trim_end_matches(" &");
        let mut command = self.command("sh")?;
        command.args(["-c", &format!("exec {words}")]).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().context("the first command could not be started")
    }

    /// Runs a command at a terminal, and shows what it prints when it prints it.
    fn record(&self, command: &str, terminal: &mut Terminal, film: &mut Film) -> Result<()> {
        let sized = format!("stty cols {COLUMNS} rows {ROWS}; {command}");
        let mut child = self
            .command("script")?
            .args(["--quiet", "--flush", "--command", &sized, "/dev/null"])
            .stdout(Stdio::piped())
            .spawn()
            .context("`script` could not be started: it comes with util-linux, or as bsdutils")?;
        let mut output = child.stdout.take().context("it has an output")?;
        let (mut bytes, mut last) = ([0; 4096], Instant::now());
        loop {
            let count = output.read(&mut bytes)?;
            film.wait(last.elapsed());
            last = Instant::now();
            if count == 0 {
                break;
            }
            terminal.write(self.shown(&bytes[..count]).as_bytes());
            film.show(terminal, Duration::ZERO);
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("{command} failed at a terminal ({status})");
        }
        Ok(())
    }

    /// Names that are the same wherever it is recorded.
    fn shown(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes).replace(&format!("@{}", self.host), "@web-1");
        text.replace(&self.folder.display().to_string(), "/home/ann")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.folder));
    }
}
