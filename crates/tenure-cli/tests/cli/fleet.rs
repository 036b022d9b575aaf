//! `tenure fleet`: the node list is changed by an operator, and nodes are taken out of their fleet.

use serde_json::Value;
use tenure_testkit::RedisServer;

use crate::deployment::{Deployment, Done, wait_until};

/// Three nodes in use and a fourth, with locks that live for a second at most.
fn deployment() -> (Deployment, String, String) {
    let servers: [RedisServer; 4] = RedisServer::start_many(&[]);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let (old, new) = (urls[..3].join(","), [&urls[0], &urls[1], &urls[3]].map(String::as_str).join(","));
    let deployment = Deployment::of(servers.into(), |_| urls[..3].join(","));
    let settings = format!("nodes = [{}]\nmax_ttl = \"1s\"\nttl = \"1s\"\n", quoted(&old));
    deployment.write("tenure.toml", &settings);
    deployment.write("new.toml", &settings.replace(&quoted(&old), &quoted(&new)));
    deployment.write("fourth.toml", &settings.replace(&quoted(&old), &quoted(&urls[3])));
    wait_until(|| works(&deployment, "tenure.toml"));
    (deployment, urls[3].clone(), new)
}

/// The tool with this configuration.
fn with(deployment: &Deployment, config: &str, arguments: &[&str]) -> Done {
    let mut command = deployment.command_without_nodes(arguments);
    Done::of(command.args(["--config", config]).output().unwrap())
}

/// A lock that can be had.
fn works(deployment: &Deployment, config: &str) -> bool {
    let mut command = deployment.command_without_nodes(&["--config", config, "run", "x", "--", "true"]);
    Done::of(command.output().unwrap()).code == Some(0)
}

fn quoted(urls: &str) -> String {
    urls.split(',').map(|url| format!("\"{url}\"")).collect::<Vec<_>>().join(", ")
}

#[test]
fn an_operator_replaces_a_node() {
    let (deployment, _, new) = deployment();
    let done = with(&deployment, "tenure.toml", &["fleet", "change", "--to", &new]);
    done.ends_with(0);
    assert!(done.stderr.contains("give clients the new list now"), "{done:?}");
    assert!(done.stderr.contains("changed in "), "{done:?}");
    wait_until(|| works(&deployment, "new.toml"));
    let mut command =
        deployment.command_without_nodes(&["--config", "tenure.toml", "run", "x", "--", "true"]);
    let refused = Done::of(command.output().unwrap());
    let refused = refused.ends_with(64);
    assert!(refused.stderr.contains("has changed"), "{refused:?}");
    // Once more changes nothing.
    let again = with(&deployment, "tenure.toml", &["fleet", "change", "--to", &new, "--json"]);
    again.ends_with(0);
    let told: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&told["changed"], &told["without_locks_ms"]), (&Value::Bool(true), &Value::Null));
    let late = with(&deployment, "tenure.toml", &["fleet", "change", "--to", &new, "--abort"]);
    late.ends_with(1);
    assert!(late.stderr.contains("too late to abort"), "{late:?}");
}

#[test]
fn a_node_of_another_fleet_is_refused_until_it_is_forgotten() {
    let (deployment, fourth, new) = deployment();
    wait_until(|| works(&deployment, "fourth.toml"));
    let done = with(&deployment, "tenure.toml", &["fleet", "change", "--to", &new]);
    done.ends_with(1);
    assert!(
        done.stderr.contains("belongs to another fleet") && done.stderr.contains("fleet forget"),
        "{done:?}"
    );
    assert!(works(&deployment, "tenure.toml"), "nothing has happened");
    let done = with(&deployment, "tenure.toml", &["fleet", "forget", &fourth, "--json"]);
    done.ends_with(0);
    assert!(done.stdout.contains("forgotten"), "{done:?}");
    with(&deployment, "tenure.toml", &["fleet", "change", "--to", &new]).ends_with(0);
}

#[test]
fn wrong_lists_are_refused() {
    let (deployment, fourth, new) = deployment();
    // Not the list that is in use, but another one.
    let done = with(&deployment, "fourth.toml", &["fleet", "change", "--to", &new]);
    done.ends_with(1);
    assert!(done.stderr.contains("the old node list is not in use: no record of it on redis:"), "{done:?}");
    for (arguments, expected) in [
        (vec!["fleet", "change", "--to", ""], "--to is empty"),
        (vec!["fleet", "change", "--to", "http://x"], "is not supported"),
        (vec!["fleet", "change", "--to", &new, "--gone", &fourth], "this node is not only in the old list"),
        (vec!["fleet", "change", "--to", &new, "--ttl", "5s"], "--ttl does not apply to `tenure fleet`"),
        (vec!["fleet", "forget"], "required"),
    ] {
        let done = with(&deployment, "tenure.toml", &arguments);
        done.ends_with(64);
        assert!(done.stderr.contains(expected), "{arguments:?}: {done:?}");
    }
}
