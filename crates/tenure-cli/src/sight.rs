//! The fleet as the tool sees it, kept up to date: from the nodes themselves, or from a service.
//!
//! Both tell the same: which locks there are, what changes, and how the nodes are. A service that
//! cannot be reached is asked again; what was told before is old by then, and said to be.

mod nodes;
mod service;

use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::failure::Failure;
use crate::looking::Looking;
use crate::report::State;

/// A lock that somebody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) name: String,
    pub(crate) state: State,
    /// Tells one holder from the next. It is not shown: whoever knows an owner token can release.
    pub(crate) holder: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) fence: Option<u64>,
    pub(crate) margin: Option<usize>,
    pub(crate) waiters: Option<u64>,
    pub(crate) readers: Option<u64>,
    pub(crate) agree: usize,
    pub(crate) disagree: usize,
    /// How many nodes name another holder.
    pub(crate) others: usize,
    pub(crate) age_exact: bool,
    pub(crate) ends: Option<Instant>,
    pub(crate) since: Instant,
}

/// What became of a lock.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) name: String,
    pub(crate) before: Option<Lock>,
    pub(crate) now: Option<Lock>,
    /// The time from the release by the previous holder to the grant, if known.
    pub(crate) passed_on_after: Option<Duration>,
}

/// How a node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) node: String,
    pub(crate) reachable: bool,
    pub(crate) votes: bool,
    pub(crate) version: Option<String>,
    pub(crate) persistence: String,
    pub(crate) quarantine_left: Option<Duration>,
    pub(crate) clock_offset_us: Option<i64>,
    pub(crate) round_trip: Option<Duration>,
    /// What is noteworthy, with advice, the worst first.
    pub(crate) findings: Vec<String>,
}

/// How far the looker is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) complete: bool,
    pub(crate) looked_at: Option<u64>,
    pub(crate) of: Option<u64>,
}

/// What is new.
#[derive(Clone, Debug)]
pub(crate) enum News {
    Locks(Vec<Change>),
    Nodes(Vec<Node>),
    Progress(Progress),
    /// The service is gone, for this reason: what was told before is old.
    Stale(String),
    /// It is back.
    Fresh,
}

/// Whoever tells it.
pub(crate) enum Sights {
    Nodes(Box<nodes::OfNodes>),
    Service(Box<service::OfService>),
}

impl Sights {
    /// Follows the locks whose names begin so.
    pub(crate) fn begin(looking: &Looking, begins: &str) -> Self {
        match looking.backend() {
            Backend::Nodes(locks) => Self::Nodes(Box::new(nodes::OfNodes::begin(locks, begins))),
            Backend::Service(service) => {
                Self::Service(Box::new(service::OfService::begin(service.clone(), begins)))
            }
        }
    }

    /// What is new. `None` at the end.
    ///
    /// # Errors
    /// The service does not let us look, or is none.
    pub(crate) async fn next(&mut self) -> Result<Option<News>, Failure> {
        match self {
            Self::Nodes(nodes) => Ok(nodes.next().await),
            Self::Service(service) => service.next().await.map(Some),
        }
    }
}

impl Lock {
    /// After this it is free unless it is extended.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.ends.map(|ends| ends.saturating_duration_since(Instant::now()))
    }

    /// For how long its holder has it.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

impl Change {
    /// Whether another has it now than before.
    pub(crate) fn changes_hands(&self) -> bool {
        let holder = |lock: &Option<Lock>| lock.as_ref().and_then(|lock| lock.holder.clone());
        holder(&self.before) != holder(&self.now)
    }

    /// Whether it was only extended.
    pub(crate) fn is_extension(&self) -> bool {
        let (Some(before), Some(now)) = (&self.before, &self.now) else { return false };
        let bare = |lock: &Lock| Lock { ends: None, since: now.since, age_exact: false, ..lock.clone() };
        bare(before) == bare(now)
    }
}

/// The moment so long ago, if this machine was up by then.
fn ago(duration: Duration) -> Instant {
    let now = Instant::now();
    now.checked_sub(duration).unwrap_or(now)
}

#[cfg(test)]
impl Lock {
    /// A lock that was taken so long ago, and ends so soon.
    pub(crate) fn sample(name: &str, label: &str, age: Duration, left: Duration) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Held,
            holder: Some(label.to_owned()),
            label: Some(label.to_owned()),
            fence: Some(1_794_786_043_150_123),
            margin: Some(2),
            waiters: Some(0),
            readers: None,
            agree: 5,
            disagree: 0,
            others: 0,
            age_exact: true,
            ends: Some(Instant::now() + left),
            since: ago(age),
        }
    }
}
