//! A client in a process of its own: `testclient increment FILE TIMES URL...`.
//!
//! Adds one to the number in FILE, TIMES times, each time under the lock "counter". Reading and writing are two
//! steps, so an increment is lost whenever two clients hold the lock at once.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test client that cannot go on has to fail")]

use std::path::Path;
use std::time::Duration;

use tenure::{Locks, Retry};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, file, times, urls @ ..] = arguments.as_slice() else { panic!("increment FILE TIMES URL...") };
    assert_eq!(verb, "increment");
    let locks = Locks::connect(urls).await.unwrap();
    increment(&locks, Path::new(file), times.parse().unwrap()).await;
    locks.shutdown().await.unwrap();
}

async fn increment(locks: &Locks, file: &Path, times: u32) {
    let retry = Retry::default().delay(Duration::from_millis(2)).jitter(Duration::from_millis(30));
    // Sixteen of these on two cores keep a server waiting for its turn longer than a node timeout should be.
    let lock = locks.lock("counter").ttl(Duration::from_secs(10)).node_timeout(Duration::from_secs(1));
    let lock = lock.retry(retry).wait(Duration::from_secs(120));
    for _ in 0..times {
        let guard = lock.acquire().await.unwrap();
        let number: u32 = std::fs::read_to_string(file).unwrap().parse().unwrap();
        std::fs::write(file, (number + 1).to_string()).unwrap();
        assert!(guard.is_valid(), "the step took longer than the lock is valid");
        guard.release().await.unwrap();
    }
}
