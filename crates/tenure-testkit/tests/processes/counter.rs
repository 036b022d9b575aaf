//! Sixteen processes and one number that only the lock protects.

use std::path::Path;
use std::time::{Duration, Instant};

use tenure_testkit::{Client, RedisServer};

use crate::turn;

const PROCESSES: u32 = 16;

/// How often each process counts. `TENURE_INCREMENTS` makes it a longer run.
fn increments() -> u32 {
    std::env::var("TENURE_INCREMENTS").map_or(250, |number| number.parse().unwrap())
}

fn number_in(file: &Path) -> u32 {
    // It is written while somebody reads it.
    std::fs::read_to_string(file).unwrap().parse().unwrap_or(0)
}

/// Runs the processes to their end, tells the number now and then to whoever is `beside`, and
/// returns the number they leave.
fn count_to_the_end(urls: &[String], mut beside: impl FnMut(u32)) -> u32 {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counter");
    std::fs::write(&file, "0").unwrap();
    let (path, times) = (file.display().to_string(), increments().to_string());
    let arguments = ["increment", &path, &times].into_iter().chain(urls.iter().map(String::as_str));
    let start = Instant::now();
    let mut clients: Vec<Client> =
        (0..PROCESSES).map(|_| Client::start(env!("CARGO_BIN_EXE_testclient"), arguments.clone())).collect();
    while !clients.iter_mut().all(Client::has_ended) {
        beside(number_in(&file));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(clients.iter_mut().all(Client::succeeds), "every client did its work");
    println!("{PROCESSES} processes, {times} increments each, in {:?}", start.elapsed());
    number_in(&file)
}

#[test]
fn sixteen_processes_lose_no_increment() {
    let _turn = turn();
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let urls = servers.each_ref().map(RedisServer::url);
    assert_eq!(count_to_the_end(&urls, |_| ()), PROCESSES * increments());
}

/// One node writes every grant to disk before it answers, and is killed and started again after
/// every 500 increments.
#[test]
fn sixteen_processes_lose_no_increment_while_a_node_is_killed_again_and_again() {
    let _turn = turn();
    let steady: [RedisServer; 4] = RedisServer::start_many(&[]);
    let mut victim = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let urls: Vec<String> = steady.iter().chain([&victim]).map(RedisServer::url).collect();
    let mut kills = 0;
    let number = count_to_the_end(&urls, |number| {
        if number > (kills + 1) * 500 {
            victim.restart();
            kills += 1;
        }
    });
    println!("killed {kills} times");
    assert!(kills >= 3);
    assert_eq!(number, PROCESSES * increments());
}
