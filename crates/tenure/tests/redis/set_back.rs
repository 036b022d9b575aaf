//! Clocks of nodes that were ahead and are set right: fences go on from the future, and no lock
//! that has one can be had until then. That has a cause of its own, with the time and a remedy; it
//! is neither contention nor an outage.

use std::time::Duration;

use tenure::*;
use tenure_testkit::{MovedClock, RedisServer};

use crate::support::*;

const HOUR: Duration = secs(3_600);

fn servers_with(clock: &MovedClock, moved: usize) -> Vec<RedisServer> {
    let server =
        |node| if node < moved { RedisServer::start_with_clock(clock, &[]) } else { RedisServer::start(&[]) };
    (0..3).map(server).collect()
}

/// What is told of a lock that cannot be had before its fences are passed: about how long that
/// takes.
fn told(error: &AcquireError) -> Duration {
    match error {
        AcquireError::ClocksSetBack { retry_after, .. } => *retry_after,
        other => panic!("{other}"),
    }
}

fn found(nodes: &[NodeReport]) -> usize {
    let is_ahead = |finding: &&Finding| finding.kind == FindingKind::FencesAhead;
    nodes.iter().filter(|node| node.findings.iter().any(|finding| is_ahead(&finding))).count()
}

#[tokio::test]
async fn a_fleet_that_was_begun_with_clocks_two_hours_ahead_says_so_when_they_are_set_right() {
    let clock = MovedClock::new();
    clock.step(2 * 3_600_000);
    let servers = servers_with(&clock, 3);
    let before = connect(&servers).await;
    all_vote(&before).await;
    before.lock("x").acquire().await.unwrap().release().await.unwrap();
    before.shutdown().await.unwrap();
    clock.correct();
    let locks = connect(&servers).await;
    for name in ["x", "never used"] {
        let error = locks.lock(name).try_acquire().await.unwrap_err();
        let left = told(&error);
        assert!(left > 2 * HOUR - secs(120) && left < 2 * HOUR + secs(120), "{name}: {left:?}");
        let text = error.to_string();
        assert!(text.contains("set back") && text.contains("docs/how-to/run-nodes.md"), "{text}");
    }
    assert_eq!(found(&locks.nodes().await), 3);
    // Exclusion does not rest on those clocks.
    let guard = locks.lock("x").unfenced().acquire().await.unwrap();
    assert!(answer_of(&locks.lock("x").unfenced()).await.is_none());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_name_whose_fences_are_an_hour_ahead_on_two_nodes_says_so_and_others_go_on() {
    let clock = MovedClock::new();
    let servers = servers_with(&clock, 2);
    // Nobody watches the clocks, and fences begin half a second after a node is first used.
    let client = || {
        let locks = builder(servers.iter().map(RedisServer::url));
        locks.restart_guard(RestartGuard::Off).max_ttl(secs(1)).build().unwrap()
    };
    let before = client();
    all_vote(&before).await;
    before.lock("other").acquire().await.unwrap().release().await.unwrap();
    clock.step(3_600_000);
    until_acquired(&before, "x").await;
    before.shutdown().await.unwrap();
    clock.correct();
    let locks = client();
    assert_eq!(
        found(&locks.nodes().await),
        2,
        "found without having asked for the lock: {:?}",
        locks.nodes().await
    );
    let left = told(&locks.lock("x").try_acquire().await.unwrap_err());
    assert!(left > HOUR - secs(120) && left < HOUR + secs(120), "{left:?}");
    locks.lock("other").acquire().await.unwrap().release().await.unwrap();
    // A wait that is shorter ends with the same cause.
    let error = locks.lock("x").wait(ms(50)).acquire().await.unwrap_err();
    assert!(told(&error) > HOUR - secs(120), "{error}");
}

async fn until_acquired(locks: &Locks, name: &str) {
    let lock = locks.lock(name).wait(secs(10));
    lock.acquire().await.unwrap().release().await.unwrap();
}
