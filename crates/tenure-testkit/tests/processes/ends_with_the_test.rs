//! What the kit starts ends with whoever started it.

use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tenure_testkit::RedisServer;

fn runs(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok()
}

fn ends(pid: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while runs(pid) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    !runs(pid)
}

#[test]
fn a_server_ends_when_it_is_dropped() {
    let server = RedisServer::start(&[]);
    let pid = server.pid();
    assert!(runs(pid));
    drop(server);
    assert!(ends(pid));
}

#[test]
fn a_server_ends_when_the_test_panics() {
    let mut pid = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let server = RedisServer::start(&[]);
        pid = server.pid();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert!(ends(pid));
}

/// Killed with SIGKILL, a process can clean up nothing itself. Its servers are even halted.
#[test]
fn servers_end_when_the_test_is_killed() {
    let mut test =
        Command::new(env!("CARGO_BIN_EXE_testclient")).arg("serve").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(test.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pids: Vec<u32> = line.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| runs(*pid)));
    assert!(Command::new("kill").args(["-STOP", &pids[0].to_string()]).status().unwrap().success());
    test.kill().unwrap();
    test.wait().unwrap();
    assert!(pids.iter().all(|pid| ends(*pid)));
}

#[test]
fn a_server_keeps_its_port_and_its_data_over_a_restart_and_loses_it_when_asked() {
    let mut server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (port, pid) = (server.port(), server.pid());
    server.execute(&["SET", "key", "value"]);
    server.restart();
    assert_eq!((server.port(), server.get("key").as_deref()), (port, Some("value")));
    assert_ne!(server.pid(), pid);
    server.restart_empty();
    assert_eq!(server.keys(), [""; 0]);
}
