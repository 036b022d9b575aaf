//! Who may call, and what: tokens, rights, their end, and a list that is read again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_server::{CallerToken, Callers, Principal, Rights, Verb};
use tokio::time::sleep;

use crate::client::{Answer, Client};
use crate::{Instance, given, locks, nodes, service};

/// A list of callers in a file.
pub(crate) struct ListFile {
    folder: TempDir,
}

impl ListFile {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("callers")
    }

    /// Puts somebody in it, and gives the token.
    pub(crate) fn add(
        &self,
        name: &str,
        may: &[Verb],
        prefixes: &[&str],
        until: Option<Timestamp>,
    ) -> String {
        let token = CallerToken::generate().unwrap();
        let rights = Rights {
            may: may.to_vec(),
            prefixes: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect(),
        };
        let principal = Principal::with_token(name, token.hash(), rights, until).unwrap();
        Callers::append(&self.path(), &principal).unwrap();
        token.reveal().to_owned()
    }
}

fn kind(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.body["type"].as_str().unwrap_or_default())
}

const UNAUTHENTICATED: (u16, &str) = (401, "urn:tenure:unauthenticated");
const FORBIDDEN: (u16, &str) = (403, "urn:tenure:forbidden");

/// Path and method of every call but the probes, and some that are none.
fn every_call() -> Vec<(String, String)> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");
    let described: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut calls = vec![];
    for (path, methods) in described["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys().map(|method| method.to_uppercase());
        calls.extend(methods.map(|method| (path.clone(), method)));
    }
    // Log-in has its token in its body.
    calls.retain(|(path, _)| !["/livez", "/readyz", "/v1/log-in"].contains(&path.as_str()));
    calls.extend(["/nothing", "/livez/", "/v1/acquire"].map(|path| (path.to_owned(), "GET".to_owned())));
    calls
}

#[tokio::test]
async fn nothing_but_the_probes_answers_a_stranger() {
    let file = ListFile::new();
    let token = file.add("billing", &[Verb::Read, Verb::Lock], &[], None);
    let instance = Instance::start(service(&nodes()).callers(Callers::read(&file.path()).unwrap())).await;
    let mut client = Client::connect(instance.address).await;
    for path in ["/livez", "/readyz"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    let calls = every_call();
    assert!(calls.len() > 12, "{calls:?}");
    let (shorter, other) = (&token[..token.len() - 1], CallerToken::generate().unwrap());
    for sent in [None, Some(shorter), Some(other.reveal()), Some(" ")] {
        let mut client = Client::connect(instance.address).await;
        if let Some(sent) = sent {
            client = client.token(sent);
        }
        for (path, method) in &calls {
            client.send_text(method, path, "application/json", r#"{"name":"x"}"#).await;
            let refused = client.receive().await;
            assert_eq!(kind(&refused), UNAUTHENTICATED, "{path}");
            assert!(
                refused.head.to_ascii_lowercase().contains("www-authenticate: bearer"),
                "{}",
                refused.head
            );
            assert!(!refused.body.to_string().contains(other.reveal()));
        }
    }
    let mut client = Client::connect(instance.address).await.token(&token);
    assert_eq!(client.get("/version").await.status, 200);
    assert_eq!(client.post("/v1/acquire", &json!({ "name": "x" })).await.status, 200);
}

#[tokio::test]
async fn a_header_that_is_no_token_is_not_passed_over() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    let two = "Authorization: Bearer a\r\nAuthorization: Bearer b";
    for header in ["Authorization: Basic YTpi", "Authorization: Bearer", "Authorization: Bearer  ", two] {
        client.write(&format!("GET /version HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n")).await;
        assert_eq!(kind(&client.receive().await), UNAUTHENTICATED, "{header}");
    }
}

#[tokio::test]
async fn a_caller_does_what_it_may_and_a_refusal_tells_nothing_about_the_lock() {
    let (file, nodes) = (ListFile::new(), nodes());
    let billing = file.add("billing", &[Verb::Read, Verb::Lock], &["billing/"], None);
    let reader = file.add("reader", &[Verb::Read], &["billing/", "open"], None);
    let instance = Instance::start(service(&nodes).callers(Callers::read(&file.path()).unwrap())).await;
    let mut billing = Client::connect(instance.address).await.token(&billing);
    let mut reader = Client::connect(instance.address).await.token(&reader);
    let held = locks(&nodes).lock("other").acquire().await.unwrap();

    let lease = billing.post("/v1/acquire", &json!({ "name": "billing/1" })).await;
    assert_eq!(lease.status, 200, "{lease:?}");
    let (held_name, free) = (json!({ "name": "other" }), json!({ "name": "thing" }));
    let refused = [billing.post("/v1/acquire", &held_name).await, billing.post("/v1/acquire", &free).await];
    assert_eq!(refused.each_ref().map(kind), [FORBIDDEN, FORBIDDEN]);
    let said = refused.map(|refused| refused.body["detail"].as_str().unwrap().replace("thing", "other"));
    assert_eq!(said[0], said[1]);
    assert!(said[0].contains("may not lock") && said[0].contains("billing/"), "{}", said[0]);
    assert_eq!(kind(&billing.get("/v1/lock?name=other").await), FORBIDDEN);

    // The token of the lease alone is not enough.
    assert_eq!(kind(&reader.post("/v1/extend", &given(&lease.body)).await), FORBIDDEN);
    assert_eq!(kind(&reader.post("/v1/release", &given(&lease.body)).await), FORBIDDEN);
    assert_eq!(reader.get("/v1/lock?name=billing%2F1").await.body["state"], json!("held"));
    let list = reader.get("/v1/locks").await.body;
    let names: Vec<&Value> = list["locks"].as_array().unwrap().iter().map(|lock| &lock["name"]).collect();
    assert_eq!(names, [&json!("billing/1")], "not what others have");
    assert!(list["nodes"].as_array().unwrap().iter().all(|node| node["locks"].is_null()), "nor how many");

    let many = json!({ "leases": [given(&lease.body), { "name": "other", "token": "t1.x" }] });
    let results = billing.post("/v1/extend-many", &many).await.body["results"].clone();
    assert!(results[0]["fence"].is_u64(), "{results}");
    assert_eq!(results[1]["problem"]["type"], json!("urn:tenure:forbidden"));
    drop(held);
}

#[tokio::test]
async fn a_token_counts_until_its_end() {
    let file = ListFile::new();
    let soon = Timestamp::now() + SignedDuration::from_millis(700);
    let token = file.add("billing", &[Verb::Lock], &[], Some(soon));
    file.add("other", &[Verb::Lock], &[], None);
    let nodes = nodes();
    let instance = Instance::start(service(&nodes).callers(Callers::read(&file.path()).unwrap())).await;
    let mut client = Client::connect(instance.address).await.token(&token);
    let lease = client.post("/v1/acquire", &json!({ "name": "x", "ttl_ms": 1_000 })).await;
    assert_eq!(lease.status, 200, "{lease:?}");
    // It would get the lock when its time is over.
    let waited = client.post("/v1/acquire", &json!({ "name": "x", "wait_ms": 5_000 })).await;
    assert_eq!(kind(&waited), UNAUTHENTICATED, "{waited:?}");
    let refused = client.post("/v1/extend", &given(&lease.body)).await;
    assert_eq!(kind(&refused), UNAUTHENTICATED);
    assert!(refused.body["detail"].as_str().unwrap().contains("expired at"), "{refused:?}");
    // What it could not have is free.
    let _ = locks(&nodes).lock("x").wait(Duration::from_secs(1)).acquire().await.unwrap();
}

#[tokio::test]
async fn a_list_is_read_again_while_the_service_runs() {
    let file = ListFile::new();
    let first = file.add("first", &[Verb::Lock], &[], None);
    let callers = Callers::read(&file.path()).unwrap();
    let instance = Instance::start(service(&nodes()).callers(callers.clone())).await;
    let second = file.add("second", &[Verb::Lock], &[], None);
    let ask = |token: String| async move {
        Client::connect(instance.address).await.token(&token).get("/version").await.status
    };
    assert_eq!((ask(first.clone()).await, ask(second.clone()).await), (200, 401));
    callers.reload(&file.path()).unwrap();
    assert_eq!((ask(first.clone()).await, ask(second.clone()).await), (200, 200));
    keep_lines(&file.path(), 1..2);
    callers.reload(&file.path()).unwrap();
    assert_eq!((ask(first.clone()).await, ask(second.clone()).await), (401, 200));
    // A list that is wrong changes nothing.
    std::fs::write(file.path(), "{").unwrap();
    assert!(callers.reload(&file.path()).unwrap_err().to_string().contains("callers:1: "));
    std::fs::write(file.path(), "\n# nobody\n").unwrap();
    assert!(callers.reload(&file.path()).unwrap_err().to_string().contains("lists 0 callers"));
    assert_eq!((ask(first).await, ask(second).await), (401, 200));
}

#[tokio::test]
async fn whoever_is_taken_off_the_list_while_it_waits_gets_nothing() {
    let (file, nodes) = (ListFile::new(), nodes());
    let token = file.add("first", &[Verb::Lock], &[], None);
    file.add("second", &[Verb::Lock], &[], None);
    let callers = Callers::read(&file.path()).unwrap();
    let instance = Instance::start(service(&nodes).callers(callers.clone())).await;
    let locks = locks(&nodes);
    let held = locks.lock("x").acquire().await.unwrap();
    let mut client = Client::connect(instance.address).await.token(&token);
    client.send("/v1/acquire", &json!({ "name": "x", "wait_ms": 20_000 })).await;
    while locks.inspect("x").await.unwrap().waiters != Some(1) {
        sleep(Duration::from_millis(10)).await;
    }
    keep_lines(&file.path(), 1..2);
    callers.reload(&file.path()).unwrap();
    held.release().await.unwrap();
    assert_eq!(kind(&client.receive().await), UNAUTHENTICATED);
    let _ = locks.lock("x").wait(Duration::from_secs(5)).acquire().await.unwrap();
}

fn keep_lines(path: &Path, kept: std::ops::Range<usize>) {
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(path, lines[kept].join("\n")).unwrap();
}
