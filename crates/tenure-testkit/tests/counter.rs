//! Sixteen processes and one number that only the lock protects.
#![allow(clippy::print_stdout, reason = "how long it took is worth knowing")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_testkit::{Client, RedisServer};

const PROCESSES: usize = 16;
const TIMES: usize = 1_000;

/// Sixteen processes are enough for two cores: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Runs the processes to their end and returns the number they leave.
fn count_to_the_end(urls: &[String]) -> u32 {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("counter");
    std::fs::write(&file, "0").expect("a file");
    let (path, times) = (file.display().to_string(), TIMES.to_string());
    let arguments = ["increment", &path, &times].into_iter().chain(urls.iter().map(String::as_str));
    let start = Instant::now();
    let mut clients: Vec<Client> =
        (0..PROCESSES).map(|_| Client::start(env!("CARGO_BIN_EXE_testclient"), arguments.clone())).collect();
    assert!(clients.iter_mut().all(Client::succeeds), "every client did its work");
    println!("{PROCESSES} processes, {TIMES} increments each, in {:?}", start.elapsed());
    std::fs::read_to_string(&file).expect("the file").parse().expect("a number")
}

#[test]
fn sixteen_processes_lose_no_increment() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    assert_eq!(count_to_the_end(&servers.each_ref().map(RedisServer::url)), 16_000);
}

/// One node writes every grant to disk before it answers, and is killed and started again every second.
#[test]
fn sixteen_processes_lose_no_increment_while_a_node_is_killed_every_second() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let steady: [RedisServer; 4] = RedisServer::start_many(&[]);
    let mut victim = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let urls: Vec<String> = steady.iter().chain([&victim]).map(RedisServer::url).collect();
    let (done, kills) = (AtomicBool::new(false), AtomicU32::new(0));
    let number = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                std::thread::sleep(Duration::from_secs(1));
                victim.restart();
                kills.fetch_add(1, Relaxed);
            }
        });
        // Also when it panics, or the scope would wait for ever.
        let number = std::panic::catch_unwind(|| count_to_the_end(&urls));
        done.store(true, Relaxed);
        number.expect("the clients count to the end")
    });
    println!("killed {} times", kills.load(Relaxed));
    assert!(kills.load(Relaxed) >= 3);
    assert_eq!(number, 16_000);
}
