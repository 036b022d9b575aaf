//! `bench` on people's own nodes: what it tells, and that nothing of it is left.

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tenure_testkit::{Mode, Proxy, RedisServer};

use crate::deployment::{Deployment, Done, deployments, embedded_store, five_redis_nodes, wait_until};
use crate::json::has_fields;

/// Everything that the nodes keep, of whomever.
fn kept(deployment: &Deployment) -> Vec<String> {
    let mut kept: Vec<String> = deployment
        .servers
        .iter()
        .flat_map(|server| match server.execute(&["KEYS", "*"]) {
            tenure_testkit::Value::Array(keys) => keys,
            other => panic!("{other:?}"),
        })
        .map(|key| format!("{key:?}"))
        .collect();
    kept.sort();
    kept
}

fn limit<'a>(measured: &'a Value, of: &str) -> (&'a str, &'a str) {
    (measured[of]["limit"].as_str().unwrap(), measured[of]["message"].as_str().unwrap())
}

#[test]
fn it_tells_round_trips_rates_latencies_and_what_limits_them() {
    for deployment in deployments() {
        let before = kept(&deployment);
        let begun = Instant::now();
        let done = deployment.tenure(&["bench", "--seconds", "3", "--json"]);
        let took = begun.elapsed();
        // A busy machine is slower, but not for ever.
        assert!(took < Duration::from_secs(20), "{took:?}");
        let measured: Value = serde_json::from_str(&done.ends_with(0).stdout).unwrap();
        has_fields(
            &measured,
            &[
                "nodes",
                "majority_rtt_us",
                "loads",
                "hand_over",
                "latency_limit",
                "throughput_limit",
                "took_ms",
            ],
        );
        let nodes = measured["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), deployment.nodes.split(',').count());
        for node in nodes {
            has_fields(node, &["node", "votes", "version", "persistence", "rtt_us", "error"]);
            assert!(node["rtt_us"].as_f64().unwrap() > 0.0 && node["votes"] == true, "{node}");
            assert!(node["error"].is_null(), "{node}");
        }
        let loads: Vec<(u64, u64)> = measured["loads"]
            .as_array()
            .unwrap()
            .iter()
            .map(|load| {
                has_fields(
                    load,
                    &[
                        "clients",
                        "tasks",
                        "locks_per_second",
                        "acquire_p50_us",
                        "acquire_p99_us",
                        "release_p50_us",
                        "release_p99_us",
                        "client_cpu_us",
                        "server_cpu_us",
                        "client_cores",
                        "server_cores",
                        "machine_busy",
                        "failed",
                    ],
                );
                assert!(load["locks_per_second"].as_f64().unwrap() > 0.0, "{load}");
                assert!(load["acquire_p50_us"].as_f64() <= load["acquire_p99_us"].as_f64(), "{load}");
                (load["clients"].as_u64().unwrap(), load["tasks"].as_u64().unwrap())
            })
            .collect();
        assert_eq!(loads, [(1, 1), (1, 4), (1, 16), (1, 64), (16, 1)]);
        has_fields(&measured["hand_over"], &["p50_us", "p99_us"]);
        for of in ["latency_limit", "throughput_limit"] {
            let (_, message) = limit(&measured, of);
            assert!(message.contains(|c: char| c.is_ascii_digit()), "{message}");
        }
        // What it will do is said before.
        let said = &done.stderr;
        assert!(said.contains("tenure:~bench-") && said.contains("which is removed afterwards"), "{said}");
        assert_eq!(kept(&deployment), before);
        assert!(deployment.tenure(&["ls"]).stdout.contains("no locks"));
    }
}

#[test]
fn people_get_a_table_and_sentences() {
    let deployment = five_redis_nodes();
    let done = deployment.tenure(&["bench", "--seconds", "2", "--quiet"]);
    let said = &done.ends_with(0).stdout;
    for words in [
        "LOCKS/S",
        "round trip",
        "1 task ",
        "64 tasks",
        "16 clients",
        "hand-over",
        "latency: ",
        "throughput: ",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(done.stderr, "");
}

#[test]
fn nothing_is_left_after_an_interruption() {
    for deployment in deployments() {
        let before = kept(&deployment);
        for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
            let bench = deployment.start(&["bench", "--seconds", "60", "--json"]);
            let listed = || deployment.tenure(&["ls", "--json"]).stdout.contains("~bench-");
            wait_until(listed);
            bench.signal(signal);
            let begun = Instant::now();
            let done = bench.done();
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
            let failure: Value = serde_json::from_str(&done.stdout).unwrap();
            assert_eq!(failure["error"], "interrupted", "{failure}");
            // A shell knows an interrupt by the signal itself.
            assert!(done.code == Some(code) || signal == Signal::SIGINT && done.code.is_none(), "{done:?}");
            assert_eq!(kept(&deployment), before);
        }
    }
}

#[test]
fn a_node_that_is_down_or_hangs_is_named_and_does_not_hold_it_up() {
    let mut deployment = five_redis_nodes();
    deployment.servers[4].kill();
    deployment.servers[3].pause();
    let done = deployment.tenure(&["bench", "--seconds", "3", "--json"]);
    let measured: Value = serde_json::from_str(&done.ends_with(0).stdout).unwrap();
    let dead = &measured["nodes"][4];
    assert!(dead["rtt_us"].is_null() && dead["error"] == "unreachable: connection refused", "{measured}");
    assert!(measured["took_ms"].as_u64().unwrap() < 25_000, "{measured}");
    assert!(measured["loads"].as_array().unwrap().len() >= 4, "{measured}");
    deployment.servers[3].resume();
    deployment.servers[2].kill();
    deployment.servers[1].kill();
    let done = deployment.tenure(&["bench", "--seconds", "1"]);
    assert!(done.ends_with(69).stderr.contains("cannot vote"), "{done:?}");
    assert!(!done.stderr.contains("not all of the benchmark's keys"), "{done:?}");
}

/// An address where something answers that is not Redis.
fn not_redis() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    format!("redis://127.0.0.1:{port}/0")
}

#[test]
fn a_node_that_is_not_redis_is_said_to_be_none() {
    let servers: [RedisServer; 2] = RedisServer::start_many(&[]);
    let other = not_redis();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).chain([other.clone()]).collect();
    let mut deployment = Deployment::of(servers.into(), |_| urls.join(","));
    let done = deployment.tenure(&["bench", "--seconds", "1"]);
    let reason = "not the Redis protocol: the reply starts with \"HTTP/1.1 400 Bad\"";
    let line = format!("{other}  does not vote ({reason})\n");
    assert!(done.ends_with(0).stdout.contains(&line), "{done:?}");
    // As many as leave no majority are a matter of settings, which no retry helps.
    deployment.nodes = [&urls[0], &not_redis(), &not_redis()].map(String::as_str).join(",");
    let done = deployment.tenure(&["bench", "--seconds", "1", "--quiet"]);
    let message = format!("{reason}. Fix the configuration: retrying does not help\n");
    assert!(done.ends_with(64).stderr.ends_with(&message), "{done:?}");
}

#[test]
fn nodes_that_go_down_meanwhile_are_named() {
    let mut deployment = five_redis_nodes();
    let bench = deployment.start(&["bench", "--seconds", "10", "--quiet"]);
    let listed = || deployment.tenure(&["ls", "--json"]).stdout.contains("~bench-");
    wait_until(listed);
    deployment.servers.iter_mut().for_each(RedisServer::kill);
    let done = bench.done();
    assert!(done.ends_with(69).stderr.contains("connection refused"), "{done:?}");
}

#[test]
fn nodes_that_go_down_at_the_end_are_named_too() {
    let mut deployment = five_redis_nodes();
    let bench = deployment.start(&["bench", "--seconds", "5", "--quiet"]);
    // The last load or the hand-over has begun, and takes until the fifth second at least.
    std::thread::sleep(Duration::from_millis(4_300));
    deployment.servers.iter_mut().for_each(RedisServer::kill);
    let done = bench.done();
    assert!(done.ends_with(69).stderr.contains("connection refused"), "{done:?}");
}

#[test]
fn the_round_trip_to_the_node_that_makes_the_majority_limits_nodes_far_away() {
    let servers: [RedisServer; 3] = RedisServer::start_many(&[]);
    let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start_forgetful(server.port())).collect();
    proxies.iter().for_each(|proxy| proxy.set_both(Mode::Delay(Duration::from_millis(20))));
    let nodes: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let deployment = Deployment::of(servers.into(), |_| nodes.join(","));
    let done = deployment.tenure(&["bench", "--seconds", "4", "--json"]);
    let measured: Value = serde_json::from_str(&done.ends_with(0).stdout).unwrap();
    let (word, message) = limit(&measured, "latency_limit");
    assert!(word == "round_trip" && message.contains("the second-nearest node"), "{message}");
    assert!((39_000.0..60_000.0).contains(&measured["majority_rtt_us"].as_f64().unwrap()), "{measured}");
}

#[test]
fn one_node_and_nine_are_measured_without_a_home() {
    for count in [1, 9] {
        let servers: Vec<RedisServer> = (0..count).map(|_| RedisServer::start(&[])).collect();
        let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
        let deployment = Deployment::of(servers, |_| urls.join(","));
        let mut command = deployment.command(&["bench", "--seconds", "1", "--json"]);
        let done = Done::of(command.env_remove("HOME").output().unwrap());
        let measured: Value = serde_json::from_str(&done.ends_with(0).stdout).unwrap();
        assert_eq!(measured["nodes"].as_array().unwrap().len(), count);
        assert_eq!(kept(&deployment), Vec::<String>::new());
    }
}

#[test]
fn locks_of_the_users_names_are_not_touched() {
    let deployment = embedded_store();
    let _holder = deployment.hold(&["benchmark"]);
    deployment.tenure(&["bench", "--seconds", "1"]).ends_with(0);
    deployment.tenure(&["status", "benchmark", "--exit-code"]).ends_with(75);
    let list = deployment.tenure(&["ls", "--json"]).stdout;
    assert_eq!(list.lines().count(), 1, "{list}");
}
