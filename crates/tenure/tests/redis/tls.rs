//! TLS with certificates of our own.

use std::path::Path;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tenure::*;
use tenure_testkit::RedisServer;

/// Writes a private authority, and a certificate of it for `name`.
fn write_certificates(folder: &Path, name: &str) {
    let mut authority = CertificateParams::new(vec![]).unwrap();
    authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
    // With the authority's own name a server would take it for signed by itself.
    certificate.distinguished_name.push(rcgen::DnType::CommonName, name);
    let certificate = certificate.signed_by(&key, &authority).unwrap();
    let write = |file: &str, text: String| std::fs::write(folder.join(file), text).unwrap();
    write("ca.pem", authority.pem());
    write("cert.pem", certificate.pem());
    write("key.pem", key.serialize_pem());
}

/// A server with TLS and the port it has it on.
fn server(folder: &Path, clients: &str) -> (RedisServer, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = |name: &str| folder.join(name).display().to_string();
    let (cert, key, ca) = (file("cert.pem"), file("key.pem"), file("ca.pem"));
    let server = RedisServer::start(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
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
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path(), "localhost");
    let (server, port) = server(folder.path(), "no");
    let ca = folder.path().join("ca.pem");
    let url = format!("rediss://localhost:{port}?ca={}", ca.display());
    let locks = Locks::connect([url]).await.unwrap();
    let mut guard = locks.lock("x").acquire().await.unwrap();
    guard.extend().await.unwrap();
    assert_eq!(server.keys(), ["tenure:x"]);
    guard.release().await.unwrap();
    let error = error_of(format!("rediss://localhost:{port}")).await;
    assert!(
        error.contains("TLS: invalid peer certificate") || error.contains("no certificates to trust"),
        "{error}"
    );
    let error = error_of(format!("rediss://localhost:{port}?ca=/nowhere/ca.pem")).await;
    assert!(error.contains("TLS: /nowhere/ca.pem"), "{error}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path(), "lock-1.example");
    let (_server, port) = server(folder.path(), "no");
    let ca = folder.path().join("ca.pem");
    let error = error_of(format!("rediss://localhost:{port}?ca={}", ca.display())).await;
    assert!(error.contains("TLS: invalid peer certificate"), "{error}");
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_ours() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path(), "localhost");
    let (_server, port) = server(folder.path(), "yes");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("cert.pem"), file("key.pem"));
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
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path(), "localhost");
    let ca = folder.path().join("ca.pem");
    let error = error_of(format!("rediss://localhost:{}?ca={}", server.port(), ca.display())).await;
    assert!(error.contains("TLS:") || error.contains("no answer"), "{error}");
}
