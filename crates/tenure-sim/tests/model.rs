//! Every state of small worlds: what must hold holds, and what must break breaks. `cargo xtask
//! model` does the same in larger ones, which takes minutes.

use tenure_sim::model::{Matrix, examine, rows};

/// Fewer would mean that the worlds have become too small to say much.
const STATES_MIN: usize = 1_500_000;

/// Worlds of some thousand states, one for each kind of promise.
const SMALLEST: [&str; 7] = [
    "slow messages",
    "paused clients, and one that dies",
    "a node is emptied, locks without fences",
    "a clock jumps ahead, and clients have seen it before",
    "two locks together against one of them, slow messages",
    "a lock is deleted unseen, held with margin 0 (A3)",
    "a client's clock stops while the client is paused (A4)",
];

#[test]
fn the_smallest_worlds_hold_and_break_as_they_must() {
    let chosen: Vec<_> = rows().into_iter().filter(|row| SMALLEST.contains(&row.faults)).collect();
    assert_eq!(chosen.len(), SMALLEST.len());
    let matrix = Matrix { findings: chosen.into_iter().map(|row| examine(&row.small(), 2)).collect() };
    let problems = matrix.problems();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(matrix.states() >= 50_000, "{} states", matrix.states());
}

#[test]
fn what_must_hold_holds_in_every_state_and_what_must_break_breaks() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let findings = rows().into_iter().map(|row| examine(&row.small(), threads)).collect();
    let matrix = Matrix { findings };
    println!("{matrix}");
    let problems = matrix.problems();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(matrix.states() >= STATES_MIN, "{} states", matrix.states());
}
