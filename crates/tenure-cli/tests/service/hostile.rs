//! Requests that nobody should send: the service does not panic, does not grow, and others are
//! served as before.

mod plain;
mod resets;
mod target;

use std::cell::Cell;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use self::target::Target;
use crate::campaign::{Extent, campaign};

/// Below this the machine's scheduler decides how long a call takes.
const FLOOR: Duration = Duration::from_millis(5);

/// What the allocator may keep after a first wave.
const GROWTH_MAX_KIB: u64 = 16 * 1_024;

#[test]
fn requests_that_are_no_requests_hold_nobody_up_and_leave_nothing_behind() {
    campaign("hostile requests", plain::run);
}

#[test]
fn streams_that_are_reset_and_frames_that_are_none_hold_nobody_up_and_leave_nothing_behind() {
    campaign("hostile streams", resets::run);
}

/// Waves of an attack while somebody else works. The first one shows how much the service takes
/// when it is busy, and after the last it must not have more.
async fn waves(
    extent: Extent,
    target: &Target,
    mut other: impl AsyncFnMut() -> Duration,
    mut wave: impl AsyncFnMut() -> u64,
) -> String {
    alongside(&mut other, sleep(Duration::from_millis(200))).await;
    let quiet = extent.of(Duration::from_secs(1), Duration::from_secs(5));
    let mut unloaded = alongside(&mut other, sleep(quiet)).await.1;
    let (mut requests, mut loaded, mut first) = (0, vec![], None);
    for _ in 0..extent.of(2, 4) {
        let (sent, took) = alongside(&mut other, wave()).await;
        requests += sent;
        loaded.extend(took);
        // Whoever is silent meanwhile would be hung up on.
        alongside(&mut other, target.is_calm()).await;
        first.get_or_insert_with(|| target.size());
    }
    let (first, last) = (first.unwrap_or_default(), target.size());
    assert!(
        last.descriptors <= first.descriptors && last.memory_kib <= first.memory_kib + GROWTH_MAX_KIB,
        "it grew from {first:?} to {last:?}"
    );
    // What else the machine does changes meanwhile.
    unloaded.extend(alongside(&mut other, sleep(quiet)).await.1);
    let (before, during) = (p99(unloaded), p99(loaded));
    let limit = before.max(FLOOR) * extent.of(20, 2);
    assert!(during <= limit, "others took {during:?}, and {before:?} without it");
    target.has_said_nothing();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    format!(
        "{requests} requests; p99 of others {:.2} ms, {:.2} ms without; memory {} KiB after the first wave, {} KiB after \
         the last; descriptors {} and {}",
        ms(during),
        ms(before),
        first.memory_kib,
        last.memory_kib,
        first.descriptors,
        last.descriptors,
    )
}

/// What comes of this, and how long calls of somebody else took in the meantime.
async fn alongside<T>(
    other: &mut impl AsyncFnMut() -> Duration,
    work: impl Future<Output = T>,
) -> (T, Vec<Duration>) {
    let (over, mut took) = (Cell::new(false), vec![]);
    let work = async {
        let done = work.await;
        over.set(true);
        done
    };
    let calls = async {
        while !over.get() {
            took.push(other().await);
            sleep(Duration::from_millis(2)).await;
        }
    };
    let (done, ()) = tokio::join!(work, calls);
    (done, took)
}

fn p99(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[(took.len() * 99).div_ceil(100) - 1]
}

/// A call until it is done, with its status and body: on a busy machine nodes may be late, and a
/// release that is repeated then finds that it was done. It costs the time that it takes.
async fn until_done(mut call: impl AsyncFnMut() -> (u16, Value)) -> Value {
    let mut is_repeated = false;
    loop {
        match call().await {
            (200, body) => return body,
            (410, body) if is_repeated => return body,
            (status, body) => assert_eq!(status, 503, "{body}"),
        }
        is_repeated = true;
    }
}

/// How long something takes.
async fn timed(work: impl Future<Output = ()>) -> Duration {
    let begun = Instant::now();
    work.await;
    begun.elapsed()
}
