//! How many turns there should be.
//!
//! While they are wanted there are more and more of them, until they take longer than they should;
//! then there are fewer. They should take no more than twice the least time, or [`AT_EASE`] if that
//! is longer. The least time is looked at again now and then, with few turns at a time: nodes may
//! have moved, and turns that keep each other waiting do not show how quick one of them would be.

use std::time::{Duration, Instant};

/// How many turns there are at first, when the least time is known.
const FIRST: usize = 128;

/// Fewer would not keep the nodes busy: what keeps a turn waiting may be this process, which has
/// refusals to write, too.
const FEWEST: usize = 64;

/// Nobody minds a turn that takes no longer.
const AT_EASE: Duration = Duration::from_millis(20);

/// How often the least time is looked at again.
const LOOKS_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Pace {
    wanted: usize,
    /// How many there are: it takes until their end to have fewer.
    there: usize,
    least: Duration,
    /// Of the turns since `wanted` was last thought about.
    count: u32,
    sum: Duration,
    /// Whether somebody had to wait for one of them.
    are_wanted: bool,
    looked_at: Instant,
    look: Option<Look>,
}

/// It is looked how quick few of them are.
#[derive(Debug)]
struct Look {
    /// How many there were before.
    before: usize,
    /// Since when there are few.
    few_since: Option<Instant>,
}

/// What becomes of the number of turns when one of them ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is not given to another.
    Fewer,
    /// It is, and so are so many beside it.
    More(usize),
}

impl Pace {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            wanted: FEWEST,
            there: FEWEST,
            least: Duration::ZERO,
            count: 0,
            sum: Duration::ZERO,
            are_wanted: false,
            looked_at: now,
            look: Some(Look { before: FIRST, few_since: Some(now) }),
        }
    }

    /// How many there are.
    pub(super) const fn turns(&self) -> usize {
        self.there
    }

    /// So long it takes until there are as many as nodes that are far away need: a few of them.
    pub(super) const fn patience(&self) -> Duration {
        self.least.saturating_mul(8)
    }

    /// Somebody has to wait for one.
    pub(super) const fn are_wanted(&mut self) {
        self.are_wanted = true;
    }

    /// A turn ends.
    pub(super) const fn turns_after_one(&mut self) -> Change {
        if self.there > self.wanted {
            self.there -= 1;
            return Change::Fewer;
        }
        let more = self.wanted - self.there;
        self.there = self.wanted;
        Change::More(more)
    }

    /// A turn that began then has ended now. It is thought about when as many have ended as there
    /// are at a time.
    pub(super) fn note(&mut self, begun: Instant, now: Instant) {
        if let Some(look) = &mut self.look {
            // Those that began before were asked beside many.
            let few_since = *look.few_since.get_or_insert(now);
            if self.there > FEWEST || begun < few_since {
                look.few_since = (self.there <= FEWEST).then_some(few_since);
                return;
            }
        }
        self.count += 1;
        self.sum += now.saturating_duration_since(begun);
        if usize::try_from(self.count).is_ok_and(|count| count < self.there) {
            return;
        }
        let mean = self.sum / self.count;
        let are_wanted = std::mem::take(&mut self.are_wanted);
        (self.count, self.sum) = (0, Duration::ZERO);
        if let Some(look) = self.look.take() {
            (self.least, self.wanted, self.looked_at) = (mean, look.before, now);
            return;
        }
        self.least = self.least.min(mean);
        let should = AT_EASE.max(self.least.saturating_mul(2));
        if mean > should || are_wanted {
            let share = self.wanted.saturating_mul(micros(should)) / micros(mean).max(1);
            self.wanted = share.clamp(self.wanted / 2, self.wanted + self.wanted / 2).max(FEWEST);
        }
        if are_wanted && self.wanted > FEWEST && now.duration_since(self.looked_at) >= LOOKS_EVERY {
            self.look = Some(Look { before: self.wanted, few_since: None });
            self.wanted = FEWEST;
        }
    }
}

fn micros(time: Duration) -> usize {
    usize::try_from(time.as_micros()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes that answer after `alone`, and can do so many in a second.
    struct Nodes {
        alone: Duration,
        per_second: f64,
    }

    impl Nodes {
        /// How long a turn takes beside so many others.
        fn take(&self, turns: usize) -> Duration {
            self.alone.max(Duration::from_secs_f64(turns as f64 / self.per_second))
        }

        /// So many seconds in which more want a turn than there are.
        fn serve(&self, pace: &mut Pace, now: &mut Instant, seconds: u64) {
            let end = *now + Duration::from_secs(seconds);
            while *now < end {
                let (turns, begun) = (pace.turns(), *now);
                *now += self.take(turns);
                for _ in 0..turns {
                    pace.are_wanted();
                    pace.note(begun, *now);
                    pace.turns_after_one();
                }
            }
        }
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn near_nodes_are_asked_as_much_as_they_answer_without_delay() {
        let (mut now, nodes) = (Instant::now(), Nodes { alone: ms(1), per_second: 7_000.0 });
        let mut pace = Pace::new(now);
        nodes.serve(&mut pace, &mut now, 8);
        assert!((130..=150).contains(&pace.turns()), "{} for 20 ms of 7,000 a second", pace.turns());
        // Also when that has gone on for long.
        nodes.serve(&mut pace, &mut now, 307);
        assert!((130..=150).contains(&pace.turns()), "{} later", pace.turns());
    }

    #[test]
    fn far_nodes_are_asked_as_much_as_they_can_do_soon() {
        let (mut now, nodes) = (Instant::now(), Nodes { alone: ms(180), per_second: 7_000.0 });
        let mut pace = Pace::new(now);
        nodes.serve(&mut pace, &mut now, 3);
        assert!(pace.turns() >= 1_260, "{}: 7,000 a second", pace.turns());
        nodes.serve(&mut pace, &mut now, 5);
        assert!(nodes.take(pace.turns()) <= ms(400), "{}", pace.turns());
    }

    #[test]
    fn nodes_that_have_moved_away_are_known_to_be_farther_soon() {
        let (mut now, near) = (Instant::now(), Nodes { alone: ms(1), per_second: 7_000.0 });
        let mut pace = Pace::new(now);
        near.serve(&mut pace, &mut now, 30);
        let far = Nodes { alone: ms(100), per_second: 7_000.0 };
        far.serve(&mut pace, &mut now, 20);
        assert!(pace.turns() >= 700, "{}", pace.turns());
    }

    #[test]
    fn turns_that_nobody_wants_are_not_made_more() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..10_000 {
            let begun = now;
            now += ms(1);
            pace.note(begun, now);
            pace.turns_after_one();
            assert!(pace.turns() <= FIRST);
        }
        assert_eq!(pace.turns(), FIRST);
    }
}
