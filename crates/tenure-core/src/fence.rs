//! The growing number that a resource can check, proposed by the client and accepted by a majority.
//!
//! A node grants a fence for a name only if it is larger than every one it granted for that name
//! before, and only grants of the *same* fence count together. Two majorities share a node, so of
//! two acquisitions the one that came later at that node has the larger fence: no clock is needed
//! for that, on any side.
//!
//! Clocks come in only to choose numbers that nodes accept at the first try. They are those of the
//! nodes, as learned from their replies; the client's own wall clock is never read. Two bounds that
//! each node checks by its own clock keep the numbers near the present, so that a node can forget:
//! nothing further ahead than the *slack*, so that a node without memory knows what it may have
//! granted before; nothing older than half of the *retention*, so that a fence that was forgotten
//! is never undercut.

use std::fmt;
use std::time::Duration;

use crate::time::NodeTime;

/// Scripts on the nodes compute with doubles, which are exact up to here. Microseconds reach it in
/// 2255.
const FENCE_MAX: u64 = 1 << 53;

/// A fencing token: of two acquisitions of a lock, the later has the larger one.
///
/// Send it with every write to the resource that the lock protects, and let the resource refuse
/// smaller ones than it has seen. It counts microseconds, with gaps; only the order matters. It
/// fits a 64-bit integer, signed or not, and a double.
///
/// ```
/// # use tenure_core::Fence;
/// let (earlier, later) = (Fence::new(1_700_000_000_000_000), Fence::new(1_700_000_000_000_001));
/// assert!(earlier < later);
/// assert_eq!(later.get() - earlier.get(), 1);
/// assert_eq!(later.to_string(), "1700000000000001");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

/// What a client asks a node to promise: this fence, and perhaps some above it, under these bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProposedFence {
    /// The fence proposed, the lowest of a range.
    pub fence: Fence,
    /// How many fences above it are reserved with it, for callers that the lock is passed on to.
    pub span: u32,
    /// The bounds, the same for every client of the nodes.
    pub bounds: FenceBounds,
    /// The last millisecond, by the node's clock, at which the node remembers it: a retention after
    /// the largest fence itself, which is near the node's clock. No client's clock decides what is
    /// forgotten.
    pub ends_ms: u64,
}

/// How far from a node's clock a fence may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FenceBounds {
    /// A node grants nothing further ahead of its clock than this.
    pub slack_us: u64,
    /// A node forgets fences that are older than this, and grants nothing that is older than half
    /// of it.
    pub retention_us: u64,
}

/// Chooses the fences of one client: above all it has seen, close to the clock of the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FenceClock {
    last: u64,
}

impl Fence {
    /// The fence of a lock that was acquired without one: smaller than every real fence, so that a
    /// resource that checks refuses it.
    pub const NONE: Self = Self(0);

    /// A fence with this number, at most the largest that scripts can store exactly (2^53).
    #[must_use]
    pub const fn new(number: u64) -> Self {
        if number > FENCE_MAX { Self(FENCE_MAX) } else { Self(number) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The fence so many above this one.
    pub(crate) const fn plus(self, span: u32) -> Self {
        Self::new(self.0.saturating_add(span as u64))
    }

    /// The number as a signed integer, for databases.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }
}

impl FenceBounds {
    /// The bounds for these durations.
    #[must_use]
    pub fn new(slack: Duration, retention: Duration) -> Self {
        let micros =
            |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(FENCE_MAX);
        Self { slack_us: micros(slack), retention_us: micros(retention) }
    }

    /// The largest fence a node grants at its time `now`.
    #[must_use]
    pub const fn highest(&self, now: NodeTime) -> Fence {
        Fence::new(now.as_micros().saturating_add(self.slack_us))
    }

    /// A node grants only what is above this at its time `now`, also for names it knows nothing of.
    #[must_use]
    pub const fn lowest(&self, now: NodeTime) -> Fence {
        Fence::new(now.as_micros().saturating_sub(self.retention_us / 2))
    }
}

impl ProposedFence {
    /// `fence`, proposed under these bounds.
    #[must_use]
    pub const fn new(fence: Fence, bounds: FenceBounds) -> Self {
        Self::range(fence, 0, bounds)
    }

    /// `fence` and the `span` fences above it, proposed under these bounds.
    #[must_use]
    pub const fn range(fence: Fence, span: u32, bounds: FenceBounds) -> Self {
        let ends_ms = fence.plus(span).0.saturating_add(bounds.retention_us) / 1_000;
        Self { fence, span, bounds, ends_ms }
    }

    /// The largest fence of the range: what the node remembers.
    #[must_use]
    pub const fn top(&self) -> Fence {
        self.fence.plus(self.span)
    }
}

impl FenceClock {
    /// Takes note of a fence that a node showed at its time `now`. One that the node could not have
    /// granted is not believed: `false`.
    pub fn observe(&mut self, fence: Fence, now: NodeTime, bounds: FenceBounds) -> bool {
        let credible = fence <= bounds.highest(now);
        if credible {
            self.last = self.last.max(fence.0);
        }
        credible
    }

    /// The next fence, given the nodes' clock. It runs ahead of that clock by at most half of the
    /// slack, so that nodes whose clocks are behind still take it.
    pub fn propose(&mut self, now: NodeTime, bounds: FenceBounds) -> Fence {
        let ahead_max = now.as_micros().saturating_add(bounds.slack_us / 2);
        let proposed = Fence::new(now.as_micros().max(self.last.saturating_add(1)).min(ahead_max));
        self.last = self.last.max(proposed.0);
        proposed
    }

    /// The next fence, and how many of the `span` above it go with it: fewer, if it is far ahead of
    /// the nodes' clock already.
    ///
    /// The next one may lie within the range. It is for another lock, or comes so much later that
    /// the clock has passed the range; and if not, the nodes say how far the range went. Counting
    /// from its end would let a client with many such locks run ahead of the clock.
    pub fn propose_range(&mut self, now: NodeTime, bounds: FenceBounds, span: u32) -> (Fence, u32) {
        let low = self.propose(now, bounds);
        let ahead_max = now.as_micros().saturating_add(bounds.slack_us / 2);
        let room = ahead_max.min(FENCE_MAX).saturating_sub(low.0);
        (low, span.min(u32::try_from(room).unwrap_or(u32::MAX)))
    }
}

impl FenceClock {
    /// A number for a place in line, given the nodes' clock: above all that was seen. Nodes take
    /// any, so it is never held back, and no two are alike.
    pub fn draw(&mut self, now: NodeTime) -> u64 {
        self.last = self.last.saturating_add(1).max(now.as_micros()).min(FENCE_MAX);
        self.last
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.0
    }
}

impl From<Fence> for i64 {
    fn from(fence: Fence) -> Self {
        fence.as_i64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: FenceBounds = FenceBounds { slack_us: 10_000_000, retention_us: 86_400_000_000 };

    const fn at(micros: u64) -> NodeTime {
        NodeTime::from_micros(micros)
    }

    #[test]
    fn fences_grow_also_within_one_microsecond_and_when_the_nodes_clock_goes_back() {
        let mut clock = FenceClock::default();
        let first = clock.propose(at(1_000_000_000), BOUNDS);
        let second = clock.propose(at(1_000_000_000), BOUNDS);
        let third = clock.propose(at(999_000_000), BOUNDS);
        assert!(first < second && second < third);
    }

    #[test]
    fn a_fence_from_the_far_future_is_not_believed() {
        let mut clock = FenceClock::default();
        let now = at(1_000_000_000);
        assert!(!clock.observe(Fence::new(1_010_000_001), now, BOUNDS));
        assert_eq!(clock.propose(now, BOUNDS), Fence::new(1_000_000_000));
        assert!(clock.observe(Fence::new(1_004_000_000), now, BOUNDS));
        assert_eq!(clock.propose(now, BOUNDS), Fence::new(1_004_000_001));
    }

    #[test]
    fn a_proposal_is_never_further_ahead_than_half_of_the_slack() {
        let mut clock = FenceClock::default();
        let now = at(1_000_000_000);
        assert!(clock.observe(Fence::new(1_009_000_000), now, BOUNDS));
        assert_eq!(clock.propose(now, BOUNDS), Fence::new(1_005_000_000));
    }

    #[test]
    fn ranges_shrink_before_they_run_ahead_of_the_clock() {
        let mut clock = FenceClock::default();
        let now = at(1_000_000_000);
        let (first, span) = clock.propose_range(now, BOUNDS, 100);
        assert_eq!((first, span), (Fence::new(1_000_000_000), 100));
        let range = ProposedFence::range(first, span, BOUNDS);
        assert_eq!(range.top(), Fence::new(1_000_000_100));
        assert!(clock.observe(range.top(), now, BOUNDS), "a node has shown it");
        assert_eq!(clock.propose_range(now, BOUNDS, 7), (Fence::new(1_000_000_101), 7));
        assert!(clock.observe(Fence::new(1_004_999_989), now, BOUNDS));
        assert_eq!(clock.propose_range(now, BOUNDS, 100), (Fence::new(1_004_999_990), 10));
        assert!(clock.observe(Fence::new(1_005_000_000), now, BOUNDS));
        assert_eq!(clock.propose_range(now, BOUNDS, 100), (Fence::new(1_005_000_000), 0));
    }

    #[test]
    fn no_two_places_in_line_have_the_same_number() {
        let mut clock = FenceClock::default();
        let now = at(1_000_000_000);
        assert!(clock.observe(Fence::new(1_009_000_000), now, BOUNDS), "as far ahead as is believed");
        let (first, second) = (clock.draw(now), clock.draw(now));
        assert!(1_009_000_000 < first && first < second);
    }

    #[test]
    fn numbers_stay_exact_in_a_double() {
        let fence = Fence::new(u64::MAX);
        assert_eq!(format!("{:.0}", fence.get() as f64), fence.to_string());
        assert!(i64::from(fence) > 0);
    }
}
