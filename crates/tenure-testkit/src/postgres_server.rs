//! A real PostgreSQL server on a free loopback port.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::port::Port;
use crate::skipping::{on_path, skip};
use crate::{nursery, signal};

/// How long the server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// PostgreSQL refuses to run as root, so root runs it as this user, which every system has.
const UNPRIVILEGED: &str = "nobody";

/// The role that the cluster is made with.
const ROLE: &str = "tenure";

/// A running server with a new cluster in a folder of its own. It ends when this is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    port: Port,
    process: Child,
    /// Removed after the server has ended.
    _folder: TempDir,
}

impl PostgresServer {
    /// Makes a cluster and starts a server on it. `None` if PostgreSQL is not installed; the test
    /// is skipped then, and named.
    #[must_use]
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            skip("postgresql is not installed");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        if is_root() {
            succeeds(Command::new("chown").arg(UNPRIVILEGED).arg(folder.path()));
        }
        let data = folder.path().join("data");
        let mut initdb = as_user(programs.join("initdb"));
        initdb.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--username", ROLE]);
        succeeds(initdb.arg("--pgdata").arg(&data));
        // Another process may take the port between our look and the server's start: then try
        // another.
        for _ in 0..10 {
            let port = Port::claim();
            if let Some(process) = launch(&programs, folder.path(), &port) {
                return Some(Self { port, process, _folder: folder });
            }
        }
        panic!("postgres does not start:\n{}", log(folder.path()));
    }

    /// Where it listens, on 127.0.0.1.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its URL. Everybody on this machine may log in.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{ROLE}@127.0.0.1:{}/postgres", self.port())
    }

    /// What lets `psql` and other programs that use libpq find it.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("PGHOST", "127.0.0.1".to_owned()),
            ("PGPORT", self.port().to_string()),
            ("PGUSER", ROLE.to_owned()),
            ("PGDATABASE", "postgres".to_owned()),
        ]
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // SIGINT is its fast end: clients are not waited for, and its own children end with it.
        signal::interrupt(self.process.id());
        let deadline = Instant::now() + PATIENCE;
        while self.process.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The folder with `postgres` and `initdb`: that of the path, or the newest that Debian installed.
fn programs() -> Option<PathBuf> {
    if let Some(program) = on_path(Path::new("postgres")) {
        let program = program.canonicalize().unwrap();
        return program.parent().map(Path::to_owned);
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(Result::ok);
    let folders = versions.map(|version| version.path().join("bin"));
    folders.filter(|folder| folder.join("postgres").is_file() && folder.join("initdb").is_file()).max()
}

fn launch(programs: &Path, folder: &Path, port: &Port) -> Option<Child> {
    let number = port.number().to_string();
    let mut command = as_user(programs.join("postgres"));
    command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    // What it says goes into a file. Nothing has to survive the test, so nothing is synced.
    command.args(["-h", "127.0.0.1", "-p", &number, "-c", "fsync=off"]);
    let file = std::fs::File::create(folder.join("server.log")).unwrap();
    command.stdout(Stdio::null()).stderr(file).current_dir("/");
    let mut process = nursery::spawn(command).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if process.try_wait().unwrap().is_some() {
            return None;
        }
        if log(folder).contains("database system is ready to accept connections") {
            return Some(process);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = process.kill();
    let _ = process.wait();
    None
}

/// A program of the server's, as the user that may run it. It dies with this process if the nursery
/// starts it.
fn as_user(program: PathBuf) -> Command {
    if !is_root() {
        return nursery::command(program);
    }
    let mut command = nursery::command("setpriv");
    command.args(["--reuid", UNPRIVILEGED, "--clear-groups"]);
    // A change of user makes the kernel forget the signal, so it is asked for again.
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("server.log")).unwrap_or_default()
}
