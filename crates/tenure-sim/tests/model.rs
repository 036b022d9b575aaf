//! Every state of small worlds: what must hold holds, and what must break breaks. `cargo xtask
//! model` does the same in larger ones, which takes minutes.

use tenure_sim::model::{Matrix, examine, rows};

/// Fewer would mean that the worlds have become too small to say much.
const STATES_MIN: usize = 1_500_000;

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
