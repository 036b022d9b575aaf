//! Every exit code of the contract.

use tenure_testkit::RedisServer;

use crate::deployment::{Deployment, deployments_and_service, five_redis_nodes, token};

#[test]
fn the_commands_own_exit_code_is_returned() {
    for deployment in deployments_and_service() {
        for code in [0, 1, 7, 64, 75, 255] {
            let script = format!("exit {code}");
            deployment.tenure(&["run", "x", "--", "sh", "-c", &script]).ends_with(code);
        }
        deployment.tenure(&["run", "x", "--", "sh", "-c", "kill -TERM $$"]).ends_with(128 + 15);
        deployment.tenure(&["run", "x", "--", "sh", "-c", "kill -KILL $$"]).ends_with(128 + 9);
        // A real-time signal, which has no name.
        deployment.tenure(&["run", "x", "--", "sh", "-c", "kill -64 $$"]).ends_with(128 + 64);
    }
}

#[test]
fn a_command_that_cannot_be_started_is_126_or_127_and_the_lock_is_free_again() {
    for deployment in deployments_and_service() {
        deployment.write("plain.txt", "no program");
        let folder = deployment.folder().to_str().unwrap();
        deployment.tenure(&["run", "x", "--", "./plain.txt"]).ends_with(126);
        deployment.tenure(&["run", "x", "--", folder]).ends_with(126);
        deployment.tenure(&["run", "x", "--", "there-is-no-such-command"]).ends_with(127);
        deployment.tenure(&["run", "x", "--", "true"]).ends_with(0);
    }
}

#[test]
fn what_is_done_is_0_and_what_is_not_held_by_this_token_is_1() {
    for deployment in deployments_and_service() {
        let (lease, code) = deployment.json(&["acquire", "x", "--json"]);
        let token = token(&lease);
        assert_eq!(code, Some(0));
        deployment.tenure(&["extend", "x", "--token", token]).ends_with(0);
        deployment.tenure(&["release", "x", "--token", token]).ends_with(0);
        deployment.tenure(&["release", "x", "--token", token]).ends_with(1);
        deployment.tenure(&["extend", "x", "--token", token]).ends_with(1);
        deployment.tenure(&["status", "x"]).ends_with(0);
        deployment.tenure(&["ls"]).ends_with(0);
        deployment.tenure(&["config"]).ends_with(0);
        deployment.tenure(&["doctor"]).ends_with(0);
        deployment.tenure(&["--help"]).ends_with(0);
        deployment.tenure(&["--version"]).ends_with(0);
    }
}

#[test]
fn another_owners_lock_is_neither_extended_nor_released() {
    for deployment in deployments_and_service() {
        // Long enough for nodes on a busy machine; the other waits until it is over.
        let (first, _) = deployment.json(&["acquire", "x", "--json", "--ttl", "1s"]);
        let (second, _) = deployment.json(&["acquire", "x", "--json", "--wait", "20s"]);
        let (old, new) = (token(&first), token(&second));
        deployment.tenure(&["extend", "x", "--token", old]).ends_with(1);
        deployment.tenure(&["release", "x", "--token", old]).ends_with(1);
        deployment.tenure(&["extend", "x", "--token", new]).ends_with(0);
    }
}

#[test]
fn danger_is_1() {
    let options = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let server = RedisServer::start(&options);
    let url = server.url();
    let deployment = Deployment::of(vec![server], |_| url);
    let done = deployment.tenure(&["doctor"]);
    assert!(done.stdout.contains("danger: ") && done.stdout.contains("noeviction"), "{done:?}");
    done.ends_with(1);
    deployment.tenure(&["doctor", "--nodes", "redis://127.0.0.1:1"]).ends_with(1);
}

#[test]
fn wrong_usage_is_64() {
    for deployment in deployments_and_service() {
        for arguments in [
            &["run", "x"][..],
            &["run", "--", "true"],
            &["run", "x", "--ttl", "5", "--", "true"],
            &["run", "x", "--ttl", "2h", "--", "true"],
            &["run", "x", "--grace", "20s", "--", "true"],
            &["run", "", "--", "true"],
            &["run", "x", "--owner", "a b", "--", "true"],
            &["acquire", "x", "--owner", "a", "--shared"],
            &["extend", "x"],
            &["extend", "x", "--token", "abc"],
            &["release", "x"],
            &["nonsense"],
            &["status", "x", "--config", "missing.toml"],
            &["status", "x", "--nodes", "http://a"],
            &["acquire", "tenure~queue:{x}", "--prefix="],
        ] {
            deployment.tenure(arguments).ends_with(64);
        }
    }
}

#[test]
fn no_majority_is_69() {
    let mut deployment = five_redis_nodes();
    let (lease, _) = deployment.json(&["acquire", "x", "--json"]);
    let token = token(&lease);
    deployment.servers.iter_mut().take(3).for_each(RedisServer::kill);
    deployment.tenure(&["acquire", "y"]).ends_with(69);
    deployment.tenure(&["run", "y", "--", "true"]).ends_with(69);
    deployment.tenure(&["extend", "x", "--token", token]).ends_with(69);
    deployment.tenure(&["release", "x", "--token", token]).ends_with(69);
    deployment.tenure(&["release", "--force", "y"]).ends_with(69);
    deployment.tenure(&["status", "x"]).ends_with(69);
    deployment.tenure(&["ls"]).ends_with(69);
}

#[test]
fn held_by_another_is_75_or_what_was_asked_for() {
    for deployment in deployments_and_service() {
        let _holder = deployment.hold(&["x"]);
        deployment.tenure(&["run", "x", "--", "true"]).ends_with(75);
        deployment.tenure(&["run", "x", "--wait", "200ms", "--", "true"]).ends_with(75);
        deployment.tenure(&["acquire", "x"]).ends_with(75);
        deployment.tenure(&["run", "-E", "0", "x", "--", "true"]).ends_with(0);
        deployment.tenure(&["acquire", "-E", "9", "x"]).ends_with(9);
    }
}
