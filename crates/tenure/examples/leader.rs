//! Three candidates, one leader, and a leader that leaves: `cargo run -p tenure --example leader`.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::Duration;

use tenure::{Locks, MemoryNode, Term};
use tokio::sync::mpsc;

/// What the leader alone does, for as long as it leads. When its term is lost, this is cancelled at
/// the next `.await`, before another candidate can be elected.
async fn schedule(name: &str, term: Term, elected: mpsc::Sender<String>) -> std::convert::Infallible {
    // The epoch grows with every election. Pass it on with every write, so that the resource can
    // refuse what an earlier leader sent late.
    println!("{name} leads, epoch {}", term.epoch());
    let _ = elected.send(name.to_owned()).await;
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await; // schedule something
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Each candidate would be a program on a machine of its own, with `Locks::connect`.
    let nodes = ["a", "b", "c"].map(MemoryNode::new);
    let (elected, mut elections) = mpsc::channel(1);
    let mut candidates = std::collections::BTreeMap::new();
    for name in ["eu-1", "eu-2", "eu-3"] {
        let locks = Locks::builder().nodes(&nodes).build()?;
        // A leader that dies without a word is replaced after the ttl, so it should be short.
        let office = locks.leader("scheduler").ttl(Duration::from_secs(5)).label(name);
        let elected = elected.clone();
        let candidate = office.run(move |term| schedule(name, term, elected.clone()));
        candidates.insert(name.to_owned(), tokio::spawn(candidate));
    }

    // Dropping the future of a candidate resigns, so the next one is elected at once.
    while let Some(leader) = elections.recv().await {
        if let Some(candidate) = candidates.remove(&leader) {
            candidate.abort();
            println!("{leader} leaves");
        }
        if candidates.is_empty() {
            break;
        }
    }
    println!("nobody is left");
    Ok(())
}
