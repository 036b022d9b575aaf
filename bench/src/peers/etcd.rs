//! Three members of etcd on loopback, each with a folder of its own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure_testkit::{Mode, Proxy, nursery};

use crate::cpu_time;

const MEMBERS: usize = 3;

/// How long they may take to choose a leader.
const PATIENCE: Duration = Duration::from_secs(30);

/// They end when this is dropped.
pub(crate) struct Etcd {
    members: Vec<Member>,
    /// Before the members, for clients and for each other, if they are far.
    proxies: Vec<Proxy>,
    _folder: TempDir,
}

struct Member {
    process: Child,
    port: u16,
    /// Where clients find it.
    public: u16,
}

impl Etcd {
    pub(crate) fn start(far: bool) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let ports = free_ports(2 * MEMBERS)?;
        let (clients, peers) = ports.split_at(MEMBERS);
        let mut proxies = vec![];
        let mut public = |port: u16| {
            if !far {
                return port;
            }
            proxies.push(Proxy::start_forgetful(port));
            proxies[proxies.len() - 1].port()
        };
        let public_clients: Vec<u16> = clients.iter().map(|port| public(*port)).collect();
        let public_peers: Vec<u16> = peers.iter().map(|port| public(*port)).collect();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let list: Vec<String> =
            (0..).zip(&public_peers).map(|(i, port)| format!("m{i}={}", url(*port))).collect();
        let mut members = vec![];
        for index in 0..MEMBERS {
            let name = format!("m{index}");
            let mut command = nursery::command("etcd");
            command.arg("--data-dir").arg(folder.path().join(&name)).args(["--name", &name]);
            command.args(["--listen-client-urls", &url(clients[index])]);
            command.args(["--advertise-client-urls", &url(public_clients[index])]);
            command.args(["--listen-peer-urls", &url(peers[index])]);
            command.args(["--initial-advertise-peer-urls", &url(public_peers[index])]);
            command.args(["--initial-cluster", &list.join(","), "--logger", "zap", "--log-level", "error"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let process = nursery::spawn(command)?;
            members.push(Member { process, port: clients[index], public: public_clients[index] });
        }
        let etcd = Self { members, proxies, _folder: folder };
        etcd.wait()?;
        Ok(etcd)
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.public).collect()
    }

    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        // One that was killed has nothing left to read.
        Ok(self.members.iter().flat_map(|member| cpu_time::of_process(member.process.id())).sum())
    }

    pub(crate) fn set_distance(&self, mode: Mode) {
        self.proxies.iter().for_each(|proxy| proxy.set_both(mode));
    }

    /// Halts one member: it keeps its connections and answers nobody.
    pub(crate) fn hang_one(&self) -> Result<()> {
        let pid = self.members.last().and_then(|member| i32::try_from(member.process.id()).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            kill_process(pid, Signal::STOP)?;
        }
        Ok(())
    }

    pub(crate) fn kill_one(&mut self) {
        self.members.last_mut().into_iter().for_each(Member::kill);
    }

    /// Waits until each has a leader.
    fn wait(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.members.iter().all(Member::is_healthy) {
            ensure!(Instant::now() < deadline, "etcd has no leader after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Member {
    fn is_healthy(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer.contains(r#""health":"true""#))
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(Member::kill);
    }
}

/// Ports that are free now, all at once.
fn free_ports(count: usize) -> Result<Vec<u16>> {
    let listeners = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
