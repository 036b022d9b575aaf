//! Every known-bad variant is caught, by the checker that should.

use tenure_sim::{Mutant, Options, Scenario, first_broken};

fn is_caught(mutant: Mutant, scenario: Scenario, seeds: u64) {
    let checker = Mutant::ALL.into_iter().find(|(other, _)| *other == mutant).map(|(_, checker)| checker);
    let story = first_broken(0..seeds, |seed| Options::draw(seed, scenario).with(mutant))
        .unwrap_or_else(|| panic!("{mutant:?} was not caught in {seeds} histories"));
    assert_eq!(Some(story.violation.checker()), checker, "{story}");
}

#[test]
fn the_maximum_of_counters_is_caught() {
    is_caught(Mutant::MaxOfCounters, Scenario::FencingOnly, 5_000);
}

#[test]
fn fences_of_two_proposals_counted_together_are_caught() {
    is_caught(Mutant::MixedFences, Scenario::FencingOnly, 20_000);
}

#[test]
fn a_pipeline_in_place_of_a_script_is_caught() {
    is_caught(Mutant::NativePipeline, Scenario::WithinAssumptions, 20_000);
}

#[test]
fn one_owner_for_all_attempts_is_caught() {
    is_caught(Mutant::SameOwner, Scenario::FencingOnly, 20_000);
}

#[test]
fn trimming_by_the_clock_of_a_client_is_caught() {
    is_caught(Mutant::TrimByClient, Scenario::FencingOnly, 20_000);
}

#[test]
fn a_first_start_judged_from_a_majority_is_caught() {
    is_caught(Mutant::FreshByMajority, Scenario::WithinAssumptions, 20_000);
}
