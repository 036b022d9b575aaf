//! Where the contract is tested: every deployment must behave alike.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tenure_testkit::RedisServer;

use crate::serve::Serving;

/// The program under test.
pub(crate) const TOOL: &str = env!("CARGO_BIN_EXE_tenure");

/// All of them.
pub(crate) fn deployments() -> [Deployment; 2] {
    [embedded_store(), five_redis_nodes()]
}

/// All of them, and a service that stands for nodes: who uses locks cannot tell.
pub(crate) fn deployments_and_service() -> [Deployment; 3] {
    let [store, nodes] = deployments();
    [store, nodes, service()]
}

/// A service on a socket of this machine, before a file of its own: nothing is known of that file.
pub(crate) fn service() -> Deployment {
    let mut deployment = embedded_store();
    deployment.service = Some(Serving::start(&deployment, &["--listen", "unix:service.sock"]));
    deployment
}

/// A file of its own.
pub(crate) fn embedded_store() -> Deployment {
    Deployment::of(vec![], |folder| format!("sqlite:{folder}/locks.db"))
}

/// Five servers of their own.
pub(crate) fn five_redis_nodes() -> Deployment {
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let deployment = Deployment::of(servers.into(), |_| urls.join(","));
    // A first start needs all nodes, and a busy machine may not have them all in time.
    let warm_up = || deployment.tenure(&["run", "warm-up", "--", "true"]);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut done = warm_up();
    while done.code != Some(0) {
        assert!(Instant::now() < deadline, "no first lock: {done:?}");
        done = warm_up();
    }
    deployment
}

/// Nodes, and a person's folder to work in.
pub(crate) struct Deployment {
    pub(crate) servers: Vec<RedisServer>,
    pub(crate) nodes: String,
    pub(crate) service: Option<Serving>,
    folder: TempDir,
}

/// What a run of the tool came to.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Deployment {
    pub(crate) fn of(servers: Vec<RedisServer>, nodes: impl FnOnce(&str) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let nodes = nodes(folder.path().to_str().unwrap());
        Self { servers, nodes, service: None, folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The program under test where every user may run it. Another process writes it: if we did,
    /// whatever other tests start meanwhile would inherit a file that is open for writing, and a
    /// program that somebody may still write cannot be run ("text file busy").
    pub(crate) fn tool_for_everybody(&self) -> PathBuf {
        let tool = self.folder().join("tenure");
        if !tool.exists() {
            let status = Command::new("install").args(["-m", "755", TOOL]).arg(&tool).status();
            assert!(status.unwrap().success(), "the tool was not copied");
        }
        std::fs::set_permissions(self.folder(), Permissions::from_mode(0o755)).unwrap();
        tool
    }

    /// Writes a file into the folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The tool, with these nodes.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(TOOL);
        command.args(arguments);
        command
    }

    pub(crate) fn command_without_nodes(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.env_remove("TENURE_NODES");
        command
    }

    /// A program that may call the tool, with these nodes and nothing of our own environment that
    /// the tool could read.
    pub(crate) fn program(&self, program: &str) -> Command {
        let mut command = heeding_signals(program);
        command.current_dir(self.folder()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE_") {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.folder()).env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME");
        match &self.service {
            Some(service) => command.env("TENURE_SERVICE", service.said["urls"][1].as_str().unwrap()),
            None => command.env("TENURE_NODES", &self.nodes),
        };
        command
    }

    pub(crate) fn tenure(&self, arguments: &[&str]) -> Done {
        Done::of(self.command(arguments).output().unwrap())
    }

    /// What it says as JSON, one object a line, and its exit code.
    pub(crate) fn json(&self, arguments: &[&str]) -> (Value, Option<i32>) {
        let done = self.tenure(arguments);
        let line = if done.stdout.is_empty() { &done.stderr } else { &done.stdout };
        (serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {done:?}")), done.code)
    }

    /// Starts it in the background.
    pub(crate) fn start(&self, arguments: &[&str]) -> Background {
        Background::start(self.command(arguments))
    }

    /// Waits for a lock in the background, and looks at these processes when it has it.
    pub(crate) fn await_next(&self, lock: &str, processes: [u32; 2]) -> NextHolder {
        let [first, second] = processes;
        let look = format!("cat /proc/{first}/stat /proc/{second}/stat 2> /dev/null; true");
        NextHolder(self.start(&["run", lock, "--wait", "60s", "--quiet", "--", "sh", "-c", &look]))
    }

    /// Holds a lock in the background, and comes back when it is held.
    pub(crate) fn hold(&self, arguments: &[&str]) -> Background {
        let marker = self.folder().join("held");
        let _ = std::fs::remove_file(&marker);
        let mut all = vec!["run"];
        all.extend(arguments);
        all.extend(["--", "sh", "-c", "touch held; exec sleep 600"]);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let mut holder = self.start(&all);
            wait_until(|| marker.exists() || holder.has_ended());
            if marker.exists() {
                return holder;
            }
            // On a busy machine nodes may not answer in time, or the holder before may not be gone
            // yet.
            let done = holder.done();
            assert!(Instant::now() < deadline, "not held: {done:?}");
        }
    }
}

impl Done {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// That it ended with this code.
    #[track_caller]
    pub(crate) fn ends_with(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// The tool in the background. It ends with the test.
pub(crate) struct Background(Option<Child>);

impl Background {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().unwrap()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(pid(self.pid()), signal).unwrap();
    }

    fn has_ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub(crate) fn done(mut self) -> Done {
        Done::of(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

/// A program that heeds the signals which whoever runs the tests ignores. A shell script starts
/// them so in the background, and the tool leaves an ignored signal alone.
fn heeding_signals(program: &str) -> Command {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0").trim();
    let [hangup, interrupt, quit] = [1, 2, 4];
    if u64::from_str_radix(ignored, 16).unwrap() & (hangup | interrupt | quit) == 0 {
        return Command::new(program);
    }
    // Found wherever a test lets the path lead.
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal=HUP,INT,QUIT", program]);
    command
}

/// Who has the lock after the one that is tested.
pub(crate) struct NextHolder(Background);

impl NextHolder {
    /// That none of the processes lived when it had the lock.
    #[track_caller]
    pub(crate) fn sees_nobody(self) {
        for stat in self.0.done().ends_with(0).stdout.lines() {
            let (_, state) = stat.rsplit_once(") ").unwrap();
            assert!(state.starts_with(['Z', 'X']), "it lives on: {stat}");
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn pid(pid: u32) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap())
}

/// Whether a process is there and has not ended.
pub(crate) fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

/// Whether these processes are gone. None may be seen alive when its time is over; by how much they
/// were early is not known better than a busy machine lets us look.
#[track_caller]
pub(crate) fn are_gone_before(processes: [u32; 2], until_ms: u64) -> bool {
    let now = now_ms();
    let alive = processes.into_iter().any(is_alive);
    assert!(!alive || now < until_ms, "alive {} ms after its lock was over", now - until_ms);
    !alive
}

#[track_caller]
pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "it did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The text of a file, as soon as there is a whole line in it.
pub(crate) fn read_line(path: &Path) -> String {
    let mut text = String::new();
    wait_until(|| {
        text = std::fs::read_to_string(path).unwrap_or_default();
        text.ends_with('\n')
    });
    text.trim().to_owned()
}

/// The wall clock, as the tool tells it.
pub(crate) fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// The token of a lease as JSON.
#[track_caller]
pub(crate) fn token(lease: &Value) -> &str {
    lease["token"].as_str().unwrap_or_else(|| panic!("no lease: {lease}"))
}

/// A command that ignores SIGTERM and has a grandchild in its group that does, too. Writes its
/// process id, that of the grandchild and its deadline.
pub(crate) fn stubborn(file: &str) -> String {
    format!(
        "trap '' TERM; sleep 600 & echo $$ $! $TENURE_VALID_UNTIL_MS > {file}.part; mv {file}.part {file}; \
         while :; do sleep 600; done"
    )
}

/// What [`stubborn`] wrote.
pub(crate) fn started(deployment: &Deployment, file: &str) -> (u32, u32, u64) {
    let line = read_line(&deployment.folder().join(file));
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    (u32::try_from(numbers[0]).unwrap(), u32::try_from(numbers[1]).unwrap(), numbers[2])
}

/// A program on this machine as if it had been suspended for an hour before: in a namespace where
/// the clock that counts suspensions is so far ahead. `None` if this user may not make one.
#[expect(clippy::print_stdout, reason = "a test that is not tried says so")]
pub(crate) fn after_an_hour_of_sleep(program: &str) -> Option<Command> {
    let unshare = || {
        let mut unshare = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            unshare.arg("--map-root-user");
        }
        unshare.args(["--time", "--boottime", "3600"]);
        unshare
    };
    let tried = unshare().arg("true").stderr(Stdio::null()).status();
    if !tried.is_ok_and(|status| status.success()) {
        println!("not tried: this user may not make a time namespace");
        return None;
    }
    // It is its children that see the other time.
    let mut command = unshare();
    command.args(["--fork", program]);
    Some(command)
}
