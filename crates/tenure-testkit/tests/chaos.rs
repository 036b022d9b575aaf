//! Short runs of the chaos campaign with a fixed seed. `cargo xtask chaos` has long ones.
#![allow(clippy::print_stdout, reason = "what came of a run is worth knowing")]

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tenure_testkit::chaos::{Kind, Options, Outcome, run};

/// Its first twelve seconds have faults of many kinds.
const SEED: u64 = 15;

/// A run needs both cores of a small machine: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

fn outcome_of(mut options: Options) -> Outcome {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    options.testclient = env!("CARGO_BIN_EXE_testclient").into();
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
