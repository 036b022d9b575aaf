//! Who waits for whom.

use std::time::Duration;

use tenure::*;
use tokio::time::sleep;

use super::Deployment;

/// How long something may take to be seen on the nodes.
const SOON: Duration = Duration::from_secs(5);

/// The report of a lock once so many wait for it.
async fn once_waited_for(locks: &Locks, name: &str, waiters: usize) -> LockReport {
    let look = async {
        loop {
            let report = locks.inspect(name).await.unwrap();
            if report.line.len() == waiters {
                return report;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, look).await.expect("they wait")
}

pub(crate) async fn whoever_asks_is_told_who_waits_in_order(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let guard = first.lock("x").acquire().await.unwrap();
    let mut waiting = vec![];
    let locks = [
        second.lock("x").label_for("nightly"),
        first.lock("x"),
        second.lock("x").shared().label_for("a reader"),
        second.lock("x"),
    ];
    for (lock, already) in locks.into_iter().zip(0..) {
        once_waited_for(&first, "x", already).await;
        let acquire = lock.wait(Duration::from_secs(30)).acquire();
        waiting.push(tokio::spawn(async { acquire.await.unwrap().release().await.unwrap() }));
    }
    let report = once_waited_for(&first, "x", 4).await;
    assert_eq!(report.waiters, Some(4));
    let told: Vec<_> = report.line.iter().map(|waiter| (waiter.label.as_deref(), waiter.shares)).collect();
    assert_eq!(told, [(Some("nightly"), false), (None, false), (Some("a reader"), true), (None, false)]);
    let clients: Vec<_> = report.line.iter().map(|waiter| waiter.ticket.client).collect();
    assert_ne!(clients[0], clients[1]);
    assert_eq!(clients[0], clients[3]);
    assert!(report.line.is_sorted_by_key(|waiter| waiter.since));
    assert!(report.line.iter().all(|waiter| waiter.keeps.is_empty()));
    // One that gives up is told of no more, nor is one that has it.
    waiting.remove(0).abort();
    let report = once_waited_for(&first, "x", 3).await;
    assert_eq!(report.line[0].label, None);
    guard.release().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert_eq!(first.inspect("x").await.unwrap().line, []);
}
