//! One waiter: what it knows of the line, when it asks again, and to whom it yields.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::line::{GIVES_WAY_MAX, LineReport, POLL_MAX, Place, PlaceRequest, REFRESH, RESERVATION, Ticket};
use crate::round::{NodeIndex, NodeSet, RoundNumber};

/// Waiters so near the front ask again when the lock ends that they saw held, one after the other
/// by this step: whoever is first by then finds it free, although nobody has released it.
const NEAR: u64 = 8;
const STEP: Duration = Duration::from_millis(5);

/// How often a waiter yields to the same one ahead, which wants the lock but does not get a
/// majority: clients that reach only some of the nodes may be in its way. After that the lock is
/// better used than kept.
const YIELDS_MAX: u32 = 16;

/// One waiter: its ticket and what it has been told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    pub(crate) ticket: Option<Ticket>,
    /// Some node has put us in line, so nobody who came later can say that we are late.
    pub(crate) in_line: bool,
    /// How often a ticket was drawn.
    pub(crate) draws: u32,
    /// Who was yielded to last, and how often in a row.
    yielded: Option<(Ticket, u32)>,
    /// How often we gave way to those who want the lock alone.
    gave_way: u32,
    /// Nodes that have woken us since the last attempt began.
    woken: NodeSet,
    /// Those that have woken us when an attempt is to begin: they are asked first.
    pub(crate) claims: Option<NodeSet>,
    /// Another waiter of this client is ahead of us: it asks the nodes for us, too, so we do so
    /// rarely.
    pub(crate) behind_own: bool,
    /// What the nodes said in the present attempt.
    ahead: Option<Ticket>,
    /// The longest time since a node that granted passed the lock on to us.
    pub(crate) passed_on: ForPeople<Option<Duration>>,
    places: Vec<(u64, u64)>,
    holder: Option<Arc<str>>,
    /// Nodes that did not put us in line because somebody with a larger ticket was there before.
    pub(crate) overtaken: NodeSet,
    /// The round that gave us the lock.
    pub(crate) won: Option<RoundNumber>,
}

/// What only people want to know. No decision depends on it, so states that differ in nothing else
/// are the same, also to the model checker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ForPeople<T>(pub(crate) T);

impl<T> PartialEq for ForPeople<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for ForPeople<T> {}

impl<T> Hash for ForPeople<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Waiter {
    /// A new attempt begins: what was said before is old.
    pub(crate) fn begin(&mut self) {
        self.woken = NodeSet::default();
        self.ahead = None;
        self.passed_on = ForPeople(None);
        self.places.clear();
        self.overtaken = NodeSet::default();
    }

    /// Whether those in line who want the lock alone go first this time.
    pub(crate) fn gives_way(&mut self) -> bool {
        self.gave_way = self.gave_way.saturating_add(1);
        self.gave_way <= GIVES_WAY_MAX
    }

    pub(crate) fn place_request(&self) -> Option<PlaceRequest> {
        self.ticket.map(|ticket| PlaceRequest { ticket, fresh: !self.in_line })
    }

    /// Takes in what a node said, granting or refusing.
    pub(crate) fn learn(&mut self, report: &LineReport) {
        self.ahead = self.ahead.into_iter().chain(report.ahead).min();
        self.passed_on.0 = self.passed_on.0.max(report.passed_on);
        if let Some(place) = report.place {
            self.in_line = true;
            self.places.push(place);
        }
        if report.holder.is_some() {
            self.holder.clone_from(&report.holder);
        }
    }

    pub(crate) fn overtaken_at(&mut self, node: NodeIndex) {
        self.overtaken.insert(node);
    }

    /// Whether a new ticket is needed. Not if a majority of nodes has put us in line: whoever was
    /// in line on a majority before we came would have been seen there. Then the `overtaken` nodes
    /// have to do so as well.
    pub(crate) fn must_draw_again(&self, majority: usize) -> bool {
        !self.overtaken.is_empty() && self.places.len() < majority
    }

    /// Whether votes that are still to come may show that no new ticket is needed. Whoever leaves
    /// the line before it has heard them may leave it on a majority, and comes behind those who
    /// called meanwhile.
    pub(crate) fn may_keep_ticket(&self, majority: usize, missing: usize) -> bool {
        self.must_draw_again(majority) && self.places.len() + missing >= majority
    }

    /// Who is ahead on a node that granted, and was not yielded to too often.
    pub(crate) fn yields_to(&self) -> Option<Ticket> {
        let ahead = self.ahead?;
        // A ticket that no node has put in line gives no place: whoever is in line came before.
        let overtaken = !self.in_line || self.ticket.is_none_or(|ticket| ahead < ticket);
        let patient = self.yielded.is_none_or(|(yielded, times)| ahead > yielded || times < YIELDS_MAX);
        (overtaken && patient).then_some(ahead)
    }

    pub(crate) fn yielded_to(&mut self, ahead: Ticket) {
        self.yielded = Some(match self.yielded {
            Some((yielded, times)) if ahead <= yielded => (yielded, times + 1),
            _ => (ahead, 1),
        });
    }

    /// A node has set the lock aside for us.
    pub(crate) fn wake(&mut self, node: NodeIndex) {
        self.woken.insert(node);
    }

    /// Whether nodes have woken us since the last attempt began. They are asked first in the next
    /// one.
    pub(crate) fn claim(&mut self) -> bool {
        self.claims = Some(self.woken).filter(|woken| !woken.is_empty());
        self.claims.is_some()
    }

    pub(crate) const fn is_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// The place that a majority of those nodes that told one agree on, as far as that is possible.
    pub(crate) fn place(&self) -> Option<Place> {
        let mut places = self.places.clone();
        places.sort_unstable();
        let (ahead, waiters) = *places.get(places.len() / 2)?;
        Some(Place { ahead, waiters, nodes: places.len(), holder: self.holder.clone() })
    }

    /// How long to wait before asking again, unless we are woken.
    pub(crate) fn poll_after(&self, free_after: Option<Duration>, dice: u64) -> Duration {
        let ahead = self.place().map_or(0, |place| place.ahead);
        let ranks = u32::try_from(ahead.saturating_add(1)).unwrap_or(u32::MAX);
        let limit = if self.behind_own { REFRESH } else { POLL_MAX };
        let pause = RESERVATION.saturating_mul(ranks).min(limit - limit / 5);
        let jitter = pause / 4 * u32::try_from(dice >> 48).unwrap_or(0) / (1 << 16);
        let pause = pause + jitter;
        match free_after {
            // The holder's time ends before that, if it does not extend. Who is near the front may
            // be first by then.
            Some(left) if ahead < NEAR && !self.behind_own => {
                pause.min(left + Duration::from_millis(1) + STEP * (ranks - 1))
            }
            _ => pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{CLAIM_WINDOW, ClientId};

    #[test]
    fn a_waiter_asks_the_more_seldom_the_further_back_it_is_and_within_the_stated_times() {
        let mut waiter = Waiter::default();
        let mut last = Duration::ZERO;
        for ahead in 0..20 {
            waiter.places = vec![(ahead, 20)];
            let (least, most) = (waiter.poll_after(None, 0), waiter.poll_after(None, u64::MAX));
            assert!(least >= last && most <= POLL_MAX, "{ahead}: {least:?} to {most:?}");
            last = least;
        }
        waiter.places = vec![(0, 1)];
        assert!(waiter.poll_after(None, u64::MAX) <= CLAIM_WINDOW);
        let soon = Duration::from_millis(30);
        assert_eq!(
            waiter.poll_after(Some(soon), 7),
            Duration::from_millis(31),
            "when the holder's time is over"
        );
        waiter.places = vec![(2, 3)];
        assert_eq!(
            waiter.poll_after(Some(soon), 7),
            Duration::from_millis(31) + 2 * STEP,
            "a little after those ahead"
        );
        waiter.places = vec![(NEAR, NEAR + 1)];
        assert!(waiter.poll_after(Some(soon), 0) > Duration::from_secs(1), "too many would ask at once");
        (waiter.places, waiter.behind_own) = (vec![(900, 1_000)], true);
        assert!(waiter.poll_after(None, u64::MAX) <= REFRESH);
        assert!(waiter.poll_after(None, 0) > POLL_MAX);
    }

    #[test]
    fn a_waiter_yields_to_those_ahead_but_not_for_ever_and_to_none_that_is_behind() {
        let ticket = |number| Ticket::exclusive(number, ClientId::new(1));
        let ahead = |waiter: &mut Waiter, number| {
            waiter.begin();
            waiter.learn(&LineReport { ahead: Some(ticket(number)), ..LineReport::default() });
            waiter.yields_to()
        };
        let mut waiter = Waiter { ticket: Some(ticket(10)), in_line: true, ..Waiter::default() };
        assert_eq!(ahead(&mut waiter, 11), None);
        for _ in 0..YIELDS_MAX {
            assert_eq!(ahead(&mut waiter, 5), Some(ticket(5)));
            waiter.yielded_to(ticket(5));
        }
        assert_eq!(ahead(&mut waiter, 5), None);
        assert_eq!(ahead(&mut waiter, 4), None);
        assert_eq!(ahead(&mut waiter, 7), Some(ticket(7)));
        let mut unplaced = Waiter { ticket: Some(ticket(10)), ..Waiter::default() };
        assert_eq!(ahead(&mut unplaced, 11), Some(ticket(11)), "a ticket alone is no place");
        let mut newcomer = Waiter::default();
        assert_eq!(ahead(&mut newcomer, 99), Some(ticket(99)), "everybody in line is ahead of a newcomer");
    }
}
