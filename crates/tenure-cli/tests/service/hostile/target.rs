//! An instance that is looked at from outside: its memory, its descriptors, and what it says.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_testkit::certificates::Authority;
use tenure_testkit::{Client, Port, nursery};
use tokio::time::sleep;

use crate::instances::Nodes;

/// A connection that says nothing is closed after this.
pub(super) const SILENCE: Duration = Duration::from_secs(1);

pub(super) struct Target {
    port: Port,
    process: Client,
    pub(super) authority: Authority,
    pub(super) token: String,
    folder: TempDir,
    _nodes: Nodes,
}

/// How much it takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) memory_kib: u64,
    pub(super) descriptors: usize,
}

impl Target {
    /// An instance on five nodes. With TLS it has a list of callers.
    pub(super) fn start(encrypted: bool) -> Self {
        let (folder, port, authority) = (tempfile::tempdir().unwrap(), Port::claim(), Authority::new());
        let files = authority.issue("own", &["127.0.0.1"]);
        let tool = env!("CARGO_BIN_EXE_tenure");
        let mut settings = format!(
            "[serve]\nlisten = \"127.0.0.1:{}\"\nsilence_max = \"{}s\"\n",
            port.number(),
            SILENCE.as_secs()
        );
        let mut token = String::new();
        if encrypted {
            let arguments = ["token", "new", "--name", "a", "--may", "lock", "--file", "callers", "--json"];
            let made =
                std::process::Command::new(tool).args(arguments).current_dir(&folder).output().unwrap();
            let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
            made["token"].as_str().unwrap().clone_into(&mut token);
            let (certificate, key) = (&files.certificate, &files.key);
            settings +=
                &format!("callers = \"callers\"\ntls_certificate = {certificate:?}\ntls_key = {key:?}\n");
        }
        std::fs::write(folder.path().join("tenure.toml"), settings).unwrap();
        let mut command = nursery::command(tool);
        command.args(["serve", "--quiet"]).current_dir(&folder).env_clear().env("HOME", folder.path());
        let nodes = Nodes::start();
        command.env("TENURE_NODES", nodes.urls());
        let said = std::fs::File::create(folder.path().join("said")).unwrap();
        command.stdout(Stdio::null()).stderr(said);
        let process = Client::of(command);
        let target = Self { port, process, authority, token, folder, _nodes: nodes };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(target.address()).is_err() {
            assert!(Instant::now() < deadline, "it does not start: {}", target.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        target
    }

    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number()).into()
    }

    pub(super) fn size(&self) -> Size {
        let process = PathBuf::from(format!("/proc/{}", self.process.pid()));
        let memory_kib = self.process.memory_kib();
        Size { memory_kib, descriptors: std::fs::read_dir(process.join("fd")).unwrap().count() }
    }

    /// Waits until every hostile connection is gone: its descriptors stay as they are for longer
    /// than a silent connection may.
    pub(super) async fn is_calm(&self) {
        let (mut last, mut since) = (self.size().descriptors, Instant::now());
        while since.elapsed() < SILENCE * 3 / 2 {
            sleep(Duration::from_millis(100)).await;
            let now = self.size().descriptors;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }

    /// That it has not complained: a panic says so.
    pub(super) fn has_said_nothing(&self) {
        let said = self.said();
        assert!(said.is_empty(), "{said}");
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("said")).unwrap()
    }
}
