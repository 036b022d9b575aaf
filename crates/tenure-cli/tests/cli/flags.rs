//! What every flag does. Those of one command alone are tested with that command.

use std::time::{Duration, Instant};

use crate::deployment::{Deployment, Done, deployments, deployments_and_service, token};

/// The tool with nodes that nobody could use, so that whatever works was told by a flag.
fn misled(deployment: &Deployment, arguments: &[&str]) -> Done {
    let mut command = deployment.command(arguments);
    Done::of(command.env("TENURE_NODES", "redis://127.0.0.1:1").output().unwrap())
}

#[test]
fn nodes_are_named_by_flag_variable_and_file() {
    for deployment in deployments() {
        let nodes = deployment.nodes.clone();
        misled(&deployment, &["acquire", "x"]).ends_with(69);
        misled(&deployment, &["acquire", "x", "--nodes", &nodes]).ends_with(0);
        misled(&deployment, &["--nodes", &nodes, "acquire", "x"]).ends_with(75);
        let urls: Vec<String> = nodes.split(',').map(|url| format!("{url:?}")).collect();
        deployment.write("mine.toml", &format!("nodes = [{}]\n", urls.join(", ")));
        let without =
            |arguments: &[&str]| Done::of(deployment.command_without_nodes(arguments).output().unwrap());
        without(&["acquire", "x", "--config", "mine.toml"]).ends_with(75);
        let mut command = deployment.command_without_nodes(&["acquire", "x"]);
        Done::of(command.env("TENURE_CONFIG", "mine.toml").output().unwrap()).ends_with(75);
    }
}

#[test]
fn another_prefix_is_another_lock() {
    for deployment in deployments() {
        deployment.tenure(&["acquire", "x"]).ends_with(0);
        deployment.tenure(&["acquire", "x", "--prefix", "tenure:"]).ends_with(75);
        deployment.tenure(&["acquire", "x", "--prefix", "other:"]).ends_with(0);
        deployment.tenure(&["acquire", "x", "--prefix="]).ends_with(0);
        let mut command = deployment.command(&["acquire", "x"]);
        Done::of(command.env("TENURE_PREFIX", "other:").output().unwrap()).ends_with(75);
        assert!(deployment.tenure(&["ls", "--prefix", "other:"]).stdout.contains("held"));
    }
}

#[test]
fn a_lock_lives_for_its_ttl() {
    for deployment in deployments() {
        let begun = Instant::now();
        let (lease, _) = deployment.json(&["acquire", "x", "--ttl", "700ms", "--json"]);
        assert_eq!(lease["ttl_ms"], 700);
        deployment.tenure(&["acquire", "x", "--wait", "20s", "--quiet"]).ends_with(0);
        // Its guard band is a tenth of the ttl, at least 100 ms. The other may have been quicker to
        // begin.
        assert!(begun.elapsed() >= Duration::from_millis(700), "{:?}", begun.elapsed());
        let (longer, _) = deployment.json(&["acquire", "y", "--ttl", "1m", "--json"]);
        let (extended, _) =
            deployment.json(&["extend", "y", "--token", token(&longer), "--ttl", "30s", "--json"]);
        assert_eq!((&longer["ttl_ms"], &extended["ttl_ms"]), (&60_000.into(), &30_000.into()));
    }
}

#[test]
fn a_wait_is_as_long_as_was_asked_for() {
    for deployment in deployments_and_service() {
        let _holder = deployment.hold(&["x"]);
        for (wait, least, most) in [("0s", 0, 5_000), ("600ms", 600, 8_000)] {
            let begun = Instant::now();
            deployment.tenure(&["run", "x", "--wait", wait, "--", "true"]).ends_with(75);
            let waited = begun.elapsed();
            assert!(
                waited >= Duration::from_millis(least) && waited < Duration::from_millis(most),
                "{waited:?}"
            );
        }
    }
}

#[test]
fn a_label_is_seen_by_others() {
    for deployment in deployments_and_service() {
        for arguments in [&["acquire", "x", "--label", "grüße"][..], &["acquire", "y"]] {
            deployment.tenure(arguments).ends_with(0);
        }
        let _holder = deployment.hold(&["z"]);
        let holder = |name: &str| {
            let (status, _) = deployment.json(&["status", name, "--json"]);
            status["holder"].as_str().unwrap_or_default().to_owned()
        };
        assert!(holder("x").ends_with(" grüße"), "{}", holder("x"));
        assert!(holder("y").contains('@') && !holder("y").contains(' '), "{}", holder("y"));
        assert!(holder("z").ends_with(" sh"), "{}", holder("z"));
    }
}

#[test]
fn quiet_says_nothing_about_what_the_exit_code_tells() {
    for deployment in deployments_and_service() {
        let (lease, _) = deployment.json(&["acquire", "x", "--json"]);
        for arguments in [
            &["acquire", "x", "--quiet"][..],
            &["run", "x", "-q", "--wait", "300ms", "--", "true"],
            &["release", "x", "--quiet", "--token", token(&lease)],
        ] {
            let done = deployment.tenure(arguments);
            assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""), "{arguments:?}");
        }
        // A mistake is no outcome.
        assert_ne!(deployment.tenure(&["acquire", "", "--quiet"]).ends_with(64).stderr, "");
    }
}
