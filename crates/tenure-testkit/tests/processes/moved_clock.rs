//! The wall clock of one process, moved while it runs.

use std::ops::RangeInclusive;
use std::process::Command;
use std::time::{Duration, SystemTime};

use tenure_testkit::{MovedClock, RedisServer};

const MINUTE_MS: i64 = 60_000;

fn real_us() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_micros()).unwrap()
}

fn time_us(server: &RedisServer) -> i64 {
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query(&mut server.connection()).unwrap();
    seconds * 1_000_000 + micros
}

/// How far what was shown is ahead, in milliseconds: between the least and the most it can be, as
/// the right time at the moment of reading is known only to lie between before and after. One more
/// either side for what is cut off.
fn ahead_ms(shown_us: impl FnOnce() -> i64) -> RangeInclusive<i64> {
    let before_us = real_us();
    let shown_us = shown_us();
    let after_us = real_us();
    let range = (shown_us - after_us) / 1_000 - 1..=(shown_us - before_us) / 1_000 + 1;
    println!("ahead by {range:?} ms");
    range
}

#[test]
fn the_time_of_a_server_follows_its_clock() {
    let clock = MovedClock::new();
    let server = RedisServer::start_with_clock(&clock, &[]);
    let other = RedisServer::start(&[]);
    assert!(ahead_ms(|| time_us(&server)).contains(&0));
    clock.step(MINUTE_MS);
    assert_eq!(clock.offset_ms(), MINUTE_MS);
    assert!(ahead_ms(|| time_us(&server)).contains(&MINUTE_MS));
    clock.step(-2 * MINUTE_MS);
    assert!(ahead_ms(|| time_us(&server)).contains(&-MINUTE_MS));
    clock.correct();
    assert_eq!(clock.offset_ms(), 0);
    assert!(ahead_ms(|| time_us(&server)).contains(&0));
    clock.step(MINUTE_MS);
    assert!(ahead_ms(|| time_us(&other)).contains(&0), "the clock of another server is left alone");
}

#[test]
fn a_fast_clock_gains_eight_percent() {
    let clock = MovedClock::new();
    let server = RedisServer::start_with_clock(&clock, &[]);
    let before_us = real_us();
    clock.set_rate(1.08);
    let begun_us = real_us();
    std::thread::sleep(Duration::from_secs(1));
    let asked_us = real_us();
    let ahead = ahead_ms(|| time_us(&server));
    let answered_us = real_us();
    let gained = |passed_us: i64| passed_us * 8 / 100 / 1_000;
    assert!(*ahead.end() >= gained(asked_us - begun_us));
    assert!(*ahead.start() <= gained(answered_us - before_us));
    let offset_ms = clock.offset_ms();
    clock.set_rate(1.0);
    let kept_ms = offset_ms..=gained(real_us() - before_us);
    assert!(kept_ms.contains(&clock.offset_ms()), "a change of rate is not a step");
}

#[test]
fn a_frozen_clock_stands_still_until_it_is_corrected() {
    let clock = MovedClock::new();
    let server = RedisServer::start_with_clock(&clock, &[]);
    clock.freeze();
    server.execute(&["SET", "key", "value", "PX", "100"]);
    let frozen_us = time_us(&server);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(time_us(&server), frozen_us);
    assert!(clock.offset_ms() <= -300);
    assert_eq!(server.get("key").as_deref(), Some("value"), "no time has passed for the key");
    clock.correct();
    assert!(ahead_ms(|| time_us(&server)).contains(&0));
    assert_eq!(server.get("key"), None);
}

#[test]
fn a_key_is_gone_when_the_clock_steps_over_its_end() {
    let clock = MovedClock::new();
    let server = RedisServer::start_with_clock(&clock, &[]);
    server.execute(&["SET", "steady", "value", "PX", "120000"]);
    server.execute(&["SET", "key", "value", "PX", "1000"]);
    clock.step(MINUTE_MS);
    assert_eq!(server.keys(), ["steady"]);
    assert_eq!(server.get("key"), None);
}

#[test]
fn a_server_keeps_its_clock_over_a_restart() {
    let clock = MovedClock::new();
    let mut server = RedisServer::start_with_clock(&clock, &[]);
    clock.step(MINUTE_MS);
    server.restart();
    assert!(ahead_ms(|| time_us(&server)).contains(&MINUTE_MS));
    drop(clock);
    server.restart_empty();
    assert!(ahead_ms(|| time_us(&server)).contains(&MINUTE_MS), "also when the test has let go of it");
}

#[test]
fn a_server_with_a_moved_clock_stops_when_it_is_asked_to() {
    let clock = MovedClock::new();
    let server = RedisServer::start_with_clock(&clock, &["--appendonly", "yes"]);
    clock.step(-MINUTE_MS);
    server.execute(&["SET", "key", "value"]);
    // No answer comes back: the server closes the connection.
    assert!(redis::cmd("SHUTDOWN").query::<()>(&mut server.connection()).is_err());
    let log = std::fs::read_to_string(server.folder().join("server.log")).unwrap();
    assert!(log.contains("ready to exit, bye bye"), "{log}");
}

#[test]
fn any_other_process_can_have_a_moved_clock() {
    let clock = MovedClock::new();
    let date_us = || {
        let output = Command::new("date").arg("+%s%N").envs(clock.environment()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().parse::<i64>().unwrap() / 1_000
    };
    assert!(ahead_ms(date_us).contains(&0));
    clock.step(MINUTE_MS);
    assert!(ahead_ms(date_us).contains(&MINUTE_MS));
    clock.step(-2 * MINUTE_MS);
    assert!(ahead_ms(date_us).contains(&-MINUTE_MS));
}
