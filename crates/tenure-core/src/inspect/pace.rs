//! How fast a node may be walked through.
//!
//! A node serves one command at a time, and whoever looks at its locks must not be felt by those
//! who use them. So a slice is small ([`SLICE`]), and after each the node is left alone for so long
//! that looking takes no more than a fixed [`Share`] of its time.

use std::time::Duration;

/// How long a slice should keep a node busy: a command that has to wait for it is hardly slower
/// than one on a busy network.
pub const SLICE: Duration = Duration::from_micros(500);

/// What a command costs a server besides what its clock shows: to read it, to find its script, and
/// to write the reply.
const OVERHEAD: Duration = Duration::from_micros(50);

/// The fewest and the most keys of a slice. A key that is no lock costs about a microsecond, a lock
/// with all that is told of it about five.
const KEYS: std::ops::RangeInclusive<u32> = 20..=2_000;

/// What part of a node's time may be spent: one in so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share(u32);

impl Share {
    /// For whoever looks all the time: 2 %.
    pub const WATCHING: Self = Self(50);
    /// For somebody who asks once, and waits: 25 %.
    pub const ASKING: Self = Self(4);

    /// The same as a number.
    #[must_use]
    pub fn get(self) -> f64 {
        1.0 / f64::from(self.0)
    }
}

/// The pace of a walk through one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    share: Share,
    keys: u32,
}

impl Pace {
    /// A walk that has not begun, and may take this part of the node's time.
    #[must_use]
    pub const fn new(share: Share) -> Self {
        Self { share, keys: 100 }
    }

    /// How many keys the next slice has.
    #[must_use]
    pub const fn keys(&self) -> u32 {
        self.keys
    }

    /// A slice is there. Returns how long the node is left alone now.
    ///
    /// A node that does not say how long it was busy was so for a whole round trip, as far as
    /// anybody knows.
    pub fn rest(&mut self, took: Option<Duration>, round_trip: Duration) -> Duration {
        let busy = took.filter(|took| !took.is_zero()).unwrap_or(round_trip);
        if busy > SLICE {
            self.keys = (self.keys / 2).max(*KEYS.start());
        } else if busy * 3 < SLICE * 2 {
            self.keys = (self.keys + self.keys / 2).min(*KEYS.end());
        }
        self.alone_after(busy)
    }

    /// How long a node is left alone that was busy for so long.
    #[must_use]
    pub fn alone_after(&self, busy: Duration) -> Duration {
        (busy + OVERHEAD) * (self.share.0 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn a_node_is_left_alone_so_long_that_it_spends_no_more_than_its_share() {
        for (share, most) in [(Share::WATCHING, 0.02), (Share::ASKING, 0.25)] {
            for busy in [micros(1), micros(300), Duration::from_millis(40)] {
                let rest = Pace::new(share).rest(Some(busy), Duration::from_secs(1));
                assert!(busy.as_secs_f64() / (busy + rest).as_secs_f64() <= most, "{busy:?}: {rest:?}");
            }
        }
    }

    #[test]
    fn slices_grow_and_shrink_until_they_take_what_they_may() {
        for per_key in [micros(1), micros(5), micros(20)] {
            let mut pace = Pace::new(Share::WATCHING);
            let mut last = Duration::ZERO;
            for _ in 0..40 {
                last = per_key * pace.keys();
                pace.rest(Some(last), Duration::ZERO);
            }
            assert!(last <= SLICE * 2 && (last >= SLICE / 3 || pace.keys() == 20), "{per_key:?}: {last:?}");
        }
    }

    #[test]
    fn a_node_that_does_not_say_how_long_it_took_is_given_its_round_trip() {
        let mut pace = Pace::new(Share::WATCHING);
        assert_eq!(pace.rest(None, micros(950)), Duration::from_millis(49));
        assert_eq!(pace.rest(Some(Duration::ZERO), micros(950)), Duration::from_millis(49));
    }
}
