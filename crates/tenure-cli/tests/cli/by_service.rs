//! `--service`: a service stands for nodes. That all commands do the same with it is tested beside
//! what they do with nodes; here is what only a service can do to them.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tenure_testkit::RedisServer;
use tenure_testkit::certificates::Authority;

use crate::deployment::{
    Deployment, Done, are_gone_before, embedded_store, five_redis_nodes, started, stubborn, token, wait_until,
};
use crate::serve::Serving;

/// The tool with this service, and nothing known of its nodes.
fn by(deployment: &Deployment, service: &str, arguments: &[&str]) -> Command {
    let mut command = deployment.command_without_nodes(arguments);
    command.env("TENURE_SERVICE", service);
    command
}

fn done(mut command: Command) -> Done {
    Done::of(command.output().unwrap())
}

/// What it says as JSON.
#[track_caller]
fn told(command: Command) -> Value {
    let done = done(command);
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

fn signal(service: &Serving, signal: Signal) {
    kill(Pid::from_raw(service.child.id().try_into().unwrap()), signal).unwrap();
}

const ALL: [&[&str]; 6] = [
    &["acquire", "y"],
    &["run", "y", "--", "true"],
    &["extend", "x", "--token", "t1.0.0.0.0"],
    &["release", "x", "--token", "t1.0.0.0.0"],
    &["status", "x"],
    &["ls"],
];

#[test]
fn a_service_that_cannot_help_is_69() {
    let deployment = embedded_store();
    for arguments in ALL {
        let gone = done(by(&deployment, "http://127.0.0.1:1", arguments));
        let said = &gone.ends_with(69).stderr;
        assert!(said.contains("http://127.0.0.1:1") && said.contains("refused"), "{said}");
        done(by(&deployment, "unix:/nonexistent/socket", arguments)).ends_with(69);
    }
    let failure = told(by(&deployment, "http://127.0.0.1:1", &["acquire", "y", "--json"]));
    assert_eq!(failure["error"], "unavailable", "{failure}");
    // One that stands still is not waited for without an end.
    let service = Serving::start(&deployment, &[]);
    signal(&service, Signal::SIGSTOP);
    let paused = done(by(&deployment, &service.url(), &["acquire", "y"]));
    signal(&service, Signal::SIGCONT);
    assert!(paused.ends_with(69).stderr.contains("no answer within"), "{paused:?}");
}

#[test]
fn a_service_without_a_majority_of_its_nodes_is_69() {
    let mut deployment = five_redis_nodes();
    let service = Serving::start(&deployment, &[]);
    let lease = told(by(&deployment, &service.url(), &["acquire", "x", "--json"]));
    deployment.servers.iter_mut().take(3).for_each(RedisServer::kill);
    for arguments in [
        &["acquire", "y", "--json"][..],
        &["extend", "x", "--token", token(&lease), "--json"],
        &["release", "x", "--token", token(&lease), "--json"],
    ] {
        let failure = done(by(&deployment, &service.url(), arguments));
        let failure: Value = serde_json::from_str(&failure.ends_with(69).stdout).unwrap();
        assert_eq!(failure["error"], "unavailable", "{failure}");
        assert_eq!(failure["votes"].as_array().unwrap().len(), 5, "{failure}");
    }
    done(by(&deployment, &service.url(), &["status", "x"])).ends_with(69);
    done(by(&deployment, &service.url(), &["ls"])).ends_with(69);
}

#[test]
fn an_instance_that_ends_sends_a_waiter_to_the_next_one() {
    let deployment = embedded_store();
    let service = Serving::start(&deployment, &[]);
    let lease = told(by(&deployment, &service.url(), &["acquire", "x", "--json"]));
    let listen = service.address.clone();
    let wait =
        |time: &str| by(&deployment, &service.url(), &["run", "x", "--wait", time, "--", "echo", "mine"]);
    let [short, long] = [wait("2s"), wait("60s")].map(crate::deployment::Background::start);
    wait_until(|| told(by(&deployment, &service.url(), &["status", "x", "--json"]))["waiters"] == 2);
    signal(&service, Signal::SIGTERM);
    // Nobody is there when the shorter wait is over.
    assert!(short.done().ends_with(69).stderr.contains("cannot reach the service"));
    let next = Serving::start_at(&deployment, &listen);
    done(by(&deployment, &next.url(), &["release", "x", "--token", token(&lease)])).ends_with(0);
    assert_eq!(long.done().ends_with(0).stdout, "mine\n");
}

#[test]
fn who_we_are_and_whom_we_ask_is_a_matter_of_settings() {
    let deployment = embedded_store();
    let new = [
        "token",
        "new",
        "--file",
        "callers",
        "--name",
        "a",
        "--may",
        "lock,read",
        "--prefix",
        "a/",
        "--json",
    ];
    let made = told(deployment.command(&new));
    let caller = made["token"].as_str().unwrap();
    let file = deployment.write("caller", &format!("{caller}\n"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let service = Serving::start(&deployment, &["--callers", "callers"]);
    let known = |arguments: &[&str]| {
        done(by(&deployment, &service.url(), &[&["--service-token-file", "caller"], arguments].concat()))
    };
    known(&["run", "a/x", "--", "true"]).ends_with(0);
    let mut by_variable = by(&deployment, &service.url(), &["run", "a/x", "--", "tenure-is-not-asked"]);
    by_variable.env("TENURE_SERVICE_TOKEN", caller);
    done(by_variable).ends_with(127);
    // The command asks with the same token.
    let again =
        "tenure extend > again && tenure status a/x > status && echo $TENURE_NODES.$TENURE_SERVICE > whom";
    let mut nested = by(
        &deployment,
        &service.url(),
        &["--service-token-file", "caller", "run", "a/x", "--", "sh", "-c", again],
    );
    let tool = std::path::Path::new(crate::deployment::TOOL).parent().unwrap().to_owned();
    nested.env("PATH", format!("{}:{}", tool.display(), std::env::var("PATH").unwrap()));
    done(nested).ends_with(0);
    let whom = std::fs::read_to_string(deployment.folder().join("whom")).unwrap();
    assert_eq!(whom, format!(".{}\n", service.url()));
    for (failure, words) in [
        (known(&["acquire", "b/x", "--json"]), "b/x"),
        (done(by(&deployment, &service.url(), &["acquire", "a/x", "--json"])), "token"),
    ] {
        let told: Value = serde_json::from_str(&failure.ends_with(64).stdout).unwrap();
        assert_eq!(told["error"], "configuration", "{told}");
        assert!(told["message"].as_str().unwrap().contains(words), "{told}");
    }
    for arguments in [
        &["--service", "http://127.0.0.1:1", "--nodes", "redis://a", "status", "x"][..],
        &["--service", "127.0.0.1:1", "status", "x"],
        &["--service", "http://token@127.0.0.1:1", "status", "x"],
        &["--service", "http://127.0.0.1:1", "--service-token-file", "nowhere", "status", "x"],
        &["--service", "http://192.0.2.1:1", "--service-token-file", "caller", "status", "x"],
        &["--service", "https://127.0.0.1:1", "--service-ca", "nowhere", "status", "x"],
        &["--service", "http://127.0.0.1:1", "--prefix", "p:", "status", "x"],
        &["--service", "http://127.0.0.1:1", "extend", "x", "--token", "t", "--ttl", "9s"],
        &["--service", "http://127.0.0.1:1", "doctor"],
    ] {
        let refused = deployment.tenure(arguments);
        assert_eq!(refused.ends_with(64).stderr.lines().count(), 1, "{refused:?}");
        assert!(!refused.stderr.contains(caller), "{refused:?}");
    }
}

#[test]
fn a_lease_of_another_key_or_another_lock_is_told_apart() {
    let deployment = embedded_store();
    let key = deployment.write("key", &"ab".repeat(32));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let [service, other] = [&[][..], &["--lease-key", "key"]].map(|more| Serving::start(&deployment, more));
    let lease = told(by(&deployment, &service.url(), &["acquire", "x", "--json"]));
    let extend = |service: &Serving, name: &str| {
        done(by(&deployment, &service.url(), &["extend", name, "--token", token(&lease), "--json"]))
    };
    let failure = extend(&other, "x");
    assert!(failure.ends_with(64).stdout.contains("lease_key"), "{failure:?}");
    assert!(extend(&service, "y").ends_with(1).stdout.contains("not_held"));
    extend(&service, "x").ends_with(0);
    // A fence is checked before anybody is asked.
    let fence = ["release", "x", "--token", token(&lease), "--fence", "1"];
    assert!(done(by(&deployment, &service.url(), &fence)).ends_with(64).stderr.contains("fence"));
    done(by(&deployment, &service.url(), &["release", "x", "--token", token(&lease)])).ends_with(0);
    done(by(&deployment, &service.url(), &["release", "x", "--token", token(&lease)])).ends_with(1);
}

/// Runs a stubborn command by a service, and does this to the service when it runs.
fn is_gone_in_time(trouble: Signal) {
    let deployment = embedded_store();
    let service = Serving::start(&deployment, &[]);
    let run =
        by(&deployment, &service.url(), &["run", "x", "--ttl", "3s", "--", "sh", "-c", &stubborn("started")]);
    let running = crate::deployment::Background::start(run);
    let (command, grandchild, until) = started(&deployment, "started");
    signal(&service, trouble);
    wait_until(|| are_gone_before([command, grandchild], until));
    let said = running.done();
    assert!(said.ends_with(79).stderr.contains("was lost while the command ran"), "{said:?}");
    if trouble == Signal::SIGSTOP {
        signal(&service, Signal::SIGCONT);
    }
}

#[test]
fn a_command_is_gone_before_its_lock_is_over_if_the_service_is_killed() {
    is_gone_in_time(Signal::SIGKILL);
}

#[test]
fn a_command_is_gone_before_its_lock_is_over_if_the_service_stands_still() {
    is_gone_in_time(Signal::SIGSTOP);
}

#[test]
fn a_service_that_is_back_within_the_validity_costs_no_lock() {
    let deployment = embedded_store();
    let service = Serving::start(&deployment, &[]);
    let begun = Instant::now();
    let run = by(
        &deployment,
        &service.url(),
        &["run", "x", "--ttl", "3s", "--", "sh", "-c", "touch begun; sleep 6"],
    );
    let running = crate::deployment::Background::start(run);
    wait_until(|| deployment.folder().join("begun").exists());
    let listen = service.address.clone();
    drop(service);
    std::thread::sleep(Duration::from_millis(1_200));
    let _next = Serving::start_at(&deployment, &listen);
    running.done().ends_with(0);
    assert!(begun.elapsed() > Duration::from_secs(6));
}

#[test]
fn a_service_is_trusted_by_its_certificate() {
    let deployment = embedded_store();
    let authority = Authority::new();
    let files = authority.issue("own", &["127.0.0.1"]);
    let (certificate, key) = (files.certificate.to_str().unwrap(), files.key.to_str().unwrap());
    let service = Serving::start(&deployment, &["--tls-certificate", certificate, "--tls-key", key]);
    let url = format!("https://{}", service.address);
    let ca = authority.file();
    let trusting = ["--service-ca", ca.to_str().unwrap(), "run", "x", "--", "true"];
    done(by(&deployment, &url, &trusting)).ends_with(0);
    let stranger = done(by(&deployment, &url, &["run", "x", "--", "true"]));
    assert!(stranger.ends_with(64).stderr.contains("trust"), "{stranger:?}");
}
