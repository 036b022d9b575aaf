//! How long a node may take to answer.
//!
//! Whoever sets `node_timeout` gets just that. By default it follows the round trips that are seen,
//! as the retransmission timeout of TCP does (RFC 6298), so that nobody has to set anything for
//! nodes in other regions:
//!
//! ```text
//!   timeout = smoothed + max(4 deviations, smoothed / 2),   from today's default up to a tenth of the ttl
//! ```
//! It differs from TCP where a lock needs something else:
//! - Every node has its own. A far one does not make anybody wait for a near one that hangs.
//! - Silence teaches nothing: a node that does not answer is not given longer and longer. Answers
//!   that come after the timeout are samples as well, so a way that has become longer is learned
//!   from the first of them.
//! - What we were late for ourselves is no round trip: a sample is ignored if most of it was a
//!   pause of our own.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Term;
use crate::round::{NODES_MAX, NodeIndex, Quorum};
use crate::time::Time;

/// How long each node is given by its round trips, before the term sets its bounds. Cheap to clone
/// and to compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Patience(Option<Arc<[u32; NODES_MAX]>>);

/// The round trips of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RoundTrips {
    /// Zero: none was seen.
    smoothed_ns: u64,
    deviation_ns: u64,
}

/// A pause of our own: when we meant to look, and when we did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pause {
    meant: Time,
    looked: Time,
}

/// By when each node has to answer in a round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Deadlines {
    started: Time,
    term: Term,
    patience: Patience,
    /// None is later than this.
    latest: Time,
}

impl Patience {
    /// Whether both are the very same, not only equal.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Gives a node this long from now on, in whole milliseconds: below that, every answer would
    /// make a difference.
    pub(crate) fn set(&mut self, node: NodeIndex, timeout: Duration) {
        let millis = timeout.as_micros().div_ceil(1_000);
        let millis = u32::try_from(millis).unwrap_or(u32::MAX);
        let before = self.0.as_ref().map_or(0, |millis| millis[node.get()]);
        if before != millis {
            Arc::make_mut(self.0.get_or_insert_default())[node.get()] = millis;
        }
    }

    /// How long a node is given in a round for this term.
    #[must_use]
    pub fn timeout(&self, node: NodeIndex, term: &Term) -> Duration {
        let seen = self.0.as_ref().map_or(0, |millis| millis[node.get()]);
        Duration::from_millis(u64::from(seen)).clamp(term.node_timeout(), term.node_timeout_max())
    }
}

impl RoundTrips {
    /// Takes the time that an answer took.
    pub(crate) fn learn(&mut self, sample: Duration) {
        let sample_ns = u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX).clamp(1, u64::MAX / 16);
        if self.smoothed_ns == 0 {
            (self.smoothed_ns, self.deviation_ns) = (sample_ns, sample_ns / 2);
        } else {
            self.deviation_ns = (3 * self.deviation_ns + self.smoothed_ns.abs_diff(sample_ns)) / 4;
            self.smoothed_ns = (7 * self.smoothed_ns + sample_ns) / 8;
        }
    }

    /// How long the next answer may take. Where all took the same time, half as long again: what is
    /// carried far is also held up now and then.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_nanos(self.smoothed_ns + (4 * self.deviation_ns).max(self.smoothed_ns / 2))
    }
}

impl Pause {
    pub(crate) const fn new(meant: Time, looked: Time) -> Self {
        Self { meant, looked }
    }

    /// Whether an answer that was awaited from `sent` to `received` was held up by us for most of
    /// that time.
    pub(crate) fn spoils(&self, sent: Time, received: Time) -> bool {
        let paused = self.looked.min(received).since(self.meant.max(sent));
        paused > received.since(sent) / 2
    }
}

impl Deadlines {
    /// For a round that begins now.
    pub(crate) fn new(now: Time, term: Term, patience: &Patience) -> Self {
        let latest = now + term.node_timeout_max();
        Self { started: now, term, patience: patience.clone(), latest }
    }

    /// Waits for nobody longer than until then.
    pub(crate) fn until(mut self, latest: Time) -> Self {
        self.latest = self.latest.min(latest);
        self
    }

    /// By when this node has to answer.
    pub(crate) fn of(&self, node: NodeIndex) -> Time {
        (self.started + self.patience.timeout(node, &self.term)).min(self.latest)
    }

    /// By when all of them have.
    pub(crate) fn last(&self, quorum: Quorum) -> Time {
        quorum.indexes().map(|node| self.of(node)).max().expect("a quorum has nodes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{MaxTtl, Options};

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn term(ttl: Duration, node_timeout: Option<Duration>) -> Term {
        let options = Options { ttl, node_timeout, ..Options::default() };
        options.check(MaxTtl::default()).unwrap().term
    }

    fn after(samples_ms: impl IntoIterator<Item = u64>) -> Duration {
        let mut trips = RoundTrips::default();
        samples_ms.into_iter().for_each(|sample| trips.learn(ms(sample)));
        trips.timeout()
    }

    #[test]
    fn the_timeout_is_the_round_trip_and_half_of_it_or_four_deviations() {
        assert_eq!(after([]), Duration::ZERO, "nothing is known");
        assert_eq!(after([40]), ms(120), "one sample says little");
        assert!((ms(60)..ms(61)).contains(&after([40; 40])), "{:?}", after([40; 40]));
        let unsteady = after((0..200).map(|n| if n % 2 == 0 { 20 } else { 60 }));
        assert!((ms(110)..ms(130)).contains(&unsteady), "{unsteady:?}");
    }

    #[test]
    fn a_way_that_becomes_longer_is_learned_from_its_first_answer_and_a_shorter_one_soon() {
        let longer = after([1; 100].into_iter().chain([90]));
        assert!(longer > ms(90), "{longer:?}");
        let shorter = after([180; 100].into_iter().chain([1; 30]));
        assert!(shorter < ms(50), "{shorter:?}");
    }

    #[test]
    fn the_default_follows_between_its_old_bounds_and_a_tenth_of_the_ttl() {
        let node = Quorum::of(3).unwrap().indexes().nth(1).unwrap();
        let mut patience = Patience::default();
        // What the round trips suggest, the ttl, and what comes of it: in milliseconds.
        for (seen, ttl, timeout) in [
            (0, 30_000, 50),
            (2, 30_000, 50),
            (51, 30_000, 51),
            (270, 30_000, 270),
            (9_000, 30_000, 3_000),
            (270, 3_000, 270),
            (400, 3_000, 300),
            (400, 400, 40),
            (1, 400, 40),
            (400, 50, 5),
        ] {
            patience.set(node, ms(seen));
            assert_eq!(patience.timeout(node, &term(ms(ttl), None)), ms(timeout), "{seen} of {ttl}");
            let said = term(ms(ttl), Some(ms(7)));
            assert_eq!(patience.timeout(node, &said), ms(7), "whoever says so gets that");
        }
    }

    #[test]
    fn every_node_has_a_deadline_of_its_own() {
        let quorum = Quorum::of(3).unwrap();
        let nodes: Vec<NodeIndex> = quorum.indexes().collect();
        let mut patience = Patience::default();
        patience.set(nodes[2], ms(200));
        let deadlines = Deadlines::new(at(1_000), term(ms(30_000), None), &patience);
        assert_eq!(
            nodes.iter().map(|node| deadlines.of(*node)).collect::<Vec<_>>(),
            [at(1_050), at(1_050), at(1_200)]
        );
        assert_eq!(deadlines.last(quorum), at(1_200));
        let soon = deadlines.until(at(1_030));
        assert_eq!((soon.of(nodes[0]), soon.last(quorum)), (at(1_030), at(1_030)));
    }

    #[test]
    fn what_we_were_late_for_ourselves_is_no_round_trip() {
        let pause = Pause::new(at(100), at(600));
        assert!(pause.spoils(at(95), at(601)), "nearly all of it was our pause");
        assert!(pause.spoils(at(300), at(610)), "it was sent before we knew");
        assert!(!pause.spoils(at(100), at(2_000)), "a quarter of it");
        assert!(!pause.spoils(at(601), at(602)), "sent afterwards");
        assert!(!pause.spoils(at(10), at(90)), "received before");
    }

    #[test]
    fn absurd_round_trips_do_not_overflow() {
        let mut trips = RoundTrips::default();
        for sample in [Duration::MAX, Duration::ZERO, Duration::MAX, Duration::MAX] {
            trips.learn(sample);
        }
        let mut patience = Patience::default();
        let node = Quorum::of(1).unwrap().indexes().next().unwrap();
        patience.set(node, trips.timeout());
        assert_eq!(patience.timeout(node, &term(ms(30_000), None)), ms(3_000));
    }
}
