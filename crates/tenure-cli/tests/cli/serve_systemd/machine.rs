//! A machine with systemd as its first process.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tenure_testkit::{installed, nursery, skip};

use crate::deployment::TOOL;

/// How long anything may take there.
const PATIENCE: Duration = Duration::from_secs(30);

/// What curl calls when it is there.
const ADDRESS: &str = "http://127.0.0.1:7420";

/// Namespaces that end with this.
pub(super) struct Machine {
    unshare: Child,
    /// The control groups that all its processes are in.
    groups: Vec<PathBuf>,
    _folder: TempDir,
}

impl Machine {
    /// Starts it, with this unit. `None` where that is not possible: it needs root, an overlay of
    /// all files, and systemd.
    pub(super) fn start(unit: &Path) -> Option<Self> {
        for program in ["unshare", "nsenter", "systemctl", "curl", "ip"] {
            installed(program)?;
        }
        let folder = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/serve_systemd/machine.sh");
        let mut command = nursery::command("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--net", "sh", script]);
        let groups = control_groups(&format!("tenure-test-{}", std::process::id()));
        let listed: Vec<String> = groups.iter().map(|group| group.display().to_string()).collect();
        command.arg(listed.join(" ")).arg(folder.path()).arg(unit).arg(TOOL);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut machine = Self { unshare: nursery::spawn(command).unwrap(), groups, _folder: folder };
        let deadline = Instant::now() + PATIENCE;
        while machine.asks("is-system-running") != "running" {
            if machine.unshare.try_wait().unwrap().is_some() {
                let mut said = String::new();
                machine.unshare.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                skip(&format!("a machine with systemd cannot be started here: {}", said.trim()));
                return None;
            }
            assert!(Instant::now() < deadline, "systemd does not start");
            sleep(Duration::from_millis(50));
        }
        Some(machine)
    }

    /// What `systemctl` does there. It must succeed.
    #[track_caller]
    pub(super) fn does(&self, action: &str) {
        let done = self.command("systemctl").args([action, "tenure"]).output().unwrap();
        assert!(
            done.status.success(),
            "{action}: {}{}",
            String::from_utf8_lossy(&done.stderr),
            self.journal()
        );
    }

    /// What `systemctl` says there.
    pub(super) fn asks(&self, question: &str) -> String {
        let said = self.command("systemctl").arg(question).output().unwrap().stdout;
        String::from_utf8(said).unwrap().trim().to_owned()
    }

    /// What systemd knows about the service.
    pub(super) fn property(&self, name: &str) -> String {
        let said = self.command("systemctl").args(["show", "tenure", "--value", "-p", name]).output();
        String::from_utf8(said.unwrap().stdout).unwrap().trim().to_owned()
    }

    pub(super) fn journal(&self) -> String {
        let said = self.command("journalctl").args(["--no-pager", "-u", "tenure"]).output().unwrap().stdout;
        String::from_utf8(said).unwrap()
    }

    /// Sends a signal to the process of the service.
    pub(super) fn signal(&self, signal: &str) {
        let sent = self.command("kill").args([signal, &self.property("MainPID")]).status().unwrap();
        assert!(sent.success());
    }

    /// A call that is under way.
    pub(super) fn call(&self, path: &str, body: &Value) -> Child {
        let mut curl = self.command("curl");
        curl.args(["-sS", "--max-time", "20", "--json", &body.to_string(), &format!("{ADDRESS}{path}")]);
        curl.stdout(Stdio::piped()).spawn().unwrap()
    }

    /// A call's answer.
    pub(super) fn post(&self, path: &str, body: &Value) -> Value {
        answer(self.call(path, body))
    }

    /// A command there.
    fn command(&self, program: &str) -> Command {
        let id = self.unshare.id();
        let first = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let mut command = Command::new("nsenter");
        command.args(["--target", first.trim(), "--all", "--root", "--wd", "--", program]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

/// What a call gets.
pub(super) fn answer(call: Child) -> Value {
    let done = call.wait_with_output().unwrap();
    let (said, error) =
        (String::from_utf8(done.stdout).unwrap(), String::from_utf8_lossy(&done.stderr).into_owned());
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}{error}"))
}

/// A control group of this name in each hierarchy that systemd uses: in the only one, or in the two
/// that it has beside those of version 1.
fn control_groups(name: &str) -> Vec<PathBuf> {
    let all = Path::new("/sys/fs/cgroup");
    let own: Vec<PathBuf> = ["systemd", "unified"].iter().map(|own| all.join(own)).collect();
    let own: Vec<PathBuf> = own.into_iter().filter(|own| own.is_dir()).map(|own| own.join(name)).collect();
    if own.is_empty() { vec![all.join(name)] } else { own }
}

/// Removes a control group and those below it, if nobody is in them.
fn remove(group: &Path) {
    let below = std::fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
    below.filter(|path| path.is_dir()).for_each(|group| remove(&group));
    let _ = std::fs::remove_dir(group);
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
        // Its processes end with the first of them, which takes a moment.
        let deadline = Instant::now() + PATIENCE;
        while self.groups.iter().any(|group| group.exists()) && Instant::now() < deadline {
            self.groups.iter().for_each(|group| remove(group));
            sleep(Duration::from_millis(10));
        }
    }
}
