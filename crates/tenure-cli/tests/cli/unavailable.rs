//! No majority of nodes can vote: the tool says which nodes cannot, why, and what to do; and when
//! to retry.

use tenure_testkit::RedisServer;

use crate::deployment::{Deployment, Done, five_redis_nodes, token, wait_until};

/// What was said, with the nodes by their number.
fn said(deployment: &Deployment, done: &Done) -> String {
    assert_eq!(done.stderr.lines().count(), 1, "one line: {done:?}");
    let mut text = done.stderr.trim_end().to_owned();
    for (index, server) in deployment.servers.iter().enumerate() {
        text = text.replace(&format!("redis://127.0.0.1:{}/0", server.port()), &format!("NODE{index}"));
    }
    text
}

fn some_redis_nodes(count: usize, options: &[&str]) -> Deployment {
    let servers: Vec<_> = (0..count).map(|_| RedisServer::start(options)).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    Deployment::of(servers, |_| urls.join(","))
}

#[test]
fn with_three_of_five_nodes_down_these_three_are_named() {
    let mut deployment = five_redis_nodes();
    let (lease, _) = deployment.json(&["acquire", "held", "--json"]);
    deployment.servers.iter_mut().take(3).for_each(RedisServer::kill);
    let done = deployment.tenure(&["acquire", "x"]);
    insta::assert_snapshot!(said(&deployment, done.ends_with(69)), @r#"tenure: lock "x" is unavailable: 3 of 5 nodes cannot vote, 3 votes needed. NODE0, NODE1, NODE2: unreachable: connection refused. Check that these nodes are up and reachable, then retry"#);
    let done = deployment.tenure(&["extend", "held", "--token", token(&lease)]);
    insta::assert_snapshot!(said(&deployment, done.ends_with(69)), @r#"tenure: lock "held" was not extended: 3 of 5 nodes did not answer, 3 answers needed. NODE0, NODE1, NODE2: unreachable: connection refused. Check that these nodes are up and reachable, then retry"#);
    let done = deployment.tenure(&["release", "held", "--token", token(&lease)]);
    let text = said(&deployment, done.ends_with(69));
    let (before, after) = text.split_once(" It expires within ").unwrap();
    insta::assert_snapshot!(before, @r#"tenure: lock "held" may still be held: 3 of 5 nodes did not answer, 3 answers needed. NODE0, NODE1, NODE2: unreachable: connection refused."#);
    assert!(after.ends_with(" s. Check that these nodes are up and reachable, then retry"), "{text}");
    let (failure, _) = deployment.json(&["acquire", "x", "--json"]);
    assert_eq!((&failure["error"], failure["retry_after_ms"].as_u64()), (&"unavailable".into(), None));
}

#[test]
fn nodes_that_restarted_are_said_to_vote_again_and_when() {
    let mut deployment = some_redis_nodes(3, &[]);
    wait_until(|| deployment.tenure(&["run", "warm-up", "--", "true"]).code == Some(0));
    // One is left that knows the fleet: it is no first start.
    deployment.servers.iter_mut().take(2).for_each(RedisServer::restart);
    let done = deployment.tenure(&["acquire", "x"]);
    let text = said(&deployment, done.ends_with(69));
    assert!(
        text.starts_with(
            "tenure: lock \"x\" is unavailable: 2 of 3 nodes cannot vote, 2 votes needed. NODE0"
        ),
        "{text}"
    );
    assert!(text.contains("new or restarted, may have forgotten locks; votes again in 1 min "), "{text}");
    assert!(text.contains(". Retry in 1 min "), "{text}");
    let (failure, code) = deployment.json(&["acquire", "x", "--json"]);
    let retry_after = failure["retry_after_ms"].as_u64().unwrap_or_else(|| panic!("{failure}"));
    assert!((30_000..=66_000).contains(&retry_after) && code == Some(69), "{failure}");
}

/// What cannot mend itself is a matter of settings: no retry helps.
#[track_caller]
fn is_a_matter_of_settings(deployment: &Deployment, nodes: &str, reason: &str) {
    for arguments in [
        &["acquire", "x"][..],
        &["run", "x", "--wait", "1m", "--", "true"],
        &["release", "--force", "x"],
        &["status", "x"],
        &["ls"],
    ] {
        let done = Done::of(deployment.command(arguments).env("TENURE_NODES", nodes).output().unwrap());
        let text = format!("{}{}", done.stdout, done.stderr);
        assert!(done.ends_with(64).stderr.len() < 1_000 && text.contains(reason), "{arguments:?}: {text}");
    }
    let done = Done::of(
        deployment.command(&["acquire", "x", "--json"]).env("TENURE_NODES", nodes).output().unwrap(),
    );
    assert!(done.ends_with(64).stdout.contains(r#""error":"configuration""#), "{done:?}");
    let done = Done::of(deployment.command(&["acquire", "x"]).env("TENURE_NODES", nodes).output().unwrap());
    assert!(done.stderr.contains("retrying does not help"), "{done:?}");
}

#[test]
fn a_wrong_password_is_64() {
    let deployment = some_redis_nodes(3, &["--requirepass", "hunter2"]);
    let with = |password: &str| {
        let urls = deployment
            .servers
            .iter()
            .map(|server| format!("redis://:{password}@127.0.0.1:{}", server.port()));
        urls.collect::<Vec<_>>().join(",")
    };
    is_a_matter_of_settings(&deployment, &with("wrong"), "WRONGPASS");
    is_a_matter_of_settings(&deployment, &deployment.nodes, "NOAUTH");
}

#[test]
fn another_node_list_is_64_and_told_in_few_words() {
    let deployment = five_redis_nodes();
    let other = deployment.nodes.replacen("127.0.0.1", "localhost", 1);
    is_a_matter_of_settings(&deployment, &other, "settings");
}

#[test]
fn a_minority_with_wrong_settings_leaves_an_outage_one() {
    let mut deployment = five_redis_nodes();
    let nodes = deployment.nodes.clone();
    deployment.servers.iter_mut().take(2).for_each(RedisServer::kill);
    // The third cannot be used, and the first two may come back.
    let third = format!("127.0.0.1:{}", deployment.servers[2].port());
    deployment.servers[2].execute(&["CONFIG", "SET", "requirepass", "other"]);
    assert!(nodes.contains(&third));
    deployment.tenure(&["acquire", "x"]).ends_with(69);
}

#[test]
fn whoever_waits_sees_that_nodes_are_down() {
    let mut deployment = five_redis_nodes();
    deployment.servers.iter_mut().take(3).for_each(RedisServer::kill);
    let done = deployment.tenure(&["run", "x", "--wait", "300ms", "--", "true"]);
    let lines: Vec<&str> = done.ends_with(69).stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{done:?}");
    assert!(lines[0].starts_with("tenure: waiting for x: 3 of 5 nodes cannot vote"), "{done:?}");
    assert!(lines[0].contains("connection refused"), "{done:?}");
    assert!(lines[1].starts_with("tenure: lock \"x\" is unavailable after "), "{done:?}");
}

#[test]
fn a_benchmark_speaks_of_the_nodes_and_of_no_lock() {
    let mut deployment = some_redis_nodes(3, &[]);
    deployment.servers.iter_mut().take(2).for_each(RedisServer::kill);
    let done = deployment.tenure(&["bench", "--seconds", "1", "--quiet"]);
    insta::assert_snapshot!(said(&deployment, done.ends_with(69)), @"tenure: cannot measure: 2 of 3 nodes cannot vote, 2 votes needed. NODE0, NODE1: unreachable: connection refused. Check that these nodes are up and reachable, then retry");
    let (failure, code) = deployment.json(&["bench", "--seconds", "1", "--json", "--quiet"]);
    assert_eq!((&failure["error"], code), (&"unavailable".into(), Some(69)), "{failure}");
    assert!(failure["name"].is_null() && failure["votes"].as_array().unwrap().len() == 3, "{failure}");
    deployment.servers[2].kill();
    let done = deployment.tenure(&["bench", "--seconds", "1", "--quiet"]);
    insta::assert_snapshot!(said(&deployment, done.ends_with(69)), @"tenure: cannot measure: 3 of 3 nodes cannot vote, 2 votes needed. All nodes: unreachable: connection refused. Check that these nodes are up and reachable, then retry");
}
