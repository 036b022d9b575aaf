//! The clocks of clients do not matter.

use std::process::Stdio;

use tenure_testkit::{MovedClock, RedisServer};

/// Clients whose own clocks are wrong by hours take turns. Only the nodes' clocks matter.
#[test]
fn clients_hours_apart_take_turns_and_their_fences_grow() {
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let (mut fences, hour_ms) = (vec![], 3_600_000);
    let offsets = [-2 * hour_ms, -300_000, 4_000, 600_000, 0];
    let clocks = offsets.map(|offset_ms| {
        let clock = MovedClock::new();
        clock.step(offset_ms);
        clock
    });
    for round in 0..4 {
        for (clock, offset_ms) in clocks.iter().zip(offsets) {
            let mut client = std::process::Command::new(env!("CARGO_BIN_EXE_testclient"));
            client.arg("fence").args(servers.iter().map(RedisServer::url)).envs(clock.environment());
            let output = client.stderr(Stdio::inherit()).output().unwrap();
            assert!(output.status.success(), "round {round}: the client at {offset_ms} ms got no lock");
            let words = String::from_utf8(output.stdout).unwrap();
            let (fence, shown_ms) = words.trim().split_once(' ').unwrap();
            fences.push(fence.parse::<u64>().unwrap());
            let off_ms = shown_ms.parse::<i64>().unwrap() - wall_clock_ms();
            assert!((off_ms - offset_ms).abs() < 5_000, "its clock is off by {off_ms} ms, not {offset_ms}");
        }
    }
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    let ahead_ms = i64::try_from(fences[19] / 1_000).unwrap() - wall_clock_ms();
    assert!(ahead_ms.abs() < 2_000, "fences stay close to the nodes' clocks: {ahead_ms} ms");
}

fn wall_clock_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}
