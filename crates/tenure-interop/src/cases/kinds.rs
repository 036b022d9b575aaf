//! A key of another kind under the name: an error at once, never a wait, never a deletion.

use anyhow::{Result, ensure};
use tenure_testkit::Value;

use crate::driver::until;
use crate::peer::Kind;
use crate::stage::{SOON, Stage};

const TTL_MS: u64 = 10_000;

pub(super) fn are_refused(stage: &mut Stage<'_>) -> Result<String> {
    let mut theirs = stage.theirs()?;
    // The kind that the peer does not have.
    let (other, word, kind) = match stage.peer.kind {
        Kind::String | Kind::Digest => ("kind=hash", "plain", "string"),
        Kind::Hash => ("kind=string", "reentrant", "hash"),
    };
    let mut ours = stage.ours_with(&[other, "prefix="])?;
    theirs.must(&format!("lock other {TTL_MS}"))?;
    let key = stage.key()?;
    // Without a digest the key is the name.
    let name = key.as_str();
    let refused = ours.must_not(&format!("wait {name} {TTL_MS} 20000"))?;
    let took = refused.ended.saturating_sub(refused.begun);
    ensure!(took.as_secs() < 5, "it waited for {took:?}");
    let says = refused.error();
    ensure!(says.contains(name) && says.contains(word), "it says {says:?}");
    ensure!(stage.holders() == stage.servers.len(), "their keys are gone");
    theirs.must("unlock other")?;
    stage.is_clean()?;
    // And the other way round: whatever the peer says, our lock stays.
    ours.must(&format!("lock {name} {TTL_MS}"))?;
    until("all nodes have it", SOON, || stage.holders() == stage.servers.len())?;
    theirs.must_not(&format!("try other {TTL_MS}"))?;
    let types: Vec<Value> = stage.servers.iter().map(|server| server.execute(&["TYPE", &key])).collect();
    let is_ours =
        |found: &Value| matches!(found, Value::SimpleString(found) if found != kind && found != "none");
    ensure!(types.iter().all(is_ours), "their attempt changed our keys: {types:?}");
    ours.must(&format!("unlock {name}"))?;
    stage.is_clean()?;
    Ok(format!("refused in {} ms: {says}", took.as_millis()))
}
