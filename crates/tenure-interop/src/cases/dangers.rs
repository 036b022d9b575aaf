//! A node that is restarted empty counts at once for a peer. That makes two holders, which no
//! client can prevent that does not know of it; Tenure does not become one of them.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::driver::{Driver, until};
use crate::stage::{SOON, Stage};

const TTL_MS: u64 = 8_000;

/// A node loses its memory under a peer's lock.
pub(super) fn emptied_node(stage: &mut Stage<'_>) -> Result<String> {
    let (mut ours, mut first, mut second) = (stage.ours()?, patient(stage)?, patient(stage)?);
    // Everybody knows all nodes.
    for driver in [&mut ours, &mut first, &mut second] {
        driver.must(&format!("lock emptied {TTL_MS}"))?;
        driver.must("unlock emptied")?;
        stage.is_clean()?;
    }
    let nodes = stage.servers.len();
    // A bare majority has the lock.
    for server in stage.servers.iter_mut().skip(nodes / 2 + 1) {
        server.kill();
    }
    first.must(&format!("wait emptied {TTL_MS} 10000"))?;
    let begun = Instant::now();
    for server in stage.servers.iter_mut().skip(nodes / 2 + 1) {
        server.restart();
    }
    stage.servers[0].restart_empty();
    let mut tries = 0;
    while begun.elapsed() < Duration::from_millis(TTL_MS / 4) {
        ours.must_not(&format!("try emptied {TTL_MS}"))?;
        tries += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    // The first one's term is not over, and its key is still there where it was not lost.
    let mut second = patient(stage)?;
    second.must(&format!("wait emptied {TTL_MS} 3000"))?;
    ensure!(begun.elapsed() < Duration::from_millis(TTL_MS), "the first one's term is over");
    // Nor does Tenure become a third.
    while begun.elapsed() < Duration::from_millis(TTL_MS / 2 + 1_000) {
        ours.must_not(&format!("try emptied {TTL_MS}"))?;
        tries += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(format!("two of theirs hold it at once; Tenure was refused {tries} times"))
}

/// A node loses its memory under a lock of Tenure's that only a bare majority has: a peer counts it
/// at once, and gets a lock that Tenure still holds.
pub(super) fn emptied_under_ours(stage: &mut Stage<'_>) -> Result<String> {
    let (mut ours, mut theirs) = (stage.ours()?, patient(stage)?);
    for driver in [&mut ours, &mut theirs] {
        driver.must(&format!("lock emptied {TTL_MS}"))?;
        driver.must("unlock emptied")?;
        stage.is_clean()?;
    }
    stage.servers[2].kill();
    ours.must(&format!("wait emptied {TTL_MS} 10000"))?;
    until("both have it", SOON, || stage.servers[..2].iter().all(|server| !Stage::keys(server).is_empty()))?;
    stage.servers[1].kill();
    stage.servers[2].restart();
    stage.servers[1].restart_empty();
    let got = theirs.ask(&format!("wait emptied {TTL_MS} 1500"))?;
    let still_held = ours.must("state emptied")?;
    Ok(if got.ok && still_held.is_true("valid") {
        "both hold it, as docs/reference/interop.md says".to_owned()
    } else {
        format!("the peer got it: {}; ours was still valid: {}", got.ok, still_held.is_true("valid"))
    })
}

/// A process of the peer that does not wait long for nodes that are gone.
fn patient(stage: &Stage<'_>) -> Result<Driver> {
    if stage.servers.len() == 1 { stage.theirs() } else { stage.theirs_with(&["timeout_ms=200"]) }
}
