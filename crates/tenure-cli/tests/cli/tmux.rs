//! A real terminal.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tenure_testkit::installed;

use crate::deployment::{Deployment, is_alive};

/// A terminal of its own, of a server that ends with it.
pub(crate) struct Tmux {
    program: std::path::PathBuf,
    socket: std::path::PathBuf,
}

impl Tmux {
    /// Runs a command there; `None` if there is no tmux.
    pub(crate) fn run(deployment: &Deployment, size: (u16, u16), command: &str) -> Option<Self> {
        let program = installed("tmux")?.get_program().to_owned();
        let socket = deployment.folder().join("tmux");
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let mut start = deployment.program(program.to_str().unwrap());
        start.args(["-f", "/dev/null", "-S"]).arg(&socket);
        start.args(["new-session", "-d", "-x", &width, "-y", &height, command]).env("TERM", "xterm-256color");
        let status = start.stdin(Stdio::null()).status().unwrap();
        assert!(status.success(), "tmux does not start");
        Some(Self { program: program.into(), socket })
    }

    pub(crate) fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        let done = command.arg("-S").arg(&self.socket).args(arguments).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    pub(crate) fn shows(&self, what: &str) -> String {
        self.shows_that(what, |screen| screen.contains(what))
    }

    /// Waits until what is on the screen is so.
    pub(crate) fn shows_that(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "still not {what:?}:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn types(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.tmux(&["list-panes", "-F", "#{pane_pid}"]).trim().parse().unwrap()
    }

    pub(crate) fn ends(&self, process: u32) {
        let begun = Instant::now();
        while is_alive(process) {
            assert!(begun.elapsed() < Duration::from_secs(30), "it does not end:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
