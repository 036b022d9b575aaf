//! TLS: certificates of both sides, and handshakes that hang.

use std::time::Duration;

use serde_json::json;
use tenure::config::Serve;
use tenure_server::{Callers, Principal, Rights, Verb};
use tenure_testkit::certificates::{Authority, CertificateFiles};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::callers::ListFile;
use crate::door::{Open, curl, on_loopback, set};

/// Settings with this certificate, and the authority's clients.
pub(crate) fn with_tls(authority: &Authority, files: &CertificateFiles, list: &ListFile) -> Serve {
    let mut settings = on_loopback();
    settings.tls_certificate = set(Some(files.certificate.clone()));
    settings.tls_key = set(Some(files.key.clone()));
    settings.client_ca = set(Some(authority.file()));
    settings.callers = set(Some(list.path()));
    settings
}

#[tokio::test]
async fn curl_speaks_http_1_and_2_and_trusts_the_authority_only() {
    let (authority, list) = (Authority::new(), ListFile::new());
    let token = list.add("billing", &[Verb::Lock], &[], None);
    let files = authority.issue("own", &["127.0.0.1", "locks.example"]);
    let open = Open::start(&with_tls(&authority, &files, &list)).await;
    assert!(open.url.starts_with("https://127.0.0.1:"), "{}", open.url);
    let (ca, header) = (authority.file(), format!("Authorization: Bearer {token}"));
    let trust = ["--cacert", ca.to_str().unwrap(), "-H", &header];
    let (url, body) = (format!("{}/v1/acquire", open.url), r#"{"name":"x","ttl_ms":1000}"#);
    for (version, flag, name) in [("1.1", "--http1.1", "a"), ("2", "--http2", "b")] {
        let body = body.replace("\"x\"", &format!("{name:?}"));
        let (status, spoken, lease) = curl(&[&trust[..], &[flag, "--json", &body, &url]].concat()).await;
        assert_eq!((status, &*spoken), (200, version), "{lease}");
    }
    let (status, _, said) = curl(&["-H", &header, "--json", body, &url]).await;
    assert_eq!(status, 0, "an authority that nobody trusts: {said}");
    let plain = url.replace("https://", "http://");
    assert_eq!(curl(&["-H", &header, "--json", body, &plain]).await.0, 0, "and nothing without TLS");
    // By the name in the certificate, and by no other.
    let port = open.url.rsplit_once(':').unwrap().1;
    for (host, status) in [("locks.example", 200), ("evil.example", 403)] {
        for http in ["--http1.1", "--http2"] {
            let resolve = format!("locks.example:{port}:127.0.0.1");
            let url = format!("https://locks.example:{port}/version");
            let host = format!("Host: {host}:{port}");
            let (got, _, body) =
                curl(&[&trust[..], &[http, "--resolve", &resolve, "-H", &host, &url]].concat()).await;
            assert_eq!(got, status, "{host}: {body}");
        }
    }
}

#[tokio::test]
async fn a_client_certificate_says_who_calls() {
    let (authority, list) = (Authority::new(), ListFile::new());
    let rights = |prefix: &str| Rights { may: vec![Verb::Lock], prefixes: vec![prefix.to_owned()] };
    for (name, certificate, prefix) in
        [("web", "web-1.example", "web/"), ("by-common-name", "batch", "batch/")]
    {
        let principal = Principal::with_certificate(name, certificate, rights(prefix), None).unwrap();
        Callers::append(&list.path(), &principal).unwrap();
    }
    let own = authority.issue("own", &["127.0.0.1"]);
    let open = Open::start(&with_tls(&authority, &own, &list)).await;
    let (ca, url) = (authority.file(), format!("{}/v1/acquire", open.url));
    let ask = async |shown: Option<&CertificateFiles>, name: &str| {
        let body = json!({ "name": name }).to_string();
        let mut arguments = vec!["--cacert", ca.to_str().unwrap(), "--json", &body];
        if let Some(shown) = shown {
            arguments.extend([
                "--cert",
                shown.certificate.to_str().unwrap(),
                "--key",
                shown.key.to_str().unwrap(),
            ]);
        }
        arguments.push(&url);
        curl(&arguments).await.0
    };
    let web = authority.issue("client", &["web-0.example", "web-1.example"]);
    assert_eq!((ask(Some(&web), "web/1").await, ask(Some(&web), "batch/1").await), (200, 403));
    let batch = authority.issue("batch", &[]);
    assert_eq!((ask(Some(&batch), "batch/2").await, ask(Some(&batch), "web/2").await), (200, 403));
    let stranger = authority.issue("stranger", &["stranger.example"]);
    assert_eq!((ask(Some(&stranger), "web/3").await, ask(None, "web/3").await), (401, 401));
    // One that somebody else signed, and one that has ended, get no connection at all.
    let forged = Authority::new().issue("forged", &["web-1.example"]);
    let over = authority.issue_until("over", &["web-1.example"], 2020);
    assert_eq!((ask(Some(&forged), "web/4").await, ask(Some(&over), "web/4").await), (0, 0));
}

#[tokio::test]
async fn a_certificate_is_read_again_and_a_wrong_one_changes_nothing() {
    let (authority, list) = (Authority::new(), ListFile::new());
    list.add("billing", &[Verb::Lock], &[], None);
    let files = authority.issue_until("own", &["127.0.0.1"], 2030);
    let open = Open::start(&with_tls(&authority, &files, &list)).await;
    let (ca, url) = (authority.file(), format!("{}/livez", open.url));
    let trust = ["--cacert", ca.to_str().unwrap(), &url];
    let year = || open.door.certificate_until().unwrap().to_string()[..4].to_owned();
    assert_eq!((curl(&trust).await.0, year()), (200, "2030".to_owned()));
    std::fs::write(&files.key, "nothing").unwrap();
    let errors = open.door.reload();
    assert!(errors.len() == 1 && errors[0].to_string().contains("own.key.pem"), "{errors:?}");
    assert_eq!((curl(&trust).await.0, year()), (200, "2030".to_owned()));
    let _ = authority.issue_until("own", &["127.0.0.1"], 2040);
    assert!(open.door.reload().is_empty());
    assert_eq!((curl(&trust).await.0, year()), (200, "2040".to_owned()));
}

#[tokio::test]
async fn handshakes_that_hang_hold_nobody_up_and_end() {
    let (authority, list) = (Authority::new(), ListFile::new());
    list.add("billing", &[Verb::Lock], &[], None);
    let files = authority.issue("own", &["127.0.0.1"]);
    let mut settings = with_tls(&authority, &files, &list);
    settings.silence_max = set(Some(Duration::from_secs(2)));
    let open = Open::start(&settings).await;
    let address = open.url.strip_prefix("https://").unwrap();
    let mut silent = vec![];
    for _ in 0..200 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let (ca, url, begun) = (authority.file(), format!("{}/livez", open.url), Instant::now());
    assert_eq!(curl(&["--cacert", ca.to_str().unwrap(), &url]).await.0, 200);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let read = timeout(Duration::from_secs(10), silent[0].read(&mut [0; 16])).await;
    assert!(matches!(read, Ok(Ok(0) | Err(_))), "it is closed: {read:?}");
}
