//! What is due: timers, and what waited for something that has come.

use super::timers::Machine;
use super::{Client, LeaseCell};
use crate::time::Time;
use crate::{lease, query, release, trust};

impl<L: LeaseCell> Client<L> {
    /// When to call [`Client::handle`] with [`Input::Wake`](super::Input::Wake) at the latest, if
    /// nothing else happens. It may be earlier than needed.
    #[must_use]
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        let limits = [
            self.timers.next(),
            self.shutdown.next_limit(now),
            self.next_start(now),
            self.waiters.poll_timeout(),
            self.polite.front().map(|polite| polite.until),
            self.cohorts.poll_timeout(),
            self.next_late_grants(),
        ];
        limits.into_iter().flatten().min()
    }

    pub(super) fn wake(&mut self, now: Time) {
        self.fire_timers(now);
        self.nudge(now);
        self.begin_polite(now);
        self.end_cohorts(now);
        self.start_early(now);
        self.answer_settled();
        self.answer_shutdown(now);
    }

    fn fire_timers(&mut self, now: Time) {
        while let Some(machine) = self.timers.pop_due(now) {
            match machine {
                Machine::Fleet => {
                    self.fleet_timer = None;
                    self.advance_fleet(now, trust::Input::Timeout);
                }
                Machine::Lease(id) => {
                    self.leases.get_mut(id).map(|entry| entry.timer.take());
                    self.leave_local_line(id);
                    if !self.begin_renewal(now, id) {
                        self.advance_lease(now, id, lease::Input::Timeout);
                    }
                }
                Machine::Release(lease, round) => {
                    self.releases.get_mut((lease, round)).map(|entry| entry.timer.take());
                    self.advance_release(now, (lease, round), release::Input::Timeout);
                }
                Machine::Query(id) => {
                    self.queries.get_mut(id).map(|entry| entry.timer.take());
                    self.advance_query(now, id, query::Input::Timeout);
                }
            }
        }
        self.send_renewals(now);
    }
}
