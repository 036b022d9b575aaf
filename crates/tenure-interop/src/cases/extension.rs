//! A peer that extends a lock it has lost may set the missing keys again. That makes no second
//! holder beside us.

use anyhow::{Result, ensure};

use crate::driver::until;
use crate::stage::{SOON, Stage};

const TTL_MS: u64 = 20_000;

/// The term that the peer lets run out.
const SHORT_MS: u64 = 1_200;

pub(super) fn makes_no_second_holder(stage: &mut Stage<'_>) -> Result<String> {
    let both = ["recreate=true", "recreate=false"];
    for recreates in both.into_iter().take(if stage.quick { 1 } else { 2 }) {
        let (mut ours, mut theirs) = (stage.ours()?, stage.theirs_with(&[recreates, "timeout_ms=200"])?);
        // Ours is on all nodes.
        theirs.must(&format!("lock extended {SHORT_MS}"))?;
        theirs.must("extend extended")?;
        ours.must(&format!("wait extended {TTL_MS} 10000"))?;
        until("all have ours", SOON, || stage.holders() == stage.servers.len())?;
        theirs.must_not("extend extended")?;
        ensure!(stage.holders() == stage.servers.len(), "our keys are gone");
        ours.must("extend extended")?;
        ours.must("unlock extended")?;
        stage.is_clean()?;
        // Ours is on a bare majority, and the others are free for theirs.
        let (nodes, majority) = (stage.servers.len(), stage.servers.len() / 2 + 1);
        theirs.must(&format!("lock extended {SHORT_MS}"))?;
        for server in stage.servers.iter_mut().skip(majority) {
            server.kill();
        }
        ours.must(&format!("wait extended {TTL_MS} 10000"))?;
        for server in stage.servers.iter_mut().skip(majority) {
            server.restart();
        }
        theirs.must_not("extend extended")?;
        ours.must("extend extended")?;
        ours.must("unlock extended")?;
        theirs.ask("unlock extended")?;
        stage.is_clean()?;
        // With nothing in its way it holds the lock again, and we are kept out.
        theirs.must(&format!("lock extended {SHORT_MS}"))?;
        until("it has expired", SOON, || stage.holders() == 0)?;
        let again = theirs.ask("extend extended")?;
        ensure!(again.ok == (recreates == "recreate=true"), "it says {} with {recreates}", again.ok);
        let excluded = !ours.ask(&format!("try extended {TTL_MS}"))?.ok;
        ensure!(excluded == again.ok, "they hold it: {}, we are kept out: {excluded}", again.ok);
        theirs.ask("unlock extended")?;
        ours.ask("unlock extended")?;
        until("all are free", SOON, || stage.holders() == 0)?;
        ensure!(nodes > 1, "one node has no majority to lose");
    }
    Ok("an extension never got past our lock, with and without keys set again".to_owned())
}
