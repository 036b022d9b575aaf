//! Asking, and noting which of the described answers was given.

use std::net::SocketAddr;

use serde_json::Value;

use super::described::{Seen, answered, fields_in};
use crate::client::{Answer, Client};

/// So often a call is made again that no majority of nodes answered.
const TRIES_MAX: usize = 20;

/// Somebody who asks, and what was answered so far.
pub(super) struct Asking<'a> {
    pub(super) address: SocketAddr,
    /// Who it is, and whatever else it sends.
    pub(super) lines: String,
    pub(super) seen: &'a mut Seen,
}

impl<'a> Asking<'a> {
    pub(super) const fn new(address: SocketAddr, seen: &'a mut Seen) -> Self {
        Self { address, lines: String::new(), seen }
    }

    /// Makes a call, such as `GET /livez`, that gets this answer, such as `200 -`.
    pub(super) async fn gets(&mut self, call: &str, body: Value, expected: &str) -> Value {
        self.gets_text(call, "application/json", &body.to_string(), expected).await
    }

    pub(super) async fn gets_text(&mut self, call: &str, kind: &str, body: &str, expected: &str) -> Value {
        let got = |answer: &Answer| {
            let kind = answer.body["type"].as_str().unwrap_or("-");
            answered(call, &answer.status.to_string(), kind)
        };
        let mut answer = self.send(call, kind, body).await.receive().await;
        // On a busy machine nodes miss their timeout now and then. Every caller asks again.
        for _ in 0..TRIES_MAX {
            if expected != "200 -" || got(&answer) != answered(call, "503", "unavailable") {
                break;
            }
            answer = self.send(call, kind, body).await.receive().await;
        }
        let got = got(&answer);
        let (status, kind) = expected.split_once(' ').unwrap();
        assert_eq!(got, answered(call, status, kind), "{body}: {answer:?}");
        self.seen.insert(got);
        if status == "200" {
            self.note(call, body, &answer.body);
        } else {
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

    /// Makes a call whose answer comes bit by bit.
    pub(super) async fn streams(&mut self, call: &str, body: &Value) -> Client {
        let mut client = self.send(call, "application/json", &body.to_string()).await;
        let head = client.receive_head().await;
        assert!(head.starts_with("HTTP/1.1 200"), "{call} {body}: {head}");
        self.seen.insert(answered(call, "200", "-"));
        self.note(call, &body.to_string(), &Value::Null);
        client
    }

    /// The lines of a hold up to this event.
    pub(super) async fn hears(&mut self, client: &mut Client, event: &str) -> Value {
        loop {
            let line = client.next_json().await.unwrap_or_else(|| panic!("it ended without {event}"));
            self.note("POST /v1/hold", "", &line);
            let told = line["event"].as_str().unwrap();
            self.seen.insert(format!("POST /v1/hold gives event {told}"));
            if told == event {
                return line;
            }
        }
    }

    async fn send(&self, call: &str, kind: &str, body: &str) -> Client {
        let body = if call.starts_with("GET ") { "" } else { body };
        let (lines, length) = (&self.lines, body.len());
        let head = format!(
            "{call} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        );
        let mut client = Client::connect(self.address).await;
        client.write(&format!("{head}{body}")).await;
        client
    }

    /// Notes what was sent with a call that was served, and what was in its answer.
    pub(super) fn note(&mut self, call: &str, sent: &str, got: &Value) {
        let (call, query) = call.split_once('?').unwrap_or((call, ""));
        let headers = self.lines.lines().filter_map(|line| line.split_once(": "));
        let parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
        self.seen.extend(headers.chain(parameters).map(|(name, _)| format!("{call} takes {name}")));
        let sent = serde_json::from_str(sent).unwrap_or(Value::Null);
        fields_in(&sent, &format!("{call} takes "), self.seen);
        fields_in(got, &format!("{call} gives "), self.seen);
    }
}
