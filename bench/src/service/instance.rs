//! `tenure serve`, as a process of its own on these servers.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tempfile::TempDir;
use tenure_testkit::certificates::Authority;
use tenure_testkit::{Client, Port, nursery};

use crate::cluster::Cluster;
use crate::start::tool;

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// It ends when this is dropped.
pub(super) struct Instance {
    port: Port,
    _process: Client,
    /// Its lease key and its caches.
    _folder: TempDir,
}

impl Instance {
    /// One that listens, with a certificate of this authority if there is one.
    pub(super) fn start(cluster: &Cluster, authority: Option<&Authority>) -> Result<Self> {
        let (port, folder) = (Port::claim(), tempfile::tempdir()?);
        let mut command = nursery::command(tool()?);
        command.args(["serve", "--listen", &format!("127.0.0.1:{}", port.number())]);
        if let Some(authority) = authority {
            let files = authority.issue("service", &["localhost", "127.0.0.1"]);
            let flag = |command: &mut std::process::Command, name: &str, path: PathBuf| {
                command.arg(name).arg(path);
            };
            flag(&mut command, "--tls-certificate", files.certificate);
            flag(&mut command, "--tls-key", files.key);
        }
        command.current_dir(folder.path()).env_clear().env("HOME", folder.path());
        command.env("TENURE_NODES", cluster.urls().collect::<Vec<_>>().join(","));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Client::of(command);
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).is_err() {
            ensure!(Instant::now() < deadline && !process.has_ended(), "the service does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { port, _process: process, _folder: folder })
    }

    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number()).into()
    }
}
