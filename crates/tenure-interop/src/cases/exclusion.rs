//! Who holds excludes the other, and releases nothing of the other's.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::driver::{Driver, until};
use crate::stage::{SOON, Stage};

const TTL_MS: u64 = 20_000;

/// The term of locks whose holders are killed.
const SHORT_MS: u64 = 1_500;

/// How much later than the key's end a waiter may come: the longest pause between two tries of any
/// peer, and a busy machine.
const LATE: Duration = Duration::from_millis(1_000);

/// Both ways round, and again after a hand-over. Also with a lock that expired on one side.
pub(super) fn both_ways(stage: &mut Stage<'_>) -> Result<String> {
    let (mut ours, mut theirs) = (stage.ours()?, stage.theirs()?);
    let rounds = if stage.quick { 2 } else { 10 };
    for round in 0..rounds {
        let name = format!("shared-{}", round % 2);
        theirs.must(&format!("lock {name} {TTL_MS}"))?;
        let left = stage.left();
        ensure!(left > Duration::from_millis(TTL_MS - 5_000), "their key ends in {left:?}");
        ours.must_not(&format!("try {name} {TTL_MS}"))?;
        ensure!(stage.holders() == stage.servers.len(), "our attempt changed their keys");
        theirs.must(&format!("unlock {name}"))?;
        ours.must(&format!("lock {name} {TTL_MS}"))?;
        until("all nodes have our lock", SOON, || stage.holders() == stage.servers.len())?;
        theirs.must_not(&format!("try {name} {TTL_MS}"))?;
        ensure!(stage.holders() == stage.servers.len(), "their attempt changed our keys");
        ours.must(&format!("unlock {name}"))?;
        stage.is_clean()?;
    }
    Ok(format!("{rounds} rounds"))
}

/// A release that comes too late, when the other has the lock, changes nothing.
pub(super) fn late_releases(stage: &mut Stage<'_>) -> Result<String> {
    let (mut ours, mut theirs) = (stage.ours()?, stage.theirs()?);
    theirs.must(&format!("lock late {SHORT_MS}"))?;
    ours.must(&format!("wait late {TTL_MS} 10000"))?;
    let nodes = settled(stage)?;
    // What it says about it is its own affair: some do not look.
    theirs.ask("unlock late")?;
    ensure!(stage.holders() == nodes, "they released ours");
    ours.must("extend late")?;
    ours.must("unlock late")?;
    stage.is_clean()?;
    // Ours is kept from renewing itself, as on a machine that was suspended. A mutex of Yii2 that
    // could not release a lock does not ask for it again, so this is another process.
    let mut theirs = stage.theirs()?;
    ours.must(&format!("lock late {SHORT_MS}"))?;
    signal(&ours, "STOP");
    theirs.must(&format!("wait late {TTL_MS} 10000"))?;
    let nodes = settled(stage)?;
    signal(&ours, "CONT");
    ours.must_not("unlock late")?;
    ensure!(stage.holders() == nodes, "we released theirs");
    theirs.must("unlock late")?;
    stage.is_clean()?;
    Ok("neither released the other's".to_owned())
}

/// On how many nodes the new holder has the lock: the keys of the last one have expired.
fn settled(stage: &Stage<'_>) -> Result<usize> {
    std::thread::sleep(Duration::from_millis(SHORT_MS / 5));
    let (nodes, all) = (stage.holders(), stage.servers.len());
    ensure!(nodes > all / 2, "{nodes} of {all} nodes have the lock");
    Ok(nodes)
}

/// A process that is killed holds nobody up for longer than its key lives.
pub(super) fn killed(stage: &mut Stage<'_>) -> Result<String> {
    let mut figures = vec![];
    for ours_dies in [false, true] {
        let (mut ours, mut theirs) = (stage.ours()?, stage.theirs()?);
        let (dying, waiting) = if ours_dies { (&mut ours, &mut theirs) } else { (&mut theirs, &mut ours) };
        dying.must(&format!("lock dying {SHORT_MS}"))?;
        until("all nodes have it", SOON, || stage.holders() == stage.servers.len())?;
        waiting.say(&format!("wait dying {TTL_MS} 15000"))?;
        let died = dying.kill();
        let left = stage.left();
        ensure!(left > Duration::from_millis(500), "nothing to wait for: {left:?}");
        // The guard band is a tenth of the term, and at least 100 ms.
        ensure!(left <= Duration::from_millis(SHORT_MS + SHORT_MS / 10), "the key lives for {left:?}");
        let got = waiting.succeeds(SOON)?.ended.saturating_sub(died);
        ensure!(got + Duration::from_millis(20) >= left, "after {got:?}, the key lived {left:?}");
        ensure!(got <= left + LATE, "after {got:?}, the key lived {left:?}");
        let who = if ours_dies { "they get ours" } else { "we get theirs" };
        figures.push(format!("{who} {} ms after the end of the key", got.saturating_sub(left).as_millis()));
        waiting.must("unlock dying")?;
        stage.is_clean()?;
    }
    Ok(figures.join(", "))
}

/// By `kill`, which every Debian has.
pub(super) fn signal(driver: &Driver, name: &str) {
    let pid = driver.pid().to_string();
    let _ = std::process::Command::new("kill").args(["-s", name, &pid]).status();
}
