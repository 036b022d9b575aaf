//! Several names at once, wanted by workers in several processes while nodes are killed.

use std::time::{Duration, Instant};

use tenure_testkit::{Client, RedisServer};

use crate::heard::{Heard, Process, longest_without, now_us, seconds, take_turns, tell, urls};

const PROCESSES: u64 = 4;
const WORKERS_EACH: usize = 8;
const WORKERS: usize = 32;

/// What a worker waits at most on a busy machine. Measured on a quiet one: half a second.
const LONGEST: Duration = Duration::from_secs(20);

/// Starts 32 workers in four processes.
fn start_sets(urls: &[String], heard: &Heard) -> Vec<(Process, Client)> {
    let start = |seed: u64| heard.start(&["sets", &WORKERS_EACH.to_string(), "5", &seed.to_string()], urls);
    (1..=PROCESSES).map(start).collect()
}

/// Nobody has what another one has, and every worker is served again and again.
fn check(what: &str, heard: &Heard, begun_us: u64, ended_us: u64) -> usize {
    let holds = heard.holds();
    let count = tell(what, &holds, Duration::from_micros(ended_us - begun_us));
    let longest = longest_without(&holds, WORKERS, begun_us, ended_us);
    println!("no worker of {WORKERS} had nothing for longer than {longest:?}");
    assert_eq!(take_turns(&holds), 8, "all names");
    assert!(longest < LONGEST, "{longest:?}");
    count
}

#[test]
fn sets_that_overlap_are_all_served_in_turn() {
    let _turn = crate::turn();
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let (heard, begun_us) = (Heard::default(), now_us());
    let clients = start_sets(&urls(&servers), &heard);
    std::thread::sleep(seconds(4));
    let ended_us = now_us();
    clients.into_iter().for_each(|client| heard.kill(client));
    let count = check("sets", &heard, begun_us, ended_us);
    assert!(count > 40, "{count} holds");
}

#[test]
fn sets_that_overlap_are_served_while_two_nodes_of_five_are_killed_in_turn() {
    let _turn = crate::turn();
    let mut servers: [RedisServer; 5] =
        RedisServer::start_many(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (heard, took) = (Heard::default(), seconds(6));
    let (begun, begun_us) = (Instant::now(), now_us());
    let clients = start_sets(&urls(&servers), &heard);
    std::thread::sleep(Duration::from_secs(1));
    let mut first = 0;
    while begun.elapsed() < took {
        let pair = [first % 5, (first + 1) % 5];
        pair.into_iter().for_each(|node| servers[node].kill());
        std::thread::sleep(Duration::from_millis(700));
        pair.into_iter().for_each(|node| servers[node].restart());
        std::thread::sleep(Duration::from_millis(700));
        first += 2;
    }
    let ended_us = now_us();
    clients.into_iter().for_each(|client| heard.kill(client));
    let count = check("sets, two of five nodes killed in turn", &heard, begun_us, ended_us);
    assert!(count > 20, "{count} holds");
}
