//! Nobody starves: a peer that asks again and again beside a line of Tenure's waiters.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::cases::exclusion::signal;
use crate::driver::{Driver, now, until};
use crate::stage::{SOON, Stage};

const TTL_MS: u64 = 10_000;

/// How long a node sets a lock aside for the waiter whose turn it is.
const RESERVATION: Duration = Duration::from_millis(200);

/// A busy machine.
const SLACK: Duration = Duration::from_millis(150);

/// Eight waiters, and a peer with the pauses that it has by default.
pub(super) fn turns(stage: &mut Stage<'_>) -> Result<String> {
    let seconds = if stage.quick { 6 } else { 20 };
    let mut theirs = stage.theirs()?;
    let mut ours = (0..8).map(|_| stage.ours()).collect::<Result<Vec<Driver>>>()?;
    for driver in ours.iter_mut().chain([&mut theirs]) {
        driver.say(&format!("turns line {TTL_MS} 3 {}", seconds * 1000))?;
    }
    let limit = Duration::from_secs(seconds) + Duration::from_secs(60);
    let their_turns = theirs.succeeds(limit)?.number("done")?;
    let mut our_turns = vec![];
    for driver in &mut ours {
        our_turns.push(driver.succeeds(limit)?.number("done")?);
    }
    let (least, most) = (our_turns.iter().min().copied(), our_turns.iter().max().copied());
    let (least, most) = (least.unwrap_or_default(), most.unwrap_or_default());
    ensure!(their_turns > 0, "the peer had no turn, ours {our_turns:?}");
    ensure!(10 * least >= 8 * most, "ours had {our_turns:?} turns, the peer {their_turns}");
    Ok(format!("in {seconds} s each of ours {least} to {most} turns, the peer {their_turns}"))
}

/// A waiter that does not come when it is its turn keeps a peer out for the time of a reservation.
pub(super) fn reservations_end(stage: &mut Stage<'_>) -> Result<String> {
    let (mut holder, mut waiter, mut theirs) = (stage.ours()?, stage.ours()?, stage.theirs()?);
    // Its connections are there, and its scripts loaded.
    theirs.must(&format!("lock aside {TTL_MS}"))?;
    theirs.must("unlock aside")?;
    let (rounds, mut times) = (if stage.quick { 3 } else { 10 }, vec![]);
    for _ in 0..rounds {
        holder.must(&format!("lock aside {TTL_MS}"))?;
        let key = stage.key()?;
        waiter.say(&format!("wait aside {TTL_MS} 30000"))?;
        until("it is in line", SOON, || stage.in_line(&key) == 1)?;
        signal(&waiter, "STOP");
        let released = holder.must("unlock aside")?;
        let mut tries = 0;
        let got = loop {
            let answer = theirs.ask(&format!("try aside {TTL_MS}"))?;
            if answer.ok {
                break answer;
            }
            tries += 1;
            ensure!(now() < released.ended + SOON, "the peer never gets it");
            std::thread::sleep(Duration::from_millis(5));
        };
        let held_off = got.ended.saturating_sub(released.begun);
        let is_late = held_off + Duration::from_millis(20) > RESERVATION;
        ensure!(tries > 0 || is_late, "it was not set aside: the peer had it after {held_off:?}");
        times.push(held_off);
        signal(&waiter, "CONT");
        theirs.must("unlock aside")?;
        waiter.succeeds(SOON)?;
        waiter.must("unlock aside")?;
        stage.is_clean()?;
    }
    times.sort_unstable();
    // A single one may have waited for a processor.
    let (middle, longest) = (times[times.len() / 2], times[times.len() - 1]);
    ensure!(middle < RESERVATION + SLACK, "the peer was held off for {times:?}");
    Ok(format!("held off for {} ms, at most {}, of {rounds}", middle.as_millis(), longest.as_millis()))
}
