//! What all clients of the same nodes must agree on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::config::MaxTtl;
use crate::fence::{Fence, FenceBounds};
use crate::round::NodeIndex;
use crate::time::NodeTime;

/// How far fences may run ahead of a node's clock: clocks of nodes that are kept in step at all
/// differ by less. At most half of the quarantine, so that the other half is left for clocks that
/// step back when memory is lost.
const SLACK_DEFAULT: Duration = Duration::from_secs(10);

/// How long nodes remember fences: longer than any process sits on a stale lock unnoticed.
const RETENTION_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);

/// The shortest retention: fences must outlive the retries of one acquire.
const RETENTION_MIN: Duration = Duration::from_secs(1);

/// What to do about nodes that may have forgotten locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RestartGuard {
    /// A node that shows signs of lost memory is quarantined. It cannot detect that *all* nodes
    /// lost their memory within one quarantine while no client remembers. The default.
    #[default]
    Evidence,
    /// Every new life of a node's memory is quarantined, even at the first start of a fleet and
    /// where the disk should have kept everything. Replicas and eviction are refused.
    Strict,
    /// Nodes vote at once, whatever they forgot. Fences still grow, but exclusion does not survive
    /// a restart.
    Off,
}

/// What all clients of the same nodes and prefix must agree on. It is part of every record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    max_ttl: MaxTtl,
    pub(super) bounds: FenceBounds,
    pub(super) restart_guard: RestartGuard,
    roster: Roster,
}

/// The node list, in the words that all its clients use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Roster {
    /// The whole list: the same for every node and client.
    list: Arc<str>,
    /// Which of them each node is, in the order in which this client has them.
    places: Arc<[Arc<str>]>,
}

impl Roster {
    /// Nodes that all clients call by the same names, in whatever order.
    #[must_use]
    pub fn of_names<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        let places: Arc<[Arc<str>]> = names.into_iter().map(|name| one_word(name.as_ref())).collect();
        let mut sorted: Vec<&str> = places.iter().map(|name| &**name).collect();
        sorted.sort_unstable();
        Self { list: sorted.join(",").into(), places }
    }

    /// A fleet that goes by a name of its own, because its clients reach the nodes under different
    /// addresses: they agree on how many there are, on their order, and on what every client can
    /// say of each (its database).
    #[must_use]
    pub fn named<N: AsRef<str>>(fleet: &str, parts: impl IntoIterator<Item = N>) -> Self {
        let place = |(index, part): (usize, N)| one_word(&format!("{}{}", index + 1, part.as_ref()));
        let places: Arc<[Arc<str>]> = parts.into_iter().enumerate().map(place).collect();
        Self { list: one_word(&format!("{fleet}#{}", places.len())), places }
    }

    /// The list, as records show it.
    #[must_use]
    pub const fn list(&self) -> &Arc<str> {
        &self.list
    }
}

impl From<&str> for Roster {
    /// As many nodes as one likes, told apart by nothing.
    fn from(list: &str) -> Self {
        Self { list: one_word(list), places: Arc::default() }
    }
}

/// The record is one line of words.
fn one_word(text: &str) -> Arc<str> {
    text.replace(char::is_whitespace, "%20").into()
}

impl Settings {
    /// Settings with the defaults for everything else.
    #[must_use]
    pub fn new(max_ttl: MaxTtl, roster: impl Into<Roster>) -> Self {
        let bounds = FenceBounds::new(SLACK_DEFAULT.min(max_ttl.quarantine() / 2), RETENTION_DEFAULT);
        Self { max_ttl, bounds, restart_guard: RestartGuard::default(), roster: roster.into() }
    }

    /// The node list.
    #[must_use]
    pub const fn roster(&self) -> &Roster {
        &self.roster
    }

    /// With another node list.
    #[must_use]
    pub fn with_roster(mut self, roster: Roster) -> Self {
        self.roster = roster;
        self
    }

    /// With another restart guard.
    #[must_use]
    pub fn restart_guard(mut self, restart_guard: RestartGuard) -> Self {
        self.restart_guard = restart_guard;
        self
    }

    /// With another time for which nodes remember fences; at least a second.
    #[must_use]
    pub fn fence_retention(mut self, retention: Duration) -> Self {
        let slack = Duration::from_micros(self.bounds.slack_us);
        self.bounds = FenceBounds::new(slack, retention.max(RETENTION_MIN));
        self
    }

    /// How far from a node's clock a fence may lie.
    #[must_use]
    pub const fn bounds(&self) -> FenceBounds {
        self.bounds
    }

    /// How long a node is kept out that may have forgotten locks.
    #[must_use]
    pub fn quarantine(&self) -> Duration {
        self.max_ttl.quarantine()
    }

    /// Fences up to this may have been granted before a life of a node's memory that began at
    /// `created`: what it granted was at most the slack ahead of its clock then. The quarantine is
    /// waited out anyway, so fences from within it are not needed; for that a clock may step back
    /// with the loss by the quarantine less the slack.
    pub(super) fn floor(&self, created: NodeTime, wait: Duration) -> Fence {
        let quarantine_us = match self.restart_guard {
            RestartGuard::Off => 0,
            RestartGuard::Evidence | RestartGuard::Strict => {
                u64::try_from(self.quarantine().max(wait).as_micros()).unwrap_or(u64::MAX)
            }
        };
        let waited = Fence::new(created.as_micros().saturating_add(quarantine_us));
        self.bounds.highest(created).max(waited)
    }

    /// What all clients agree on about this node, in the words of its record.
    pub(super) fn terms(&self, node: NodeIndex) -> Arc<str> {
        let FenceBounds { slack_us, retention_us } = self.bounds;
        let place = self.roster.places.get(node.get()).map_or("?", |place| place);
        format!(
            "nodes={} node={place} max_ttl_ms={} guard_ms={} slack_us={slack_us} retention_us={retention_us} \
             restart_guard={}",
            self.roster.list,
            self.max_ttl.get().as_millis(),
            self.max_ttl.guard_band_max().as_millis(),
            self.restart_guard,
        )
        .into()
    }
}

/// The words that it is shown by.
impl std::str::FromStr for RestartGuard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Evidence, Self::Strict, Self::Off];
        let found = all.into_iter().find(|guard| guard.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is not a restart guard; use evidence, strict or off"))
    }
}

impl fmt::Display for RestartGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Evidence => "evidence",
            Self::Strict => "strict",
            Self::Off => "off",
        })
    }
}
