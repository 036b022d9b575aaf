//! HTTP/2: calls that are taken back, many of them, and connections that say nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use serde_json::{Value, json};
use tenure::{LockState, Locks};
use tenure_server::{Service, Verb};
use tenure_testkit::certificates::Authority;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::callers::ListFile;
use crate::door::{Open, set};
use crate::tls::with_tls;
use crate::{keys, locks, nodes};

/// A service, and what it takes to call it.
struct Encrypted {
    open: Open,
    authority: Authority,
    token: String,
    /// Beside the service.
    locks: Locks,
    _list: ListFile,
}

/// A connection.
struct Client {
    requests: SendRequest<Bytes>,
    token: String,
    ended: JoinHandle<()>,
}

impl Encrypted {
    async fn start(silence_max: Option<Duration>) -> Self {
        let (authority, list, nodes) = (Authority::new(), ListFile::new(), nodes());
        let token = list.add("billing", &[Verb::Lock, Verb::Read], &[], None);
        let files = authority.issue("own", &["127.0.0.1"]);
        let mut settings = with_tls(&authority, &files, &list);
        settings.silence_max = set(silence_max);
        let service = Service::new(locks(&nodes), keys('a'));
        let open = Open::start_with(&settings, |_| service).await;
        Self { open, authority, token, locks: locks(&nodes), _list: list }
    }

    async fn connect(&self) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.authority.file()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(self.open.url.strip_prefix("https://").unwrap()).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        let ended = tokio::spawn(async move {
            let _ = connection.await;
        });
        Client { requests, token: self.token.clone(), ended }
    }
}

impl Client {
    /// Sends a call; none if the connection has ended.
    async fn send(&mut self, call: &str, body: &Value) -> Option<(ResponseFuture, SendStream<Bytes>)> {
        let request = Request::post(format!("https://127.0.0.1/v1/{call}"))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .body(())
            .unwrap();
        self.requests = self.requests.clone().ready().await.ok()?;
        let (answer, mut stream) = self.requests.send_request(request, false).ok()?;
        stream.send_data(body.to_string().into(), true).ok()?;
        Some((answer, stream))
    }

    async fn post(&mut self, call: &str, body: &Value) -> u16 {
        let (answer, _stream) = self.send(call, body).await.unwrap();
        answer.await.unwrap().status().as_u16()
    }

    async fn is_closed_within(&mut self, limit: Duration) -> bool {
        timeout(limit, &mut self.ended).await.is_ok()
    }
}

async fn until(mut done: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !done().await {
        assert!(Instant::now() < limit, "it does not come about");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn whoever_takes_back_a_call_leaves_the_line_and_the_connection_goes_on() {
    let service = Encrypted::start(None).await;
    let holder = service.locks.lock("x").acquire().await.unwrap();
    let mut client = service.connect().await;
    let wait = json!({ "name": "x", "wait_ms": 60_000 });
    let mut calls = vec![];
    for _ in 0..50 {
        calls.push(client.send("acquire", &wait).await.unwrap());
    }
    until(async || service.locks.inspect("x").await.unwrap().waiters == Some(50)).await;
    for (_, stream) in &mut calls {
        stream.send_reset(Reason::CANCEL);
    }
    until(async || service.locks.inspect("x").await.unwrap().waiters == Some(0)).await;
    holder.release().await.unwrap();
    until(async || matches!(service.locks.inspect("x").await.unwrap().state, LockState::Free)).await;
    assert_eq!(client.post("acquire", &json!({ "name": "x" })).await, 200);
}

/// Each connection opens calls and takes them back at once, as long as it is let.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets_are_hung_up_on_and_others_notice_nothing() {
    let service = Encrypted::start(None).await;
    let mut other = service.connect().await;
    assert_eq!(other.post("acquire", &json!({ "name": "other" })).await, 200);
    let held = service.locks.lock("x").acquire().await.unwrap();
    let mut hostile = vec![];
    for _ in 0..20 {
        let mut client = service.connect().await;
        hostile.push(tokio::spawn(async move {
            let (wait, mut sent) = (json!({ "name": "x", "wait_ms": 60_000 }), 0);
            while sent < 1_000 {
                let Some((_, mut stream)) = client.send("acquire", &wait).await else { break };
                stream.send_reset(Reason::CANCEL);
                sent += 1;
            }
            sent
        }));
    }
    let mut slowest = Duration::ZERO;
    while !hostile.iter().all(JoinHandle::is_finished) {
        let begun = Instant::now();
        let status = other.post("acquire", &json!({ "name": "other" })).await;
        assert_eq!(status, 409, "it is held, and told at once");
        slowest = slowest.max(begun.elapsed());
        sleep(Duration::from_millis(5)).await;
    }
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    for client in hostile {
        let sent = client.await.unwrap();
        assert!(sent > 0, "each got through to begin with");
    }
    until(async || service.locks.inspect("x").await.unwrap().waiters == Some(0)).await;
    held.release().await.unwrap();
    until(async || matches!(service.locks.inspect("x").await.unwrap().state, LockState::Free)).await;
}

#[tokio::test]
async fn a_silent_connection_ends_and_one_with_a_call_under_way_does_not() {
    let service = Encrypted::start(Some(Duration::from_millis(400))).await;
    let (mut silent, mut waiter, mut holder) =
        (service.connect().await, service.connect().await, service.connect().await);
    let held = service.locks.lock("x").acquire().await.unwrap();
    let (answer, _stream) = waiter.send("acquire", &json!({ "name": "x", "wait_ms": 20_000 })).await.unwrap();
    let (hold, _hold) = holder.send("hold", &json!({ "name": "y" })).await.unwrap();
    let hold = hold.await.unwrap();
    assert_eq!(hold.status(), 200);
    assert!(silent.is_closed_within(Duration::from_secs(5)).await);
    assert!(!waiter.is_closed_within(Duration::from_millis(1_000)).await);
    held.release().await.unwrap();
    assert_eq!(answer.await.unwrap().status(), 200);
    let mut lines = hold.into_body();
    let line = lines.data().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&line).contains("acquired"), "{line:?}");
    // Its answer goes on, so it is not silent.
    assert!(!holder.is_closed_within(Duration::from_millis(1_000)).await);
    assert!(waiter.is_closed_within(Duration::from_secs(5)).await, "it has nothing left to do");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let service = Encrypted::start(None).await;
    let mut client = service.connect().await;
    let request = Request::get("https://127.0.0.1/livez").header("x", "x".repeat(20_000)).body(()).unwrap();
    let (answer, _) = client.requests.send_request(request, true).unwrap();
    assert_eq!(answer.await.unwrap().status(), 431);
    assert_eq!(client.post("acquire", &json!({ "name": "x" })).await, 200);
}

#[tokio::test]
async fn an_instance_that_ends_answers_what_is_under_way() {
    let service = Encrypted::start(None).await;
    let _held = service.locks.lock("x").acquire().await.unwrap();
    let mut client = service.connect().await;
    let (answer, _stream) = client.send("acquire", &json!({ "name": "x", "wait_ms": 60_000 })).await.unwrap();
    until(async || service.locks.inspect("x").await.unwrap().waiters == Some(1)).await;
    let Encrypted { open, .. } = service;
    let (answer, ()) = tokio::join!(answer, open.stop());
    assert_eq!(answer.unwrap().status(), 503);
    assert!(client.is_closed_within(Duration::from_secs(5)).await);
}
