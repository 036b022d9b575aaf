//! `acquire`, `extend` and `release` in a script.

use crate::deployment::{Done, TOOL, deployments, deployments_and_service, five_redis_nodes, token};

fn shell(deployment: &crate::deployment::Deployment, script: &str) -> Done {
    let folder = std::path::Path::new(TOOL).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = deployment.program("sh");
    command.args(["-c", script]);
    Done::of(command.env("PATH", path).output().unwrap())
}

#[test]
fn a_script_holds_a_lock_by_its_exported_token() {
    for deployment in deployments_and_service() {
        let done = shell(
            &deployment,
            r#"
            eval "$(tenure acquire "it's mine" --ttl 20s --export)" || exit 2
            test "$TENURE_LOCK" = "it's mine" && test "$TENURE_FENCE" -gt 0 && test "$TENURE_VALID_UNTIL_MS" -gt 0 || exit 3
            tenure acquire "$TENURE_LOCK" --quiet; test $? = 75 || exit 4
            eval "$(tenure extend "$TENURE_LOCK" --token "$TENURE_TOKEN" --fence "$TENURE_FENCE" --export)" || exit 5
            tenure release "$TENURE_LOCK" --token "$TENURE_TOKEN" || exit 6
            tenure acquire "$TENURE_LOCK" >/dev/null || exit 7
            "#,
        );
        done.ends_with(0);
    }
}

#[test]
fn an_eval_of_a_refused_lock_fails() {
    for deployment in deployments_and_service() {
        deployment.tenure(&["acquire", "x"]).ends_with(0);
        shell(&deployment, r#"eval "$(tenure acquire x --export)""#).ends_with(75);
        shell(&deployment, r#"eval "$(tenure acquire x --export --ttl 9h)""#).ends_with(64);
        // What is not even understood: an option that is none, a code that is none.
        shell(&deployment, r#"eval "$(tenure acquire --x --export)""#).ends_with(64);
        shell(&deployment, r#"eval "$(tenure acquire y --export -E 300)""#).ends_with(64);
    }
}

#[test]
fn as_text_there_are_token_fence_and_deadline() {
    for deployment in deployments_and_service() {
        let done = deployment.tenure(&["acquire", "x"]);
        let words: Vec<&str> =
            done.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(words, ["token", "fence", "valid", "nodes"], "{done:?}");
        assert_eq!(done.stderr, "");
    }
}

#[test]
fn an_extended_lock_lives_on() {
    for deployment in deployments() {
        let (lease, _) = deployment.json(&["acquire", "x", "--ttl", "2s", "--json"]);
        let token = token(&lease);
        deployment.tenure(&["extend", "x", "--token", token, "--ttl", "20s"]).ends_with(0);
        std::thread::sleep(std::time::Duration::from_millis(2300));
        deployment.tenure(&["acquire", "x", "--quiet"]).ends_with(75);
    }
}

#[test]
fn an_extension_keeps_the_ttl_of_the_lease_and_never_promises_less_than_before() {
    for deployment in deployments() {
        let (lease, _) = deployment.json(&["acquire", "x", "--ttl", "50s", "--json"]);
        let extend = |token: &str, ttl: &[&str]| {
            deployment.json(&[&["extend", "x", "--json", "--token", token], ttl].concat()).0
        };
        let end = |lease: &serde_json::Value| lease["valid_until_ms"].as_u64().unwrap();
        let second = extend(token(&lease), &[]);
        assert_eq!(second["ttl_ms"], 50_000, "{second}");
        assert!(end(&second) >= end(&lease), "{lease} {second}");
        // A shorter term shortens nothing, also for the extension after it.
        let third = extend(token(&second), &["--ttl", "5s"]);
        assert_eq!(third["ttl_ms"], 5_000, "{third}");
        assert!(end(&third) >= end(&second), "{second} {third}");
        assert!(third["valid_for_ms"].as_u64().unwrap() > 5_000, "{third}");
        let again = extend(token(&third), &["--ttl", "5s"]);
        assert!(end(&again) >= end(&third), "{third} {again}");
        let fourth = extend(token(&again), &[]);
        assert_eq!(fourth["ttl_ms"], 50_000, "{fourth}");
        assert!(end(&fourth) >= end(&second), "{second} {fourth}");
    }
}

/// Five nodes, three of which lose their memory: the token names them as they were, and says so
/// instead of expiring.
#[test]
fn a_token_from_before_most_nodes_forgot_is_out_of_date() {
    let deployment = five_redis_nodes();
    let (lease, _) = deployment.json(&["acquire", "x", "--json"]);
    deployment.servers[..3].iter().for_each(|server| drop(server.execute(&["FLUSHALL"])));
    let (refused, code) = deployment.json(&["extend", "x", "--token", token(&lease), "--json"]);
    assert_eq!((refused["error"].as_str(), code), (Some("outdated"), Some(1)), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("out of date"), "{refused}");
    // For a release no node has to count.
    deployment.tenure(&["release", "x", "--token", token(&lease)]);
    assert!(deployment.servers.iter().all(|server| server.get("tenure:x").is_none()));
}

#[test]
fn a_token_of_an_older_version_still_releases_its_lock() {
    let deployment = five_redis_nodes();
    let (lease, _) = deployment.json(&["acquire", "x", "--json"]);
    let owner = token(&lease).split('.').next().unwrap();
    let old = format!("{owner}.1f.1.1");
    let done = deployment.tenure(&["extend", "x", "--token", &old]);
    assert!(done.stderr.contains("older version"), "{done:?}");
    done.ends_with(64);
    deployment.tenure(&["release", "x", "--token", &old]).ends_with(0);
    assert!(deployment.servers.iter().all(|server| server.get("tenure:x").is_none()));
}

#[test]
fn a_wrong_fence_is_noticed() {
    for deployment in deployments_and_service() {
        let (lease, _) = deployment.json(&["acquire", "x", "--json"]);
        let token = token(&lease);
        deployment.tenure(&["release", "x", "--token", token, "--fence", "1"]).ends_with(64);
        deployment.tenure(&["extend", "x", "--token", token, "--fence", "1"]).ends_with(64);
        let fence = lease["fence"].to_string();
        deployment.tenure(&["release", "x", "--token", token, "--fence", &fence]).ends_with(0);
    }
}

#[test]
fn a_release_by_force_says_what_it_breaks() {
    for deployment in deployments_and_service() {
        let holder = deployment.hold(&["x", "--ttl", "1s", "--label", "nightly import"]);
        let done = deployment.tenure(&["release", "--force", "x"]);
        assert!(done.stderr.contains("nightly import") && done.stderr.contains("keeps running"), "{done:?}");
        done.ends_with(0);
        deployment.tenure(&["acquire", "x"]).ends_with(0);
        // The holder learns it from its next renewal.
        holder.done().ends_with(79);
        deployment.tenure(&["release", "--force", "y"]).ends_with(1);
    }
}

#[test]
fn what_minorities_hold_is_released_by_force_and_said() {
    let deployment = five_redis_nodes();
    for owners in [1, 5] {
        for (index, server) in deployment.servers.iter().take(owners).enumerate() {
            server.execute(&["SET", "tenure:x", &format!("{index:040x}"), "PX", "60000"]);
        }
        let done = deployment.tenure(&["release", "--force", "x", "--json"]);
        assert!(done.ends_with(0).stdout.contains("\"released\":true"), "{done:?}");
        assert_eq!(deployment.json(&["status", "x", "--json"]).0["state"], "free");
    }
}

#[test]
fn a_lock_of_another_library_is_not_taken_by_force() {
    let deployment = five_redis_nodes();
    for server in &deployment.servers {
        server.execute(&["SET", "tenure:x", "foreign", "PX", "60000"]);
    }
    let done = deployment.tenure(&["release", "--force", "x"]);
    assert!(done.ends_with(1).stderr.contains("tenure:x"), "{done:?}");
}

#[test]
fn an_acquire_that_fails_leaves_nothing_behind() {
    let deployment = five_redis_nodes();
    for server in &deployment.servers[..3] {
        server.execute(&["SET", "tenure:x", "foreign", "PX", "60000"]);
    }
    deployment.tenure(&["acquire", "x"]).ends_with(75);
    assert!(deployment.servers[3..].iter().all(|server| server.keys().is_empty()));
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure_and_its_lock_is_free_again() {
    for deployment in deployments_and_service() {
        for options in ["", "--json", "--export"] {
            let done = shell(&deployment, &format!("tenure acquire x {options} > /dev/full"));
            assert!(
                done.ends_with(70).stderr.contains("cannot write the result") || options == "--json",
                "{done:?}"
            );
        }
        // The reader was gone before the token came.
        let (_, closed) = std::io::pipe().unwrap();
        let mut command = deployment.command(&["acquire", "x"]);
        let done = Done::of(command.stdout(closed).output().unwrap());
        assert!(done.ends_with(70).stderr.contains("cannot write"), "{done:?}");
        deployment.tenure(&["acquire", "x"]).ends_with(0);
        for command in [
            "status x",
            "ls",
            "ls --json",
            "doctor",
            "config",
            "completions bash",
            "man",
            "plan --locks-per-second 5",
        ] {
            shell(&deployment, &format!("tenure {command} > /dev/full")).ends_with(70);
        }
    }
}
