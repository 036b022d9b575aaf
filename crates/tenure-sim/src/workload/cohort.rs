//! Callers of one client that pass a lock on among themselves: they come in groups, hold it for a
//! moment, and some are gone when it is their turn.

use std::time::Duration;

use tenure_core::client::{Addressee, Request, Tag};
use tenure_core::{Command, OwnerToken, Renewal, Standing, Terms, Wait};

use super::{PATIENT_TTL_MS, key};
use crate::trace::Mark;
use crate::world::client::{Act, Slot, id};
use crate::world::{ClientEvent, Event, World};

/// How many of a group come at most, and within which time.
const GROUP_MAX: u64 = 5;
const GROUP_NS: u64 = 3_000_000;

/// The longest of the short holds.
const SHORT_HOLD_NS: u64 = 4_000_000;

impl World {
    /// Whether the next lock is one that is passed on inside its client.
    pub(super) fn wants_cohort(&mut self) -> bool {
        self.options.cohort_per_mille > 0 && self.dice.chance(self.options.cohort_per_mille)
    }

    /// A group of callers comes for one lock. All those of a client have the same terms, but for
    /// how long they wait.
    pub(super) fn begin_cohort(&mut self, client: usize) {
        let name = self.dice.index(self.options.names);
        let terms = self.clients[client].cohort_terms.clone();
        let terms = terms.unwrap_or_else(|| self.any_cohort_terms(client));
        self.clients[client].cohort_terms = Some(terms.clone());
        for _ in 0..self.dice.between(1, GROUP_MAX) {
            let act = Act::Join { name, terms: Box::new(self.with_any_wait(terms.clone())) };
            self.act_within(client, GROUP_NS, act);
        }
    }

    pub(crate) fn join_cohort(&mut self, client: usize, name: usize, terms: Terms) {
        if self.clients[client].slots.len() < self.options.leases_max() {
            let lease = self.begin_lease(client, name, terms);
            if self.dice.chance(50) {
                self.act_within(client, 10 * GROUP_NS, Act::Cancel { lease });
            }
        }
    }

    fn any_cohort_terms(&mut self, client: usize) -> Terms {
        let mut options = tenure_core::Options::default();
        let ttl_ms = self.dice.of_any_size(PATIENT_TTL_MS, self.options.max_ttl_ms.max(PATIENT_TTL_MS));
        options.ttl = Duration::from_millis(ttl_ms);
        options.node_timeout = Some(options.ttl / 2);
        options.retry.delay = Duration::from_millis(self.dice.between(5 + ttl_ms / 20, 10 + ttl_ms));
        options.retry.jitter = options.retry.delay;
        (options.fenced, options.cohort) = (self.options.fenced, true);
        if self.dice.chance(500) {
            options.renewal = Renewal::Off;
        }
        let terms = options.check(self.options.max_ttl()).expect("drawn within the limits");
        self.bend_terms(client, self.terms_of(client, terms))
    }

    fn with_any_wait(&mut self, mut terms: Terms) -> Terms {
        let ttl_ms = u64::try_from(terms.term.ttl().as_millis()).unwrap_or(u64::MAX);
        terms.wait = match self.dice.below(4) {
            0 => Wait::AtMost(Duration::from_millis(self.dice.below(ttl_ms))),
            1 => Wait::AtMost(Duration::from_millis(self.dice.between(1, 20))),
            _ => Wait::Forever,
        };
        terms
    }

    /// Another caller of this client has passed the lock on.
    pub(crate) fn handle_passed_on(&mut self, client: usize, lease: u32) {
        self.marks.see(Mark::PassedWithin);
        let (now, holder) = (self.time(client), self.holder(client, lease));
        let Some(standing) = self.clients[client].standing(lease) else { return };
        let (token, fence) = (standing.token(), standing.fence());
        let before = self.passing.present(token).map(|(_, before)| before.lease);
        let ended = self.clients[client].ended.take().filter(|ended| Some(ended.id) == before);
        let Some(slot) = self.clients[client].slot(lease) else { return };
        // What has become of the keys goes with the lock.
        if let Some(ended) = ended {
            (slot.evicted_ns, slot.healed, slot.renewing) = (ended.evicted_ns, ended.healed, ended.renewing);
        }
        // For the caller it began with the call.
        slot.begun_ns = slot.called_ns;
        let (name, called_ns) = (slot.name, slot.called_ns);
        let Some(fence) = self.shown_fence(client, lease, fence) else { return };
        self.note(|| format!("client {client} lease {lease}: is PASSED lock {name}, fence {fence}"));
        let violation = self.passing.passed((name, token), now, called_ns, holder, fence);
        self.judge(violation);
        if self.dice.chance(50) {
            // Its caller has gone meanwhile, and never counts on it.
            self.marks.see(Mark::PassedToNobody);
            return self.act_within(client, 0, Act::Cancel { lease });
        }
        self.begin_hold(client, lease, Some(fence));
    }

    /// A caller is gone: whatever there is is given up.
    pub(crate) fn cancel_lease(&mut self, client: usize, lease: u32) {
        if self.clients[client].core.awaits_nodes() {
            // When a client begins is judged by its first attempt.
            return;
        }
        let holder = self.holder(client, lease);
        let Some(name) = self.clients[client].slot(lease).map(|slot| slot.name) else { return };
        self.note(|| format!("client {client} lease {lease}: is cancelled"));
        self.exclusion.end(name, holder);
        self.loss.end(holder);
        self.liveness.gave_up(holder);
        self.ask(client, Request::Abandon { id: id(lease) });
        self.drop_unbegun(client, lease);
    }

    /// Most who pass a lock on hold it for a moment.
    pub(super) fn plan_short_hold(&mut self, client: usize, lease: u32) -> bool {
        let short = self.clients[client].slot(lease).is_some_and(|slot| slot.terms.cohort);
        if !short || self.dice.chance(100) {
            return false;
        }
        let delay_ns = self.dice.of_any_size(10_000, SHORT_HOLD_NS);
        self.act_at(client, self.now_ns + delay_ns, Act::End { lease });
        true
    }

    /// Some tell a child process what it needs to release the lock, should they die. It does so in
    /// any case, after they are done with it.
    pub(super) fn copy_for_child(&mut self, client: usize, lease: u32) -> bool {
        let cohort = self.clients[client].slot(lease).is_some_and(|slot| slot.terms.cohort);
        if cohort && self.dice.chance(100) {
            let token = self.copied_token(client, lease);
            if let Some(slot) = self.clients[client].slot(lease) {
                slot.child = token;
            }
        }
        cohort
    }

    /// The child of a holder that is done with its lock releases it, too.
    pub(super) fn release_by_child(&mut self, client: usize, lease: u32) {
        let Some(Slot { name, child: Some(token), .. }) = self.clients[client].slot(lease).map(|slot| &*slot)
        else {
            return;
        };
        let (name, token) = (*name, *token);
        self.marks.see(Mark::CopiedBefore);
        self.act_within(client, GROUP_NS, Act::ReleaseCopy { name, token });
    }

    pub(crate) fn release_copy(&mut self, client: usize, name: usize, token: OwnerToken) {
        self.note(|| format!("a child of client {client} releases lock {name}"));
        let (sent, next) = (self.time(client), tenure_core::Next::InLine);
        for node in self.options.quorum().indexes() {
            let command = Command::Release { key: key(name), token, labelled: false, next };
            self.send(client, Tag { to: Addressee::Nobody, sent }, node, command);
        }
    }

    /// The time by which a lock is passed on.
    pub(crate) fn release_time(&self, client: usize, lease: u32) -> tenure_core::Time {
        let token = self.clients[client].standing(lease).map(Standing::token);
        let acquired = token.and_then(|token| self.passing.present(token)).map(|(acquired, _)| acquired);
        self.bend_release_time(client, acquired)
    }

    fn act_within(&mut self, client: usize, within_ns: u64, act: Act) {
        let delay_ns = self.dice.between(0, within_ns);
        self.act_at(client, self.now_ns + delay_ns, act);
    }

    fn act_at(&mut self, client: usize, at_ns: u64, act: Act) {
        let generation = self.clients[client].generation;
        self.at(at_ns, Event::Client { client, generation, event: ClientEvent::Act(act) });
    }
}
