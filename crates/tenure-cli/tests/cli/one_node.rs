//! One node of five is dead or hangs: no command waits for it, and what it owes is said in one
//! line.

use std::time::{Duration, Instant};

use tenure_testkit::{Mode, Proxy, RedisServer};

use crate::deployment::{Deployment, Done, five_redis_nodes, token, wait_until};

/// What a node that does not answer may add to a command: less than the second that it takes to
/// find out that it hangs.
const ADDED_MAX: Duration = Duration::from_millis(950);

/// Runs it three times and tells the shortest time: what a busy machine adds is not what is
/// measured.
fn shortest(mut run: impl FnMut()) -> Duration {
    let times = (0..3).map(|_| {
        let begun = Instant::now();
        run();
        begun.elapsed()
    });
    times.min().unwrap()
}

/// How long `release` and `extend` of a lock take, and `status` and `ls`.
fn times(deployment: &Deployment) -> [(&'static str, Duration); 4] {
    let acquired = || {
        let (lease, code) = deployment.json(&["acquire", "x", "--json"]);
        assert_eq!(code, Some(0), "{lease}");
        token(&lease).to_owned()
    };
    // Only the release is measured, so the token is there before.
    let mut released = vec![];
    for _ in 0..3 {
        let token = acquired();
        let begun = Instant::now();
        deployment.tenure(&["release", "x", "--token", &token]).ends_with(0);
        released.push(begun.elapsed());
    }
    let token = acquired();
    let extend = shortest(|| {
        deployment.tenure(&["extend", "x", "--token", &token]).ends_with(0);
    });
    let status = shortest(|| {
        deployment.tenure(&["status", "x"]).ends_with(0);
    });
    let ls = shortest(|| {
        deployment.tenure(&["ls"]).ends_with(0);
    });
    deployment.tenure(&["release", "x", "--token", &token]).ends_with(0);
    [("release", released.into_iter().min().unwrap()), ("extend", extend), ("status", status), ("ls", ls)]
}

fn none_is_slower(deployment: &Deployment, healthy: &[(&'static str, Duration)], what: &str) {
    for ((command, before), (_, after)) in healthy.iter().zip(times(deployment)) {
        assert!(after < *before + ADDED_MAX, "{command}, {what}: {before:?} -> {after:?}");
    }
}

#[test]
fn no_command_waits_for_a_node_that_is_dead_or_hangs() {
    let mut deployment = five_redis_nodes();
    let healthy = times(&deployment);
    deployment.servers[4].pause();
    none_is_slower(&deployment, &healthy, "hung");
    deployment.servers[4].resume();
    deployment.servers[4].kill();
    none_is_slower(&deployment, &healthy, "dead");
}

/// What a release says about a node, without what differs from run to run.
fn told(deployment: &Deployment, done: &Done) -> String {
    let port = format!(":{}/", deployment.servers[4].port());
    let text = done.stderr.replace(&port, ":PORT4/");
    let (before, seconds) = text.split_once(" within ").unwrap_or((&text, " s"));
    assert!(seconds.trim_end().ends_with(" s") && seconds.len() < 8, "a rounded time: {text}");
    before.trim_end().to_owned()
}

#[test]
fn a_release_counts_all_nodes_that_answer_and_says_what_the_others_owe_in_one_line() {
    let mut deployment = five_redis_nodes();
    let release = |deployment: &Deployment| {
        let (lease, _) = deployment.json(&["acquire", "x", "--json"]);
        deployment.tenure(&["release", "x", "--token", token(&lease)])
    };
    let healthy = release(&deployment);
    assert_eq!(healthy.ends_with(0).stderr, "tenure: released \"x\" on 5 of 5 nodes\n");
    let (lease, _) = deployment.json(&["acquire", "x", "--json"]);
    deployment.servers[4].pause();
    let hung = deployment.tenure(&["release", "x", "--token", token(&lease)]);
    insta::assert_snapshot!(told(&deployment, &hung), @r#"tenure: released "x" on 4 of 5 nodes; redis://127.0.0.1:PORT4/0 did not answer: the lock expires there"#);
    let (result, _) = {
        let (lease, _) = deployment.json(&["acquire", "x", "--json"]);
        deployment.json(&["release", "x", "--token", token(&lease), "--json", "--quiet"])
    };
    let granted = result["votes"].as_array().unwrap().iter().filter(|vote| vote["vote"] == "granted").count();
    assert_eq!(granted, 4, "{result}");
    deployment.servers[4].resume();
    let (lease, _) = deployment.json(&["acquire", "x", "--json"]);
    deployment.servers[4].kill();
    let dead = deployment.tenure(&["release", "x", "--token", token(&lease)]);
    insta::assert_snapshot!(told(&deployment, &dead), @r#"tenure: released "x" on 4 of 5 nodes; redis://127.0.0.1:PORT4/0 did not answer: the lock expires there"#);
}

#[test]
fn a_command_under_a_lock_ends_at_once_when_a_node_hangs_meanwhile() {
    let deployment = five_redis_nodes();
    let pid = deployment.servers[4].pid().to_string();
    let run = |script: &str| {
        let begun = Instant::now();
        deployment.tenure(&["run", "x", "--", "sh", "-c", script]).ends_with(0);
        begun.elapsed()
    };
    let healthy = (0..3).map(|_| run("true")).min().unwrap();
    let stop = format!("kill -STOP {pid}");
    let hung = (0..3).map(|_| {
        let took = run(&stop);
        deployment.servers[4].resume();
        took
    });
    let hung = hung.min().unwrap();
    assert!(hung < healthy + ADDED_MAX, "{healthy:?} -> {hung:?}");
}

/// It connects when a majority has long confirmed, and is told all the same.
#[test]
fn a_release_reaches_a_node_that_is_farther_than_the_others() {
    let servers: Vec<RedisServer> = (0..5).map(|_| RedisServer::start(&[])).collect();
    let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.port())).collect();
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let deployment = Deployment::of(servers, |_| urls.join(","));
    wait_until(|| deployment.tenure(&["run", "warm-up", "--", "true"]).code == Some(0));
    let (lease, _) = deployment.json(&["acquire", "x", "--json"]);
    // There and back takes 10 ms, and 70 ms to the last one.
    for (proxy, delay_ms) in proxies.iter().zip([5, 5, 5, 5, 35]) {
        proxy.set_both(Mode::Delay(Duration::from_millis(delay_ms)));
    }
    let done = deployment.tenure(&["release", "x", "--token", token(&lease)]);
    assert!(!done.ends_with(0).stderr.contains("did not answer"), "{done:?}");
    assert!(deployment.servers.iter().all(|server| server.get("tenure:x").is_none()), "{done:?}");
}
