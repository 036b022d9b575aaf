//! Instances of `tenure serve`, as processes that can be killed, drained, paused and started again.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_testkit::certificates::CertificateFiles;
use tenure_testkit::{Client, Port, Proxy, RedisServer, nursery};

const PATIENCE: Duration = Duration::from_secs(60);

/// Five nodes, and what all instances share.
pub(crate) struct Nodes {
    pub(crate) servers: [RedisServer; 5],
    folder: TempDir,
}

/// One instance, which has its address also while it is down.
pub(crate) struct Instance {
    port: Port,
    /// How it reaches the nodes.
    urls: String,
    /// What it is started with besides.
    more: Vec<OsString>,
    process: Option<Client>,
}

impl Nodes {
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// With these settings of the service.
    pub(crate) fn start_with(serve: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("lease_key");
        std::fs::write(&key, "5e".repeat(32)).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        // Instances may reach the nodes under different addresses.
        let settings = format!("fleet = \"campaign\"\n[serve]\n{serve}");
        std::fs::write(folder.path().join("tenure.toml"), settings).unwrap();
        Self { servers: RedisServer::start_many(&[]), folder }
    }

    /// Instances that take calls.
    pub(crate) fn instances<const N: usize>(&self) -> [Instance; N] {
        std::array::from_fn(|_| self.instance(self.urls(), vec![]))
    }

    /// One that reaches the nodes through these alone.
    pub(crate) fn instance_through(&self, proxies: &[Proxy; 5]) -> Instance {
        let urls = proxies.each_ref().map(Proxy::url).join(",");
        self.instance(urls, vec![])
    }

    /// One that speaks TLS, and so HTTP/2.
    pub(crate) fn encrypted_instance(&self, files: &CertificateFiles) -> Instance {
        let more = ["--tls-certificate".into(), files.certificate.clone().into()];
        let more = more.into_iter().chain(["--tls-key".into(), files.key.clone().into()]);
        self.instance(self.urls(), more.collect())
    }

    fn instance(&self, urls: String, more: Vec<OsString>) -> Instance {
        let mut instance = Instance { port: Port::claim(), urls, more, process: None };
        instance.launch(self);
        instance
    }

    pub(crate) fn urls(&self) -> String {
        self.servers.each_ref().map(RedisServer::url).join(",")
    }

    /// What is left on the nodes of locks and lines.
    pub(crate) fn left(&self) -> Vec<String> {
        let of_locks = |key: &String| key.starts_with("tenure:") || key.contains("queue:");
        self.servers.iter().flat_map(RedisServer::keys).filter(of_locks).collect()
    }
}

impl Instance {
    /// Starts it, and waits until it listens.
    pub(crate) fn launch(&mut self, nodes: &Nodes) {
        let mut command = nursery::command(env!("CARGO_BIN_EXE_tenure"));
        command
            .args(["serve", "--listen", &self.address().to_string(), "--lease-key", "lease_key"])
            .args(&self.more);
        command.current_dir(nodes.folder.path()).env_clear().env("HOME", nodes.folder.path());
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("TENURE_NODES", &self.urls);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Client::of(command);
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address()).is_err() {
            assert!(Instant::now() < deadline && !process.has_ended(), "an instance does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.process = Some(process);
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    pub(crate) fn process(&self) -> &Client {
        self.process.as_ref().expect("it runs")
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Ends it in good order.
    pub(crate) fn drain(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.terminate();
            assert!(process.succeeds_within(PATIENCE), "an instance does not drain");
        }
    }
}
