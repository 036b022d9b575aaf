//! Walking through all states of a small world, and what came of it.

use std::fmt;
use std::sync::Arc;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::action::{Action, bound, possible};
use super::config::Config;
use super::matrix::{Expected, Row};
use super::seen::{Seen, Sight};
use super::step::Step;
use super::world::World;

/// Nodes are at least so many ticks old in the beginning, so that what they may have forgotten at
/// their first start is long past.
const START_TICKS_MIN: u64 = 12;

/// The longest that the first start of a world takes, in ticks.
const START_TICKS_MAX: u64 = 50;

/// What a search found out about a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cell {
    /// It holds in every state.
    Held {
        /// How many there are.
        states: usize,
    },
    /// It breaks.
    Broken {
        /// How.
        story: Vec<String>,
    },
    /// It was not looked at.
    Aside,
}

/// What a search found out about a row.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The row.
    pub row: Row,
    /// What became of exclusion.
    pub exclusion: Cell,
    /// What became of the order of fences.
    pub fences: Cell,
    /// Whether nobody ever released or extended what was another's, and nobody extended a lock that
    /// another had acquired since.
    pub ownership: Cell,
    /// How many states a complete search has looked at.
    pub states: usize,
    /// What it came across.
    pub sights: Vec<Sight>,
}

/// What became of all rows.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    /// The rows so far.
    pub findings: Vec<Finding>,
}

/// Examines a row of the matrix, with so many threads.
#[must_use]
pub fn examine(row: &Row, threads: usize) -> Finding {
    let held = [(row.exclusion, Promise::Exclusion), (row.fences, Promise::Fences)];
    let held = held.into_iter().filter(|(expected, _)| *expected == Expected::Held);
    let mut promises: Vec<Promise> = held.map(|(_, promise)| promise).collect();
    let mut finding = Finding {
        row: row.clone(),
        exclusion: Cell::Aside,
        fences: Cell::Aside,
        ownership: Cell::Aside,
        states: 0,
        sights: vec![],
    };
    if !promises.is_empty() {
        promises.push(Promise::Ownership);
        let small = Small::new(&row.config, &promises);
        let seen = Arc::clone(&small.seen);
        let checker = small.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
        let checker = checker.spawn_bfs().join();
        let states = checker.unique_state_count();
        let complete = checker.discoveries().is_empty();
        for promise in promises {
            *finding.cell(promise) = match checker.discovery(promise.name()) {
                Some(path) => Cell::Broken { story: tell(&row.config, path.into_actions()) },
                None if complete => Cell::Held { states },
                // The search ended when the other one broke.
                None => Cell::Aside,
            };
        }
        (finding.states, finding.sights) = (states, seen.all());
    }
    for (expected, promise) in [(row.exclusion, Promise::Exclusion), (row.fences, Promise::Fences)] {
        if let Expected::Broken(_) = expected {
            *finding.cell(promise) = counterexample(&row.config, promise);
        }
    }
    finding
}

/// Looks for the shortest history that breaks a promise.
fn counterexample(config: &Config, promise: Promise) -> Cell {
    let checker = Small::new(config, &[promise]).checker().finish_when(HasDiscoveries::Any);
    let checker = checker.spawn_bfs().join();
    match checker.discovery(promise.name()) {
        Some(path) => Cell::Broken { story: tell(config, path.into_actions()) },
        None => Cell::Held { states: checker.unique_state_count() },
    }
}

fn tell(config: &Config, actions: Vec<Action>) -> Vec<String> {
    let small = Small::new(config, &[]);
    let (mut world, mut notes) = (small.begin, Some(vec![]));
    for action in actions {
        advance(config, &mut world, &small.seen, action, &mut notes);
    }
    notes.unwrap_or_default()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    Exclusion,
    Fences,
    Ownership,
}

/// A small world and what must hold in it.
#[derive(Clone, Debug)]
struct Small {
    config: Config,
    begin: World,
    horizon: u64,
    seen: Arc<Seen>,
    promises: Vec<Promise>,
}

impl Small {
    fn new(config: &Config, promises: &[Promise]) -> Self {
        let seen = Arc::new(Seen::default());
        let mut begin = World::new(config);
        let mut step = Step::new(config, &mut begin, &seen);
        for client in 0..config.clients - config.newcomers {
            step.take(Action::Start { client });
            let reached = config.quorum().indexes().filter(|node| config.begins_connected(client, *node));
            for node in reached.filter(|_| !config.first_start) {
                step.take(Action::Connect { client, node });
            }
        }
        let started = |world: &World| {
            config.first_start || world.tick >= START_TICKS_MIN && all_may_vote(config, world)
        };
        while !started(&begin) && begin.tick < START_TICKS_MAX {
            Step::new(config, &mut begin, &seen).take(Action::Tick);
        }
        assert!(started(&begin), "all nodes may vote in the beginning");
        let horizon = begin.tick + config.ticks;
        Self { config: config.clone(), begin, horizon, seen, promises: promises.to_vec() }
    }
}

/// Whether every client that is there may ask all nodes that it reaches.
fn all_may_vote(config: &Config, world: &World) -> bool {
    (0..config.clients - config.newcomers).all(|client| {
        let proposal = world.clients[client].client.fleet().clone().propose(world.time(client), true);
        let mut voters = config.quorum().indexes().zip(proposal.nodes.iter());
        voters.all(|(node, voter)| voter.is_ok() || !config.begins_connected(client, node))
    })
}

impl Model for Small {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.begin.clone()]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        possible(&self.config, state, self.horizon, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut next = last.clone();
        advance(&self.config, &mut next, &self.seen, action, &mut None);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let property = |promise: &Promise| {
            let holds: fn(&Self, &World) -> bool = match promise {
                Promise::Exclusion => |_, world| world.exclusion_holds(),
                Promise::Fences => |_, world| world.fences_hold(),
                Promise::Ownership => |_, world| !world.ownership_broken && !world.extension_broken,
            };
            Property::always(promise.name(), holds)
        };
        self.promises.iter().map(property).collect()
    }
}

/// Takes an action, and then everything that is bound to follow at once.
fn advance(config: &Config, world: &mut World, seen: &Seen, action: Action, notes: &mut Option<Vec<String>>) {
    let mut step = Step::new(config, world, seen);
    step.notes = notes.take();
    let mut next = Some(action);
    while let Some(action) = next {
        step.take(action);
        next = bound(config, step.world);
    }
    *notes = step.end();
}

impl Promise {
    const fn name(self) -> &'static str {
        match self {
            Self::Exclusion => "exclusion",
            Self::Fences => "fences",
            Self::Ownership => "ownership",
        }
    }
}

impl Finding {
    /// Whatever is not as it must be.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let Row { faults, exclusion, fences, sights, .. } = &self.row;
        let mut problems = vec![];
        let cells = [("exclusion", exclusion, &self.exclusion), ("fences", fences, &self.fences)];
        for (promise, expected, found) in cells {
            match (expected, found) {
                (Expected::Held, Cell::Broken { story }) => {
                    problems.push(format!("{faults}: {promise} is broken:\n{}", story.join("\n")));
                }
                (Expected::Broken(_), Cell::Held { states }) => {
                    problems
                        .push(format!("{faults}: {promise} holds in all {states} states, but must break"));
                }
                _ => {}
            }
        }
        if let Cell::Broken { story } = &self.ownership {
            problems.push(format!("{faults}: a lock of another was touched:\n{}", story.join("\n")));
        }
        let unseen = sights.iter().filter(|sight| !self.sights.contains(sight));
        problems.extend(unseen.map(|sight| format!("{faults}: never saw {sight}")));
        problems
    }

    fn cell(&mut self, promise: Promise) -> &mut Cell {
        match promise {
            Promise::Exclusion => &mut self.exclusion,
            Promise::Fences => &mut self.fences,
            Promise::Ownership => &mut self.ownership,
        }
    }
}

impl Matrix {
    /// The states of all complete searches.
    #[must_use]
    pub fn states(&self) -> usize {
        self.findings.iter().map(|finding| finding.states).sum()
    }

    /// Whatever is not as it must be.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.findings.iter().flat_map(Finding::problems).collect()
    }
}

/// The table, with one line per row.
impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what may happen | exclusion | fences |\n|---|---|---|")?;
        for Finding { row, exclusion, fences, .. } in &self.findings {
            let cell = |expected: Expected, found: &Cell| match (expected, found) {
                (_, Cell::Held { states }) => format!("held in {} states", grouped(*states)),
                (Expected::Broken(because), Cell::Broken { .. }) => {
                    format!("broken as it must be ({because})")
                }
                (_, Cell::Broken { .. }) => "**broken**".to_owned(),
                (_, Cell::Aside) => "not looked at".to_owned(),
            };
            let (exclusion, fences) = (cell(row.exclusion, exclusion), cell(row.fences, fences));
            writeln!(f, "| {} | {exclusion} | {fences} |", row.faults)?;
        }
        write!(f, "\n{} states in all, each looked at.", grouped(self.states()))
    }
}

/// Thousands apart.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = {
        let first = digits.len() % 3;
        let rest = (first..digits.len()).step_by(3).map(|from| &digits[from..from + 3]);
        Some(&digits[..first]).filter(|first| !first.is_empty()).into_iter().chain(rest).collect()
    };
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(
            [7, 70, 700, 7_000, 70_000, 7_000_000].map(grouped).join(" "),
            "7 70 700 7,000 70,000 7,000,000"
        );
    }
}
