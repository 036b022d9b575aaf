//! The dashboard: its files, who may call from its pages, and people who log in.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tenure_server::{Callers, Verb};

use crate::callers::ListFile;
use crate::client::{Answer, Client};
use crate::door::{Open, on_loopback, set};
use crate::{Instance, nodes, service};

/// What a browser adds to a request that a page of the service makes to it.
pub(crate) const OWN_PAGE: &str = "Sec-Fetch-Site: same-origin\r\n";

/// The cookie that an answer sets, as a browser sends it back.
pub(crate) fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

/// Asks with these lines in the head, by a connection of its own.
async fn get(address: SocketAddr, path: &str, lines: &str) -> Answer {
    let mut client = Client::connect(address).await;
    client.write(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n")).await;
    client.receive_any().await
}

#[tokio::test]
async fn its_files_are_served_to_anybody_with_strict_headers_and_cached() {
    let file = ListFile::new();
    file.add("ann", &[Verb::Read], &[], None);
    let instance = Instance::start(service(&nodes()).callers(Callers::read(&file.path()).unwrap())).await;
    let address = instance.address;
    let page = get(address, "/ui/", "").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type").unwrap(), "text/html; charset=utf-8");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self' 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(page.header(name).unwrap(), value, "{name}");
    }
    let etag = page.header("etag").unwrap();
    for (path, status) in [("/ui/", 304), ("/ui/locks", 304), ("/ui/nothing", 404), ("/ui/app.js", 200)] {
        let mut client = Client::connect(address).await;
        let known = format!("Host: localhost\r\nIf-None-Match: \"x\", {etag}");
        client.write(&format!("GET {path} HTTP/1.1\r\n{known}\r\n\r\n")).await;
        let head = client.receive_head().await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {head}");
    }
    for (accept, status) in [("text/html,*/*", 303), ("application/json", 404)] {
        assert_eq!(get(address, "/", &format!("Accept: {accept}\r\n")).await.status, status);
    }
}

#[tokio::test]
async fn every_file_that_a_page_asks_for_is_there() {
    let instance = Instance::start(service(&nodes())).await;
    let address = instance.address;
    let mut known = BTreeSet::from(["/ui/".to_owned()]);
    let mut left: Vec<String> = known.iter().cloned().collect();
    while let Some(path) = left.pop() {
        let answer = get(address, &path, "").await;
        assert_eq!(answer.status, 200, "{path}");
        let folder = path.rsplit_once('/').unwrap().0;
        let named = answer.text.split('"').skip(1).step_by(2);
        for found in named.filter(|text| text.contains('.') && !text.contains([' ', '<', '$', ','])) {
            let found = match found.strip_prefix("./") {
                Some(beside) => format!("{folder}/{beside}"),
                None => found.replace("../", "/ui/"),
            };
            let is_file =
                found.starts_with("/ui/") && found.rsplit_once('.').is_some_and(|(_, kind)| kind.len() < 5);
            if is_file && known.insert(found.clone()) {
                left.push(found);
            }
        }
    }
    assert!(known.len() > 20, "{known:?}");
}

#[tokio::test]
async fn its_pages_may_call_and_no_others() {
    let instance = Instance::start(service(&nodes())).await;
    let address = instance.address;
    let mut client = Client::connect(instance.address).await;
    let visit = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
    let own = format!("{OWN_PAGE}Origin: http://localhost\r\n");
    for (path, lines, status) in [
        ("/v1/nodes", OWN_PAGE.to_owned(), 200),
        ("/v1/nodes", own.clone(), 200),
        ("/v1/nodes", format!("{OWN_PAGE}Origin: http://localhost:1\r\n"), 403),
        ("/v1/nodes", format!("{OWN_PAGE}Origin: https://evil.example\r\n"), 403),
        ("/v1/nodes", format!("{OWN_PAGE}Origin: null\r\n"), 403),
        ("/v1/nodes", "Origin: http://localhost\r\n".to_owned(), 403),
        ("/v1/nodes", format!("{OWN_PAGE}Sec-Fetch-Site: cross-site\r\n"), 403),
        ("/v1/nodes", format!("Sec-Fetch-Site: same-site\r\n{visit}"), 403),
        ("/v1/nodes", format!("Sec-Fetch-Site: cross-site\r\n{visit}"), 403),
        ("/ui/locks", format!("Sec-Fetch-Site: cross-site\r\n{visit}"), 200),
        ("/ui/app.js", format!("Sec-Fetch-Site: cross-site\r\n{visit}"), 403),
        ("/ui/app.js", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: script\r\n".to_owned(), 403),
        (
            "/ui/",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: iframe\r\nSec-Fetch-Mode: navigate\r\n".to_owned(),
            403,
        ),
    ] {
        assert_eq!(get(address, path, &lines).await.status, status, "{path} {lines}");
    }
    client.send_with(&own, "/v1/acquire", &json!({ "name": "x" })).await;
    assert_eq!(client.receive().await.status, 200);
    client.write(&format!("GET /ui/ HTTP/1.1\r\nHost: evil.example\r\n{OWN_PAGE}\r\n")).await;
    assert_eq!(client.receive_any().await.status, 403, "by a name that is not its own");
}

#[tokio::test]
async fn a_token_becomes_a_cookie_that_counts_for_its_own_pages_until_log_out() {
    let file = ListFile::new();
    let token = file.add("ann", &[Verb::Read, Verb::Force], &["web/"], None);
    let instance = Instance::start(service(&nodes()).callers(Callers::read(&file.path()).unwrap())).await;
    let address = instance.address;
    let mut client = Client::connect(instance.address).await;
    client.send_with(OWN_PAGE, "/v1/log-in", &json!({ "token": format!(" {token}\n") })).await;
    let answer = client.receive().await;
    assert_eq!((answer.status, &answer.body["name"]), (200, &json!("ann")));
    let set = answer.header("set-cookie").unwrap();
    assert!(set.contains("; HttpOnly; SameSite=Strict") && !set.contains(&token), "{set}");
    assert!(!set.contains("Secure"), "there is no TLS: {set}");
    let sent = format!("Cookie: other=1; {}\r\n", cookie(&answer));
    let me = get(address, "/v1/me", &format!("{OWN_PAGE}{sent}")).await;
    assert_eq!((&me.body["may"], &me.body["prefixes"]), (&json!(["read", "force"]), &json!(["web/"])));
    assert!(me.body["session_left_ms"].as_u64().unwrap() > 43_000_000);
    for lines in [sent.clone(), format!("Sec-Fetch-Site: none\r\n{sent}")] {
        assert_eq!(get(address, "/v1/me", &lines).await.status, 401, "a cookie alone is nothing: {lines}");
    }
    for path in ["/v1/lock?name=web/x", "/v1/locks", "/v1/nodes"] {
        assert_eq!(get(address, path, &format!("{OWN_PAGE}{sent}")).await.status, 200, "{path}");
    }
    assert_eq!(get(address, "/v1/lock?name=x", &format!("{OWN_PAGE}{sent}")).await.status, 403);

    client.send_with(&format!("{OWN_PAGE}{sent}"), "/v1/log-out", &json!({})).await;
    let out = client.receive().await;
    assert_eq!(out.body, json!({ "ended": true }));
    assert!(out.header("set-cookie").unwrap().contains("; Max-Age=0;"), "{}", out.head);
    let ended = get(address, "/v1/me", &format!("{OWN_PAGE}{sent}")).await;
    assert_eq!(ended.status, 401, "the cookie was kept by somebody");
    assert!(ended.body["detail"].as_str().unwrap().contains("log in again"), "{}", ended.text);
}

#[tokio::test]
async fn whoever_is_taken_off_the_list_is_logged_out() {
    let file = ListFile::new();
    let token = file.add("ann", &[Verb::Read], &[], None);
    let until = Timestamp::now() + SignedDuration::from_millis(700);
    let brief = file.add("bea", &[Verb::Read], &[], Some(until));
    let callers = Callers::read(&file.path()).unwrap();
    let instance = Instance::start(service(&nodes()).callers(callers.clone())).await;
    let address = instance.address;
    // Another instance with the same lease key accepts the session, too.
    let other = Instance::start(service(&nodes()).callers(callers.clone())).await;
    let mut client = Client::connect(instance.address).await;
    let mut sessions = vec![];
    for token in [token, brief] {
        client.send_with(OWN_PAGE, "/v1/log-in", &json!({ "token": token })).await;
        let lines = format!("{OWN_PAGE}Cookie: {}\r\n", cookie(&client.receive().await));
        assert_eq!(get(other.address, "/v1/me", &lines).await.status, 200);
        sessions.push(lines);
    }
    tokio::time::sleep(std::time::Duration::from_millis(800)).await;
    let over = get(address, "/v1/me", &sessions[1]).await;
    assert!(over.status == 401 && over.text.contains("expired at"), "{}", over.text);
    std::fs::write(file.path(), "").unwrap();
    file.add("bob", &[Verb::Read], &[], None);
    callers.reload(&file.path()).unwrap();
    assert_eq!(get(address, "/v1/me", &sessions[0]).await.status, 401);
}

#[tokio::test]
async fn a_service_without_callers_has_nothing_to_log_in_to() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    let me = client.get("/v1/me").await;
    assert_eq!((&me.body["name"], &me.body["session_left_ms"]), (&json!("anonymous"), &json!(null)));
    let answer = client.post("/v1/log-in", &json!({ "token": "tenure_0" })).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text.contains("there is no login"), "{}", answer.text);
}

#[tokio::test]
async fn behind_tls_the_cookie_is_for_tls_alone() {
    let file = ListFile::new();
    let token = file.add("ann", &[Verb::Read], &[], None);
    let mut settings = on_loopback();
    settings.callers = set(Some(file.path()));
    settings.behind_tls_proxy = set(true);
    let open = Open::start(&settings).await;
    let address = open.url.strip_prefix("http://").unwrap().parse().unwrap();
    let mut client = Client::connect(address).await;
    let own = format!("{OWN_PAGE}Origin: https://localhost\r\n");
    client.send_with(&own, "/v1/log-in", &json!({ "token": token })).await;
    let answer = client.receive().await;
    let set = answer.header("set-cookie").unwrap();
    assert!(set.starts_with("__Host-tenure-") && set.ends_with("; Secure"), "{set}");
    let me = get(address, "/v1/me", &format!("{OWN_PAGE}Cookie: {}\r\n", cookie(&answer))).await;
    assert_eq!(me.body["name"], json!("ann"));
    open.stop().await;
}
