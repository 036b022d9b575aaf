//! `tenure serve`: the service as it is started, and ended.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tenure_testkit::MovedClock;

use crate::deployment::{Deployment, Done, deployments, embedded_store};

/// A service that listens.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) said: Value,
    /// What calls send besides, a line each.
    pub(crate) headers: String,
}

impl Serving {
    pub(crate) fn start(deployment: &Deployment, more: &[&str]) -> Self {
        Self::start_with(deployment, more, |_| ())
    }

    /// The same, where another one was.
    pub(crate) fn start_at(deployment: &Deployment, address: &str) -> Self {
        Self::of(&mut deployment.command(&["serve", "--listen", address, "--json"]))
    }

    /// The same, on a machine with this wall clock.
    pub(crate) fn start_with_clock(deployment: &Deployment, clock: &MovedClock) -> Self {
        Self::start_with(deployment, &[], |command| {
            command.envs(clock.environment());
        })
    }

    /// The same, with what else the command needs.
    pub(crate) fn start_with(
        deployment: &Deployment,
        more: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--json"];
        arguments.extend(more);
        let mut command = deployment.command(&arguments);
        change(&mut command);
        Self::of(&mut command)
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let url = said["listening"].as_str().unwrap();
        let address = url.split_once("://").unwrap().1.to_owned();
        Self { child, address, said, headers: String::new() }
    }

    pub(crate) fn url(&self) -> String {
        self.said["listening"].as_str().unwrap().to_owned()
    }

    /// Status and body.
    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (body, host, headers) = (body.to_string(), &self.address, &self.headers);
        let mut stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             {headers}Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
    }

    pub(crate) fn end(mut self, signal: Signal) -> Option<i32> {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A build that sends no spans says so to whoever expects them.
#[test]
fn a_collector_is_used_or_said_to_be_of_no_use() {
    let deployment = embedded_store();
    let mut service = Serving::start_with(&deployment, &[], |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    });
    kill(Pid::from_raw(service.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let mut said = String::new();
    service.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let warned = said.contains("OTEL_EXPORTER_OTLP_ENDPOINT") && said.contains("--features otlp");
    assert_eq!(warned, cfg!(not(feature = "otlp")), "{said}");
}

#[test]
fn a_lock_of_the_service_is_a_lock_of_the_tool_and_outlives_the_service() {
    for deployment in deployments() {
        let service = Serving::start(&deployment, &[]);
        let ask = json!({ "name": "x", "ttl_ms": 30_000, "label": "billing" });
        let (status, lease) = service.post("/v1/acquire", &ask);
        assert_eq!(status, 200, "{lease}");
        deployment.tenure(&["acquire", "x"]).ends_with(75);
        let (report, _) = deployment.json(&["status", "x", "--json"]);
        assert_eq!((&report["state"], &report["holder"]), (&json!("held"), &json!("billing")));
        assert_eq!(report["fence"], lease["fence"]);
        assert_eq!(service.end(Signal::SIGTERM), Some(0));
        deployment.tenure(&["acquire", "x"]).ends_with(75);
        // Another one, with the key that the first made.
        let service = Serving::start(&deployment, &[]);
        let given = json!({ "name": "x", "token": lease["token"] });
        let (status, end) = service.post("/v1/release", &given);
        assert_eq!(status, 200, "{end}");
        deployment.tenure(&["acquire", "x"]).ends_with(0);
    }
}

#[test]
fn a_service_says_where_it_is_and_how_to_try_it() {
    let deployment = embedded_store();
    let service = Serving::start(&deployment, &[]);
    let key = deployment.folder().join(".local/state/tenure/lease_key");
    assert_eq!(service.said["made_lease_key"], json!(key.display().to_string()));
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(service.end(Signal::SIGINT), Some(0));
    let mut child = deployment.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut child = child.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said: Vec<String> = lines.take(4).map(Result::unwrap).collect();
    let _ = child.kill();
    let _ = child.wait();
    assert!(said[0].starts_with("tenure: listening on http://127.0.0.1:"), "{said:?}");
    assert!(said[1].starts_with("tenure: nodes: sqlite:"), "{said:?}");
    assert!(said[2].contains("--lease-key") && said[3].contains("curl"), "{said:?}");
}

/// That it is refused with these words.
#[track_caller]
fn is_refused(done: &Done, words: &[&str]) {
    done.ends_with(64);
    assert!(words.iter().all(|word| done.stderr.contains(word)), "{words:?}: {done:?}");
}

#[test]
fn a_service_that_cannot_be_started_says_why() {
    let deployment = embedded_store();
    let service = Serving::start(&deployment, &[]);
    is_refused(&deployment.tenure(&["serve", "--listen", &service.address]), &["another address"]);
    let key = deployment.write("keys", "none\n");
    let with_key = |name| deployment.tenure(&["serve", "--listen", "127.0.0.1:0", "--lease-key", name]);
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    is_refused(&with_key("keys"), &["chmod"]);
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    is_refused(&with_key("keys"), &["line 1"]);
    is_refused(&with_key("nowhere"), &["cannot be read"]);
    let mut homeless = deployment.command(&["serve", "--listen", "127.0.0.1:0"]);
    is_refused(&Done::of(homeless.env("HOME", "/proc").output().unwrap()), &["cannot be created"]);
}
