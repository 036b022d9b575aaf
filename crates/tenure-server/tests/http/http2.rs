//! HTTP/2: calls that are taken back, many of them, and connections that say nothing.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tenure::{LockState, Locks};
use tenure_server::{Service, Verb};
use tenure_testkit::certificates::Authority;
use tenure_testkit::http2::{Client, Frames, Reason, Request, encrypted};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::client::TlsStream;

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
        Client::connect(self.address(), &self.authority.file(), &self.token).await
    }

    /// A connection without anything that keeps to the rules.
    async fn dial(&self) -> TlsStream<TcpStream> {
        encrypted(self.address(), &self.authority.file()).await
    }

    fn address(&self) -> SocketAddr {
        self.open.url.strip_prefix("https://").unwrap().parse().unwrap()
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
    assert_eq!(client.post("acquire", &json!({ "name": "x" })).await.0, 200);
}

/// Each connection opens calls and takes them back at once, as long as it is let.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets_are_hung_up_on_and_others_notice_nothing() {
    let service = Encrypted::start(None).await;
    let mut other = service.connect().await;
    assert_eq!(other.post("acquire", &json!({ "name": "other" })).await.0, 200);
    let held = service.locks.lock("x").acquire().await.unwrap();
    let wait = json!({ "name": "x", "wait_ms": 60_000 }).to_string();
    let mut hostile = vec![];
    for _ in 0..20 {
        let (mut stream, token, wait) = (service.dial().await, service.token.clone(), wait.clone());
        hostile.push(tokio::spawn(async move {
            // A few are nothing special.
            let mut frames = Frames::of_new_connection();
            for number in 0..5 {
                frames.call(2 * number + 1, "acquire", &token, &wait);
                frames.reset(2 * number + 1);
            }
            stream.write_all(frames.bytes()).await.unwrap();
            let mut answer = vec![];
            let read = timeout(Duration::from_millis(300), stream.read_to_end(&mut answer)).await;
            assert!(read.is_err() && !answer.is_empty(), "it listens");
            let mut frames = Frames::default();
            for number in 5..2_000 {
                frames.call(2 * number + 1, "acquire", &token, &wait);
                frames.reset(2 * number + 1);
            }
            // It hangs up long before it has read all of it.
            let _ = stream.write_all(frames.bytes()).await;
            let read = timeout(Duration::from_secs(10), stream.read_to_end(&mut vec![])).await;
            assert!(read.is_ok(), "it is hung up on");
        }));
    }
    let mut slowest = Duration::ZERO;
    while !hostile.iter().all(JoinHandle::is_finished) {
        let begun = Instant::now();
        let (status, _) = other.post("acquire", &json!({ "name": "other" })).await;
        assert_eq!(status, 409, "it is held, and told at once");
        slowest = slowest.max(begun.elapsed());
        sleep(Duration::from_millis(5)).await;
    }
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    for client in hostile {
        client.await.unwrap();
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
    assert_eq!(client.post("acquire", &json!({ "name": "x" })).await.0, 200);
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
