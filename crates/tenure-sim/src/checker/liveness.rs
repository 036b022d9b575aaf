//! When all faults are over, somebody gets every lock in time, and everybody who waits is served in
//! the end.

use std::collections::{BTreeMap, BTreeSet};

use super::{Holder, Violation};
use crate::workload::each;

/// What has to come about after the last fault.
#[derive(Clone, Debug, Default)]
pub(crate) struct Liveness {
    calmed_ns: u64,
    /// By when every lock must have been got once.
    first_ns: u64,
    /// By when everybody must have been served.
    all_ns: u64,
    /// The locks that nobody has got yet.
    locks: BTreeSet<usize>,
    waiters: BTreeMap<Holder, usize>,
    /// When the last of the locks was got first.
    got_ns: u64,
}

impl Liveness {
    /// The last fault is over.
    pub(crate) fn begin(&mut self, now_ns: u64, first_within_ns: u64, all_within_ns: u64) {
        (self.calmed_ns, self.got_ns) = (now_ns, now_ns);
        (self.first_ns, self.all_ns) = (now_ns + first_within_ns, now_ns + all_within_ns);
    }

    /// Somebody wants a lock.
    pub(crate) fn wants(&mut self, name: usize, waiter: Holder) {
        self.locks.extend(each(name));
        self.waiters.insert(waiter, name);
    }

    /// Somebody has got a lock.
    pub(crate) fn served(&mut self, now_ns: u64, name: usize, holder: Holder) {
        for name in each(name) {
            if self.locks.remove(&name) {
                self.got_ns = now_ns;
            }
        }
        self.waiters.remove(&holder);
    }

    /// Somebody does not want a lock any more.
    pub(crate) fn gave_up(&mut self, waiter: Holder) {
        self.waiters.remove(&waiter);
    }

    /// Whether this one must be served.
    pub(crate) fn is_awaited(&self, waiter: Holder) -> bool {
        self.waiters.contains_key(&waiter)
    }

    pub(crate) fn is_satisfied(&self) -> bool {
        self.locks.is_empty() && self.waiters.is_empty()
    }

    /// How much of the time allowed was needed until every lock was got once, in thousandths.
    pub(crate) const fn used_per_mille(&self) -> u64 {
        let used_ns = self.got_ns - self.calmed_ns;
        match used_ns.saturating_mul(1_000).checked_div(self.first_ns - self.calmed_ns) {
            Some(used) => used,
            None => 0,
        }
    }

    /// Whether somebody is still not served when everybody should be.
    pub(crate) fn is_hopeless(&self, now_ns: u64) -> bool {
        now_ns > self.all_ns && !self.is_satisfied()
    }

    /// Is anybody late?
    pub(crate) fn overdue(&self, now_ns: u64) -> Option<Violation> {
        let waited_ns = now_ns.saturating_sub(self.calmed_ns);
        let lock = self.locks.first().filter(|_| now_ns > self.first_ns);
        let waiter = self.waiters.first_key_value().filter(|_| now_ns > self.all_ns);
        lock.map(|name| Violation::Unavailable { name: *name, waited_ns })
            .or_else(|| waiter.map(|(waiter, name)| Violation::Stuck { name: *name, waiter: *waiter }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Holder = Holder { client: 0, generation: 0, lease: 0 };
    const B: Holder = Holder { client: 1, generation: 0, lease: 0 };

    fn calmed() -> Liveness {
        let mut liveness = Liveness::default();
        liveness.begin(1_000, 100, 300);
        liveness.wants(7, A);
        liveness.wants(7, B);
        liveness
    }

    #[test]
    fn a_lock_that_nobody_gets_in_time_is_seen() {
        let liveness = calmed();
        assert_eq!(liveness.overdue(1_100), None);
        assert_eq!(liveness.overdue(1_101), Some(Violation::Unavailable { name: 7, waited_ns: 101 }));
    }

    #[test]
    fn a_waiter_that_is_never_served_is_seen() {
        let mut liveness = calmed();
        liveness.served(1_040, 7, A);
        assert!(!liveness.is_satisfied() && liveness.is_awaited(B) && !liveness.is_awaited(A));
        assert_eq!(liveness.overdue(1_300), None);
        assert_eq!(liveness.overdue(1_301), Some(Violation::Stuck { name: 7, waiter: B }));
        assert!(!liveness.is_hopeless(1_300) && liveness.is_hopeless(1_301));
        liveness.served(1_400, 7, B);
        assert_eq!((liveness.is_satisfied(), liveness.overdue(9_000)), (true, None));
        assert_eq!(liveness.used_per_mille(), 400);
    }
}
