//! Clients that do not agree on the fleet, on real servers: nobody is given a lock that another
//! fleet may hold.

use std::time::Duration;

use tenure::*;
use tenure_testkit::RedisServer;
use tokio::time::{Instant, sleep};

use crate::support::*;

const MAX_TTL: Duration = secs(1);
const QUARANTINE: Duration = ms(1_100);

/// Lists a/1, b/1, c/1 and a/1, b/0, c/0: they share one node, which refuses the second one; its
/// two others are new.
#[tokio::test]
async fn other_databases_are_another_node_list() {
    let servers = servers::<3>();
    let urls = |databases: [u32; 3]| -> Vec<String> {
        servers
            .iter()
            .zip(databases)
            .map(|(server, database)| format!("{}/{database}", server.url()))
            .collect()
    };
    let first = builder(urls([1, 1, 1])).max_ttl(MAX_TTL).build().unwrap();
    let _guard = first.lock("x").acquire().await.unwrap();
    let second = builder(urls([1, 0, 0])).max_ttl(MAX_TTL).build().unwrap();
    let until = Instant::now() + QUARANTINE * 3;
    while Instant::now() < until {
        let error = second.lock("x").try_acquire().await.unwrap_err().to_string();
        assert!(error.contains("belongs to a fleet with other settings"), "{error}");
        sleep(ms(100)).await;
    }
    assert!(second.nodes().await.iter().all(|report| !report.votes));
}

#[tokio::test]
async fn three_nodes_and_five_under_one_name_are_two_fleets() {
    let servers = servers::<5>();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let three = builder(&urls[..3]).fleet("blue").max_ttl(MAX_TTL).build().unwrap();
    let _guard = three.lock("x").acquire().await.unwrap();
    let five = builder(&urls).fleet("blue").max_ttl(MAX_TTL).build().unwrap();
    let until = Instant::now() + QUARANTINE * 2;
    while Instant::now() < until {
        let error = five.lock("x").try_acquire().await.unwrap_err().to_string();
        assert!(error.contains("blue#3 there and blue#5 here"), "{error}");
        sleep(ms(100)).await;
    }
}

/// W knows only the third of A's nodes, and is refused there. That node restarts empty at any
/// moment, while W asks without end. `TENURE_TAKEOVERS` says how often; a few is enough to see that
/// the rule is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_was_refused_never_takes_over() {
    let runs: u64 = std::env::var("TENURE_TAKEOVERS").map_or(3, |runs| runs.parse().unwrap());
    for batch in 0..runs.div_ceil(4) {
        let stories = (batch * 4..runs.min(batch * 4 + 4)).map(|run| tokio::spawn(refused(run)));
        for story in stories.collect::<Vec<_>>() {
            story.await.unwrap();
        }
    }
}

/// Waits until so many of its nodes vote.
async fn until_votes(locks: &Locks, nodes: usize) {
    let start = Instant::now();
    while locks.nodes().await.iter().filter(|report| report.votes).count() != nodes {
        assert!(start.elapsed() < secs(20), "still not {nodes} vote: {:?}", locks.nodes().await);
        sleep(ms(10)).await;
    }
}

async fn refused(run: u64) {
    let mut servers = servers::<3>();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let a = builder(&urls).max_ttl(MAX_TTL).build().unwrap();
    all_vote(&a).await;
    let guard = a.lock("x").ttl(MAX_TTL).acquire().await.unwrap();
    let w = builder(&urls[2..]).max_ttl(MAX_TTL).build().unwrap();
    assert!(w.lock("x").try_acquire().await.is_err(), "refused");
    sleep(ms(run * 137 % 500)).await;
    servers[2].restart_empty();
    let (began, mut asked) = (Instant::now(), 0);
    while began.elapsed() < QUARANTINE * 4 {
        let taken = w.lock("x").try_acquire().await.unwrap_or_default();
        assert!(taken.is_none(), "run {run}: taken over after {:?}", began.elapsed());
        asked += 1;
        sleep(ms(3)).await;
    }
    assert!(asked > 10, "{asked}");
    assert!(guard.is_valid(), "A keeps its lock by the two others");
    // W has not taken the node from A either.
    until_votes(&a, 3).await;
    guard.release().await.unwrap();
}

/// A stranger that never saw the fleet finds a node just emptied: A marks the node, and both are
/// told.
#[tokio::test]
async fn a_node_that_a_stranger_took_is_disputed() {
    let mut servers = servers::<3>();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let a = builder(&urls).max_ttl(MAX_TTL).build().unwrap();
    all_vote(&a).await;
    servers[2].kill();
    until_votes(&a, 2).await;
    servers[2].restart_empty();
    let w = builder(&urls[2..]).max_ttl(MAX_TTL).build().unwrap();
    let said = |reports: &[NodeReport]| {
        reports
            .iter()
            .any(|report| report.findings.iter().any(|finding| finding.message.contains("two fleets claim")))
    };
    let end = Instant::now() + secs(20);
    while !(said(&a.nodes().await) && said(&w.nodes().await)) {
        // Whoever of the two was first: if it was A, the stranger was refused and nothing is in
        // dispute.
        if w.lock("x")
            .try_acquire()
            .await
            .is_err_and(|error| error.to_string().contains("belongs to a fleet"))
        {
            return;
        }
        assert!(Instant::now() < end, "{:?}", a.nodes().await);
        sleep(ms(50)).await;
    }
    assert!(answer_of(&a.lock("x")).await.is_some(), "the rest of the fleet goes on");
    assert!(w.lock("x").try_acquire().await.is_err());
}

/// What a benchmark does with a prefix of its own.
#[tokio::test]
async fn nothing_is_left_of_a_prefix_that_is_given_up() {
    let servers = servers::<3>();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let others = builder(&urls).build().unwrap();
    let kept = others.lock("x").acquire().await.unwrap();
    until("all have it", || keys(&servers).len() == 3).await;
    let everything = || servers.each_ref().map(|server| server.execute(&["DBSIZE"]));
    let before = everything();

    let trial = || builder(&urls).prefix("tenure:~trial:").max_ttl(MAX_TTL).restart_guard(RestartGuard::Off);
    let [one, two] = [trial(), trial()].map(|trial| trial.build().unwrap());
    for name in ["x", "y"] {
        let guard = one.lock(name).acquire().await.unwrap();
        let waiting = tokio::spawn(two.lock(name).wait(secs(20)).acquire());
        while one.inspect(name).await.unwrap().waiters != Some(1) {}
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
    for locks in [one, two] {
        locks.shutdown().await.unwrap();
    }
    assert_ne!(everything(), before);
    give_up_prefix(trial()).await.unwrap();
    assert_eq!(everything(), before);
    // Twice does no harm.
    give_up_prefix(trial()).await.unwrap();

    let refused = give_up_prefix(builder(&urls)).await.unwrap_err();
    assert!(matches!(refused, FleetError::Guarded { .. }), "{refused}");
    assert_eq!(everything(), before);
    kept.release().await.unwrap();
}
