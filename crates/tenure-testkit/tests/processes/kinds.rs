//! Readers, writers and owners in processes of their own that are killed: what they held is in the
//! way for their own term, and those who hold it with them notice nothing.
//!
//! A few rounds here; `TENURE_KINDS_ROUNDS` sets how many for a campaign.

use std::time::{Duration, Instant};

use tenure::{Lock, Locks};
use tenure_testkit::{Client, Dice, RedisServer};
use tokio::time::sleep;

use crate::heard::rounds;

const TTL_MS: u64 = 600;
const TTL: Duration = Duration::from_millis(TTL_MS);

/// The nodes keep a key this much longer than its ttl.
const GUARD_BAND: Duration = Duration::from_millis(100);

/// What a busy machine may add to one round.
const SLACK: Duration = Duration::from_secs(3);

/// What it may add to the middle of many.
const MIDDLE_SLACK: Duration = Duration::from_millis(300);

/// A client that holds this lock, and its fence.
fn start(how: &[&str], urls: &[String]) -> (Client, u64) {
    let ttl = TTL_MS.to_string();
    let words = how.iter().copied().chain([ttl.as_str()]).chain(urls.iter().map(String::as_str));
    let mut client = Client::start_talking(env!("CARGO_BIN_EXE_testclient"), words);
    let fence = client.hear().parse().unwrap();
    (client, fence)
}

/// How long after each of these was killed the next one had the lock.
async fn freed_after_kills(how: &[&str], next: &Lock, urls: &[String], dice: &mut Dice) -> Vec<Duration> {
    let mut freed = vec![];
    for _ in 0..rounds(3) {
        let (mut client, fence) = start(how, urls);
        assert!(!matches!(next.try_acquire().await, Ok(Some(_))));
        let waiting = tokio::spawn(next.clone().wait(Duration::from_secs(60)).acquire());
        sleep(Duration::from_millis(dice.below(2 * TTL_MS))).await;
        assert!(!waiting.is_finished(), "it is renewed");
        client.kill();
        let killed = Instant::now();
        let guard = waiting.await.unwrap().unwrap();
        freed.push(killed.elapsed());
        assert!(guard.fence().get() > fence);
        guard.release().await.unwrap();
    }
    freed.sort_unstable();
    let (middle, longest) = (freed[freed.len() / 2], freed[freed.len() - 1]);
    println!("{how:?}: free {middle:?} after the kill, at most {longest:?}, of {} kills", freed.len());
    assert!(longest < TTL + GUARD_BAND + SLACK, "{longest:?}");
    assert!(middle < TTL + GUARD_BAND + MIDDLE_SLACK, "{middle:?}");
    freed
}

#[tokio::test]
async fn killed_readers_and_writers_are_in_the_way_for_their_own_term() {
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let (locks, mut dice) = (Locks::connect(&urls).await.unwrap(), Dice::new(5));
    freed_after_kills(&["share", "t"], &locks.rwlock("t").write(), &urls, &mut dice).await;
    freed_after_kills(&["grab", "t"], &locks.rwlock("t").read(), &urls, &mut dice).await;
}

#[tokio::test]
async fn an_owner_whose_process_is_killed_keeps_the_lock_in_the_other_one() {
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let (locks, mut dice) = (Locks::connect(&urls).await.unwrap(), Dice::new(7));
    let rival = locks.lock("x").owner("rival");
    let mut freed = vec![];
    for round in 0..rounds(3) {
        let owner = format!("job-{round}");
        let how = ["own", "x", owner.as_str()];
        let (mut first, fence) = start(&how, &urls);
        let (mut second, joined) = start(&how, &urls);
        assert_eq!(joined, fence);
        sleep(Duration::from_millis(dice.below(TTL_MS))).await;
        first.kill();
        let killed = Instant::now();
        while killed.elapsed() < 2 * TTL {
            // A busy machine may keep the nodes from answering in time.
            assert!(!matches!(rival.try_acquire().await, Ok(Some(_))), "the other process has it");
            sleep(Duration::from_millis(30)).await;
        }
        second.say("state");
        assert_eq!(second.hear(), "Held");
        let (third, again) = start(&how, &urls);
        assert_eq!(again, fence, "the fence never changes");
        drop(third);
        let waiting = tokio::spawn(rival.clone().wait(Duration::from_secs(60)).acquire());
        second.kill();
        let killed = Instant::now();
        let guard = waiting.await.unwrap().unwrap();
        freed.push(killed.elapsed());
        assert!(guard.fence().get() > fence);
        guard.release().await.unwrap();
    }
    freed.sort_unstable();
    let (middle, longest) = (freed[freed.len() / 2], freed[freed.len() - 1]);
    println!("owners: free {middle:?} after the last kill, at most {longest:?}, of {} rounds", freed.len());
    assert!(longest < TTL + GUARD_BAND + SLACK, "{longest:?}");
}
