//! `top` in a real terminal, with real keys.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tenure_testkit::installed;

use crate::deployment::{
    Deployment, TOOL, deployments_and_service, embedded_store, five_redis_nodes, is_alive,
};

/// A terminal of its own, of a server that ends with it.
struct Tmux {
    program: std::path::PathBuf,
    socket: std::path::PathBuf,
}

impl Tmux {
    /// Runs a command there; `None` if there is no tmux.
    fn run(deployment: &Deployment, size: (u16, u16), command: &str) -> Option<Self> {
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

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        let done = command.arg("-S").arg(&self.socket).args(arguments).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn shows(&self, what: &str) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(what) {
                return screen;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "still no {what:?}:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn types(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn pid(&self) -> u32 {
        self.tmux(&["list-panes", "-F", "#{pane_pid}"]).trim().parse().unwrap()
    }

    fn ends(&self, process: u32) {
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

#[test]
fn locks_and_nodes_are_shown_sorted_filtered_and_in_full_by_nodes_and_by_a_service() {
    for deployment in deployments_and_service() {
        let _one = deployment.hold(&["alpha", "--label", "first"]);
        let two = deployment.hold(&["beta", "--label", "second"]);
        let Some(tmux) = Tmux::run(&deployment, (100, 30), &format!("exec '{TOOL}' top")) else { return };
        let screen = tmux.shows("beta");
        assert!(
            screen.contains("alpha") && screen.contains("second") && screen.contains("2 held"),
            "{screen}"
        );
        tmux.shows("nodes vote; locks are given");
        tmux.types(&["/", "b", "e", "t", "Enter"]);
        tmux.shows("filter: bet");
        assert!(!tmux.screen().contains("alpha"));
        tmux.types(&["Enter"]);
        let screen = tmux.shows("frees in");
        assert!(screen.contains("fence") && screen.contains("second"), "{screen}");
        tmux.types(&["F"]);
        tmux.shows("--allow-force");
        drop(two);
        tmux.shows("free");
        tmux.types(&["Escape"]);
        tmux.shows("no lock fits the filter");
        tmux.types(&["Escape", "n"]);
        tmux.shows("persistence");
        tmux.types(&["?"]);
        tmux.shows("one lock in full");
        let process = tmux.pid();
        tmux.types(&["q"]);
        tmux.ends(process);
    }
}

#[test]
fn a_lock_is_taken_from_its_holder_after_a_question() {
    let deployment = embedded_store();
    let holder = deployment.hold(&["x", "--label", "stuck"]);
    let Some(tmux) = Tmux::run(&deployment, (100, 20), &format!("exec '{TOOL}' top --allow-force")) else {
        return;
    };
    tmux.shows("stuck");
    tmux.types(&["Enter"]);
    tmux.shows("waiters");
    tmux.types(&["F"]);
    tmux.shows("Take x from");
    tmux.types(&["y"]);
    tmux.shows("was taken from its holder");
    tmux.shows("free");
    drop(holder);
}

#[test]
fn a_terminal_may_be_resized_and_closed() {
    let deployment = embedded_store();
    let _holder = deployment.hold(&["x"]);
    let Some(tmux) = Tmux::run(&deployment, (100, 30), &format!("exec '{TOOL}' top")) else { return };
    tmux.shows("1 held");
    tmux.tmux(&["resize-window", "-x", "40", "-y", "8"]);
    tmux.shows("60 columns");
    tmux.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    tmux.shows("1 held");
    let process = tmux.pid();
    tmux.tmux(&["kill-session"]);
    tmux.ends(process);
}

#[test]
fn a_service_that_goes_away_leaves_a_stale_picture_and_comes_back() {
    let mut deployment = five_redis_nodes();
    let listen = ["--listen", "unix:top.sock"];
    let service = crate::serve::Serving::start(&deployment, &listen);
    let _holder = deployment.hold(&["x", "--label", "kept"]);
    let command = format!("exec '{TOOL}' top --service unix:{}/top.sock", deployment.folder().display());
    let Some(tmux) = Tmux::run(&deployment, (120, 30), &format!("unset TENURE_NODES; {command}")) else {
        return;
    };
    tmux.shows("kept");
    deployment.servers[4].kill();
    tmux.shows("4 of 5 nodes vote");
    drop(service);
    let screen = tmux.shows("STALE");
    assert!(screen.contains("kept"), "the last picture stays: {screen}");
    let _service = crate::serve::Serving::start(&deployment, &listen);
    tmux.shows("locks are given");
}

#[test]
fn without_a_terminal_there_is_one_picture() {
    for deployment in deployments_and_service() {
        let _holder = deployment.hold(&["x", "--label", "nightly"]);
        let done = deployment.tenure(&["top"]);
        assert!(done.ends_with(0).stdout.contains("locks are given"), "{done:?}");
        assert!(done.stdout.contains("nightly") && !done.stdout.contains('\u{1b}'), "{done:?}");
    }
}
