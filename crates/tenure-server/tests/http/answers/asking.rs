//! Asking, and noting which of the described answers was given.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::Value;

use crate::client::Client;

/// Calls whose answers have no end.
const STREAMS: [&str; 2] = ["POST /v1/hold", "GET /v1/events"];

/// A call with its status and type, or `-`: `POST /v1/acquire 409 contended`.
pub(super) type Seen = BTreeSet<String>;

/// What only an instance tells whose worker has died, which is a fault of the service: such calls
/// are served to the last moment.
const OF_THE_DEAD: [&str; 5] = [
    "POST /v1/extend 503 draining",
    "POST /v1/release 503 draining",
    "POST /v1/force-release 503 draining",
    "GET /v1/lock 503 draining",
    "GET /v1/locks 503 draining",
];

/// All that is described, but for faults of the service itself.
pub(super) fn described() -> Seen {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let described: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut all = Seen::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, call) in methods.as_object().unwrap() {
            for (status, answer) in call["responses"].as_object().unwrap() {
                let problem = &answer["content"]["application/problem+json"]["schema"]["allOf"][1];
                let types = problem["properties"]["type"]["enum"].as_array();
                let types =
                    types.map_or_else(|| vec!["-"], |types| types.iter().filter_map(Value::as_str).collect());
                all.extend(
                    types.iter().map(|kind| seen(&format!("{} {path}", method.to_uppercase()), status, kind)),
                );
            }
        }
    }
    let facts = described["components"]["schemas"]["Problem"]["properties"].as_object().unwrap().keys();
    all.extend(facts.map(|fact| format!("problem {fact}")));
    all.retain(|answer| !answer.ends_with(" internal") && !OF_THE_DEAD.contains(&answer.as_str()));
    all
}

pub(super) fn seen(call: &str, status: &str, kind: &str) -> String {
    let call = call.split('?').next().unwrap_or_default();
    format!("{call} {status} {}", kind.trim_start_matches("urn:tenure:"))
}

/// Somebody who asks, and what was answered so far.
pub(super) struct Asking<'a> {
    pub(super) address: SocketAddr,
    /// Who it is, and whatever else it sends.
    pub(super) lines: String,
    pub(super) seen: &'a mut Seen,
}

impl Asking<'_> {
    /// Makes a call, such as `GET /livez`, that gets this answer, such as `200 -`.
    pub(super) async fn gets(&mut self, call: &str, body: Value, expected: &str) -> Value {
        self.gets_text(call, "application/json", &body.to_string(), expected).await
    }

    pub(super) async fn gets_text(&mut self, call: &str, kind: &str, body: &str, expected: &str) -> Value {
        let (method, path) = call.split_once(' ').unwrap();
        let body = if method == "GET" { "" } else { body };
        let mut client = Client::connect(self.address).await;
        let length = body.len();
        let head = format!(
            "{call} HTTP/1.1\r\nHost: localhost\r\n{}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n",
            self.lines
        );
        client.write(&format!("{head}{body}")).await;
        if expected == "200 -" && STREAMS.contains(&seen(call, "", "").split("  ").next().unwrap()) {
            let head = client.receive_head().await;
            assert!(head.starts_with("HTTP/1.1 200"), "{call}: {head}");
            self.seen.insert(seen(call, "200", "-"));
            return if path == "/v1/hold" { client.next_json().await.unwrap() } else { Value::Null };
        }
        let answer = client.receive().await;
        let got = seen(call, &answer.status.to_string(), answer.body["type"].as_str().unwrap_or("-"));
        assert_eq!(
            got,
            seen(call, expected.split(' ').next().unwrap(), expected.split(' ').nth(1).unwrap()),
            "{answer:?}"
        );
        self.seen.insert(got);
        if expected != "200 -" {
            let facts = answer.body.as_object().into_iter().flatten();
            self.seen.extend(facts.map(|(fact, _)| format!("problem {fact}")));
        }
        answer.body
    }

    /// The same for several calls, as they are described.
    pub(super) async fn each_gets(&mut self, calls: &[&str], body: &Value, expected: &str) {
        for call in calls {
            self.gets(call, body.clone(), expected).await;
        }
    }
}
