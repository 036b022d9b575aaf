//! TLS with certificates of our own.

use std::path::Path;

use tenure::*;
use tenure_testkit::RedisServer;
use tenure_testkit::certificates::Authority;

/// Files of a private authority, and of a certificate of it.
struct Files {
    ca: String,
    cert: String,
    key: String,
    _authority: Authority,
}

impl Files {
    fn of(name: &str) -> Self {
        let authority = Authority::new();
        let files = authority.issue(name, &[name]);
        let shown = |path: &Path| path.display().to_string();
        let (cert, key) = (shown(&files.certificate), shown(&files.key));
        Self { ca: shown(&authority.file()), cert, key, _authority: authority }
    }
}

/// A server with TLS and the port it has it on.
fn server(files: &Files, clients: &str) -> (RedisServer, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Files { ca, cert, key, .. } = files;
    let server = RedisServer::start(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        cert,
        "--tls-key-file",
        key,
        "--tls-ca-cert-file",
        ca,
        "--tls-auth-clients",
        clients,
    ]);
    (server, port)
}

async fn error_of(url: String) -> String {
    let locks = Locks::connect([url]).await.unwrap();
    locks.lock("x").try_acquire().await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_private_authority_is_trusted_when_it_is_named() {
    let files = Files::of("localhost");
    let (server, port) = server(&files, "no");
    let url = format!("rediss://localhost:{port}?ca={}", files.ca);
    let locks = Locks::connect([url]).await.unwrap();
    let mut guard = locks.lock("x").acquire().await.unwrap();
    guard.extend().await.unwrap();
    assert_eq!(server.keys(), ["tenure:x"]);
    guard.release().await.unwrap();
    let error = error_of(format!("rediss://localhost:{port}")).await;
    assert!(
        error.contains("TLS: invalid peer certificate") || error.contains("no trusted certificates"),
        "{error}"
    );
    let error = error_of(format!("rediss://localhost:{port}?ca=/nowhere/ca.pem")).await;
    assert!(error.contains("TLS: /nowhere/ca.pem"), "{error}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let files = Files::of("lock-1.example");
    let (_server, port) = server(&files, "no");
    let error = error_of(format!("rediss://localhost:{port}?ca={}", files.ca)).await;
    assert!(error.contains("TLS: invalid peer certificate"), "{error}");
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_ours() {
    let files = Files::of("localhost");
    let (_server, port) = server(&files, "yes");
    let Files { ca, cert, key, .. } = &files;
    let locks =
        Locks::connect([format!("rediss://localhost:{port}?ca={ca}&cert={cert}&key={key}")]).await.unwrap();
    assert!(locks.lock("x").acquire().await.is_ok());
    let error = error_of(format!("rediss://localhost:{port}?ca={ca}")).await;
    assert!(error.contains("unreachable"), "{error}");
}

/// A server that speaks plain text on the port is not taken for a slow one.
#[tokio::test]
async fn a_server_without_tls_is_named() {
    let server = RedisServer::start(&[]);
    let files = Files::of("localhost");
    let error = error_of(format!("rediss://localhost:{}?ca={}", server.port(), files.ca)).await;
    assert!(error.contains("TLS:") || error.contains("no answer"), "{error}");
}
