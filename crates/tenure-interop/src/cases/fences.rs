//! Fences of our acquisitions grow over any number of a peer's, which have none.

use anyhow::{Result, ensure};

use crate::stage::Stage;

const TTL_MS: u64 = 10_000;

pub(super) fn grow(stage: &mut Stage<'_>) -> Result<String> {
    let rounds = if stage.quick { 3 } else { 20 };
    let (mut ours, mut other, mut theirs) = (stage.ours()?, stage.ours()?, stage.theirs()?);
    let (mut last, majority) = (0, stage.servers.len() / 2 + 1);
    for round in 0..rounds {
        for _ in 0..round % 4 {
            theirs.must(&format!("lock fenced {TTL_MS}"))?;
            theirs.must("unlock fenced")?;
        }
        // A peer whose key is gone from a majority, as after an eviction, is a holder of nothing.
        let stays = round % 3 == 2 && stage.servers.len() > 1;
        if stays {
            theirs.must(&format!("lock fenced {TTL_MS}"))?;
            for server in stage.servers.iter().take(majority) {
                server.execute(&["DEL", "fenced"]);
            }
        }
        let ours = if round % 2 == 0 { &mut ours } else { &mut other };
        let fence = ours.must(&format!("lock fenced {TTL_MS}"))?.number("fence")?;
        ensure!(fence > last, "fence {fence} after {last}");
        last = fence;
        ours.must("unlock fenced")?;
        if stays {
            ensure!(stage.holders() == stage.servers.len() - majority, "we changed their keys");
            theirs.ask("unlock fenced")?;
        }
        stage.is_clean()?;
    }
    Ok(format!("{rounds} fences, each greater than the last"))
}
