//! `watch`: one line a change, and a clean end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::deployment::{
    Deployment, deployments_and_service, embedded_store, five_redis_nodes, pid, service,
};

/// The tool at work, and the lines it says.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(deployment: &Deployment, arguments: &[&str]) -> Self {
        let mut command = deployment.command(&[&["watch"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = channel();
        let stdout: ChildStdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(30)).expect("a line")
    }

    /// The next line of this event, as JSON.
    fn event(&self, event: &str) -> Value {
        loop {
            let line: Value = serde_json::from_str(&self.next()).unwrap();
            if line["event"] == json!(event) {
                return line;
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_lock_that_is_taken_and_freed_is_a_line_by_nodes_and_by_a_service() {
    for deployment in deployments_and_service() {
        let there = deployment.hold(&["there", "--label", "before"]);
        let watching = Watching::start(&deployment, &["--json"]);
        assert_eq!(watching.event("watching")["event"], json!("watching"));
        let first = watching.event("is_held");
        assert_eq!((&first["name"], &first["state"]), (&json!("there"), &json!("held")), "{first}");
        watching.event("complete");
        let holder = deployment.hold(&["x", "--label", "nightly"]);
        let held = watching.event("held");
        assert_eq!(held["name"], json!("x"), "{held}");
        assert!(held["holder"].as_str().unwrap().ends_with(" nightly"), "{held}");
        assert!(held["left_ms"].is_u64() && held["fence"].is_u64() && held["margin"].is_u64(), "{held}");
        drop(holder);
        let freed = watching.event("freed");
        assert_eq!(
            (&freed["name"], &freed["state"], &freed["holder"]),
            (&json!("x"), &json!("free"), &Value::Null)
        );
        assert_eq!(freed["was"], held["holder"]);
        drop(there);
    }
}

/// By a service, which is told by its nodes what it gets; whoever only looks cannot know.
#[test]
fn a_lock_that_the_service_was_passed_on_tells_how_long_that_took() {
    let deployment = service();
    let watching = Watching::start(&deployment, &["y", "--json"]);
    watching.event("complete");
    for tries in 0.. {
        let (lease, _) = deployment.json(&["acquire", "y", "--json"]);
        let first = watching.event("held");
        assert_eq!(first.get("passed_on_after_ms"), Some(&Value::Null), "it was free: {first}");
        let next = deployment.start(&["run", "y", "--label", "next", "--wait", "60s", "--", "sleep", "3"]);
        while deployment.json(&["status", "y", "--json"]).0["waiters"] != json!(1) {}
        let token = lease["token"].as_str().unwrap();
        deployment.tenure(&["release", "y", "--token", token]).ends_with(0);
        let held = loop {
            let line: Value = serde_json::from_str(&watching.next()).unwrap();
            if line["holder"].as_str().is_some_and(|holder| holder.ends_with(" next")) {
                break line;
            }
        };
        next.done().ends_with(0);
        watching.event("freed");
        // On a busy machine it may come too late for what was set aside.
        if let Some(after) = held["passed_on_after_ms"].as_u64() {
            assert!(after <= 200, "{held}");
            break;
        }
        assert!(tries < 10, "it is never told: {held}");
    }
}

#[test]
fn one_name_and_names_that_begin_so_are_watched_alone_and_extensions_on_request() {
    let deployment = embedded_store();
    let one = Watching::start(&deployment, &["job", "--json"]);
    let some = Watching::start(&deployment, &["job/*", "--json"]);
    let all = Watching::start(&deployment, &["--all", "--json", "job/*"]);
    // A store that is not there yet is not made by those who look, and waited for.
    one.event("watching");
    assert!(!deployment.folder().join("locks.db").exists());
    deployment.tenure(&["run", "first", "--", "true"]).ends_with(0);
    one.event("complete");
    some.event("complete");
    all.event("complete");
    let _other = deployment.hold(&["other"]);
    let _inside = deployment.hold(&["job/1", "--ttl", "3s"]);
    let _exact = deployment.hold(&["job"]);
    assert_eq!(one.event("held")["name"], json!("job"));
    assert_eq!(some.event("held")["name"], json!("job/1"));
    assert_eq!(all.event("extended")["name"], json!("job/1"));
}

#[test]
fn what_others_wrote_cannot_move_the_cursor() {
    let deployment = embedded_store();
    let name = "a\u{1b}[2J\nb\u{202e}c";
    let watching = Watching::start(&deployment, &[]);
    let _holder = deployment.hold(&[name, "--label", "x\u{7}y"]);
    let line = loop {
        let line = watching.next();
        if line.contains("held") {
            break line;
        }
    };
    assert!(line.contains(r"a\u{1b}[2J\u{a}b\u{202e}c") && line.contains(r"x\u{7}y"), "{line}");
}

/// `watch --json | head -1`: whoever reads no more has seen enough.
#[test]
fn it_ends_when_nobody_reads_any_more_and_by_signals() {
    for deployment in deployments_and_service() {
        let tool = deployment.tool_for_everybody();
        let mut shell = deployment.program("bash");
        shell.args(["-c", &format!("set -o pipefail; '{}' watch --json | head -1", tool.display())]);
        let done = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        let line: Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!(line["event"], json!("watching"));
        assert!(done.status.success(), "{:?}", String::from_utf8_lossy(&done.stderr));
    }
    let deployment = embedded_store();
    deployment.tenure(&["run", "first", "--", "true"]).ends_with(0);
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let mut watching = Watching::start(&deployment, &["--json"]);
        watching.event("complete");
        kill(pid(watching.child.id()), signal).unwrap();
        assert_eq!(watching.child.wait().unwrap().code(), Some(code), "{signal}");
        let mut said = String::new();
        watching.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "{signal}");
    }
}

#[test]
fn a_node_that_goes_and_comes_back_is_a_line() {
    let mut deployment = five_redis_nodes();
    let watching = Watching::start(&deployment, &["--json"]);
    for _ in 0..5 {
        assert_eq!(watching.event("node")["votes"], json!(true));
    }
    deployment.servers[4].kill();
    let gone = watching.event("node");
    assert_eq!((&gone["votes"], &gone["reachable"]), (&json!(false), &json!(false)), "{gone}");
    assert!(gone["reason"].as_str().unwrap().contains("refused"), "{gone}");
}
