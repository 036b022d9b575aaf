//! A real `redis-server` on a free loopback port.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use redis::Value;
use tempfile::TempDir;

use crate::port::Port;
use crate::skipping::{on_path, require};
use crate::{MovedClock, nursery, proc, signal};

/// How long a server may take to start or to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server with a folder of its own. It ends when this is dropped.
#[derive(Debug)]
pub struct RedisServer {
    program: PathBuf,
    options: Vec<String>,
    clock: Option<MovedClock>,
    /// Nobody else starts a server there while this one is down.
    port: Port,
    folder: TempDir,
    process: Option<Child>,
}

impl RedisServer {
    /// Starts `redis-server` with these options on top of the defaults: loopback, a free port, no
    /// snapshots.
    #[must_use]
    pub fn start(options: &[&str]) -> Self {
        Self::start_program("redis-server", options)
    }

    /// Starts `redis-server` with a wall clock that can be moved, and that it keeps over a restart.
    #[must_use]
    pub fn start_with_clock(clock: &MovedClock, options: &[&str]) -> Self {
        Self::start_under("redis-server".as_ref(), options, Some(clock.clone()))
    }

    /// Starts another server that takes the same options, such as Valkey.
    #[must_use]
    pub fn start_program(program: impl AsRef<Path>, options: &[&str]) -> Self {
        Self::start_under(program.as_ref(), options, None)
    }

    fn start_under(program: &Path, options: &[&str], clock: Option<MovedClock>) -> Self {
        require(program);
        let mut server = Self {
            program: program.to_owned(),
            options: options.iter().map(ToString::to_string).collect(),
            clock,
            port: Port::claim(),
            folder: tempfile::tempdir().unwrap(),
            process: None,
        };
        // Another process may take the port between our look and the server's start: then try
        // another.
        for _ in 0..10 {
            if server.launch() {
                return server;
            }
            server.port = Port::claim();
        }
        panic!("redis-server does not start:\n{}", server.log());
    }

    /// Where Valkey's server is, if this machine has one: `TENURE_VALKEY_SERVER`, or
    /// `valkey-server` on the path.
    #[must_use]
    pub fn valkey() -> Option<PathBuf> {
        if let Some(program) = std::env::var_os("TENURE_VALKEY_SERVER") {
            return Some(program.into());
        }
        on_path(Path::new("valkey-server"))
    }

    /// Several servers with the same options.
    #[must_use]
    pub fn start_many<const N: usize>(options: &[&str]) -> [Self; N] {
        std::array::from_fn(|_| Self::start(options))
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Its folder, with its log and its data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").id()
    }

    /// Stops it with SIGKILL and waits until it is gone. Its data stays.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Halts it with SIGSTOP: it keeps its connections and answers nobody.
    pub fn pause(&self) {
        signal::pause(self.pid());
    }

    /// Lets it go on with SIGCONT.
    pub fn resume(&self) {
        signal::resume(self.pid());
    }

    /// Starts it again after a kill, on the same port and with the data that is there.
    pub fn restart(&mut self) {
        self.kill();
        let deadline = Instant::now() + PATIENCE;
        while !self.launch() {
            assert!(Instant::now() < deadline, "redis-server does not start again:\n{}", self.log());
        }
    }

    /// Starts it again with nothing left of its data.
    pub fn restart_empty(&mut self) {
        self.kill();
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
        self.restart();
    }

    /// A connection of another client's.
    #[must_use]
    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection_with_timeout(PATIENCE).unwrap()
    }

    /// Executes one command, as another client would.
    #[expect(clippy::must_use_candidate, reason = "often run for its effect")]
    pub fn execute(&self, command: &[&str]) -> Value {
        let (name, arguments) = command.split_first().expect("a command has a name");
        self.ask(redis::cmd(name).arg(arguments))
    }

    /// The text at a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<String> {
        self.ask(redis::cmd("GET").arg(key))
    }

    /// Its keys, in order, without those that Tenure keeps beside the locks.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.ask(redis::cmd("KEYS").arg("*"));
        keys.retain(|key| !key.starts_with("tenure~"));
        keys.sort();
        keys
    }

    /// Asks; a server that loads its data, or a copy of another's, is waited for.
    /// How often it has executed this command.
    #[must_use]
    pub fn calls(&self, command: &str) -> u64 {
        let info: String = self.ask(redis::cmd("INFO").arg("commandstats"));
        let lead = format!("cmdstat_{command}:calls=");
        let calls = info.lines().find_map(|line| line.strip_prefix(&lead)?.split(',').next());
        calls.map_or(0, |calls| calls.parse().unwrap())
    }

    /// For how long it has used a processor.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        proc::cpu_time(self.pid())
    }

    fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match command.query(&mut self.connection()) {
                Err(error) if error.code() == Some("LOADING") && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                answer => return answer.unwrap(),
            }
        }
    }

    /// Starts the process; false if it ended before it answered.
    fn launch(&mut self) -> bool {
        let mut command = nursery::command(&self.program);
        let (port, folder) = (self.port().to_string(), self.folder.path());
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"]);
        command.arg("--dir").arg(folder).args(["--logfile", "server.log"]);
        if let Some(clock) = &self.clock {
            // This thread waits until a time of day, which the kernel judges by the right clock:
            // with its own clock put back it would never wait at all.
            command.args(["--jemalloc-bg-thread", "no"]).envs(clock.environment());
        }
        command.args(&self.options);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = nursery::spawn(command).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if process.try_wait().unwrap().is_some() {
                return false;
            }
            let connection = std::net::TcpStream::connect(("127.0.0.1", self.port()));
            if connection.is_ok_and(|connection| !is_loading(connection)) && is_ours(folder, process.id()) {
                self.process = Some(process);
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = process.kill();
        let _ = process.wait();
        false
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether the server that answers is this one, and not another that has taken the port.
fn is_ours(folder: &Path, pid: u32) -> bool {
    let log = std::fs::read_to_string(folder.join("server.log")).unwrap_or_default();
    log.contains(&format!("{pid}:M")) && log.to_lowercase().contains("ready to accept connections")
}

/// Whether a server that listens already is still reading its data. One that does not understand
/// the question, because it speaks TLS, is not asked any further.
fn is_loading(mut connection: std::net::TcpStream) -> bool {
    let (mut reply, patience) = ([0; 8], Some(Duration::from_millis(200)));
    let asked = connection.set_read_timeout(patience).and_then(|()| connection.write_all(b"PING\r\n"));
    asked.is_ok() && connection.read(&mut reply).is_ok() && &reply == b"-LOADING"
}
