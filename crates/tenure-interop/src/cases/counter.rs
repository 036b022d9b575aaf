//! A counter in a file, which everybody increments under the lock in two steps: an increment is
//! lost whenever two hold the lock at once.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::driver::Driver;
use crate::peer::{Kind, PEERS, Peer};
use crate::stage::Stage;

const TTL_MS: u64 = 10_000;

/// Those who wait behind all others wait this long at most.
const LIMIT: Duration = Duration::from_secs(600);

/// What happens to two of five nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    Killed,
    Hung,
}

/// Four processes of the peer and four of Tenure.
pub(super) fn exact(stage: &mut Stage<'_>) -> Result<String> {
    count(stage, &[stage.peer], Fault::Nothing)
}

/// The same, and two nodes are killed while they count.
pub(super) fn exact_with_nodes_killed(stage: &mut Stage<'_>) -> Result<String> {
    count(stage, &[stage.peer], Fault::Killed)
}

/// The same, and two nodes stop answering while they count.
pub(super) fn exact_with_nodes_hung(stage: &mut Stage<'_>) -> Result<String> {
    count(stage, &[stage.peer], Fault::Hung)
}

/// All peers that share a string at the name, and Tenure.
pub(super) fn exact_together(stage: &mut Stage<'_>) -> Result<String> {
    let shares = |peer: &&Peer| peer.kind == Kind::String && stage.installed.command(peer).is_ok();
    let peers: Vec<&Peer> = PEERS.iter().filter(shares).collect();
    ensure!(peers.len() > 1, "there is only one");
    count(stage, &peers, Fault::Nothing)
}

fn count(stage: &mut Stage<'_>, peers: &[&Peer], fault: Fault) -> Result<String> {
    let (processes, times) = if stage.quick { (2, 25) } else { (4, 500) };
    let file = stage.folder.path().join("counter");
    fs::write(&file, "0")?;
    // How long they wait for a node that does not answer is their own setting. It is small here:
    // each of their turns takes that long, twice for each such node.
    let settings: &[&str] = if fault == Fault::Nothing { &[] } else { &["timeout_ms=20"] };
    let mut drivers: Vec<(String, Driver)> = vec![];
    for _ in 0..processes {
        for peer in peers {
            drivers.push((peer.name.to_owned(), stage.driver_of(peer, settings)?));
        }
        drivers.push(("Tenure".to_owned(), stage.ours()?));
    }
    let begun = Instant::now();
    for (_, driver) in &mut drivers {
        driver.say(&format!("count counter {TTL_MS} {} {times}", file.display()))?;
    }
    std::thread::sleep(Duration::from_millis(100));
    for server in &mut stage.servers.iter_mut().skip(3) {
        match fault {
            Fault::Nothing => {}
            Fault::Killed => server.kill(),
            Fault::Hung => server.pause(),
        }
    }
    let mut done = 0;
    for (who, driver) in &mut drivers {
        let answer = driver.succeeds(LIMIT).with_context(|| format!("a process of {who}"))?;
        done += answer.number("done")?;
    }
    let took = begun.elapsed();
    let counted: u64 = fs::read_to_string(&file)?.parse()?;
    ensure!(counted == done, "{done} increments, and the counter says {counted}");
    if fault == Fault::Nothing {
        stage.is_clean()?;
    }
    Ok(format!("{done} increments by {} processes in {:.1} s", drivers.len(), took.as_secs_f64()))
}
