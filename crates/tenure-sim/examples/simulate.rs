//! Runs a campaign, or one history again:
//! `simulate [HISTORIES [FIRST_SEED]]`, `simulate replay SEED SCENARIO [MUTANT]`, `simulate mutants [NAME...]`.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::process::ExitCode;

use tenure_sim::{Catch, Missed, Mutant, Options, Scenario, campaign, first_broken, tell};

const SCENARIOS: [Scenario; 10] = [
    Scenario::WithinAssumptions,
    Scenario::FencingOnly,
    Scenario::RollingRestart,
    Scenario::Waiting,
    Scenario::AllForget,
    Scenario::BackAcrossLoss,
    Scenario::BackWithLoss,
    Scenario::BackAcrossTrim,
    Scenario::Unguarded,
    Scenario::UnwatchedSteps,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "replay") {
        return replay(&arguments[1..]);
    }
    if arguments.first().is_some_and(|first| first == "find") {
        return find(&arguments[1..]);
    }
    if arguments.first().is_some_and(|first| first == "mutants") {
        return mutants(&arguments[1..]);
    }
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse().ok());
    let (histories, first_seed) = (number(0).unwrap_or(100_000), number(1).unwrap_or(0));
    let step = (histories / 20).max(1);
    let outcome = campaign(first_seed, histories, |summary| {
        if summary.histories % step == 0 {
            println!("{} histories, {} events", summary.histories, summary.events);
        }
    });
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Looks for the first broken history of a scenario: `simulate find SCENARIO SEEDS`.
fn find(arguments: &[String]) -> ExitCode {
    let scenario = arguments.first().and_then(|name| scenario_named(name));
    let (Some(scenario), Some(seeds)) = (scenario, arguments.get(1).and_then(|text| text.parse().ok()))
    else {
        println!("usage: simulate find SCENARIO SEEDS");
        return ExitCode::FAILURE;
    };
    match first_broken(0..seeds, |seed| Options::draw(seed, scenario)) {
        Some(story) => println!("{story}"),
        None => println!("nothing is broken in {seeds} histories"),
    }
    ExitCode::SUCCESS
}

/// Hunts the known-bad variants, all or those that are named, and prints a table.
fn mutants(names: &[String]) -> ExitCode {
    println!("| mutant | what is done wrong | from | scenario | caught by | seed | histories | events |");
    println!("|---|---|---|---|---|---|---|---|");
    let wanted = |mutant: &&Mutant| names.is_empty() || names.contains(&format!("{mutant:?}"));
    let mut missed = 0;
    for mutant in Mutant::ALL.iter().filter(wanted) {
        let known = mutant.known();
        let found = match mutant.hunt() {
            Ok(Catch { options, violation, histories, events }) => {
                format!("{} | {} | {histories} | {events}", violation.checker(), options.seed)
            }
            Err(failure) => {
                missed += 1;
                let what = match failure {
                    Missed::NotCaught(histories) => format!("**nobody**, in {histories} histories"),
                    Missed::Otherwise(caught) => format!("**{}**", caught.violation),
                    Missed::ByAccident(options) => {
                        format!("**by accident**: broken without it, too, in history {}", options.seed)
                    }
                    other => format!("{other:?}"),
                };
                format!("{what} | | | ")
            }
        };
        println!("| `{mutant:?}` | {} | {} | `{:?}` | {found} |", known.wrong, known.source, known.scenario);
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn scenario_named(name: &str) -> Option<Scenario> {
    SCENARIOS.into_iter().find(|scenario| format!("{scenario:?}") == name)
}

fn replay(arguments: &[String]) -> ExitCode {
    let named = |index: usize, name: &dyn Fn() -> String| arguments.get(index) == Some(&name());
    let seed = arguments.first().and_then(|text| text.parse().ok());
    let scenario = arguments.get(1).and_then(|name| scenario_named(name));
    let (Some(seed), Some(scenario)) = (seed, scenario) else {
        println!("usage: simulate replay SEED SCENARIO [MUTANT]; scenarios: {SCENARIOS:?}");
        return ExitCode::FAILURE;
    };
    let mutant = Mutant::ALL.iter().find(|mutant| named(2, &|| format!("{mutant:?}")));
    let options = Options::draw(seed, scenario);
    let options = mutant.map_or(options.clone(), |mutant| options.with(*mutant));
    match tell(&options) {
        Some(story) => println!("{story}"),
        None => println!("nothing is broken in history {seed}"),
    }
    ExitCode::SUCCESS
}
