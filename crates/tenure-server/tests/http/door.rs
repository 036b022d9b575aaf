//! Who gets in: refused starts, unix sockets, and names by which the service is called.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tenure::config::{Listen, Serve, Source, Sourced};
use tenure_server::{Callers, CutOff, Door, Service, Verb};
use tenure_testkit::certificates::Authority;
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::callers::ListFile;
use crate::{keys, locks, nodes};

/// A service behind a door.
pub(crate) struct Open {
    pub(crate) door: Door,
    pub(crate) url: String,
    end: Option<oneshot::Sender<()>>,
    ended: JoinHandle<Result<(), CutOff>>,
}

impl Open {
    pub(crate) async fn start(settings: &Serve) -> Self {
        let service = Service::new(locks(&nodes()), keys('a'));
        Self::start_with(settings, |_| service).await
    }

    /// With a service that is changed further.
    pub(crate) async fn start_with(settings: &Serve, service: impl FnOnce(&Door) -> Service) -> Self {
        let door = Door::of(settings).unwrap();
        let listeners = door.listen().await.unwrap();
        let url = listeners.urls().remove(0);
        let (end, ends) = oneshot::channel();
        let ends = async {
            let _ = ends.await;
        };
        let ended = tokio::spawn(service(&door).behind(&door).serve(listeners, ends));
        Self { door, url, end: Some(end), ended }
    }

    pub(crate) async fn stop(mut self) {
        let _ = self.end.take().unwrap().send(());
        (&mut self.ended).await.unwrap().unwrap();
    }
}

/// What curl says: status, version of HTTP, and body.
pub(crate) async fn curl(arguments: &[&str]) -> (u16, String, Value) {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20", "-w", "\n%{http_code} %{http_version}"]).args(arguments);
    let done = command.env_remove("http_proxy").kill_on_drop(true).output().await.unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let (body, last) = text.rsplit_once('\n').unwrap();
    let (status, version) = last.split_once(' ').unwrap();
    let body = serde_json::from_str(body).unwrap_or_else(|_| json!(String::from_utf8_lossy(&done.stderr)));
    (status.parse().unwrap(), version.to_owned(), body)
}

/// As a setting that a flag gave.
pub(crate) fn set<T>(value: T) -> Sourced<T> {
    Sourced { value, source: Source::Flag("--test") }
}

pub(crate) fn on_loopback() -> Serve {
    let mut settings = Serve::default();
    settings.listen = set(vec![Listen::Tcp("127.0.0.1:0".parse().unwrap())]);
    settings
}

#[test]
fn what_other_machines_can_reach_needs_callers_and_tls() {
    let refusal = |change: &dyn Fn(&mut Serve)| {
        let mut settings = Serve::default();
        change(&mut settings);
        Door::check(&settings).err().map(|error| error.to_string())
    };
    let path = || set(Some(PathBuf::from("/nowhere")));
    let everywhere = ["0.0.0.0:7420", "[::]:7420", "192.0.2.1:7420", "[::ffff:192.0.2.1]:7420"];
    for address in everywhere {
        let listen = |settings: &mut Serve| {
            let loopback = Listen::Tcp("127.0.0.1:1".parse().unwrap());
            settings.listen = set(vec![loopback, Listen::Tcp(address.parse().unwrap())]);
        };
        let said = refusal(&listen).unwrap();
        let has = |words: &[&str], said: &str| words.iter().all(|word| said.contains(word));
        assert!(has(&["--test", address, "--callers", "127.0.0.1"], &said), "{said}");
        // Neither does TLS replace callers, nor the other way round.
        for change in [
            &(|settings: &mut Serve| settings.behind_tls_proxy = set(true)) as &dyn Fn(&mut Serve),
            &|settings| (settings.tls_certificate, settings.tls_key) = (path(), path()),
        ] {
            let said = refusal(&|settings| {
                listen(settings);
                change(settings);
            });
            assert!(has(&["anyone could use it", "--callers"], &said.unwrap()));
        }
        let with_callers = |settings: &mut Serve| {
            listen(settings);
            settings.callers = path();
        };
        let said = refusal(&with_callers).unwrap();
        assert!(has(&["--tls-certificate", "--behind-tls-proxy", "127.0.0.1"], &said), "{said}");
        let behind_proxy = refusal(&|settings| {
            with_callers(settings);
            settings.behind_tls_proxy = set(true);
        });
        let encrypted = refusal(&|settings| {
            with_callers(settings);
            (settings.tls_certificate, settings.tls_key) = (path(), path());
        });
        assert_eq!((behind_proxy, encrypted), (None, None));
    }
    for here in ["127.0.0.1:7420", "127.9.9.9:1", "[::1]:7420", "[::ffff:127.0.0.1]:1"] {
        let listen = |settings: &mut Serve| settings.listen = set(vec![Listen::Tcp(here.parse().unwrap())]);
        assert_eq!(refusal(&listen), None, "{here}");
    }
}

#[test]
fn half_a_setting_is_refused_with_the_other_half() {
    let path = || set(Some(PathBuf::from("/nowhere")));
    for (change, words) in [
        (
            &(|settings: &mut Serve| settings.tls_key = path()) as &dyn Fn(&mut Serve),
            "tls_key needs tls_certificate",
        ),
        (&|settings| settings.tls_certificate = path(), "tls_certificate needs tls_key"),
        (&|settings| settings.client_ca = path(), "client_ca needs tls_certificate and tls_key"),
        (
            &|settings| {
                (settings.tls_certificate, settings.tls_key, settings.client_ca) = (path(), path(), path());
            },
            "client_ca needs callers",
        ),
    ] {
        let mut settings = Serve::default();
        change(&mut settings);
        let said = Door::check(&settings).unwrap_err().to_string();
        assert!(said.contains(words) && said.contains("--test"), "{said}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named_and_their_secrets_are_not() {
    let authority = Authority::new();
    let (own, other) = (authority.issue("own", &["localhost"]), authority.issue("other", &["localhost"]));
    let broken = authority.folder().join("broken");
    std::fs::write(&broken, "s3cret").unwrap();
    std::fs::set_permissions(&broken, Permissions::from_mode(0o600)).unwrap();
    let open = authority.issue("open", &["localhost"]);
    std::fs::set_permissions(&open.key, Permissions::from_mode(0o604)).unwrap();
    let nowhere = Path::new("/nowhere/file");
    let refusal = |certificate: &Path, key: &Path, client_ca: Option<&Path>| {
        let (mut settings, list) = (on_loopback(), ListFile::new());
        list.add("a", &[Verb::Lock], &[], None);
        settings.callers = set(Some(list.path()));
        settings.tls_certificate = set(Some(certificate.into()));
        settings.tls_key = set(Some(key.into()));
        settings.client_ca = set(client_ca.map(Path::to_owned));
        Door::of(&settings).err().map(|error| error.to_string())
    };
    assert_eq!(refusal(&own.certificate, &own.key, Some(&authority.file())), None);
    for (said, words) in [
        (refusal(nowhere, &own.key, None), ["/nowhere/file", "the service's certificate"]),
        (refusal(&own.certificate, nowhere, None), ["/nowhere/file", "the certificate's private key"]),
        (refusal(&own.certificate, &other.key, None), ["other.key.pem", "cannot be used with the key"]),
        (refusal(&own.certificate, &broken, None), ["broken", "the certificate's private key"]),
        (refusal(&open.certificate, &open.key, None), ["open.key.pem", "chmod o="]),
        (refusal(&own.key, &own.key, None), ["own.key.pem", "no certificate in it"]),
        (refusal(&own.certificate, &own.key, Some(&broken)), ["broken", "CA certificates"]),
    ] {
        let said = said.unwrap();
        assert!(words.iter().all(|word| said.contains(word)) && !said.contains("s3cret"), "{said}");
    }
}

#[tokio::test]
async fn a_unix_socket_is_a_way_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.sock");
    let mut settings = Serve::default();
    settings.listen = set(vec![Listen::Unix(path.clone())]);
    let open = Open::start(&settings).await;
    assert_eq!(open.url, format!("unix:{}", path.display()));
    let socket = path.to_str().unwrap();
    let call = |call: &'static str, body: &'static str| async move {
        let url = format!("http://localhost/v1/{call}");
        curl(&["--unix-socket", socket, "--json", body, &url]).await
    };
    let (status, _, lease) = call("acquire", r#"{"name":"x"}"#).await;
    assert_eq!(status, 200, "{lease}");
    let (status, _, seen) = curl(&["--unix-socket", socket, "http://localhost/v1/lock?name=x"]).await;
    assert_eq!((status, &seen["state"]), (200, &json!("held")));
    open.stop().await;
    assert!(!path.exists(), "the socket is removed");
}

#[tokio::test]
async fn a_service_is_called_by_its_own_names_only() {
    let mut settings = on_loopback();
    settings.hosts = set(vec!["locks.example".to_owned()]);
    let open = Open::start(&settings).await;
    let address = open.url.strip_prefix("http://").unwrap();
    let port = address.rsplit_once(':').unwrap().1;
    for (host, status) in [
        ("locks.example", 200),
        ("LOCKS.EXAMPLE:443", 200),
        ("localhost", 200),
        ("evil.example", 403),
        ("locks.example.evil.example", 403),
    ] {
        let (got, _, body) = curl(&["-H", &format!("Host: {host}"), &format!("{}/version", open.url)]).await;
        assert_eq!(got, status, "{host}: {body}");
    }
    // As a browser would, whose name server was told that the page's host is this machine.
    let rebound = format!("evil.example:{port}:127.0.0.1");
    let page = format!("http://evil.example:{port}/v1/acquire");
    let (status, _, body) = curl(&["--resolve", &rebound, "--json", r#"{"name":"x"}"#, &page]).await;
    assert_eq!((status, &body["type"]), (403, &json!("urn:tenure:web-page")));
    let origin = ["-H", "Origin: https://locks.example", "--json", r#"{"name":"x"}"#];
    let (status, ..) = curl(&[&origin[..], &[&format!("{}/v1/acquire", open.url)]].concat()).await;
    assert_eq!(status, 403, "its own origin, but no browser says that its own page asks");
}

#[tokio::test]
async fn bounds_come_from_the_settings() {
    let mut settings = on_loopback();
    settings.acquires_max = set(Some(1));
    let open = Open::start(&settings).await;
    let url = format!("{}/v1/acquire", open.url);
    assert_eq!(curl(&["--json", r#"{"name":"x"}"#, &url]).await.0, 200);
    let wait = r#"{"name":"x","wait_ms":10000}"#;
    // Whichever comes second is refused, so the waiter asks again until the only place is its own.
    let waiter = tokio::spawn({
        let url = url.clone();
        async move {
            loop {
                curl(&["--json", wait, &url]).await;
            }
        }
    });
    let refused = async {
        loop {
            let (status, _, body) = curl(&["--json", r#"{"name":"y"}"#, &url]).await;
            if status == 503 {
                break body;
            }
        }
    };
    let body = tokio::time::timeout(Duration::from_secs(60), refused).await.unwrap();
    assert_eq!(body["type"], json!("urn:tenure:overloaded"));
    waiter.abort();
}

#[tokio::test]
async fn a_list_that_is_wrong_when_it_is_read_again_changes_nothing() {
    let list = ListFile::new();
    let token = list.add("first", &[Verb::Lock], &[], None);
    let mut settings = on_loopback();
    settings.callers = set(Some(list.path()));
    let open = Open::start(&settings).await;
    let header = format!("Authorization: Bearer {token}");
    let url = format!("{}/version", open.url);
    let status = async || curl(&["-H", &header, &url]).await.0;
    assert_eq!(status().await, 200);
    std::fs::write(list.path(), "what?\n").unwrap();
    let errors = open.door.reload();
    assert!(errors.len() == 1 && errors[0].to_string().contains("callers:1: "), "{errors:?}");
    assert_eq!(status().await, 200);
    std::fs::remove_file(list.path()).unwrap();
    list.add("second", &[Verb::Lock], &[], None);
    assert!(open.door.reload().is_empty());
    assert_eq!(status().await, 401);
    assert!(Callers::read(&list.path()).unwrap().are_listed());
}
