//! `status`, `ls`, `doctor`, `completions`, `man`: what people look at.

use tenure_testkit::RedisServer;

use crate::deployment::{deployments_and_service, five_redis_nodes};

#[test]
fn status_tells_holder_time_left_fence_waiters_and_every_nodes_word() {
    for deployment in deployments_and_service() {
        let _holder = deployment.hold(&["x", "--label", "nightly import"]);
        let done = deployment.tenure(&["status", "x"]);
        for part in [
            "x  held",
            "nightly import",
            "since",
            "frees",
            "if not extended",
            "fence",
            "waiters  0",
            "node  ",
        ] {
            assert!(done.stdout.contains(part), "{part}: {done:?}");
        }
        assert!(!done.stdout.contains('\u{1b}'), "plain in a pipe");
        assert_eq!(deployment.tenure(&["status", "y"]).stdout.lines().next(), Some("y  free"));
    }
}

#[test]
fn a_node_that_says_otherwise_is_shown() {
    let deployment = five_redis_nodes();
    deployment.tenure(&["acquire", "x"]).ends_with(0);
    deployment.servers[1].execute(&["DEL", "tenure:x"]);
    deployment.servers[2].execute(&["SET", "tenure:x", "somebody"]);
    let done = deployment.tenure(&["status", "x"]);
    assert_eq!(done.stdout.matches("<- disagrees").count(), 2, "{done:?}");
    let (status, _) = deployment.json(&["status", "x", "--json"]);
    assert_eq!(status["disagree"].as_array().unwrap().len(), 2);
    let done = deployment.tenure(&["ls"]);
    assert!(done.stdout.contains("#!!##"), "{done:?}");
}

/// Whatever other clients leave under a name: it is held by another, and nothing takes it.
#[test]
fn a_value_that_is_no_token_of_ours_is_shown_as_foreign_and_left_alone() {
    let deployment = five_redis_nodes();
    deployment.tenure(&["acquire", "other"]).ends_with(0);
    let binary = [0, 255, 27, b'[', 10, 128];
    for value in [&b""[..], b"c29tZWJvZHk=", &binary, &vec![b'x'; 1 << 20]] {
        for server in &deployment.servers {
            let set = tenure_testkit::cmd("SET").arg("tenure:x").arg(value).arg("PX").arg(60_000).to_owned();
            set.query::<()>(&mut server.connection()).unwrap();
        }
        let done = deployment.tenure(&["status", "x"]);
        assert!(done.ends_with(0).stdout.contains("holder   a client of another library"), "{done:?}");
        assert!(!done.stdout.contains('\u{1b}') && !done.stdout.contains("since"), "{done:?}");
        deployment.tenure(&["acquire", "x"]).ends_with(75);
        deployment.tenure(&["release", "x", "--force", "--yes"]);
        for server in &deployment.servers {
            let kept = tenure_testkit::cmd("GET").arg("tenure:x").query::<Vec<u8>>(&mut server.connection());
            assert_eq!(kept.unwrap(), value);
        }
    }
}

#[test]
fn a_key_that_is_no_lock_is_said_to_be_none_and_left_alone() {
    let deployment = five_redis_nodes();
    deployment.servers.iter().for_each(|server| drop(server.execute(&["RPUSH", "tenure:x", "a job"])));
    let done = deployment.tenure(&["status", "x"]);
    assert!(done.ends_with(0).stdout.contains("holder   another program: the key is not a lock"), "{done:?}");
    assert_eq!(deployment.json(&["status", "x", "--json"]).0["kind"], "foreign");
    let refused = deployment.tenure(&["release", "x", "--force", "--yes"]);
    assert!(refused.stderr.contains("another library"), "{refused:?}");
    for server in &deployment.servers {
        assert_eq!(server.execute(&["LLEN", "tenure:x"]), tenure_testkit::Value::Int(1));
    }
}

/// A client that died between two commands, or one that never sets a time.
#[test]
fn a_key_without_an_end_is_named_by_status_and_doctor() {
    let deployment = five_redis_nodes();
    deployment.tenure(&["acquire", "ours"]).ends_with(0);
    for server in &deployment.servers {
        server.execute(&["SET", "tenure:x", "somebody"]);
        server.execute(&["HSET", "tenure:h", "c0ffee:1", "1"]);
    }
    for name in ["x", "h"] {
        let done = deployment.tenure(&["status", name]);
        assert!(done.stdout.contains("frees    never: it does not expire"), "{done:?}");
    }
    let done = deployment.tenure(&["doctor"]);
    let line = done
        .stdout
        .lines()
        .chain(done.stderr.lines())
        .find(|line| line.contains("never expire"))
        .expect("it is named");
    // A hash without an end may be anything: it is not listed.
    assert!(line.contains(r#""x" is held by another owner and never expires"#), "{line}");
    deployment.servers.iter().for_each(|server| drop(server.execute(&["DEL", "tenure:x", "tenure:h"])));
    assert!(!deployment.tenure(&["doctor"]).stdout.contains("never expire"));
}

#[test]
fn ls_shows_every_lock_and_nodes_that_do_not_answer() {
    let mut deployment = five_redis_nodes();
    for name in ["b", "a", "c d"] {
        deployment.tenure(&["acquire", name, "--label", name]).ends_with(0);
    }
    deployment.servers[4].kill();
    let done = deployment.tenure(&["ls"]);
    let rows: Vec<&str> = done.ends_with(0).stdout.lines().filter(|line| line.contains("####?")).collect();
    assert_eq!(rows.len(), 3, "{done:?}");
    assert!(rows[0].starts_with("a ") && rows[2].starts_with("c d "), "{done:?}");
    assert!(done.stdout.contains("unreachable: connection refused"), "{done:?}");
}

#[test]
fn without_locks_ls_says_so() {
    for deployment in deployments_and_service() {
        assert!(deployment.tenure(&["ls"]).stdout.contains("no locks"));
    }
}

#[test]
fn doctor_has_one_line_with_advice_for_each_finding() {
    let mut deployment = five_redis_nodes();
    // A first start needs all nodes.
    deployment.tenure(&["acquire", "x"]).ends_with(0);
    deployment.servers[0].kill();
    let done = deployment.tenure(&["doctor"]);
    assert!(
        done.stdout.contains("does not vote\n  warn: unreachable: connection refused")
            && done.stdout.contains("4 of 5 nodes vote; 1 more may fail"),
        "{done:?}"
    );
    done.ends_with(0);
    deployment.servers.iter_mut().take(3).for_each(RedisServer::kill);
    let done = deployment.tenure(&["doctor"]);
    assert!(done.stdout.contains("danger: only 2 of 5 nodes vote"), "{done:?}");
    done.ends_with(1);
}

#[test]
fn doctor_complains_about_even_numbers_replicas_and_short_terms() {
    let servers: [RedisServer; 2] = RedisServer::start_many(&[]);
    let urls = servers.each_ref().map(RedisServer::url).join(",");
    let deployment = crate::deployment::Deployment::of(servers.into(), |_| urls);
    let done = deployment.tenure(&["doctor", "--ttl", "50ms"]);
    assert!(done.stdout.contains("Use an odd number of nodes"), "{done:?}");
    let port = deployment.servers[0].port().to_string();
    deployment.servers[1].execute(&["REPLICAOF", "127.0.0.1", &port]);
    let done = deployment.tenure(&["doctor"]);
    assert!(done.stdout.contains("replica") && done.stdout.contains("danger: "), "{done:?}");
    done.ends_with(1);
}

#[test]
fn completions_and_manual_pages_are_there() {
    let deployment = five_redis_nodes();
    for shell in ["bash", "zsh", "fish"] {
        let done = deployment.tenure(&["completions", shell]);
        assert!(done.ends_with(0).stdout.contains("doctor") && !done.stdout.contains("__keep"), "{shell}");
    }
    assert!(deployment.tenure(&["man"]).ends_with(0).stdout.contains(".TH tenure 1"));
    assert!(deployment.tenure(&["man", "run"]).ends_with(0).stdout.contains("TENURE_FENCE"));
    deployment.tenure(&["man", "--folder", "pages"]).ends_with(0);
    let pages = std::fs::read_dir(deployment.folder().join("pages")).unwrap().count();
    assert_eq!(
        pages,
        if cfg!(feature = "top") { 20 } else { 18 },
        "one for the tool and one for each command"
    );
}

#[test]
fn every_command_has_help_with_its_options() {
    let deployment = five_redis_nodes();
    for command in [
        "run",
        "lead",
        "acquire",
        "extend",
        "release",
        "status",
        "ls",
        "watch",
        "doctor",
        "fleet",
        "serve",
        "bench",
        "plan",
        "config",
        "completions",
        "man",
    ] {
        let done = deployment.tenure(&[command, "--help"]);
        assert!(done.ends_with(0).stdout.contains("Usage: tenure "), "{command}");
    }
    let help = deployment.tenure(&["--help"]).stdout;
    for option in
        ["--nodes", "--config", "--prefix", "--ttl", "--wait", "--label", "--json", "--quiet", "Exit codes:"]
    {
        assert!(help.contains(option), "{option}");
    }
}
