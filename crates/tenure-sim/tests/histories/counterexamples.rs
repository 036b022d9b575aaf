//! Outside each assumption a promise breaks, and the simulator finds how.

use tenure_sim::{Options, Scenario, Story, first_broken};

/// The first broken history of a scenario.
fn counterexample(scenario: Scenario, seeds: u64) -> Story {
    first_broken(0..seeds, |seed| Options::draw(seed, scenario))
        .unwrap_or_else(|| panic!("{scenario:?}: nothing broke in {seeds} histories"))
}

fn fencing_counterexample(scenario: Scenario, seeds: u64) -> Story {
    let story = counterexample(scenario, seeds);
    assert_eq!(story.violation.checker(), "fencing", "{story}");
    story
}

#[test]
fn fences_break_when_all_nodes_lose_their_memory_together() {
    fencing_counterexample(Scenario::AllForget, 20_000);
}

#[test]
fn fences_break_when_a_clock_goes_back_by_more_than_the_quarantine_across_a_loss() {
    fencing_counterexample(Scenario::BackAcrossLoss, 20_000);
}

#[test]
fn fences_break_when_a_clock_goes_back_by_more_than_half_of_the_retention() {
    fencing_counterexample(Scenario::BackAcrossTrim, 20_000);
}

#[test]
fn exclusion_breaks_when_nodes_forget_and_no_guard_keeps_them_out() {
    let story = counterexample(Scenario::Unguarded, 2_000);
    assert_eq!(story.violation.checker(), "exclusion", "{story}");
}

#[test]
fn exclusion_breaks_when_a_clock_steps_and_a_client_is_new() {
    let story = counterexample(Scenario::UnwatchedSteps, 2_000);
    assert_eq!(story.violation.checker(), "exclusion", "{story}");
}

#[test]
fn exclusion_breaks_when_a_lock_vanishes_from_more_nodes_than_its_margin() {
    let story = counterexample(Scenario::EvictedBeyondMargin, 2_000);
    assert_eq!(story.violation.checker(), "exclusion", "{story}");
}
