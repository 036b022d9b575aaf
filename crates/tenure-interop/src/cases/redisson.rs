//! What only Redisson has: it is woken and wakes, it counts, and it renews.

use std::time::Duration;

use anyhow::{Result, ensure};
use tenure::{Kind, LockState};
use tenure_testkit::Value;

use crate::driver::{Driver, until};
use crate::stage::{SOON, Stage};

const TTL_MS: u64 = 30_000;

/// By itself our first waiter asks after 250 ms at the earliest. Woken, it is there in a fifth of
/// that.
const WOKEN: Duration = Duration::from_millis(50);

/// Who waits is woken by a release of the other, in both directions.
pub(super) fn wake_ups(stage: &mut Stage<'_>) -> Result<String> {
    let (mut ours, mut theirs) = (stage.ours()?, stage.theirs()?);
    let rounds = if stage.quick { 15 } else { 100 };
    let (mut us, mut them) = (vec![], vec![]);
    for round in 0..rounds + 2 {
        let us_now = woken(stage, &mut theirs, &mut ours, false)?;
        let them_now = woken(stage, &mut ours, &mut theirs, true)?;
        // The first turns of a virtual machine are not what is measured.
        if round >= 2 {
            us.push(us_now);
            them.push(them_now);
        }
    }
    us.sort_unstable();
    them.sort_unstable();
    let (us, them) = (us[us.len() / 2], them[them.len() / 2]);
    let seen = format!(
        "median of {rounds}: they wake us in {:.2} ms, we wake them in {:.2} ms",
        us.as_secs_f64() * 1e3,
        them.as_secs_f64() * 1e3
    );
    ensure!(us <= WOKEN && them <= WOKEN, "{seen}; expected at most {WOKEN:?}");
    Ok(seen)
}

/// How long it takes from the beginning of a release until the other has the lock.
fn woken(
    stage: &Stage<'_>,
    holder: &mut Driver,
    waiter: &mut Driver,
    redisson_waits: bool,
) -> Result<Duration> {
    holder.must(&format!("lock wake {TTL_MS}"))?;
    waiter.say(&format!("wait wake {TTL_MS} 20000"))?;
    until("it waits", SOON, || if redisson_waits { listens(stage) } else { stage.in_line("wake") > 0 })?;
    // It has asked once more since it listens.
    std::thread::sleep(Duration::from_millis(20));
    let released = holder.must("unlock wake")?;
    let got = waiter.succeeds(SOON)?;
    waiter.must("unlock wake")?;
    stage.is_clean()?;
    Ok(got.ended.saturating_sub(released.begun))
}

/// Whether Redisson listens for the release of the lock.
fn listens(stage: &Stage<'_>) -> bool {
    let subscribers = |server: &tenure_testkit::RedisServer| match server.execute(&[
        "PUBSUB",
        "NUMSUB",
        "redisson_lock__channel:{wake}",
    ]) {
        Value::Array(parts) => matches!(parts.as_slice(), [_, Value::Int(1..)]),
        _ => false,
    };
    stage.servers.iter().any(subscribers)
}

/// Each side holds as often as it has acquired, the other is kept out until the last release, and
/// both sides tell the same numbers.
pub(super) fn counts(stage: &mut Stage<'_>) -> Result<String> {
    let (mut ours, mut theirs) = (stage.ours_with(&["owner=job"])?, stage.theirs()?);
    let mut again = stage.ours_with(&["owner=job"])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let locks = runtime.block_on(async { stage.locks() })?;
    // A RedLock has another client, and so another owner, on each node: no majority has the same.
    let is_one_owner = stage.servers.len() == 1;
    let sees = |holds: u64| -> Result<()> {
        let report = runtime.block_on(locks.inspect("count"))?;
        let is_right = match &report.state {
            LockState::Held { kind: Kind::Reentrant, sharers, .. } => is_one_owner && *sharers == Some(holds),
            LockState::Disputed => !is_one_owner,
            _ => false,
        };
        ensure!(is_right, "they hold it {holds} times, and we see {:?}", report.state);
        Ok(())
    };
    for holds in 1..=3 {
        theirs.must(&format!("lock count {TTL_MS}"))?;
        sees(holds)?;
    }
    for holds in (0..3).rev() {
        ours.must_not(&format!("try count {TTL_MS}"))?;
        theirs.must("unlock count")?;
        if holds > 0 {
            sees(holds)?;
        }
    }
    ours.must(&format!("lock count {TTL_MS}"))?;
    again.must(&format!("lock count {TTL_MS}"))?;
    ours.must(&format!("lock count {TTL_MS}"))?;
    let count = || {
        let count = |server: &tenure_testkit::RedisServer| match server.execute(&["HGET", "count", "job"]) {
            Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).parse().unwrap_or(0),
            _ => 0,
        };
        stage.servers.iter().map(count).min().unwrap_or(0)
    };
    until("three holds everywhere", SOON, || count() == 3)?;
    for driver in [0, 1, 0] {
        theirs.must_not(&format!("try count {TTL_MS}"))?;
        if driver == 0 { &mut ours } else { &mut again }.must("unlock count")?;
    }
    theirs.must(&format!("lock count {TTL_MS}"))?;
    theirs.must("unlock count")?;
    stage.is_clean()?;
    Ok("three holds of each, released one by one".to_owned())
}

/// Tenure with the id that Redisson gives to a thread: their counts go on from each other, and the
/// lock is free when the last hold of either is gone.
pub(super) fn one_owner(stage: &mut Stage<'_>) -> Result<String> {
    let mut theirs = stage.theirs()?;
    let id = theirs.must("id")?.text("id")?.to_owned();
    let (mut ours, mut stranger) = (stage.ours_with(&[&format!("owner={id}")])?, stage.ours()?);
    for (ours_first, ours_last) in [(true, true), (true, false), (false, true), (false, false)] {
        for is_ours in [ours_first, !ours_first] {
            if is_ours { &mut ours } else { &mut theirs }.must(&format!("lock joined {TTL_MS}"))?;
        }
        for (left, is_ours) in [(2, !ours_last), (1, ours_last)] {
            let holds = theirs.must("holds joined")?.number("count")?;
            ensure!(holds == left, "{left} holds, and it counts {holds}");
            stranger.must_not(&format!("try joined {TTL_MS}"))?;
            if is_ours { &mut ours } else { &mut theirs }.must("unlock joined")?;
        }
        stage.is_clean()?;
    }
    Ok("two holds of one owner, either first and either last".to_owned())
}

/// A lock without a term is renewed by Redisson's watchdog, and we wait for as long as that takes.
pub(super) fn watchdog(stage: &mut Stage<'_>) -> Result<String> {
    // By default it renews every 10 s of 30 s.
    let watchdog_ms = if stage.quick { 1_500 } else { 30_000 };
    let mut theirs = stage.theirs_with(&[&format!("watchdog_ms={watchdog_ms}")])?;
    let mut ours = stage.ours()?;
    theirs.must("lock dog 0")?;
    let held = Duration::from_millis(watchdog_ms * 3 / 2);
    ours.say(&format!("wait dog {TTL_MS} 120000"))?;
    std::thread::sleep(held);
    ensure!(stage.holders() == stage.servers.len(), "its watchdog did not renew the lock");
    ensure!(stage.left() > Duration::from_millis(watchdog_ms / 4), "its watchdog did not renew the lock");
    let released = theirs.must("unlock dog")?;
    let got = ours.succeeds(SOON)?;
    ensure!(got.ended > released.begun, "we had it before they released it");
    ours.must("unlock dog")?;
    stage.is_clean()?;
    Ok(format!(
        "held for {:.1} s with a watchdog of {:.1} s",
        held.as_secs_f64(),
        Duration::from_millis(watchdog_ms).as_secs_f64()
    ))
}
