//! The chaos campaign: real servers and client processes, everything goes wrong, and a checker
//! looks at what they did.
//!
//! Five servers, each behind two proxies and with a clock of its own; client processes that contend
//! for a few locks and write down what they do (`bin/contender`, `history.rs`); a nemesis that
//! follows a plan drawn from one seed (`plan.rs`) as far as the assumptions of `docs/guarantees.md`
//! allow (`rules.rs`); then everything is put right and every lock must be given again.
//! `checker.rs` looks at the history alone. `docs/explanation/chaos.md` has the rest.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a campaign that cannot be set up has to fail"
)]

mod cast;
pub mod checker;
pub mod history;
mod nemesis;
mod nodes;
mod picture;
mod plan;
mod report;
mod rules;

use std::path::PathBuf;
use std::time::Duration;

use tenure_testkit::RedisServer;

use self::cast::Cast;
use self::history::{Entry, Ns, now};
use self::nemesis::Nemesis;
pub use self::nodes::{NODES, SIDES};
use self::nodes::{Node, memory};
pub use self::report::{Episode, Outcome, What, Where};
pub use tenure_testkit::Dice;

/// How long a machine with two cores may need for what takes a moment.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long the first start may take.
const START: Duration = Duration::from_secs(20);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything.
    Mixed,
    /// Nodes are killed and started again empty, one after another; holds are long.
    Rolling,
    /// The same with nodes that keep every acknowledged write, and their data.
    RollingDurable,
}

/// What a run is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides what goes wrong and when.
    pub seed: u64,
    /// What goes wrong.
    pub kind: Kind,
    /// How long it goes wrong.
    pub duration: Duration,
    /// The time from node to node, if one after another is killed.
    pub every: Duration,
    /// Whether nodes that may have forgotten locks are kept out.
    pub guarded: bool,
    /// How many client processes there are.
    pub clients: usize,
    /// How many tasks each of them has.
    pub workers: usize,
    /// How many locks they contend for.
    pub locks: usize,
    /// The longest ttl; with its guard band it is the quarantine.
    pub max_ttl: Duration,
    /// The program `contender`.
    pub contender: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            kind: Kind::Mixed,
            duration: Duration::from_secs(60),
            every: Duration::from_millis(400),
            guarded: true,
            clients: 7,
            workers: 3,
            locks: 5,
            max_ttl: Duration::from_secs(1),
            contender: "contender".into(),
        }
    }
}

impl Kind {
    /// Whether every hold is as long as the others.
    #[must_use]
    pub const fn is_steady(self) -> bool {
        matches!(self, Self::Rolling | Self::RollingDurable)
    }
}

impl Options {
    /// How long a node that may have forgotten locks is kept out.
    #[must_use]
    pub fn quarantine_ms(&self) -> u64 {
        let max_ttl_ms = u64::try_from(self.max_ttl.as_millis()).unwrap_or(u64::MAX);
        max_ttl_ms + (max_ttl_ms / 10).max(100)
    }

    /// The most that a clock is stepped.
    #[must_use]
    pub fn forward_max_ms(&self) -> u64 {
        3 * self.quarantine_ms() + 1_500
    }

    /// The time after the last fault within which every lock must be given again: a quarantine, a
    /// term with its guard band, the time by which fences may be ahead because clocks were, and
    /// some patience.
    #[must_use]
    pub fn healed_within(&self) -> Duration {
        Duration::from_millis(2 * self.quarantine_ms() + self.forward_max_ms()) + PATIENCE
    }
}

/// Runs it. It takes the time that the options say, and some more to begin and to come to rest.
#[must_use]
pub fn run(options: &Options) -> Outcome {
    let resource = RedisServer::start(&[]);
    let mut nodes: Vec<Node> = (0..NODES).map(|node| Node::start(memory(options.kind, node))).collect();
    let mut cast = Cast::new(options, &nodes, &resource.url());
    (0..options.clients).for_each(|client| cast.start(client));

    let mut nemesis = Nemesis::new(options, &mut nodes, &mut cast);
    // Nobody is to forget anything before the fleet has started; then every lock has been given.
    let started = nemesis.idle(now() + nanos(START), every_lock_was_given(options.locks, 0));
    assert!(started, "not every lock was given within {START:?} of the first start");
    let began = now();
    nemesis.follow(plan::plan(options), began + nanos(options.duration));
    let healed = now();
    nemesis.idle(healed + nanos(options.healed_within()), every_lock_was_given(options.locks, healed));
    // A little more, so that the picture shows how it goes on.
    nemesis.idle(now() + nanos(Duration::from_secs(1)), |_| false);
    let (episodes, forgone) = (std::mem::take(&mut nemesis.episodes), nemesis.forgone);
    let ended = now();
    let history = cast.end();
    Outcome::new(options.clone(), history, episodes, forgone, [began, healed, ended])
}

/// Whether every lock was asked for and given after this time.
fn every_lock_was_given(locks: usize, after: Ns) -> impl FnMut(&[(usize, Entry)]) -> bool {
    let mut given = vec![false; locks];
    move |news| {
        for (_, entry) in news {
            if let Entry::Held { lock, invoked, .. } = *entry {
                given[lock] |= invoked > after;
            }
        }
        !given.contains(&false)
    }
}

fn nanos(duration: Duration) -> Ns {
    Ns::try_from(duration.as_nanos()).unwrap_or(Ns::MAX)
}
