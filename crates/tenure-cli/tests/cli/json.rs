//! Every field of the JSON objects.

use serde_json::Value;

use crate::deployment::{deployments, deployments_and_service, five_redis_nodes, now_ms, token};

/// That an object has these fields and no others.
#[track_caller]
pub(crate) fn has_fields(object: &Value, fields: &[&str]) {
    let mut found: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    let mut wanted = fields.to_vec();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn acquire_and_extend_tell_everything_about_the_lease() {
    for deployment in deployments() {
        let nodes = deployment.nodes.split(',').count();
        let (lease, code) = deployment.json(&["acquire", "naïve name", "--ttl", "20s", "--json"]);
        assert_eq!(code, Some(0));
        let token = token(&lease).to_owned();
        let (extended, _) =
            deployment.json(&["extend", "naïve name", "--token", &token, "--ttl", "20s", "--json"]);
        assert_eq!(lease["fence"], extended["fence"], "an extension keeps the fence");
        for lease in [lease, extended] {
            let fields =
                ["name", "token", "fence", "ttl_ms", "valid_for_ms", "valid_until_ms", "margin", "votes"];
            has_fields(&lease, &fields);
            assert_eq!((&lease["name"], &lease["ttl_ms"]), (&"naïve name".into(), &20_000.into()));
            assert!(lease["fence"].as_u64().unwrap() > 0);
            let valid_for = lease["valid_for_ms"].as_u64().unwrap();
            assert!((15_000..=20_000).contains(&valid_for), "{valid_for}");
            let until = lease["valid_until_ms"].as_u64().unwrap();
            assert!(until.abs_diff(now_ms() + valid_for) < 5_000);
            let votes = lease["votes"].as_array().unwrap();
            assert_eq!(votes.len(), nodes);
            for vote in votes {
                has_fields(vote, &["node", "vote", "rtt_us"]);
                assert!(vote["rtt_us"].is_u64() && vote["node"].is_string());
            }
            // On a busy machine a node may be late; what it costs is told.
            let granted = votes.iter().filter(|vote| vote["vote"] == "granted").count();
            assert!(granted > nodes / 2, "{lease}");
            assert_eq!(
                lease["margin"].as_u64().unwrap(),
                u64::try_from(granted + nodes / 2 - nodes).unwrap()
            );
        }
    }
}

#[test]
fn a_refusal_tells_who_holds_it_and_until_when() {
    for deployment in deployments_and_service() {
        let _holder = deployment.hold(&["x", "--label", "nightly import"]);
        let (refusal, code) = deployment.json(&["acquire", "x", "--json"]);
        assert_eq!(code, Some(75));
        has_fields(&refusal, &["error", "name", "holder", "retry_after_ms", "votes", "message"]);
        assert_eq!((&refusal["error"], &refusal["name"]), (&"contended".into(), &"x".into()));
        assert!(refusal["holder"].as_str().unwrap().ends_with("nightly import"), "{refusal}");
        assert!(refusal["retry_after_ms"].as_u64().unwrap() > 10_000);
        let votes = refusal["votes"].as_array().unwrap();
        assert!(votes.iter().any(|vote| vote["vote"] == "refused"), "{refusal}");
        let done = deployment.tenure(&["run", "x", "--json", "--", "true"]);
        assert_eq!(done.stdout, "", "standard output is the command's");
        let refusal: Value = serde_json::from_str(&done.stderr).unwrap();
        assert_eq!(refusal["error"], "contended");
    }
}

#[test]
fn every_failure_is_an_object_of_the_same_shape() {
    let mut deployment = five_redis_nodes();
    let fields = ["error", "name", "holder", "retry_after_ms", "votes", "message"];
    let (lease, _) = deployment.json(&["acquire", "x", "--json"]);
    let token = token(&lease);
    let (released, _) = deployment.json(&["release", "x", "--token", token, "--json"]);
    has_fields(&released, &["name", "released", "votes"]);
    for (arguments, word) in [
        (&["release", "x", "--token", token, "--json"][..], "not_held"),
        (&["extend", "x", "--token", token, "--json"], "not_held"),
        (&["extend", "x", "--token", "abc", "--json"], "usage"),
        (&["acquire", "x", "--ttl", "9h", "--json"], "usage"),
        (&["release", "--force", "x", "--json"], "not_held"),
        (&["acquire", "--json"], "usage"),
        (&["acquire", "x", "-E", "300", "--json"], "usage"),
        (&["run", "x", "--json"], "usage"),
    ] {
        let (failure, _) = deployment.json(arguments);
        has_fields(&failure, &fields);
        assert_eq!(failure["error"], word, "{failure}");
    }
    deployment.servers.iter_mut().take(3).for_each(tenure_testkit::RedisServer::kill);
    let (failure, _) = deployment.json(&["acquire", "x", "--json"]);
    has_fields(&failure, &fields);
    assert_eq!(failure["error"], "unavailable");
    let unknown =
        failure["votes"].as_array().unwrap().iter().filter(|vote| vote["vote"] == "unknown").count();
    assert!(unknown >= 3, "{failure}");
}

#[test]
fn status_and_ls_tell_what_every_node_says() {
    for deployment in deployments_and_service() {
        let nodes = deployment.nodes.split(',').count();
        let _holder = deployment.hold(&["x", "--label", "me"]);
        for arguments in [&["status", "x", "--json"][..], &["ls", "--json"]] {
            let (status, _) = deployment.json(arguments);
            let fields = [
                "name",
                "state",
                "holder",
                "since_ms",
                "left_ms",
                "fence",
                "waiters",
                "line",
                "deadlocks",
                "readers",
                "kind",
                "owner",
                "holds",
                "agree",
                "disagree",
                "nodes",
            ];
            has_fields(&status, &fields);
            assert_eq!((&status["name"], &status["state"]), (&"x".into(), &"held".into()));
            let holder = status["holder"].as_str().unwrap();
            assert!(holder.contains('@') && holder.ends_with(" me"), "{holder}");
            assert_eq!(status["agree"].as_array().unwrap().len(), nodes);
            assert_eq!(status["disagree"].as_array().unwrap().len(), 0);
            for node in status["nodes"].as_array().unwrap() {
                has_fields(node, &["node", "votes", "state", "holder", "left_ms", "waiters", "error"]);
                assert_eq!((&node["state"], &node["votes"]), (&"held".into(), &true.into()));
            }
        }
        let (free, _) = deployment.json(&["status", "y", "--json"]);
        assert_eq!(free["state"], "free");
    }
}

#[test]
fn doctor_and_config_are_objects_too() {
    for deployment in deployments() {
        let done = deployment.tenure(&["doctor", "--json"]);
        let lines: Vec<Value> = done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for (index, node) in lines.iter().take(deployment.nodes.split(',').count()).enumerate() {
            assert_eq!((&node["reachable"], &node["votes"]), (&true.into(), &true.into()), "{index}");
            assert!(node["findings"].is_array());
        }
        let (config, _) = deployment.json(&["config", "--json"]);
        assert_eq!(config["nodes"]["source"], "TENURE_NODES");
        assert_eq!(config["ttl_ms"]["value"], 30_000);
        assert_eq!(config["prefix"]["value"], "tenure:");
    }
}
