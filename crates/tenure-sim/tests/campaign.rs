//! A slice of the campaign that is short enough for every change: `simulate` runs the long one.

use tenure_sim::{Failure, Mark, Marks, Options, Outcome, Scenario, campaign, run, tell};

#[test]
fn no_promise_is_broken_within_the_assumptions() {
    let summary = campaign(0, 3_000, |_| {}).unwrap_or_else(|failure: Failure| panic!("{failure}"));
    let seen = |mark: Mark| summary.marks.count(mark) > 0;
    let telling = [Mark::Acquired, Mark::PartialGrant, Mark::Reproposed, Mark::Healed, Mark::Trimmed];
    assert!(telling.into_iter().all(seen), "{summary}");
}

/// Runs a history in which nothing may be broken; if something is, its story is told.
fn unbroken(seed: u64, scenario: Scenario) -> Outcome {
    let options = Options::draw(seed, scenario);
    let outcome = run(&options, false);
    assert!(outcome.violation.is_none(), "{}", tell(&options).expect("one seed gives one history"));
    outcome
}

#[test]
fn clocks_that_step_back_with_the_memory_do_not_undercut_fences() {
    for seed in 0..500 {
        unbroken(seed, Scenario::BackWithLoss);
    }
}

#[test]
fn a_rolling_restart_does_not_cost_a_lock_that_is_extended() {
    let mut restarts = 0;
    for seed in 0..60 {
        let outcome = unbroken(seed, Scenario::RollingRestart);
        restarts += outcome.marks.count(Mark::Rolled);
    }
    assert!(restarts > 100, "only {restarts} nodes were restarted under the lock");
}

#[test]
fn one_seed_gives_one_history() {
    for scenario in [Scenario::WithinAssumptions, Scenario::FencingOnly, Scenario::RollingRestart] {
        for seed in 0..20 {
            let options = Options::draw(seed, scenario);
            let (first, second) = (run(&options, true), run(&options, true));
            assert_eq!(first.story, second.story);
            assert_eq!((first.events, first.marks), (second.events, second.marks));
            assert!(!first.story.is_empty());
        }
    }
}

#[test]
fn a_story_says_how_to_replay_it() {
    let story = (0..2_000).find_map(|seed| tell(&Options::draw(seed, Scenario::Unguarded))).unwrap();
    let text = story.to_string();
    let replay = format!("simulate replay {} Unguarded", story.options.seed);
    assert!(text.lines().last().unwrap().ends_with(&replay), "{text}");
    assert!(text.contains("VIOLATION: two holders") && text.contains("max_ttl_ms:"), "{text}");
}

#[test]
fn nobody_in_line_is_overtaken_or_stuck_though_some_die_give_up_or_reach_only_a_minority() {
    let mut seen = Marks::default();
    // In the last ones somebody was overtaken once: `docs/simulator.md` says why.
    for seed in (0..40).chain([308, 424, 698]) {
        let outcome = unbroken(seed, Scenario::Waiting);
        seen.add(&outcome.marks);
    }
    let telling = [
        Mark::Woken,
        Mark::WokenInVain,
        Mark::Yielded,
        Mark::Nudged,
        Mark::MinorityOnly,
        Mark::ClientCrashed,
    ];
    assert!(telling.into_iter().all(|mark| seen.count(mark) > 10), "{seen}");
}
