//! Five nodes, a service with callers, and a browser before it.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_testkit::http::{Answer, Client as Http};
use tenure_testkit::{Client, Port, RedisServer, nursery};

const TOOL: &str = env!("CARGO_BIN_EXE_tenure");
const PATIENCE: Duration = Duration::from_secs(60);

/// The service and what it stands on. Everything ends with it.
pub(crate) struct Stage {
    pub(crate) servers: Vec<RedisServer>,
    pub(crate) folder: TempDir,
    port: Port,
    service: Option<Client>,
    /// Of `ann`, who may do everything.
    pub(crate) token: String,
}

impl Stage {
    /// With five nodes; the settings of the service can say more.
    pub(crate) async fn start() -> Self {
        Self::with(RedisServer::start_many::<5>(&[]).into(), "").await
    }

    /// With these nodes and these lines in the file of settings.
    pub(crate) async fn with(servers: Vec<RedisServer>, settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("lease_key", &"5e".repeat(32));
        write("tenure.toml", settings);
        let mut stage = Self { servers, folder, port: Port::claim(), service: None, token: String::new() };
        stage.token = stage.caller("ann", "read,lock,force", None);
        stage.launch();
        stage.is_up().await;
        stage
    }

    /// Puts somebody into the list of callers, and gives the token.
    pub(crate) fn caller(&self, name: &str, may: &str, prefix: Option<&str>) -> String {
        let mut command = std::process::Command::new(TOOL);
        command.args(["token", "new", "--json", "--name", name, "--may", may, "--file", "callers"]);
        command.args(prefix.into_iter().flat_map(|prefix| ["--prefix", prefix]));
        let done = command.current_dir(self.folder.path()).output().unwrap();
        let said: Value = serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&done.stderr)));
        said["token"].as_str().unwrap().to_owned()
    }

    /// Has the service read the list of callers again, until it answers this token so.
    pub(crate) async fn reload(&self, token: &str, status: u16) {
        let pid = i32::try_from(self.service.as_ref().unwrap().pid()).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGHUP).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while Http::connect(self.address()).await.token(token).get("/v1/me").await.status != status {
            assert!(Instant::now() < deadline, "the list was not read again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Takes everybody off the list of callers but a newcomer.
    pub(crate) async fn only_newcomers(&self) {
        std::fs::write(self.folder.path().join("callers"), "").unwrap();
        self.caller("newcomer", "read", None);
        self.reload(&self.token, 401).await;
    }

    fn launch(&mut self) {
        // It heeds SIGHUP, though whoever runs the tests may ignore it.
        let mut command = nursery::command("/usr/bin/env");
        command.args(["--default-signal=HUP", TOOL]);
        command.current_dir(self.folder.path()).env_clear().env("HOME", self.folder.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("TENURE_NODES", self.servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(","));
        command.args(["serve", "--listen", &self.address().to_string(), "--lease-key", "lease_key"]);
        command.args(["--callers", "callers", "--audit-log", "audit"]);
        self.service = Some(Client::of({
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        }));
    }

    /// Waits until it gives locks.
    pub(crate) async fn is_up(&self) {
        let deadline = Instant::now() + PATIENCE;
        while tokio::net::TcpStream::connect(self.address()).await.is_err() {
            assert!(Instant::now() < deadline, "the service does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills the service.
    pub(crate) fn kill(&mut self) {
        self.service = None;
    }

    /// Starts it again where it was.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        self.launch();
        self.is_up().await;
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), self.port.number())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Makes a call as `ann`.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let mut client = Http::connect(self.address()).await.token(&self.token);
        client.post(path, body).await
    }

    /// Acquires a lock for a minute, and gives the lease.
    pub(crate) async fn acquire(&self, name: &str, label: &str) -> Value {
        let ask = json!({ "name": name, "label": label, "ttl_ms": 60_000 });
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.post("/v1/acquire", &ask).await;
            if answer.status == 200 {
                return answer.body;
            }
            assert!(Instant::now() < deadline, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn release(&self, lease: &Value) {
        let answer =
            self.post("/v1/release", &json!({ "name": lease["name"], "token": lease["token"] })).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Holds a lock by a connection, once it is free, until this is dropped.
    pub(crate) async fn hold(&self, name: &str, label: &str) -> Http {
        let mut client = Http::connect(self.address()).await.token(&self.token);
        let ask = json!({ "name": name, "label": label, "ttl_ms": 3_000, "wait_ms": 60_000, "on_disconnect": "release" });
        client.send("/v1/hold", &ask).await;
        client.receive_head().await;
        client
    }
}
