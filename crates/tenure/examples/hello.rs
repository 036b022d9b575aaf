//! The smallest program with a lock: `cargo run --release -p tenure --example hello`.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::Duration;

use tenure::{Locks, MemoryNode};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Five nodes in memory stand in for five servers: the lock is decided by a majority of them.
    let locks = Locks::builder().nodes(["a", "b", "c", "d", "e"].map(MemoryNode::new)).build()?;

    let guard = locks.lock("hello").ttl(Duration::from_secs(30)).acquire().await?;
    println!("I hold the lock for {:?}; votes: {}", guard.valid_for(), guard.votes());

    if locks.lock("hello").try_acquire().await?.is_none() {
        println!("nobody else can have it meanwhile");
    }
    guard.release().await?;
    println!("released");
    locks.shutdown().await?;
    Ok(())
}
