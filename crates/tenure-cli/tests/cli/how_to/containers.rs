//! What `docs/how-to/containers.md` and `run-nodes.md` say of nodes, tried without a container
//! engine.

use std::process::{Command, Stdio};

use tenure_testkit::RedisServer;

use super::page::Page;
use crate::deployment::Deployment;

/// Whether this user may have process ids of its own.
pub(super) fn may_make_namespaces() -> bool {
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc", "true"]).stderr(Stdio::null());
    unshare.status().is_ok_and(|status| status.success())
}

/// The options of the compose file are given to a real server.
#[test]
fn a_node_in_a_container_forgets_nothing() {
    let page = Page::open("docs/how-to/containers.md");
    let line = page.block("yaml").lines().find_map(|line| line.trim().strip_prefix("command: ")).unwrap();
    let words: Vec<String> = serde_json::from_str(line).unwrap();
    assert_eq!(words[0], "redis-server");
    forgets_nothing(&words[1..].iter().map(String::as_str).collect::<Vec<_>>());
}

/// So are the lines of its configuration file.
#[test]
fn a_node_that_is_set_up_as_the_page_says_forgets_nothing() {
    let page = Page::open("docs/how-to/run-nodes.md");
    let lines = page.block("").lines().map(|line| line.split('#').next().unwrap());
    let settings: Vec<String> = lines.map(|line| format!("--{}", line.trim())).collect();
    assert_eq!(settings[0], "--appendonly yes");
    forgets_nothing(&settings.iter().flat_map(|setting| setting.split(' ')).collect::<Vec<_>>());
}

/// A lock that is held is still held after the server was killed and started again.
fn forgets_nothing(options: &[&str]) {
    let server = RedisServer::start(options);
    let url = server.url();
    let mut deployment = Deployment::of(vec![server], |_| url);
    deployment.tenure(&["acquire", "import"]).ends_with(0);
    deployment.servers[0].kill();
    deployment.servers[0].restart();
    deployment.tenure(&["acquire", "import", "--quiet"]).ends_with(75);
    let done = deployment.tenure(&["doctor", "--json"]);
    let node: serde_json::Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(node["votes"], true, "without a quarantine: {node}");
}
