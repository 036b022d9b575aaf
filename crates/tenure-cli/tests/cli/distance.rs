//! Nodes in other regions: nobody has to set anything.

use std::process::{Child, Stdio};

use tenure_testkit::{Mode, Proxy, RedisServer};

use crate::deployment::Deployment;

/// How long a command takes to a node and back, in milliseconds.
const ROUND_TRIPS_MS: [u64; 6] = [1, 12, 35, 48, 90, 180];

/// How many terms of three seconds the command lasts, unless somebody has time for more.
fn terms() -> u32 {
    std::env::var("TENURE_DISTANCE_TERMS").map_or(3, |terms| terms.parse().unwrap())
}

#[test]
fn a_command_keeps_its_lock_however_far_the_nodes_are() {
    let servers: [RedisServer; 3] = RedisServer::start_many(&[]);
    let lasts = format!("{}", terms() * 3);
    let far_away = |round_trip_ms: u64| -> Vec<Proxy> {
        let far = |server: &RedisServer| {
            let proxy = Proxy::start_forgetful(server.port());
            proxy.set_both(Mode::Delay(std::time::Duration::from_micros(round_trip_ms * 500)));
            proxy
        };
        servers.iter().map(far).collect()
    };
    let ways = ROUND_TRIPS_MS.map(far_away);
    let runs = ROUND_TRIPS_MS.iter().zip(&ways).map(|(round_trip_ms, proxies)| {
        let nodes: Vec<String> = proxies.iter().map(Proxy::url).collect();
        let deployment = Deployment::of(vec![], |_| nodes.join(","));
        let (prefix, wait) = (format!("{round_trip_ms}:"), "10s");
        let arguments =
            ["run", "x", "--prefix", &prefix, "--ttl", "3s", "--wait", wait, "--", "sleep", &lasts];
        let mut command = deployment.command(&arguments);
        let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        (*round_trip_ms, run, deployment)
    });
    let runs: Vec<(u64, Child, Deployment)> = runs.collect();
    let mut problems = vec![];
    for (round_trip_ms, run, _deployment) in runs {
        let done = run.wait_with_output().unwrap();
        if done.status.code() != Some(0) {
            problems.push((
                round_trip_ms,
                done.status.code(),
                String::from_utf8_lossy(&done.stderr).into_owned(),
            ));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}
