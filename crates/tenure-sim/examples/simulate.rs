//! Runs a campaign, or one history again: `simulate [HISTORIES [FIRST_SEED]]`, `simulate replay
//! SEED SCENARIO [MUTANT]`, `simulate story SEED SCENARIO [MUTANT]`, `simulate find SCENARIO SEEDS
//! [FIRST_SEED]`, `simulate mutants [NAME...]`.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::process::ExitCode;
#[allow(clippy::disallowed_types, reason = "it says how fast the world is, from outside")]
use std::time::Instant;

use tenure_sim::{Catch, Marks, Missed, Mutant, Options, Scenario, campaign, run, tell};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "replay") {
        return replay(&arguments[1..]);
    }
    if arguments.first().is_some_and(|first| first == "story") {
        return story(&arguments[1..]);
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
    #[allow(clippy::disallowed_types, reason = "from outside")]
    let began = Instant::now();
    let outcome = campaign(first_seed, histories, |summary| {
        if summary.histories % step == 0 {
            println!("{} histories, {} events", summary.histories, summary.events);
        }
    });
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            let seconds = began.elapsed().as_secs_f64();
            println!("{:.0} events a second, {seconds:.1} s", summary.events as f64 / seconds);
            if let Some(seconds) = processor_seconds() {
                println!("{:.0} events a second of one core's time", summary.events as f64 / seconds);
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// How long this program has had a core, where the system tells: others may use the machine as
/// well.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let nanos: f64 = text.split_whitespace().next()?.parse().ok()?;
    (nanos > 0.0).then_some(nanos / 1e9)
}

/// Tells a whole history, broken or not: `simulate story SEED SCENARIO [MUTANT]`, with a mutant the
/// history in which it is looked for, but without it.
fn story(arguments: &[String]) -> ExitCode {
    let seed = arguments.first().and_then(|text| text.parse().ok());
    let scenario = arguments.get(1).and_then(|name| scenario_named(name));
    let (Some(seed), Some(scenario)) = (seed, scenario) else {
        println!("usage: simulate story SEED SCENARIO [MUTANT]; scenarios: {:?}", Scenario::ALL);
        return ExitCode::FAILURE;
    };
    let mutant = arguments.get(2).and_then(|name| mutant_named(name));
    let options = Options::draw(seed, scenario);
    let options = mutant.map_or(options.clone(), |mutant| options.with(mutant).without_mutant());
    let outcome = run(&options, true);
    println!("{options:#?}");
    outcome.story.iter().for_each(|line| println!("{line}"));
    println!("{} events, digest {:016x}", outcome.events, outcome.digest);
    ExitCode::SUCCESS
}

/// Looks for the first broken history of a scenario: `simulate find SCENARIO SEEDS [FIRST_SEED]`.
fn find(arguments: &[String]) -> ExitCode {
    let scenario = arguments.first().and_then(|name| scenario_named(name));
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<u64>().ok());
    let (Some(scenario), Some(seeds)) = (scenario, number(1)) else {
        println!("usage: simulate find SCENARIO SEEDS [FIRST_SEED]");
        return ExitCode::FAILURE;
    };
    let (mut events, mut marks, first) = (0, Marks::default(), number(2).unwrap_or(0));
    for seed in first..first.saturating_add(seeds) {
        let options = Options::draw(seed, scenario);
        let outcome = run(&options, false);
        events += outcome.events;
        marks.add(&outcome.marks);
        if let Some(story) = outcome.violation.and_then(|_| tell(&options)) {
            println!("{story}");
            return ExitCode::SUCCESS;
        }
    }
    println!("{marks}nothing is broken in {seeds} histories, {events} events");
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
    Scenario::ALL.into_iter().find(|scenario| format!("{scenario:?}") == name)
}

fn mutant_named(name: &str) -> Option<Mutant> {
    Mutant::ALL.iter().copied().find(|mutant| format!("{mutant:?}") == name)
}

fn replay(arguments: &[String]) -> ExitCode {
    let seed = arguments.first().and_then(|text| text.parse().ok());
    let scenario = arguments.get(1).and_then(|name| scenario_named(name));
    let (Some(seed), Some(scenario)) = (seed, scenario) else {
        println!("usage: simulate replay SEED SCENARIO [MUTANT]; scenarios: {:?}", Scenario::ALL);
        return ExitCode::FAILURE;
    };
    let mutant = arguments.get(2).and_then(|name| mutant_named(name));
    let options = Options::draw(seed, scenario);
    let options = mutant.map_or(options.clone(), |mutant| options.with(mutant));
    match tell(&options) {
        Some(story) => println!("{story}"),
        None => println!("nothing is broken in history {seed}"),
    }
    ExitCode::SUCCESS
}
