//! The waiters of one client: who is woken by which ticket, and which of them asks for the others,
//! too.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::tag::Addressee;
use super::{Client, LeaseCell};
use crate::command::Command;
use crate::lease;
use crate::line::{Seeks, Ticket};
use crate::names::LockKey;
use crate::round::NodeIndex;
use crate::time::Time;

/// The leases of one client that wait in line, each known by an `Id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Waiters<Id> {
    numbers: BTreeMap<u64, Id>,
    /// Those that wait for the same lock, in order.
    lines: BTreeMap<LockKey, BTreeMap<u64, Id>>,
    /// Locks that were passed on and may have to be nudged.
    passed_on: VecDeque<(Time, LockKey)>,
    nudges: BTreeMap<LockKey, Time>,
}

impl<Id: Copy> Waiters<Id> {
    /// A lease has another ticket than before, or none any more. Returns whom to tell whether
    /// another waiter of this client is ahead of it.
    pub fn change(
        &mut self,
        key: &LockKey,
        id: Id,
        before: Option<Ticket>,
        after: Option<Ticket>,
    ) -> impl Iterator<Item = (Id, bool)> + use<Id> {
        let mut first = None;
        if let Some(ticket) = before {
            self.numbers.remove(&ticket.number);
            if let Some(line) = self.lines.get_mut(key) {
                let was_first = line.keys().next() == Some(&ticket.number);
                line.remove(&ticket.number);
                first = line.values().next().copied().filter(|_| was_first);
                if line.is_empty() {
                    self.lines.remove(key);
                }
            }
        }
        let mut behind = None;
        if let Some(ticket) = after {
            self.numbers.insert(ticket.number, id);
            let line = self.lines.entry(key.clone()).or_default();
            behind = line.keys().next().is_some_and(|first| *first < ticket.number).then_some(id);
            line.insert(ticket.number, id);
        }
        first.map(|id| (id, false)).into_iter().chain(behind.map(|id| (id, true)))
    }

    /// Whether others are known to want this lock: somebody of this client is in line for it, or it
    /// was passed on a moment ago. Then whoever asks for it gets in line at once.
    #[must_use]
    pub fn is_wanted(&self, key: &LockKey) -> bool {
        self.lines.contains_key(key) || self.nudges.contains_key(key)
    }

    /// Whether this lock is just being passed on while several of this client are in line for it.
    /// Whoever asks for it now would not get it for a while, but would hold up those who do.
    #[must_use]
    pub fn is_crowded(&self, key: &LockKey) -> bool {
        self.nudges.contains_key(key) && self.lines.get(key).is_some_and(|line| line.len() > 1)
    }

    /// Whom a wake-up for this ticket is meant for. Nobody, if it waits no longer: then the ticket
    /// has to leave the line.
    #[must_use]
    pub fn find(&self, number: u64) -> Option<Id> {
        self.numbers.get(&number).copied()
    }

    /// How many wait.
    #[must_use]
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// All that wait.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        self.numbers.values().copied()
    }

    /// A lock was passed on at `now`. If the one whose turn it was does not come, the next in line
    /// gets a nudge after this time.
    pub fn passed_on(&mut self, now: Time, key: &LockKey, nudge_after: Duration) {
        let due = now + nudge_after;
        self.passed_on.push_back((due, key.clone()));
        self.nudges.insert(key.clone(), due);
    }

    /// A lock to be nudged on all nodes, if one is due.
    pub fn poll_nudge(&mut self, now: Time) -> Option<LockKey> {
        while self.passed_on.front().is_some_and(|(due, _)| *due <= now) {
            let (due, key) = self.passed_on.pop_front()?;
            // Only the last time counts that it was passed on.
            if self.nudges.get(&key) == Some(&due) {
                self.nudges.remove(&key);
                return Some(key);
            }
        }
        None
    }

    /// When to call [`Waiters::poll_nudge`] again.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.passed_on.front().map(|(due, _)| *due)
    }
}

impl<L: LeaseCell> Client<L> {
    pub(super) fn handle_woken(&mut self, now: Time, node: NodeIndex, number: u64, key: &str) {
        if let Some(id) = self.waiters.find(number) {
            self.advance_lease(now, id, lease::Input::Woken { node });
        } else if let Some(name) = key.strip_prefix(self.fleet.prefix().as_str())
            && let Ok(key) = LockKey::new(self.fleet.prefix(), name)
        {
            // It waits no longer, and must not keep the lock from others, however it wanted it.
            for seeks in [Seeks::Alone, Seeks::Owned] {
                let ticket = Ticket { number, client: self.fleet.client(), seeks };
                let leave = Command::Leave { key: key.clone(), ticket };
                self.outbox.send(now, Addressee::Nobody, node, leave);
            }
        }
    }

    /// Locks that were passed on to a waiter that did not come go to the next in line.
    pub(super) fn nudge(&mut self, now: Time) {
        while let Some(key) = self.waiters.poll_nudge(now) {
            for node in self.quorum().indexes() {
                self.outbox.send(now, Addressee::Nobody, node, Command::Nudge { key: key.clone() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{ClientId, NUDGE_AFTER};
    use crate::names::Prefix;

    fn key(name: &str) -> LockKey {
        LockKey::new(&Prefix::default(), name).unwrap()
    }

    fn ticket(number: u64) -> Option<Ticket> {
        Some(Ticket::exclusive(number, ClientId::new(1)))
    }

    #[test]
    fn the_first_of_a_line_asks_for_all_and_the_next_one_takes_over() {
        let mut waiters = Waiters::default();
        let mut change =
            |id: u32, before, after| waiters.change(&key("x"), id, before, after).collect::<Vec<_>>();
        assert_eq!(change(1, None, ticket(10)), []);
        assert_eq!(change(2, None, ticket(20)), [(2, true)]);
        assert_eq!(change(3, None, ticket(30)), [(3, true)]);
        assert_eq!(change(2, ticket(20), None), []);
        assert_eq!(change(1, ticket(10), ticket(40)), [(3, false), (1, true)]);
        assert_eq!((waiters.find(10), waiters.find(40), waiters.ids().count()), (None, Some(1), 2));
        assert_eq!(waiters.change(&key("y"), 9, None, ticket(99)).count(), 0, "another lock, another line");
        assert!(waiters.is_wanted(&key("x")) && !waiters.is_wanted(&key("z")));
    }

    #[test]
    fn a_lock_is_nudged_once_after_it_was_last_passed_on() {
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let mut waiters = Waiters::<u32>::default();
        for millis in [0, 100, 200] {
            waiters.passed_on(at(millis), &key("x"), NUDGE_AFTER);
        }
        assert_eq!(waiters.poll_timeout(), Some(at(225)));
        assert!(waiters.is_wanted(&key("x")));
        assert_eq!(waiters.poll_nudge(at(400)), None);
        assert_eq!(waiters.poll_nudge(at(425)), Some(key("x")));
        assert_eq!((waiters.poll_nudge(at(9_999)), waiters.poll_timeout()), (None, None));
        assert!(!waiters.is_wanted(&key("x")));
    }
}
