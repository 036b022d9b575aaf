//! `run` at a real terminal, under a real shell.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use crate::deployment::{
    Deployment, TOOL, deployments, deployments_and_service, embedded_store, is_alive, pid, read_line,
    wait_until,
};
use crate::keeper::keeper_of;

/// A shell that a person types into.
struct Shell {
    shell: Child,
    keys: File,
    screen: Arc<Mutex<String>>,
}

impl Shell {
    fn start(deployment: &Deployment) -> Self {
        let terminal = nix::pty::openpty(None, None).unwrap();
        let (person, device): (OwnedFd, OwnedFd) = (terminal.master, terminal.slave);
        // A session of its own whose terminal this is.
        let mut command = deployment.program("setsid");
        command.args(["--ctty", "--wait", "bash", "--norc", "--noprofile", "-i"]);
        let folder = std::path::Path::new(TOOL).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("PS1", "ready> ").env("TERM", "xterm");
        command.stdin(Stdio::from(device.try_clone().unwrap()));
        command.stdout(Stdio::from(device.try_clone().unwrap())).stderr(Stdio::from(device));
        let shell = command.spawn().unwrap();
        drop(command);
        let keys = File::from(person);
        let (mut output, screen) = (keys.try_clone().unwrap(), Arc::new(Mutex::new(String::new())));
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let shell = Self { shell, keys, screen };
        shell.shows("ready> ");
        shell
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the shell says that the command has stopped, which it names then, and takes the
    /// next one.
    fn shows_stopped(&self) {
        self.shows("Stopped");
        self.shows("ready> ");
    }

    /// Waits until this is on the screen, and clears it up to there.
    fn shows(&self, text: &str) -> String {
        let mut seen = String::new();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while !seen.contains(text) {
            assert!(
                std::time::Instant::now() < deadline,
                "{text:?} is not on the screen: {:?}",
                self.screen.lock().unwrap()
            );
            std::thread::sleep(Duration::from_millis(5));
            seen = self.screen.lock().unwrap().clone();
        }
        let end = seen.find(text).unwrap_or(0) + text.len();
        self.screen.lock().unwrap().drain(..end).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
fn the_command_reads_the_terminal_and_the_shell_has_it_back_afterwards() {
    for deployment in deployments() {
        let mut shell = Shell::start(&deployment);
        shell.types("tenure run x -- sh -c 'read line; echo got-$line-$?'\r");
        wait_until(|| deployment.json(&["status", "x", "--json"]).0["state"] == "held");
        shell.types("words\r");
        shell.shows("got-words-0");
        shell.shows("ready> ");
        shell.types("echo again-$?\r");
        shell.shows("again-0");
    }
}

#[test]
fn the_interrupt_key_reaches_the_command_and_a_waiter() {
    for deployment in deployments() {
        let mut shell = Shell::start(&deployment);
        // A shell that starts one long command loses the key if it comes at that moment.
        let script = "trap \"exit 130\" INT; touch begun; while :; do sleep 0.01; done";
        shell.types(&format!("tenure run x -- sh -c '{script}'\r"));
        wait_until(|| deployment.folder().join("begun").exists());
        shell.types("\x03");
        shell.shows("ready> ");
        shell.types("echo code-$?\r");
        shell.shows("code-130");
        // Short enough for a line of eighty columns, however large the number of the process is.
        let _holder = deployment.hold(&["x", "--label", "import"]);
        shell.types("tenure run x --wait forever -- true\r");
        let line = shell.shows("1 of 1 in line");
        assert!(line.contains("import"), "{line}");
        shell.types("\x03");
        shell.shows("ready> ");
        shell.types("echo code-$?\r");
        shell.shows("code-130");
    }
}

#[test]
fn a_stopped_run_keeps_its_lock_and_goes_on_afterwards() {
    for deployment in deployments_and_service() {
        let mut shell = Shell::start(&deployment);
        shell.types("tenure run x --ttl 1500ms -- sh -c 'touch begun; read line; echo got-$line'\r");
        wait_until(|| deployment.folder().join("begun").exists());
        shell.types("\x1a");
        shell.shows_stopped();
        // Two terms.
        for _ in 0..12 {
            std::thread::sleep(Duration::from_millis(250));
            deployment.tenure(&["acquire", "x", "--quiet"]).ends_with(75);
        }
        shell.types("fg\r");
        // What is typed earlier is the shell's.
        shell.shows("tenure run x");
        shell.types("words\r");
        shell.shows("got-words");
        wait_until(|| deployment.tenure(&["run", "x", "--quiet", "--", "true"]).code == Some(0));
    }
}

#[test]
fn the_stop_key_stops_a_script_together_with_its_run() {
    for deployment in deployments() {
        deployment.write(
            "script",
            "tenure run x -- sh -c 'touch begun; read line; echo got-$line'; echo after-$?\n",
        );
        let mut shell = Shell::start(&deployment);
        shell.types("sh script\r");
        wait_until(|| deployment.folder().join("begun").exists());
        shell.types("\x1a");
        shell.shows_stopped();
        shell.types("fg\r");
        // What is typed earlier is the shell's.
        shell.shows("sh script");
        shell.types("words\r");
        shell.shows("got-words");
        shell.shows("after-0");
    }
}

#[test]
fn where_nobody_could_let_it_go_on_a_run_is_not_stopped() {
    for deployment in deployments() {
        let mut shell = Shell::start(&deployment);
        // As with `ssh -t`: the tool leads the session, and there is no shell to type `fg` into.
        shell.types(
            "exec tenure run x -- sh -c 'touch begun; read line; echo got-$line; touch read; sleep 600'\r",
        );
        wait_until(|| deployment.folder().join("begun").exists());
        shell.types("\x1a");
        std::thread::sleep(Duration::from_millis(300));
        shell.types("words\r");
        shell.shows("got-words");
    }
}

#[test]
fn a_lock_that_is_lost_while_stopped_is_told_when_the_run_goes_on() {
    for deployment in deployments_and_service() {
        let mut shell = Shell::start(&deployment);
        shell.types("tenure run x --ttl 1s -- sh -c 'echo $$ > begun; exec sleep 600'; echo code-$?\r");
        let command: u32 = crate::deployment::read_line(&deployment.folder().join("begun")).parse().unwrap();
        shell.types("\x1a");
        shell.shows_stopped();
        deployment.tenure(&["release", "--force", "x"]).ends_with(0);
        wait_until(|| !crate::deployment::is_alive(command));
        shell.types("fg; echo code-$?\r");
        let screen = shell.shows("code-79");
        assert!(
            screen.contains("was lost") && screen.contains("another process may have held the lock"),
            "{screen}"
        );
    }
}

#[test]
fn a_run_that_is_killed_while_stopped_leaves_nothing_and_frees_its_lock() {
    for deployment in deployments_and_service() {
        let mut shell = Shell::start(&deployment);
        shell.types("tenure run x --ttl 30s -- sh -c 'echo $$ $PPID > begun; exec sleep 600'\r");
        let line = crate::deployment::read_line(&deployment.folder().join("begun"));
        let (command, tool) = line.split_once(' ').unwrap();
        shell.types("\x1a");
        shell.shows_stopped();
        let killed = std::time::Instant::now();
        kill(pid(tool.parse().unwrap()), Signal::SIGKILL).unwrap();
        let command = command.parse().unwrap();
        deployment.await_next("x", [command, command]).sees_nobody();
        // The ttl and its guard band are 33 s.
        assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
    }
}

#[test]
fn a_stopped_run_goes_on_although_its_keeper_was_killed() {
    for deployment in deployments() {
        let mut shell = Shell::start(&deployment);
        shell.types("tenure run x --ttl 30s -- sh -c 'echo $$ > begun; read line; echo got-$line'\r");
        let command = crate::deployment::read_line(&deployment.folder().join("begun")).parse().unwrap();
        shell.types("\x1a");
        shell.shows_stopped();
        kill(pid(keeper_of(command)), Signal::SIGKILL).unwrap();
        shell.types("fg\r");
        // What is typed earlier is the shell's.
        shell.shows("tenure run");
        shell.types("words\r");
        shell.shows("got-words");
    }
}

#[test]
fn when_the_terminal_hangs_up_the_command_is_gone_and_the_lock_free() {
    for deployment in deployments() {
        let mut shell = Shell::start(&deployment);
        shell.types("tenure run x -- sh -c 'echo $$ > begun; exec sleep 600'\r");
        let command: u32 = crate::deployment::read_line(&deployment.folder().join("begun")).parse().unwrap();
        drop(shell);
        wait_until(|| !crate::deployment::is_alive(command));
        wait_until(|| deployment.tenure(&["acquire", "x", "--quiet"]).code == Some(0));
    }
}

#[test]
fn a_release_by_force_asks_first() {
    for deployment in deployments_and_service() {
        let _holder = deployment.hold(&["x", "--label", "nightly import"]);
        let mut shell = Shell::start(&deployment);
        shell.types("tenure release --force x; echo code-$?\r");
        let question = shell.shows("[y/N]");
        assert!(
            question.contains("nightly import") && question.contains("two processes may run at once"),
            "{question}"
        );
        shell.types("n\r");
        shell.shows("code-1\r");
        deployment.tenure(&["acquire", "x", "--quiet"]).ends_with(75);
        shell.types("tenure release --force x; echo code-$?\r");
        shell.shows("[y/N]");
        shell.types("y\r");
        shell.shows("code-0\r");
        deployment.tenure(&["acquire", "x", "--quiet"]).ends_with(0);
        shell.types("tenure release --force x --yes; echo code-$?\r");
        let screen = shell.shows("code-0\r");
        assert!(!screen.contains("[y/N]"), "{screen}");
    }
}

#[test]
fn there_are_colours_at_a_terminal_and_nowhere_else() {
    for deployment in deployments() {
        let _holder = deployment.hold(&["x"]);
        let mut shell = Shell::start(&deployment);
        let mut shown = |command: &str| {
            shell.types(&format!("{command}; echo code-$?\r"));
            shell.shows("code-0\r")
        };
        for command in ["tenure status x", "tenure ls", "tenure doctor"] {
            let coloured = |screen: String| screen.contains("\x1b[3") || screen.contains("\x1b[1m");
            assert!(coloured(shown(command)), "{command}");
            assert!(!coloured(shown(&format!("NO_COLOR=1 {command}"))), "{command}");
            assert!(!coloured(shown(&format!("TERM=dumb {command}"))), "{command}");
            assert!(!coloured(shown(&format!("{command} | cat"))), "{command}");
        }
    }
}

#[test]
fn a_waiter_in_the_background_leaves_the_line_to_the_shell() {
    for deployment in deployments() {
        let _holder = deployment.hold(&["x", "--label", "nightly import"]);
        let mut shell = Shell::start(&deployment);
        for start in ["tenure run x --wait 2s -- true &", "TERM=dumb tenure run x --wait 1s -- true"] {
            shell.types(&format!("{start}\r"));
            shell.shows("number 1 of 1 in line");
            let screen = shell.shows("is held by");
            assert!(
                !screen.contains("in line, held") && !screen.contains("\u{1b}[2K"),
                "{start}: {screen:?}"
            );
        }
    }
}

#[test]
fn the_interrupt_key_ends_a_loop_around_the_tool() {
    for deployment in deployments() {
        let mut shell = Shell::start(&deployment);
        let script = "touch begun; while :; do sleep 0.01; done";
        shell.types(&format!(
            "for i in 1 2 3; do echo round-$i; tenure run x -- sh -c '{script}'; done; echo code-$?\r"
        ));
        wait_until(|| deployment.folder().join("begun").exists());
        shell.shows("round-1\r");
        shell.types("\x03");
        shell.shows("ready> ");
        shell.types("echo the-$?-end\r");
        let screen = shell.shows("the-130-end");
        assert!(!screen.contains("round-2\r"), "{screen}");
        // A waiter's loop as well.
        let _holder = deployment.hold(&["x"]);
        shell.types("for i in 1 2 3; do echo again-$i; tenure run x --wait forever -- true; done\r");
        shell.shows("in line");
        shell.types("\x03");
        shell.shows("ready> ");
        shell.types("echo the-$?-end\r");
        let screen = shell.shows("the-130-end");
        assert!(!screen.contains("again-2\r"), "{screen}");
    }
}

#[test]
fn the_waiting_line_fits_eighty_columns_with_the_holder_in_it() {
    for deployment in deployments() {
        let name = "import-of-all-invoices";
        let holder =
            deployment.hold(&[name, "--label", "rebuild every search index of the shop, then mail Ann"]);
        let mut shell = Shell::start(&deployment);
        shell.types(&format!("tenure run {name} --wait forever -- true\r"));
        shell.shows("\u{1b}[?7l");
        let line = shell.shows("\u{1b}[?7h");
        let line = line.trim_end_matches("\u{1b}[?7h");
        assert!(line.chars().count() <= 79, "{line}");
        let process = holder_process(&deployment, name);
        for part in ["tenure: import-", process.as_str(), " s left", "1 of 1 in line"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        shell.types("\x03");
        shell.shows("ready> ");
        drop(holder);
    }
}

/// The holder of a lock as far as the note behind it.
fn holder_process(deployment: &Deployment, name: &str) -> String {
    let (status, _) = deployment.json(&["status", name, "--json"]);
    status["holder"].as_str().unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn a_benchmark_shows_how_far_it_is_and_the_interrupt_key_ends_it() {
    for deployment in deployments() {
        let mut shell = Shell::start(&deployment);
        shell.types("tenure bench --seconds 60; echo never\n");
        shell.shows("which is removed afterwards");
        shell.shows("1 of 7: round trips");
        shell.shows("2 of 7: 1 task");
        shell.types("\x03");
        shell.shows("interrupted by SIGINT");
        let rest = shell.shows("ready> ");
        // The shell knows that it was the key, and leaves the rest of the line alone.
        assert!(!rest.contains("never"), "{rest:?}");
        assert!(deployment.tenure(&["ls"]).stdout.contains("no locks"));
    }
}

/// SIGHUP means "read your files again" to a service, and "your terminal is gone" to what a person
/// started there.
#[test]
fn a_service_ends_with_its_terminal_and_reads_its_files_again_before() {
    let deployment = embedded_store();
    let mut shell = Shell::start(&deployment);
    shell.types("echo $$ > shell; sh -c 'echo $$ > service; exec tenure serve --listen 127.0.0.1:0'\r");
    let [shell_process, service] =
        ["shell", "service"].map(|file| read_line(&deployment.folder().join(file)).trim().parse().unwrap());
    shell.shows("try: curl");
    kill(pid(service), Signal::SIGHUP).unwrap();
    shell.shows("reloaded callers");
    assert!(is_alive(service));
    kill(pid(shell_process), Signal::SIGKILL).unwrap();
    wait_until(|| !is_alive(service));
}
