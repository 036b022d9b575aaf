//! What the command finds in its environment.

use std::collections::BTreeMap;

use tenure_testkit::RedisServer;

use crate::deployment::{Deployment, Done, TOOL, deployments, deployments_and_service, now_ms};

fn variables(done: &Done) -> BTreeMap<String, String> {
    let lines = done.stdout.lines().filter_map(|line| line.split_once('='));
    let ours = lines.filter(|(name, _)| name.starts_with("TENURE_"));
    ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn the_command_sees_its_lock_token_fence_deadline_and_nodes() {
    for deployment in deployments() {
        let done = deployment.tenure(&["run", "x", "--ttl", "20s", "--", "env"]);
        let variables = variables(&done);
        let names: Vec<&str> = variables.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "TENURE_FENCE",
                "TENURE_HOLDING",
                "TENURE_LOCK",
                "TENURE_NODES",
                "TENURE_TOKEN",
                "TENURE_VALID_UNTIL_MS"
            ]
        );
        assert_eq!((&*variables["TENURE_LOCK"], &variables["TENURE_NODES"]), ("x", &deployment.nodes));
        let until: u64 = variables["TENURE_VALID_UNTIL_MS"].parse().unwrap();
        assert!(until > now_ms() + 10_000 && until <= now_ms() + 20_000);
        assert!(variables["TENURE_FENCE"].parse::<u64>().unwrap() > 0);
    }
}

#[test]
fn the_fence_grows_from_one_command_to_the_next() {
    for deployment in deployments_and_service() {
        let fences: Vec<u64> = (0..3)
            .map(|_| {
                variables(&deployment.tenure(&["run", "x", "--", "env"]))["TENURE_FENCE"].parse().unwrap()
            })
            .collect();
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    }
}

#[test]
fn the_command_can_ask_about_and_release_its_own_lock() {
    for deployment in deployments() {
        let tool = TOOL;
        let script = format!(
            "{tool} status \"$TENURE_LOCK\" | head -1; {tool} release \"$TENURE_LOCK\" --token \"$TENURE_TOKEN\" --fence \
             $TENURE_FENCE && {tool} acquire \"$TENURE_LOCK\" >/dev/null && echo again"
        );
        let done = deployment.tenure(&["run", "x", "--prefix", "p:", "--", "sh", "-c", &script]);
        assert_eq!(done.stdout, "x  held\nagain\n", "{done:?}");
    }
}

#[test]
fn with_a_secret_in_the_nodes_the_command_gets_the_configuration_in_their_place() {
    let server = RedisServer::start(&["--requirepass", "hunter2"]);
    let port = server.port();
    let url = format!("redis://:hunter2@127.0.0.1:{port}");
    let deployment = Deployment::of(vec![server], |_| url.clone());
    // By a flag: nothing is exported, not even what the environment said.
    let done = deployment.tenure(&["run", "x", "--nodes", &url, "--", "env"]);
    assert!(variables(&done).contains_key("TENURE_LOCK"));
    let mut command = deployment.command(&["run", "x", "--nodes", &url, "--", "env"]);
    let done = Done::of(command.env("TENURE_NODES", "redis://elsewhere").output().unwrap());
    assert!(!variables(&done).contains_key("TENURE_NODES"), "{done:?}");
    assert!(!done.stdout.contains("hunter2"));
    // By a file: the file.
    let file = deployment.write("my.toml", &format!("nodes = [\"{url}\"]\n"));
    let done = Done::of(
        deployment.command_without_nodes(&["run", "x", "--config", "my.toml", "--", "env"]).output().unwrap(),
    );
    let seen = variables(&done);
    assert_eq!(seen.get("TENURE_CONFIG").map(String::as_str), file.to_str(), "{done:?}");
    assert!(!seen.contains_key("TENURE_NODES") && !done.stdout.contains("hunter2"));
}

#[test]
fn a_password_file_is_no_secret() {
    let server = RedisServer::start(&["--requirepass", "hunter2"]);
    let port = server.port();
    let deployment = Deployment::of(vec![server], |folder| {
        format!("redis://127.0.0.1:{port}?password_file={folder}/password")
    });
    deployment.write("password", "hunter2\n");
    let done = deployment.tenure(&["run", "x", "--", "env"]);
    assert_eq!(variables(done.ends_with(0)).get("TENURE_NODES"), Some(&deployment.nodes));
    deployment.write(
        "tenure.toml",
        &format!("nodes = [\"redis://127.0.0.1:{port}\"]\npassword_file = \"password\"\n"),
    );
    Done::of(deployment.command_without_nodes(&["run", "y", "--", "true"]).output().unwrap()).ends_with(0);
}
