//! A worker that ends in good order on SIGTERM or Ctrl-C: `cargo run -p tenure --example
//! graceful_shutdown`.
//!
//! A lock that is not released blocks everybody else until its ttl is over. So the worker stops
//! between two steps of its work, releases, and waits until the nodes have confirmed it.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::Duration;

use tenure::{Guard, Locks, MemoryNode};
use tokio::sync::watch;
use tokio::time::sleep;

/// The example ends by itself: a real worker would wait for the signal alone.
const ENDS_AFTER: Duration = Duration::from_secs(2);

/// Works until it is asked to stop, and never leaves a step half done.
async fn work(guard: &Guard, mut stop: watch::Receiver<bool>) -> Result<u32, &'static str> {
    let mut steps = 0;
    while !*stop.borrow_and_update() {
        // The lock can be lost at any time: renewals fail when no majority of nodes answers.
        if !guard.is_valid() {
            return Err("the lock is lost: somebody else may work now");
        }
        sleep(Duration::from_millis(50)).await; // one step
        steps += 1;
    }
    Ok(steps)
}

#[cfg(unix)]
async fn asked_to_stop() -> std::io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    println!("working; send SIGTERM to {}", std::process::id());
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "Ctrl-C",
        () = sleep(ENDS_AFTER) => "nobody, in time",
    })
}

#[cfg(not(unix))]
async fn asked_to_stop() -> std::io::Result<&'static str> {
    println!("working; press Ctrl-C");
    Ok(tokio::select! {
        _ = tokio::signal::ctrl_c() => "Ctrl-C",
        () = sleep(ENDS_AFTER) => "nobody, in time",
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In memory, so that nothing has to be installed.
    let node = MemoryNode::new("a");
    let locks = Locks::builder().node(&node).build()?;
    let (stop, stopping) = watch::channel(false);
    let guard = locks.lock("worker").ttl(Duration::from_secs(10)).acquire().await?;
    let worker = tokio::spawn(async move {
        let steps = work(&guard, stopping).await;
        // Also after an error: releasing a lost lock does no harm.
        (steps, guard.release().await)
    });

    println!("stopped by {}", asked_to_stop().await?);
    // First stop the work, then release, then end the manager. The other way round the nodes would
    // give the lock away while this program still works.
    stop.send(true)?;
    let (steps, released) = worker.await?;
    println!("{} whole steps, released: {}", steps?, released.is_ok());

    // Waits for what dropped guards and cancelled calls left behind, five seconds at most.
    locks.shutdown().await?;
    let next = Locks::builder().node(&node).build()?;
    println!("free for the next: {}", next.lock("worker").try_acquire().await?.is_some());
    Ok(())
}
