//! `status` and `ls` change nothing, and say what is so: who still waits, and when things happen.

use nix::sys::signal::Signal;

use crate::deployment::{
    Deployment, Done, deployments, embedded_store, five_redis_nodes, now_ms, token, wait_until,
};

#[test]
fn looking_at_locks_makes_no_store() {
    let deployment = embedded_store();
    let default =
        |arguments: &[&str]| Done::of(deployment.command_without_nodes(arguments).output().unwrap());
    for tool in [&(|arguments: &[&str]| deployment.tenure(arguments)) as &dyn Fn(&[&str]) -> Done, &default] {
        let done = tool(&["status", "x"]);
        assert!(done.ends_with(0).stdout.starts_with("x  free\n"), "{done:?}");
        assert!(done.stderr.contains("locks.db") && done.stderr.contains("yet"), "{done:?}");
        let done = tool(&["status", "x", "--json", "--quiet"]);
        let status: serde_json::Value = serde_json::from_str(&done.ends_with(0).stdout).unwrap();
        assert_eq!((&status["state"], &status["waiters"]), (&"free".into(), &0.into()));
        let node = status["nodes"][0]["node"].as_str().unwrap();
        assert!(node.starts_with("sqlite:/") && status["agree"][0] == node, "{status}");
        assert!(tool(&["ls"]).ends_with(0).stdout.contains("no locks"));
        assert_eq!(tool(&["ls", "--json"]).ends_with(0).stdout, "");
        // What is wrong is wrong without a store, too.
        tool(&["status", ""]).ends_with(64);
    }
    assert_eq!(std::fs::read_dir(deployment.folder()).unwrap().count(), 0);
    deployment.tenure(&["status", "x", "--nodes", "sqlite:missing/locks.db"]).ends_with(74);
}

#[test]
fn a_lock_is_not_looked_for_in_a_store_that_is_not_there() {
    let elsewhere = embedded_store();
    let (lease, _) = elsewhere.json(&["acquire", "x", "--json"]);
    let deployment = embedded_store();
    for arguments in [
        &["extend", "x", "--token", token(&lease)][..],
        &["release", "x", "--token", token(&lease)],
        &["release", "--force", "x"],
    ] {
        let done = deployment.tenure(arguments);
        assert!(done.ends_with(1).stderr.contains("there is no store at "), "{done:?}");
    }
    assert_eq!(std::fs::read_dir(deployment.folder()).unwrap().count(), 0);
}

#[test]
fn a_script_can_ask_whether_a_lock_is_free() {
    for deployment in deployments() {
        let ask = |deployment: &Deployment| deployment.tenure(&["status", "x", "--exit-code"]);
        ask(&deployment).ends_with(0);
        deployment.tenure(&["acquire", "x"]).ends_with(0);
        assert!(ask(&deployment).ends_with(75).stdout.starts_with("x  held"));
        // Without it, an answer is an answer.
        deployment.tenure(&["status", "x"]).ends_with(0);
    }
    let mut deployment = five_redis_nodes();
    deployment.servers.iter_mut().take(3).for_each(tenure_testkit::RedisServer::kill);
    deployment.tenure(&["status", "x", "--exit-code"]).ends_with(69);
}

#[test]
fn a_waiter_that_was_killed_is_not_counted() {
    for deployment in deployments() {
        let _holder = deployment.hold(&["x"]);
        let waiters = || deployment.json(&["status", "x", "--json"]).0["waiters"].as_u64();
        let wait = || deployment.start(&["run", "x", "--wait", "forever", "--", "true"]);
        let killed = wait();
        wait_until(|| waiters() == Some(1));
        let _alive = wait();
        wait_until(|| waiters() == Some(2));
        killed.signal(Signal::SIGKILL);
        killed.done();
        wait_until(|| waiters() == Some(1));
        let done = deployment.tenure(&["acquire", "x"]);
        assert!(!done.ends_with(75).stderr.contains("2 in line"), "{done:?}");
    }
}

/// The seconds since midnight of a clock time in a text.
fn clock_time(text: &str) -> u64 {
    let is_time = |word: &&str| word.len() == 8 && word.split(':').all(|part| part.len() == 2);
    let time = text.split([' ', ',', ')', '\n']).find(is_time).unwrap_or_else(|| panic!("no time: {text}"));
    time.split(':').fold(0, |seconds, part| seconds * 60 + part.parse::<u64>().unwrap())
}

#[test]
fn times_for_people_are_clock_times_where_they_live() {
    let deployment = embedded_store();
    let acquire = |name: &str, zone: &str| {
        let mut command = deployment.command(&["acquire", name]);
        Done::of(command.env("TZ", zone).output().unwrap())
    };
    let line = |done: &Done, word: &str| {
        let found = done.stdout.lines().find(|line| line.trim_start().starts_with(word));
        found.unwrap_or_else(|| panic!("{word}: {done:?}")).to_owned()
    };
    let day = 24 * 3600;
    let close = |time: u64, expected: u64| {
        let apart = (time + day - expected % day) % day;
        assert!(apart < 60 || apart > day - 60, "{time} {expected}");
    };
    let now = now_ms() / 1000;
    let done = acquire("x", "UTC0");
    let valid = line(&done, "valid");
    close(clock_time(&valid), now + 30);
    assert!(!valid.contains("179"), "no number of milliseconds: {valid}");
    // West of Greenwich.
    close(clock_time(&line(&acquire("y", "XYZ5"), "valid")), now + 30 + day - 5 * 3600);
    let mut command = deployment.command(&["status", "x"]);
    let status = Done::of(command.env("TZ", "UTC0").output().unwrap());
    close(clock_time(&line(&status, "since")), now);
    close(clock_time(&line(&status, "frees")), now + 33);
    // Programs get what they got.
    let (lease, _) = deployment.json(&["acquire", "z", "--json"]);
    assert!(lease["valid_until_ms"].as_u64().unwrap() > now_ms());
}
