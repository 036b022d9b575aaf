//! What one node is known to have, from walking through its keys again and again.
//!
//! A walk goes in slices, and between them the node changes. A key that is there for a whole pass
//! is found in it; so one that was not found in a whole pass was away for a moment at least. Single
//! keys can be looked at in between, out of turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::command::{Fault, Listed, Sighting};
use crate::names::LockKey;
use crate::time::{NodeTime, Time};
use crate::token::OwnerToken;

/// Ends that are so close to each other are the same: they are told in milliseconds, from another
/// machine.
const SAME_END: Duration = Duration::from_millis(250);

/// The walk through one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Walk {
    looks: BTreeMap<Arc<str>, Look>,
    /// Where the next slice begins.
    cursor: u64,
    /// The number of this pass.
    pass: u64,
    /// Whether a whole pass is behind us.
    complete: bool,
    walked_ppm: u32,
    keys: Option<u64>,
    /// Why the node did not answer the last time; `None` if it did, or was not asked yet.
    fault: Option<Fault>,
    answered: bool,
}

/// What a node had when it was last looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    /// The key, if it was there.
    pub found: Option<Sighting>,
    /// When, by our clock.
    pub at: Time,
    /// How long the holder had it by then, if its fence tells: fences are near the node's clock.
    pub age: Option<Duration>,
    pass: u64,
}

/// How far a walk is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Progress {
    /// Whether the node has been walked through as a whole.
    pub complete: bool,
    /// How many of its keys, of any kind, this pass has looked at, if the node says how many it
    /// has.
    pub looked_at: Option<u64>,
    /// How many it has.
    pub of: Option<u64>,
    /// Why it did not answer the last time.
    pub fault: Option<Fault>,
}

impl Walk {
    /// Where the next slice begins.
    #[must_use]
    pub const fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Whether the next slice begins a pass.
    #[must_use]
    pub const fn is_between_passes(&self) -> bool {
        self.cursor == 0
    }

    /// Whether the node answered the last time.
    #[must_use]
    pub const fn answers(&self) -> bool {
        self.answered && self.fault.is_none()
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let walked = if self.cursor == 0 && self.complete { 1_000_000 } else { self.walked_ppm };
        let looked_at =
            |keys: u64| u64::try_from(u128::from(keys) * u128::from(walked) / 1_000_000).unwrap_or(keys);
        Progress {
            complete: self.complete,
            looked_at: self.keys.map(looked_at),
            of: self.keys,
            fault: self.fault.clone(),
        }
    }

    /// What the node says about a key: `None` if that is not known.
    #[must_use]
    pub fn look(&self, key: &str) -> Option<Option<&Look>> {
        match self.looks.get(key) {
            _ if !self.answers() => None,
            Some(look) => Some(Some(look)),
            None => self.complete.then_some(None),
        }
    }

    /// The keys it was seen with, and when.
    pub fn keys(&self) -> impl Iterator<Item = (&Arc<str>, Time)> {
        self.looks.iter().filter(|(_, look)| look.found.is_some()).map(|(key, look)| (key, look.at))
    }

    /// A slice is there. Returns the keys about which it says something new.
    pub fn take_slice(&mut self, now: Time, clock: Option<NodeTime>, listed: Listed) -> Vec<Arc<str>> {
        self.pass += u64::from(self.cursor == 0);
        (self.cursor, self.walked_ppm) = (listed.next, listed.walked_ppm);
        self.keys = listed.keys.or(self.keys);
        let mut new = self.take_found(now, clock, listed.seen);
        if self.cursor == 0 {
            let pass = self.pass;
            let missed = self.looks.iter().filter(|(_, look)| look.pass < pass && look.found.is_some());
            new.extend(missed.map(|(key, _)| Arc::clone(key)));
            self.looks.retain(|_, look| look.pass == pass);
            self.complete = true;
        }
        new
    }

    /// These keys were looked at out of turn. Returns those about which it says something new.
    pub fn take_these(
        &mut self,
        now: Time,
        clock: Option<NodeTime>,
        asked: &[LockKey],
        listed: Listed,
    ) -> Vec<Arc<str>> {
        let found: Vec<Arc<str>> = listed.seen.iter().map(|seen| Arc::clone(&seen.holding.key)).collect();
        let mut new = self.take_found(now, clock, listed.seen);
        for key in asked.iter().map(LockKey::as_str).filter(|key| !found.iter().any(|one| **one == **key)) {
            let absent = Look { found: None, at: now, age: None, pass: self.pass };
            let before = self.looks.insert(key.into(), absent);
            if before.is_none_or(|before| before.found.is_some()) {
                new.push(key.into());
            }
        }
        new
    }

    fn take_found(&mut self, now: Time, clock: Option<NodeTime>, seen: Vec<Sighting>) -> Vec<Arc<str>> {
        self.answered = true;
        self.fault = None;
        let mut new = vec![];
        for sighting in seen {
            // Another library's client has no fence: what is there was granted to somebody before.
            let fence = sighting.holding.fence.filter(|_| OwnerToken::parse(&sighting.holding.owner).is_ok());
            let age = fence.zip(clock).and_then(|(fence, clock)| {
                clock.as_micros().checked_sub(fence.get()).map(Duration::from_micros)
            });
            let key = Arc::clone(&sighting.holding.key);
            let look = Look { found: Some(sighting), at: now, age, pass: self.pass };
            let before = self.looks.insert(Arc::clone(&key), look);
            if before.is_none_or(|before| !before.says_the_same(&self.looks[&key])) {
                new.push(key);
            }
        }
        new
    }

    /// The node did not answer. It is asked the same again: what is known so far stays.
    pub fn take_fault(&mut self, fault: Fault) {
        (self.answered, self.fault) = (true, Some(fault));
    }

    /// The walk begins again: the node has another memory than the one that was walked through, or
    /// other keys are to be found. Until it has been walked through, nothing is known of keys that
    /// were not met.
    pub fn restart(&mut self) {
        (self.cursor, self.complete, self.walked_ppm) = (0, false, 0);
    }
}

impl Look {
    /// When it ends, if it was there and ends at all.
    #[must_use]
    pub fn ends(&self) -> Option<Time> {
        Some(self.at + self.found.as_ref()?.holding.left?)
    }

    fn says_the_same(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (&self.found, &other.found) else {
            return self.found.is_none() && other.found.is_none();
        };
        let of = |seen: &Sighting| {
            let held = &seen.holding;
            (Arc::clone(&held.owner), held.label.clone(), held.fence, held.count, held.kind, seen.waiters)
        };
        of(a) == of(b) && same_end(self.ends(), other.ends())
    }
}

/// Whether two ends are the same, as far as anybody can say.
pub(super) fn same_end(a: Option<Time>, b: Option<Time>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.since(b).max(b.since(a)) <= SAME_END,
        (a, b) => a.is_none() && b.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Holding;
    use crate::fence::Fence;
    use crate::mode::Kind;
    use crate::names::Prefix;

    fn seen(key: &str, owner: &str, left_ms: u64) -> Sighting {
        let holding = Holding {
            key: key.into(),
            owner: format!("{:040x}", owner.as_bytes()[0]).into(),
            left: Some(Duration::from_millis(left_ms)),
            fence: Some(Fence::new(1_000_000)),
            label: None,
            sharers: None,
            kind: Kind::Plain,
            count: None,
        };
        Sighting { holding, waiters: Some(0) }
    }

    fn slice(next: u64, seen: Vec<Sighting>) -> Listed {
        Listed { seen, next, walked_ppm: 500_000, keys: Some(10), took: None }
    }

    const fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn names(keys: &[Arc<str>]) -> Vec<&str> {
        keys.iter().map(|key| &**key).collect()
    }

    #[test]
    fn a_key_is_gone_when_a_whole_pass_did_not_meet_it() {
        let mut walk = Walk::default();
        assert_eq!(names(&walk.take_slice(at(0), None, slice(5, vec![seen("a", "x", 900)]))), ["a"]);
        assert_eq!((walk.look("b"), walk.progress().looked_at), (None, Some(5)), "not known yet");
        assert_eq!(names(&walk.take_slice(at(1), None, slice(0, vec![seen("b", "x", 900)]))), ["b"]);
        assert_eq!(walk.look("c"), Some(None), "known to be away");
        walk.take_slice(at(2), None, slice(5, vec![]));
        assert!(walk.look("a").is_some_and(|look| look.is_some()), "the pass is not over");
        assert_eq!(names(&walk.take_slice(at(3), None, slice(0, vec![seen("b", "x", 898)]))), ["a"]);
        assert_eq!(walk.look("a"), Some(None));
    }

    #[test]
    fn another_owner_and_a_later_end_are_new_and_a_running_clock_is_not() {
        let mut walk = Walk::default();
        walk.take_slice(at(0), None, slice(0, vec![seen("a", "x", 9_000)]));
        assert!(walk.take_slice(at(4_000), None, slice(0, vec![seen("a", "x", 5_100)])).is_empty());
        assert_eq!(names(&walk.take_slice(at(5_000), None, slice(0, vec![seen("a", "x", 9_000)]))), ["a"]);
        assert_eq!(names(&walk.take_slice(at(5_000), None, slice(0, vec![seen("a", "y", 9_000)]))), ["a"]);
    }

    #[test]
    fn a_key_that_was_looked_at_out_of_turn_is_known_although_the_walk_is_not_complete() {
        let mut walk = Walk::default();
        let key = LockKey::new(&Prefix::new("").unwrap(), "a").unwrap();
        let clock = Some(NodeTime::from_micros(1_500_000));
        let these = |seen| Listed { seen, ..Listed::default() };
        walk.take_these(at(0), clock, std::slice::from_ref(&key), these(vec![seen("a", "x", 900)]));
        let age = |walk: &Walk| walk.look("a").flatten().and_then(|look| look.age);
        assert_eq!(age(&walk), Some(Duration::from_millis(500)));
        assert_eq!(names(&walk.take_these(at(1), clock, &[key], these(vec![]))), ["a"]);
        assert!(walk.look("a").flatten().is_some_and(|look| look.found.is_none()));
    }

    #[test]
    fn a_node_that_fails_goes_on_where_it_was_and_says_nothing_meanwhile() {
        let mut walk = Walk::default();
        walk.take_slice(at(0), None, slice(0, vec![seen("a", "x", 900)]));
        walk.take_slice(at(0), None, slice(7, vec![seen("a", "x", 900)]));
        walk.take_fault(Fault::Timeout);
        assert_eq!((walk.look("a"), walk.cursor()), (None, 7));
        assert_eq!(walk.progress().fault, Some(Fault::Timeout));
        walk.take_slice(at(1), None, slice(0, vec![]));
        assert!(walk.look("a").flatten().is_some());
        walk.restart();
        assert_eq!((walk.look("b"), walk.cursor(), walk.progress().complete), (None, 0, false));
    }
}
