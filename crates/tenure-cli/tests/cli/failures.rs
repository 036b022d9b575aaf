//! Every failure that a person can cause: one clear line and the right exit code.

use std::os::unix::ffi::OsStrExt;

use tenure_testkit::{MovedClock, RedisServer};

use crate::deployment::{Deployment, Done, five_redis_nodes, wait_until};

/// What it said and its exit code, without what differs from run to run.
fn shown(deployment: &Deployment, done: &Done) -> String {
    assert!(done.stderr.lines().count() == 1, "one line: {done:?}");
    assert!(!done.stderr.contains("panicked"), "{done:?}");
    let mut text = format!("{}(exit {})", done.stderr, done.code.unwrap());
    text = text.replace(deployment.folder().to_str().unwrap(), "FOLDER");
    for (index, server) in deployment.servers.iter().enumerate() {
        text = text.replace(&format!(":{}", server.port()), &format!(":PORT{index}"));
    }
    // Times and sizes of rounds.
    let words: Vec<String> = text
        .split(' ')
        .map(|word| {
            let is_time = word.starts_with(|c: char| c.is_ascii_digit())
                && ["ns", "µs", "ms", "s"]
                    .iter()
                    .any(|unit| word.trim_end_matches([',', ';', '.', ')']).ends_with(unit));
            if is_time && word.contains(['.', 'n', 'µ']) { "TIME".to_owned() } else { word.to_owned() }
        })
        .collect();
    words.join(" ")
}

#[test]
fn wrong_usage_says_what_is_right() {
    let deployment = five_redis_nodes();
    let mut text = String::new();
    for arguments in [
        &["run", "x"][..],
        &["run", "--", "true"],
        &["run", "", "--", "true"],
        &["run", "a", "b", "--slots", "2", "--", "true"],
        &["run", "a", "b", "--shared", "--", "true"],
        &["run", "x", "--slots", "65", "--", "true"],
        &["run", "x", "--at-least", "2m", "--", "true"],
        &["run", "x", "--at-least-on", "success", "--", "true"],
        &["lead", "x", "--wait", "5s", "--", "true"],
        &["run", "x", "--ttl", "5", "--", "true"],
        &["run", "x", "--ttl", "soon", "--", "true"],
        &["run", "x", "--ttl", "1ms", "--", "true"],
        &["run", "x", "--ttl", "2h", "--", "true"],
        &["run", "x", "--wait", "soon", "--", "true"],
        &["run", "x", "--grace", "20s", "--", "true"],
        &["run", "x", "-E", "300", "--", "true"],
        &["extend", "x"],
        &["extend", "x", "--token", "abc"],
        &["release", "x"],
        &["nonsense"],
        &["status"],
        &["status", "x", "--config", "missing.toml"],
        &["status", "x", "--nodes", ""],
        &["status", "x", "--nodes", "localhost"],
        &["status", "x", "--nodes", "http://a"],
        &["status", "x", "--nodes", "redis://a/b"],
        &["status", "x", "--nodes", "redis://a,redis://a"],
        &["acquire", "tenure~queue:{x}", "--prefix="],
        &["man", "nonsense"],
        &["completions", "nonsense"],
    ] {
        let done = deployment.tenure(arguments);
        text.push_str(&format!("$ tenure {}\n{}\n\n", arguments.join(" "), shown(&deployment, &done)));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_name_that_is_not_utf_8_is_refused() {
    let deployment = five_redis_nodes();
    let mut command = deployment.command(&["status"]);
    let done = Done::of(command.arg(std::ffi::OsStr::from_bytes(b"caf\xe9")).output().unwrap());
    done.ends_with(64);
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    let mut command = deployment.command(&["status", "x"]);
    let done = Done::of(command.env("TENURE_NODES", std::ffi::OsStr::from_bytes(b"\xff")).output().unwrap());
    done.ends_with(64);
    assert!(done.stderr.contains("TENURE_NODES is not valid UTF-8"), "{done:?}");
}

#[test]
fn nodes_that_cannot_be_used_are_named_with_the_reason() {
    let server = RedisServer::start(&["--requirepass", "hunter2"]);
    let url = server.url();
    let deployment = Deployment::of(vec![server], |_| url.clone());
    let port = deployment.servers[0].port();
    let mut text = String::new();
    for (what, nodes) in [
        ("no server", "redis://127.0.0.1:1".to_owned()),
        ("no password", url),
        ("wrong password", format!("redis://:wrong@127.0.0.1:{port}")),
        ("no password file", format!("redis://127.0.0.1:{port}?password_file=/nonexistent/password")),
        ("no socket", "redis+unix:///nonexistent/socket".to_owned()),
    ] {
        let mut command = deployment.command(&["acquire", "x"]);
        let done = Done::of(command.env("TENURE_NODES", &nodes).output().unwrap());
        text.push_str(&format!("{what}\n{}\n\n", shown(&deployment, &done)));
    }
    assert!(!text.contains("hunter2") && !text.contains(":wrong"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn clocks_that_were_set_back_are_told_by_acquire_and_doctor() {
    let clock = MovedClock::new();
    clock.step(7_200_000);
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start_with_clock(&clock, &[])).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let deployment = Deployment::of(servers, |_| urls.join(","));
    wait_until(|| deployment.tenure(&["run", "x", "--", "true"]).code == Some(0));
    clock.correct();
    let (refused, code) = deployment.json(&["acquire", "x", "--json"]);
    assert_eq!((refused["error"].as_str(), code), (Some("clocks_set_back"), Some(69)), "{refused}");
    let left_ms = refused["retry_after_ms"].as_u64().unwrap();
    assert!((7_000_000..7_400_000).contains(&left_ms), "{refused}");
    let done = deployment.tenure(&["doctor"]);
    assert!(done.stdout.contains("clocks of 3 of 3 nodes were set back"), "{done:?}");
    done.ends_with(1);
}

#[test]
fn a_command_that_cannot_be_run_says_why() {
    let deployment = five_redis_nodes();
    deployment.write("plain.txt", "no program");
    let mut text = String::new();
    for command in ["there-is-no-such-command", "./plain.txt", "./missing", "."] {
        let done = deployment.tenure(&["run", "x", "--", command]);
        text.push_str(&format!("$ tenure run x -- {command}\n{}\n\n", shown(&deployment, &done)));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_lock_that_another_holds_is_one_line_about_its_holder() {
    let deployment = five_redis_nodes();
    let _holder = deployment.hold(&["x", "--label", "nightly \u{1b}[2Jimport"]);
    let done = deployment.tenure(&["acquire", "x"]);
    let line = done.ends_with(75).stderr.as_str();
    assert!(line.starts_with("tenure: lock \"x\" is held by ") && line.lines().count() == 1, "{line}");
    assert!(line.contains("nightly \\u{1b}[2Jimport") && !line.contains('\u{1b}'), "{line}");
    let done = deployment.tenure(&["acquire", "x", "--quiet"]);
    assert_eq!((&*done.stderr, &*done.stdout), ("", ""), "the exit code tells");
}
