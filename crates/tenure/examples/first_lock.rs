//! The smallest program with a lock: `cargo run -p tenure --example first_lock`.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::Duration;

use tenure::{Locks, MemoryNode};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Three nodes in memory stand in for three servers, so that nothing has to be installed. With
    // servers it is `Locks::connect(["redis://lock-1", "redis://lock-2", "redis://lock-3"]).await?`.
    let locks = Locks::builder().nodes(["a", "b", "c"].map(MemoryNode::new)).build()?;

    // Renewed for as long as the guard lives. The ttl only matters if this program dies.
    let guard = locks.lock("hello").ttl(Duration::from_secs(30)).acquire().await?;
    println!("I hold the lock; votes: {}", guard.votes());

    // `try_acquire` asks once. `None` means that the lock is held; an error, that nobody knows.
    if locks.lock("hello").try_acquire().await?.is_none() {
        println!("nobody else can get it");
    }

    // Dropping the guard releases the lock too. `release` also says whether the nodes confirmed it.
    guard.release().await?;
    println!("released");
    locks.shutdown().await?;
    Ok(())
}
