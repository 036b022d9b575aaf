//! Who gets in to `tenure serve`: refused starts, callers, TLS, files that are read again, and
//! secrets that nobody sees.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tenure_testkit::certificates::Authority;

use crate::deployment::{Deployment, Done, TOOL, embedded_store};

/// A service with its standard error, line by line.
struct Open {
    child: Child,
    url: String,
    urls: Vec<String>,
    heard: BufReader<ChildStderr>,
    log: String,
}

impl Open {
    /// Starts it by its `tenure.toml`.
    fn start(deployment: &Deployment, settings: &str) -> Self {
        Self::start_with(deployment, settings, &[])
    }

    /// The same, with these variables.
    fn start_with(deployment: &Deployment, settings: &str, environment: &[(&str, &str)]) -> Self {
        deployment.write("tenure.toml", &format!("[serve]\n{settings}"));
        let mut command = deployment.command(&["serve", "--json"]);
        command.envs(environment.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut heard = BufReader::new(child.stderr.take().unwrap());
        let Ok(said) = serde_json::from_str::<Value>(&line) else {
            heard.read_line(&mut line).unwrap();
            panic!("it did not start: {line}");
        };
        let urls = said["urls"].as_array().unwrap().iter();
        let urls: Vec<String> = urls.map(|url| url.as_str().unwrap().to_owned()).collect();
        Self { child, url: urls[0].clone(), urls, heard, log: String::new() }
    }

    /// Has it read its files again, and waits for what it says.
    fn reload(&mut self) -> String {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGHUP).unwrap();
        self.next_line()
    }

    fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.heard.read_line(&mut line).unwrap();
        self.log.push_str(&line);
        line
    }

    /// Ends it, and tells all that it said.
    fn end(mut self) -> String {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        std::io::Read::read_to_string(&mut self.heard, &mut self.log).unwrap();
        std::mem::take(&mut self.log)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body. The token goes by a file: arguments are seen by everybody.
fn curl(deployment: &Deployment, token: &str, arguments: &[&str]) -> (u16, Value) {
    let settings = deployment.write("curl", &format!("header = \"Authorization: Bearer {token}\"\n"));
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20", "-w", "\n%{http_code}"]);
    if !token.is_empty() {
        command.args(["--config", settings.to_str().unwrap()]);
    }
    let done = command.args(arguments).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
}

/// A caller in `callers`, and its token.
fn new_token(deployment: &Deployment, more: &[&str]) -> String {
    let arguments = [&["token", "new", "--file", "callers", "--json"], more].concat();
    let (made, _) = deployment.json(&arguments);
    made["token"].as_str().unwrap().to_owned()
}

#[test]
fn a_start_that_would_be_open_by_accident_is_refused_with_advice() {
    let deployment = embedded_store();
    new_token(&deployment, &["--name", "a", "--may", "lock"]);
    let everywhere = ["serve", "--listen", "0.0.0.0:7420"];
    for (more, words) in [
        (&[][..], ["--listen: other machines can reach 0.0.0.0:7420", "--callers", "127.0.0.1"]),
        (&["--behind-tls-proxy"], ["anyone could use it", "tenure token new", "127.0.0.1"]),
        (&["--callers", "callers"], ["--tls-certificate", "--behind-tls-proxy", "127.0.0.1"]),
        (&["--callers", "callers", "--tls-key", "k"], ["--tls-key", "tls_key needs", "tls_certificate"]),
        (&["--callers", "nowhere", "--behind-tls-proxy"], ["nowhere", "cannot be read", "callers"]),
        (&["--listen", "unix:"], ["\"unix:\"", "not a listen address", "unix:PATH"]),
        (&["--listen", "localhost:1"], ["\"localhost:1\"", "an address and a port", "127.0.0.1:7420"]),
    ] {
        let done = deployment.tenure(&[&everywhere[..], more].concat());
        done.ends_with(64);
        assert!(words.iter().all(|word| done.stderr.contains(word)), "{words:?}: {done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    }
    // `config` and `doctor` say the same, before anybody starts it.
    deployment.write("tenure.toml", "[serve]\nlisten = [\"127.0.0.1:0\", \"[::]:7420\"]\n");
    let done = deployment.tenure(&["config"]);
    assert!(
        done.ends_with(64).stderr.contains("tenure.toml:2: other machines can reach [::]:7420"),
        "{done:?}"
    );
    let done = deployment.tenure(&["doctor"]);
    assert!(done.ends_with(1).stdout.contains("cannot start as this user"), "{done:?}");
}

#[test]
fn every_setting_of_the_service_is_shown_with_its_line() {
    let deployment = embedded_store();
    deployment.write(
        "tenure.toml",
        "ttl = \"7s\"\n[serve]\nlisten = \"unix:run/t.sock\"\nsocket_mode = \"660\"\nlease_key = \"key\"\n\
         callers = \"callers\"\ntls_certificate = \"/c.pem\"\ntls_key = \"k.pem\"\nclient_ca = \"ca.pem\"\n\
         behind_tls_proxy = true\nhosts = [\"locks.example\"]\nconnections_max = 7\nacquires_max = 8\nacquires_per_caller = 5\n\
         silence_max = \"9s\"\naccess_log = \"stderr\"\naudit_log = \"audit\"\n",
    );
    let (shown, _) = deployment.json(&["config", "--json"]);
    let folder = deployment.folder().to_str().unwrap();
    for (line, (setting, value)) in (3..).zip([
        ("listen", json!([format!("unix:{folder}/run/t.sock")])),
        ("socket_mode", json!("660")),
        ("lease_key", json!(format!("{folder}/key"))),
        ("callers", json!(format!("{folder}/callers"))),
        ("tls_certificate", json!("/c.pem")),
        ("tls_key", json!(format!("{folder}/k.pem"))),
        ("client_ca", json!(format!("{folder}/ca.pem"))),
        ("behind_tls_proxy", json!(true)),
        ("hosts", json!(["locks.example"])),
        ("connections_max", json!(7)),
        ("acquires_max", json!(8)),
        ("acquires_per_caller", json!(5)),
        ("silence_max_ms", json!(9_000)),
        ("access_log", json!("stderr")),
        ("audit_log", json!(format!("{folder}/audit"))),
    ]) {
        let source = json!(format!("{folder}/tenure.toml:{line}"));
        assert_eq!(shown["serve"][setting], json!({ "value": value, "source": source }), "{setting}");
    }
    let text = deployment.tenure(&["config"]);
    assert!(text.ends_with(0).stdout.contains("serve.socket_mode"), "{text:?}");
    for (wrong, line, says) in [
        ("[serve]\nlisten = \"everywhere\"\n", 2, "not a listen address"),
        ("[serve]\n\nlisten = []\n", 3, "remove it for the default"),
        ("[serve]\nlisten = 7420\n", 2, "or a list of them"),
        ("[serve]\nsocket_mode = \"999\"\n", 2, "not a file mode"),
        ("[serve]\nconnections_max = 0\n", 2, "at least 1"),
        ("[serve]\nlissten = \"\"\n", 2, "unknown field `lissten`"),
    ] {
        deployment.write("tenure.toml", wrong);
        let done = deployment.tenure(&["config"]);
        let said = &done.ends_with(64).stderr;
        assert!(said.contains(&format!("tenure.toml:{line}: ")) && said.contains(says), "{wrong}: {said}");
    }
}

#[test]
fn connections_that_the_process_has_no_files_for_are_refused_at_the_start_if_they_were_asked_for() {
    let deployment = embedded_store();
    deployment.write("tenure.toml", "[serve]\nlisten = \"127.0.0.1:0\"\nconnections_max = 1000\n");
    let limited = |soft: u32, hard: u32| {
        let mut command = deployment.program("prlimit");
        command.arg(format!("--nofile={soft}:{hard}")).args([TOOL, "serve", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let refused = limited(100, 1_000).wait_with_output().unwrap();
    let said = String::from_utf8(refused.stdout).unwrap();
    assert_eq!(refused.status.code(), Some(64), "{said}");
    let expected = "tenure.toml:3: connections_max is 1000, but the system allows this process 744; raise";
    assert!(said.contains(expected), "{said}");
    // The soft limit is its own matter.
    let mut child = limited(100, 1_256);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some("1256"), "{line}");
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn programs_that_want_locks_pass_over_the_service() {
    let deployment = embedded_store();
    deployment.write("tenure.toml", "[serve]\nlisten = \"0.0.0.0:1\"\nlease_key = \"/nowhere\"\n");
    deployment.tenure(&["run", "x", "--", "true"]).ends_with(0);
}

#[test]
fn callers_are_made_listed_and_read_again() {
    let deployment = embedded_store();
    let token = new_token(
        &deployment,
        &["--name", "billing", "--may", "read,lock", "--prefix", "b/", "--prefix", "i/"],
    );
    let file = deployment.folder().join("callers");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!std::fs::read_to_string(&file).unwrap().contains(&token), "its hash alone is kept");
    let mut service = Open::start(&deployment, "listen = \"127.0.0.1:0\"\ncallers = \"callers\"\n");
    let acquire = |service: &Open, token: &str, name: &str| {
        let (url, body) = (format!("{}/v1/acquire", service.url), json!({ "name": name }).to_string());
        curl(&deployment, token, &["--json", &body, &url]).0
    };
    assert_eq!([acquire(&service, &token, "b/1"), acquire(&service, &token, "i/1")], [200, 200]);
    assert_eq!([acquire(&service, &token, "c"), acquire(&service, "", "b/2")], [403, 401]);
    let second = new_token(&deployment, &["--name", "web", "--may", "lock"]);
    assert_eq!(acquire(&service, &second, "c"), 401, "it has not been read yet");
    assert!(service.reload().contains("reloaded callers"), "{}", service.log);
    assert_eq!(acquire(&service, &second, "c"), 200);
    // A list that is wrong changes nothing, and is complained about.
    std::fs::write(&file, format!("{{\"token\": \"{second}\"}}\n")).unwrap();
    let said = service.reload();
    assert!(said.contains("keeping the previous configuration") && said.contains("callers:1: "), "{said}");
    assert_eq!(acquire(&service, &second, "d"), 200);
    assert!(!service.end().contains(&second), "secrets are not repeated");
    // Only the file says who is listed.
    assert!(deployment.tenure(&["token", "ls"]).ends_with(64).stderr.contains("unknown field `token`"));
}

#[test]
fn tokens_are_printed_once_with_what_they_allow() {
    let deployment = embedded_store();
    let done =
        deployment.tenure(&["token", "new", "--name", "a", "--may", "read,force", "--until", "2999-12-30"]);
    let lines: Vec<&str> = done.ends_with(0).stdout.lines().collect();
    let (token, line) =
        (lines[0].strip_prefix("token  ").unwrap(), lines[1].strip_prefix("line   ").unwrap());
    assert!(token.starts_with("tenure_") && token.len() == 7 + 64, "{done:?}");
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (&line["may"], &line["until"], line["sha256"].as_str().unwrap().len()),
        (&json!(["read", "force"]), &json!("2999-12-31T00:00:00Z"), 64)
    );
    assert!(!done.stderr.contains(token), "{done:?}");
    let help = deployment.tenure(&["token", "new", "--help"]);
    assert!(help.stdout.contains("Prefix of the names") && !help.stdout.contains("--nodes"), "{help:?}");
    deployment.tenure(&[
        "token",
        "new",
        "--name",
        "w",
        "--may",
        "lock",
        "--certificate",
        "w.example",
        "--file",
        "c",
    ]);
    new_token(&deployment, &["--name", "b", "--may", "lock", "--until", "1d"]);
    let (one, _) = deployment.json(&["token", "ls", "--file", "c", "--json"]);
    assert_eq!((&one["name"], &one["certificate"]), (&json!("w"), &json!("w.example")));
    let listed = deployment.tenure(&["token", "ls", "--file", "callers"]);
    assert!(listed.ends_with(0).stdout.contains("b     token"), "{listed:?}");
    for (arguments, word) in [
        (&["token", "new", "--name", "a"][..], "--may"),
        (&["token", "new", "--name", "a", "--may", "lok"], "read, lock, force or metrics"),
        (&["token", "new", "--name", "a b", "--may", "lock"], "letters, digits"),
        (&["token", "new", "--name", "a", "--may", "lock", "--until", "2000-01-01"], "in the past"),
        (&["token", "ls"], "no callers configured"),
        (&["token", "ls", "--file", "nowhere"], "nowhere"),
        (&["status", "x", "--prefix", "a", "--prefix", "b"], "given twice"),
    ] {
        let done = deployment.tenure(arguments);
        assert!(done.ends_with(64).stderr.contains(word), "{arguments:?}: {done:?}");
    }
}

#[test]
fn a_certificate_is_served_checked_and_read_again() {
    let deployment = embedded_store();
    let authority = Authority::new();
    let path = |path: &Path| path.display().to_string();
    let files = authority.issue("own", &["127.0.0.1"]);
    let client = authority.issue("client", &["web-1.example"]);
    let certificate = ["--name", "web", "--may", "lock", "--certificate", "web-1.example"];
    deployment.tenure(&[&["token", "new", "--file", "callers"], &certificate[..]].concat()).ends_with(0);
    let settings = format!(
        "listen = \"127.0.0.1:0\"\ncallers = \"callers\"\ntls_certificate = {:?}\ntls_key = {:?}\nclient_ca = {:?}\n",
        files.certificate,
        files.key,
        authority.file()
    );
    let mut service = Open::start(&deployment, &settings);
    let good = deployment.tenure(&["doctor"]);
    assert!(good.stdout.contains("the service configured in [serve] can start"), "{good:?}");
    let (ca, url) = (path(&authority.file()), format!("{}/v1/acquire", service.url));
    let (cert, key) = (path(&client.certificate), path(&client.key));
    let ask = |name: &str, shown: &[&str]| {
        let body = json!({ "name": name, "ttl_ms": 1_000 }).to_string();
        curl(&deployment, "", &[&["--cacert", &ca, "--json", &body, &url], shown].concat()).0
    };
    assert_eq!([ask("a", &["--cert", &cert, "--key", &key, "--http2"]), ask("b", &[])], [200, 401]);
    // It ends soon, and then it is over: both are told, and a key that does not fit is not taken.
    let _ = authority.issue_until("own", &["127.0.0.1"], 2020);
    assert!(service.reload().contains("reloaded callers"));
    assert_eq!(ask("c", &["--cert", &cert, "--key", &key]), 0, "curl does not trust it any longer");
    let over = deployment.tenure(&["doctor"]);
    assert!(over.ends_with(1).stdout.contains("service's certificate expired"), "{over:?}");
    std::fs::copy(&client.key, &files.key).unwrap();
    let said = service.reload();
    assert!(
        said.contains("keeping the previous configuration") && said.contains("cannot be used with the key"),
        "{said}"
    );
    let wrong = deployment.tenure(&["doctor"]);
    assert!(wrong.ends_with(1).stdout.contains("cannot be used with the key"), "{wrong:?}");
    let _ = authority.issue("own", &["127.0.0.1"]);
    assert!(service.reload().contains("reloaded callers"));
    assert_eq!(ask("d", &["--cert", &cert, "--key", &key]), 200);
    let soon = ["--name", "soon", "--may", "lock", "--until", "3d"];
    new_token(&deployment, &soon);
    let told = deployment.tenure(&["doctor"]);
    assert!(told.stdout.contains("the token of caller soon expires at"), "{told:?}");
}

#[test]
fn a_unix_socket_is_a_way_in_and_its_owner_may_use_force_there() {
    let deployment = embedded_store();
    let service =
        Open::start(&deployment, "listen = [\"unix:t.sock\", \"127.0.0.1:0\"]\nsocket_mode = \"660\"\n");
    let socket = deployment.folder().join("t.sock");
    assert_eq!(service.url, format!("unix:{}", socket.display()));
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o660);
    let call = |call: &str, body: &Value| {
        let (url, body) = (format!("http://localhost/v1/{call}"), body.to_string());
        curl(&deployment, "", &["--unix-socket", socket.to_str().unwrap(), "--json", &body, &url])
    };
    assert_eq!(call("acquire", &json!({ "name": "x" })).0, 200);
    // The system tells that this is the service's own user; by network it is nobody.
    let local = ["--unix-socket", socket.to_str().unwrap()];
    let (_, seen) = curl(&deployment, "", &[&local[..], &["http://localhost/v1/lock?name=x"]].concat());
    let force = json!({ "name": "x", "holder": seen["holder"], "reason": "a test" });
    let plain = format!("{}/v1/force-release", service.urls[1]);
    let (status, refused) = curl(&deployment, "", &["--json", &force.to_string(), &plain]);
    assert_eq!((status, &refused["type"]), (403, &json!("urn:tenure:forbidden")), "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("tenure token new"), "{refused}");
    assert_eq!(call("force-release", &force).0, 200);
    let second = Done::of(deployment.command(&["serve"]).output().unwrap());
    assert!(second.ends_with(64).stderr.contains("already in use by another process"), "{second:?}");
    assert!(service.end().contains("\"caller\":\"uid:"), "the audit log says who it was");
    assert!(!socket.exists());
    // Killed, it leaves the file, and the next one takes its place.
    let mut killed = Open::start(&deployment, "listen = \"unix:t.sock\"\n");
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert!(socket.exists());
    let next = Open::start(&deployment, "listen = \"unix:t.sock\"\n");
    assert_eq!(call("acquire", &json!({ "name": "y" })).0, 200);
    next.end();
}

#[test]
fn a_lease_key_is_exchanged_without_ending_a_lease() {
    let deployment = embedded_store();
    let (old, new) = ("a".repeat(64), "b".repeat(64));
    let write = |text: &str| {
        let key = deployment.write("key", text);
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write(&old);
    let mut service = Open::start(&deployment, "listen = \"127.0.0.1:0\"\nlease_key = \"key\"\n");
    let url = service.url.clone();
    let call = |call: &str, body: &Value| {
        curl(&deployment, "", &["--json", &body.to_string(), &format!("{url}/v1/{call}")])
    };
    let given = |lease: &Value| json!({ "name": lease["name"], "token": lease["token"] });
    let key_of = |lease: &Value| lease["token"].as_str().unwrap().split('.').nth(1).unwrap().to_owned();
    let (_, first) = call("acquire", &json!({ "name": "x" }));
    write(&format!("{new}\n{old}\n"));
    assert!(service.reload().contains("reloaded callers"));
    let (status, second) = call("extend", &given(&first));
    assert_eq!(status, 200, "{second}");
    assert_ne!(key_of(&first), key_of(&second), "it is sealed with the new one");
    write("what?");
    let said = service.reload();
    assert!(said.contains("keeping the previous configuration") && said.contains("line 1"), "{said}");
    write(&new);
    assert!(service.reload().contains("reloaded callers"));
    assert_eq!(call("release", &given(&first)).0, 401, "sealed with a key that is gone");
    assert_eq!(call("release", &given(&second)).0, 200);
    service.end();
}

/// Everything that somebody else on the machine, or behind the network, can see.
#[test]
fn no_secret_is_seen_in_ps_logs_errors_metrics_or_traces() {
    let deployment = embedded_store();
    let authority = Authority::new();
    let (files, client) = (authority.issue("own", &["127.0.0.1"]), authority.issue("client", &["w.example"]));
    let token = new_token(&deployment, &["--name", "a", "--may", "read,lock,metrics,force"]);
    let certificate = ["--name", "w", "--may", "lock", "--certificate", "w.example"];
    deployment.tenure(&[&["token", "new", "--file", "callers"], &certificate[..]].concat()).ends_with(0);
    let unknown = new_token(&embedded_store(), &["--name", "a", "--may", "lock"]);
    let lease_key = "0123456789abcdef".repeat(4);
    let key = deployment.write("key", &lease_key);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let settings = format!(
        "listen = \"127.0.0.1:0\"\ncallers = \"callers\"\nlease_key = \"key\"\naccess_log = \"access\"\naudit_log = \"audit\"\n\
         tls_certificate = {:?}\ntls_key = {:?}\nclient_ca = {:?}\n",
        files.certificate,
        files.key,
        authority.file()
    );
    #[cfg(feature = "otlp")]
    let collector = crate::serve_trace::Collector::start();
    #[cfg(feature = "otlp")]
    let traced = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.url)];
    #[cfg(not(feature = "otlp"))]
    let traced = [];
    let mut service = Open::start_with(&deployment, &settings, &traced);
    let (ca, repeated) = (authority.file().display().to_string(), "idempotency-7d1f0c");
    let shown = [&client.certificate, &client.key].map(|path| path.display().to_string());
    let call = |token: &str, path: &str, body: Option<&Value>, more: &[&str]| {
        let (url, body) = (format!("{}{path}", service.url), body.map(ToString::to_string));
        let mut arguments = vec!["--cacert", &ca, &url];
        if let Some(body) = &body {
            arguments.extend(["--json", body]);
        }
        let (_, answer) = curl(&deployment, token, &[&arguments, more].concat());
        answer
    };
    let x = json!({ "name": "x" });
    let with_key = ["-H", &format!("Idempotency-Key: {repeated}")];
    let with_certificate = ["--cert", &shown[0], "--key", &shown[1]];
    let lease = call(&token, "/v1/acquire", Some(&x), &with_key);
    let lease_token = lease["token"].as_str().unwrap().to_owned();
    let again = call(&token, "/v1/acquire", Some(&x), &with_key);
    assert_eq!(again["fence"], lease["fence"], "{again}");
    let of_certificate = call("", "/v1/acquire", Some(&json!({ "name": "y" })), &with_certificate);
    let other_token = of_certificate["token"].as_str().unwrap().to_owned();
    let given = json!({ "name": "x", "token": lease_token });
    let by_key = json!({ "name": "x", "idempotency_key": repeated, "holder": "h" });
    let force = json!({ "name": "y", "holder": "h", "reason": "r" });
    let mut seen = vec![];
    for (caller, path, body, more) in [
        (&*unknown, "/v1/acquire", Some(x.clone()), &with_key[..]),
        ("", "/v1/acquire", Some(x.clone()), &[]),
        (&token, "/v1/acquire", Some(x), &[]),
        (&token, "/v1/acquire", Some(json!({ "name": "z" })), &with_key),
        ("", "/v1/lock?name=y", None, &with_certificate),
        (&token, "/v1/release", Some(by_key), &[]),
        (&token, "/v1/force-release", Some(force), &[]),
        (&token, "/v1/release", Some(json!({ "name": "y", "token": lease_token })), &[]),
        (&token, "/v1/release", Some(json!({ "name": "x", "token": format!("{lease_token}0") })), &[]),
        (&token, "/v1/release", Some(json!({ "name": "x", "token": lease_token, "more": 1 })), &[]),
        (&token, "/v1/lock?name=x", None, &[]),
        (&token, "/v1/locks", None, &[]),
        (&token, "/metrics", None, &[]),
        (&token, "/v1/nodes", None, &[]),
        (&token, "/v1/release", Some(given), &[]),
    ] {
        seen.push(call(caller, path, body.as_ref(), more).to_string().into_bytes());
    }
    service.reload();
    std::fs::write(deployment.folder().join("callers"), format!("{token}\n")).unwrap();
    service.reload();
    let process = format!("/proc/{}", service.child.id());
    seen.extend(["cmdline", "environ"].map(|file| std::fs::read(format!("{process}/{file}")).unwrap()));
    for arguments in [&["config"][..], &["config", "--json"], &["doctor"], &["token", "ls"]] {
        let done = deployment.tenure(arguments);
        seen.push(format!("{}{}", done.stdout, done.stderr).into_bytes());
    }
    seen.push(service.end().into_bytes());
    seen.extend(["access", "audit"].map(|log| std::fs::read(deployment.folder().join(log)).unwrap()));
    #[cfg(feature = "otlp")]
    {
        let exports = collector.exports();
        assert!(contains(&exports.concat(), b"POST /v1/acquire"), "calls are traced");
        seen.extend(exports);
    }
    let seen = seen.concat();
    let pem = |path| std::fs::read_to_string(path).unwrap();
    let pem = [pem(&files.key), pem(&client.key), pem(&client.certificate)];
    let mut secrets: Vec<&str> = pem.iter().map(|pem| pem.lines().nth(1).unwrap()).collect();
    secrets.extend([&*token, &unknown, &lease_key, repeated]);
    for lease in [&lease_token, &other_token] {
        let owner = lease.split('.').nth(3).unwrap();
        assert_eq!(owner.len(), 40, "{lease}");
        secrets.extend([lease, owner]);
    }
    for secret in secrets {
        assert!(!contains(&seen, secret.as_bytes()), "{secret} in {}", String::from_utf8_lossy(&seen));
    }
    for caller in ["a", "w"] {
        assert!(contains(&seen, format!("\"caller\":\"{caller}\"").as_bytes()), "the log is there");
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
