//! A holder that does not stand still hears of the loss of its lock before the end, and what is
//! lost stays lost.

use std::collections::{BTreeMap, BTreeSet};

use super::{Holder, Violation};

/// Who has to hear of a loss, and who has heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loss {
    holds: BTreeMap<Holder, Hold>,
    told: BTreeSet<Holder>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    name: usize,
    /// When the holder is to be told, and when it is too late for that.
    due_ns: u64,
    end_ns: u64,
}

impl Loss {
    /// From now on `holder` counts on the lock until `end_ns`, and is to hear at `due_ns` if that
    /// does not change.
    pub(crate) fn hold(
        &mut self,
        name: usize,
        holder: Holder,
        due_ns: u64,
        end_ns: u64,
    ) -> Option<Violation> {
        self.holds.insert(holder, Hold { name, due_ns, end_ns });
        self.told.contains(&holder).then_some(Violation::LossTakenBack { name, holder })
    }

    /// `holder` hears that its lock is lost. It last went on after a pause at `resumed_ns`.
    pub(crate) fn told(&mut self, now_ns: u64, holder: Holder, resumed_ns: Option<u64>) -> Option<Violation> {
        let hold = self.holds.remove(&holder)?;
        self.told.insert(holder);
        late(now_ns, holder, hold, resumed_ns)
    }

    /// A client has done all that it had to do by now: is there anybody who should have heard?
    pub(crate) fn overdue(&self, now_ns: u64, client: usize, resumed_ns: Option<u64>) -> Option<Violation> {
        let first = Holder { client, generation: 0, lease: 0 };
        let own = self.holds.range(first..).take_while(|(holder, _)| holder.client == client);
        own.into_iter().find_map(|(holder, hold)| late(now_ns, *holder, *hold, resumed_ns))
    }

    /// `holder` does not count on its lock any more.
    pub(crate) fn end(&mut self, holder: Holder) {
        self.holds.remove(&holder);
        self.told.remove(&holder);
    }

    /// A process is gone, and whatever it held.
    pub(crate) fn end_client(&mut self, client: usize) {
        self.holds.retain(|holder, _| holder.client != client);
        self.told.retain(|holder| holder.client != client);
    }
}

fn late(
    now_ns: u64,
    holder: Holder,
    Hold { name, due_ns, end_ns }: Hold,
    resumed_ns: Option<u64>,
) -> Option<Violation> {
    let stood_still = resumed_ns.is_some_and(|resumed_ns| due_ns <= resumed_ns);
    (now_ns >= end_ns && !stood_still).then_some(Violation::LossToldLate { name, holder })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Holder = Holder { client: 0, generation: 3, lease: 1 };
    const LATE: Option<Violation> = Some(Violation::LossToldLate { name: 7, holder: A });

    #[test]
    fn a_loss_that_is_told_late_or_never_is_seen() {
        let mut loss = Loss::default();
        assert_eq!(loss.hold(7, A, 90, 100), None);
        assert_eq!(loss.overdue(99, 0, None), None);
        assert_eq!(loss.overdue(100, 0, None), LATE);
        assert_eq!(loss.overdue(100, 1, None), None, "another client");
        assert_eq!(loss.clone().told(99, A, None), None);
        assert_eq!(loss.told(100, A, Some(89)), LATE);
        assert_eq!(loss.overdue(200, 0, None), None, "it has heard");
    }

    #[test]
    fn whoever_stood_still_may_hear_late_and_whoever_gave_up_need_not() {
        let mut loss = Loss::default();
        loss.hold(7, A, 90, 100);
        assert_eq!(loss.overdue(150, 0, Some(120)), None);
        loss.end(A);
        assert_eq!(loss.overdue(150, 0, None), None);
        loss.hold(7, A, 90, 100);
        loss.end_client(0);
        assert_eq!(loss.overdue(150, 0, None), None);
    }

    #[test]
    fn a_lock_that_comes_back_after_its_loss_was_told_is_seen() {
        let mut loss = Loss::default();
        loss.hold(7, A, 90, 100);
        assert_eq!(loss.told(90, A, None), None);
        assert_eq!(loss.hold(7, A, 190, 200), Some(Violation::LossTakenBack { name: 7, holder: A }));
    }
}
