//! Many histories, one seed each.

use std::fmt;

use crate::checker::Violation;
use crate::options::{Options, Scenario};
use crate::trace::{Mark, Marks};
use crate::world::epoch::EPOCH;
use crate::world::{Outcome, run};

/// How much of a story is shown.
const LINES_MAX: usize = 400;

/// In so many histories everything that must occur occurs.
const ENOUGH: u64 = 600;

/// What a campaign has come to so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many histories.
    pub histories: u64,
    /// How many events in all of them.
    pub events: u64,
    /// How many events in the history that had the fewest.
    pub events_least: u64,
    /// How long they were together, in simulated time.
    pub lasted_ns: u128,
    /// How much of the time allowed it took at most to get every lock after the last fault, in
    /// thousandths.
    pub bound_used_per_mille: u64,
    /// What was seen.
    pub marks: Marks,
}

/// A campaign that found something wrong, or did not see what it must.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// A promise was broken.
    Broken(Box<Story>),
    /// Something never happened, so nothing is known about it.
    NeverSeen(Vec<Mark>, Box<Summary>),
}

/// A history in which a promise was broken.
#[derive(Clone, Debug)]
pub struct Story {
    /// What was drawn.
    pub options: Options,
    /// What was broken.
    pub violation: Violation,
    /// What happened.
    pub lines: Vec<String>,
}

/// Runs `histories` histories from `first_seed` on. `report` hears how far it is after every
/// history.
///
/// # Errors
/// [`Failure`] at the first broken promise; or at the end of a campaign of at least 600 histories,
/// if something that must occur never did.
pub fn campaign(
    first_seed: u64,
    histories: u64,
    mut report: impl FnMut(&Summary),
) -> Result<Summary, Failure> {
    let mut summary = Summary::default();
    for seed in first_seed..first_seed.saturating_add(histories) {
        let options = Options::draw(seed, scenario_of(seed));
        let outcome = run(&options, false);
        summary.add(&outcome);
        if outcome.violation.is_some() {
            let story = tell(&options).expect("one seed gives one history");
            return Err(Failure::Broken(Box::new(story)));
        }
        report(&summary);
    }
    let unseen = |mark: &&Mark| summary.marks.count(**mark) == 0;
    let never: Vec<Mark> = Mark::ALL.iter().filter(unseen).copied().collect();
    if histories >= ENOUGH && !never.is_empty() {
        return Err(Failure::NeverSeen(never, Box::new(summary)));
    }
    Ok(summary)
}

impl Summary {
    fn add(&mut self, outcome: &Outcome) {
        let least = if self.histories == 0 { u64::MAX } else { self.events_least };
        self.histories += 1;
        self.events += outcome.events;
        self.events_least = least.min(outcome.events);
        self.lasted_ns += u128::from(outcome.lasted_ns);
        self.bound_used_per_mille = self.bound_used_per_mille.max(outcome.bound_used_per_mille);
        self.marks.add(&outcome.marks);
    }
}

/// Which scenario the history of a seed in a campaign has.
#[must_use]
pub const fn scenario_of(seed: u64) -> Scenario {
    match seed % 100 {
        2..5 | 19..24 | 38..42 => Scenario::Owning,
        10..16 | 30..37 => Scenario::Sharing,
        5 | 6 | 49 => Scenario::Periods,
        50..58 => Scenario::Cohort,
        17..19 | 26..29 | 43..48 | 58..60 => Scenario::Sets,
        0..62 => Scenario::WithinAssumptions,
        62..88 => Scenario::FencingOnly,
        88..92 => Scenario::BackWithLoss,
        92..98 => Scenario::Waiting,
        98 => Scenario::RollingRestart,
        _ => Scenario::Distance,
    }
}

/// Tells the story of a history in which a promise is broken; `None` if none is.
#[must_use]
pub fn tell(options: &Options) -> Option<Story> {
    let outcome = run(options, true);
    outcome.violation.map(|violation| Story { options: options.clone(), violation, lines: outcome.story })
}

/// The first of `seeds` whose history breaks a promise, with its story.
#[must_use]
pub fn first_broken(seeds: std::ops::Range<u64>, draw: impl Fn(u64) -> Options) -> Option<Story> {
    seeds.map(draw).find(|options| run(options, false).violation.is_some()).and_then(|options| tell(&options))
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options, violation, lines } = self;
        let Options { seed, scenario, mutant, .. } = options;
        writeln!(f, "{options:#?}")?;
        let skipped = lines.len().saturating_sub(LINES_MAX);
        if skipped > 0 {
            writeln!(f, "... {skipped} earlier lines")?;
            let epoch = lines[..skipped].iter().rfind(|line| line.contains(EPOCH));
            epoch.map_or(Ok(()), |epoch| writeln!(f, "{epoch}\n..."))?;
        }
        for line in &lines[skipped..] {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "{} is broken: {violation}", violation.checker())?;
        let mutant = mutant.map_or_else(String::new, |mutant| format!(" {mutant:?}"));
        write!(f, "replay: cargo xtask simulate replay {seed} {scenario:?}{mutant}")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(story) => story.fmt(f),
            Self::NeverSeen(marks, summary) => {
                let names: Vec<&str> = marks.iter().map(|mark| mark.name()).collect();
                write!(f, "{summary}never seen: {}", names.join(", "))
            }
        }
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let average = self.events / self.histories.max(1);
        writeln!(f, "{:>12}  histories\n{:>12}  events", self.histories, self.events)?;
        writeln!(f, "{:>12}  events in a history at least\n{average:>12}  on average", self.events_least)?;
        writeln!(f, "{:>12}  simulated hours", self.lasted_ns / 3_600_000_000_000)?;
        let used = self.bound_used_per_mille / 10;
        writeln!(f, "{used:>11}%  of the time allowed to get a lock after the last fault, at most")?;
        self.marks.fmt(f)
    }
}
