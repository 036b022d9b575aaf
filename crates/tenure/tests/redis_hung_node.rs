//! A node that is stopped for ten seconds under load: nothing is left behind, and no memory is
//! eaten meanwhile. In a test program of its own, because it looks at the memory of the whole
//! process.

#[path = "support/servers.rs"]
mod support;

use std::time::Instant;

use support::*;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("every process has memory");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[tokio::test]
async fn a_node_stopped_for_ten_seconds_leaves_nothing_behind_and_costs_no_memory() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    for number in 0..200 {
        locks.lock(format!("warm{number}")).acquire().await.unwrap().release().await.unwrap();
    }
    let before = resident_kib();
    servers[0].pause();
    let (start, mut cycles, mut slowest) = (Instant::now(), 0_u64, ms(0));
    while start.elapsed() < secs(10) || cycles <= 1_000 {
        assert!(start.elapsed() < secs(120), "only {cycles} cycles");
        // A thousand at full speed first, then on and on until the time is over.
        if cycles > 1_000 {
            tokio::time::sleep(ms(1)).await;
        }
        let began = Instant::now();
        locks.lock(format!("x{cycles}")).acquire().await.unwrap().release().await.unwrap();
        slowest = slowest.max(began.elapsed());
        cycles += 1;
    }
    let grown = resident_kib().saturating_sub(before);
    println!(
        "{cycles} cycles while it stood still, the slowest {slowest:?}; the process grew by {grown} KiB"
    );
    assert!(grown < 16 * 1024, "{grown} KiB");
    servers[0].resume();
    let took = until("no key is left", || keys(&servers).is_empty()).await;
    println!("clean {took:?} after it woke up");
    assert!(took < secs(2) + allowance(&servers), "{took:?}");
    locks.shutdown().await.unwrap();
    let guard = locks.lock("x").acquire().await;
    assert!(guard.is_err(), "shut down");
}
