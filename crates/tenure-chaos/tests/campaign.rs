//! Short runs of the chaos campaign with a fixed seed, and one of its clients alone. `cargo xtask
//! chaos` has long runs.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]
#![allow(clippy::print_stdout, reason = "what came of a run is worth knowing")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_chaos::{Kind, Options, Outcome, run};
use tenure_testkit::{Client, RedisServer, Value};

/// Its first twelve seconds have faults of many kinds.
const SEED: u64 = 15;

/// A run needs both cores of a small machine: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn outcome_of(mut options: Options) -> Outcome {
    let _turn = turn();
    options.contender = env!("CARGO_BIN_EXE_contender").into();
    options.seed = SEED;
    let outcome = run(&options);
    println!("{outcome}");
    outcome
}

#[test]
fn while_everything_goes_wrong_nobody_shares_a_lock_and_afterwards_all_are_given_again() {
    let outcome = outcome_of(Options { duration: Duration::from_secs(12), ..Options::default() });
    assert_eq!(outcome.violations, [], "replay with `cargo xtask chaos --seed 15 --seconds 12`");
    assert_eq!(outcome.died(), 0);
    assert!(outcome.episodes.len() >= 15, "{} faults", outcome.episodes.len());
    assert!(outcome.acquisitions() >= 30, "{} acquisitions", outcome.acquisitions());
    assert!(outcome.healed_after().is_some_and(|after| after <= outcome.options.healed_within()));
    let picture = outcome.picture(None, 60);
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
}

/// The same checker and nemesis find what is wrong when there is something to be found.
#[test]
fn without_a_restart_guard_nodes_that_restart_empty_give_locks_twice_and_fences_still_grow() {
    let steady = Options {
        kind: Kind::Rolling,
        duration: Duration::from_secs(8),
        max_ttl: Duration::from_secs(2),
        clients: 4,
        guarded: false,
        ..Options::default()
    };
    let outcome = outcome_of(steady);
    assert!(outcome.overlaps() >= 1, "{} overlaps", outcome.overlaps());
    assert_eq!(outcome.fence_violations(), 0);
    assert_eq!(outcome.died(), 0);
}

/// A worker that fails must not leave a process behind that only does less.
#[test]
fn a_worker_that_panics_ends_its_process() {
    let _turn = turn();
    let (node, resource) = (RedisServer::start(&[]), RedisServer::start(&[]));
    let (resource_at, node_at) = (format!("resource={}", resource.url()), node.url());
    let settings = ["seed=1", "workers=3", "locks=3", "max_ttl_ms=1000", "guard=on", "hold=mixed"];
    let arguments = settings.into_iter().chain([resource_at.as_str(), node_at.as_str()]);
    let mut client = Client::start_talking(env!("CARGO_BIN_EXE_contender"), arguments);
    while !client.hear().starts_with("wrote") {}
    client.hear_all(drop);
    assert!(!client.has_ended());
    // Every worker has a connection of its own; the last of the three loses it.
    let Value::BulkString(list) = resource.execute(&["CLIENT", "LIST"]) else { panic!("no list") };
    let list = String::from_utf8(list).unwrap();
    let id_of =
        |line: &str| line.split(' ').next().unwrap().strip_prefix("id=").unwrap().parse::<u64>().unwrap();
    let mut ids: Vec<u64> = list.lines().filter(|line| !line.contains("cmd=client")).map(id_of).collect();
    ids.sort_unstable();
    resource.execute(&["CLIENT", "KILL", "ID", &ids.last().unwrap().to_string()]);
    assert_eq!(ids.len(), 3, "the others go on: {list}");
    let start = Instant::now();
    while !client.has_ended() {
        assert!(start.elapsed() < Duration::from_secs(60), "it goes on without its worker");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!client.succeeds());
}
