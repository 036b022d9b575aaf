//! The part of a lease that holds the lock: extensions, asked for or by itself, healing, and going
//! on with it in another process.

use std::sync::Arc;
use std::time::Duration;

use super::extend::{Extend, ExtendDecision, NotExtended};
use super::standing::{HandedOver, Standing};
use super::{Lease, Output, Phase};
use crate::command::{Answer, Command, Reply};
use crate::config::{Term, Terms};
use crate::mode::Mode;
use crate::names::LockKey;
use crate::round::{NodeSet, Quorum, Round, RoundNumber};
use crate::time::Time;
use crate::token::OwnerToken;

/// A renewal that was begun and has to be sent to all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Renewing {
    /// The round it belongs to.
    pub round: RoundNumber,
    /// The lock.
    pub key: LockKey,
    /// The owner.
    pub token: OwnerToken,
    /// How long the nodes keep the key from now on.
    pub node_ttl_ms: u64,
    /// Whom the hold keeps out.
    pub mode: Mode,
}

impl Lease {
    /// A lease that goes on with a lock that another process held. The first input is
    /// [`Input::Extend`](super::Input::Extend): until that has succeeded, nobody may count on the
    /// lock.
    #[must_use]
    pub fn resume(key: LockKey, mut terms: Terms, quorum: Quorum, handover: &HandedOver, now: Time) -> Self {
        terms.max_hold.shorten(handover.held);
        terms.mode = handover.mode.clone();
        let term = terms.term;
        let mut lease = Self::new(key, terms, quorum);
        let number = lease.rounds.take_next();
        let round = Round::open(number, quorum, handover.members, now);
        lease.phase = Phase::Held(Box::new(Standing::resumed(round, handover, now, term)));
        lease
    }

    /// Others may have held it for so much longer than they say: that counts against `max_hold`.
    pub(crate) fn shorten_max_hold(&mut self, by: Duration) {
        if !by.is_zero() {
            Arc::make_mut(&mut self.terms).max_hold.shorten(by);
        }
    }

    /// What another process needs to go on with the lock, if it is held. From now on the token is
    /// known to others, so the lock is not passed on inside this client any more.
    #[must_use]
    pub fn handover(&mut self, now: Time) -> Option<HandedOver> {
        let mode = self.mode();
        match &mut self.phase {
            Phase::Held(standing) => Some(standing.handover(now, mode)),
            _ => None,
        }
    }

    /// Begins a renewal if one is due, as [`Input::Timeout`](super::Input::Timeout) does, but
    /// leaves it to the caller to send it, together with those of other leases. `None` if there is
    /// anything else to do, and for several names at once.
    pub fn begin_renewal(&mut self, now: Time) -> Option<Renewing> {
        let Phase::Held(standing) = &mut self.phase else { return None };
        if self.key.is_set() {
            return None;
        }
        let term = self.terms.term;
        let allowed = standing.renew_at.is_some_and(|due| now >= due)
            && standing.extending.is_none()
            && self.terms.renewals_max.is_none_or(|renewals_max| standing.renewals < renewals_max)
            && standing.may_extend(now, &term, self.terms.max_hold).is_ok();
        if !allowed {
            return None;
        }
        standing.renew_at = None;
        standing.renewals += 1;
        let term = term.kept_for(standing.rest_of(self.terms.at_least, now));
        let (token, mode) = (standing.leftovers.token, self.mode());
        let round = self.begin_extension(now, term)?;
        Some(Renewing { round, key: self.key.clone(), token, node_ttl_ms: term.node_ttl_ms(), mode })
    }

    /// Takes the grants of several nodes at once.
    pub(super) fn handle_granted(&mut self, now: Time, number: RoundNumber, nodes: NodeSet) {
        let Phase::Held(standing) = &mut self.phase else {
            let granted = || Ok(Reply::new(None, Answer::Granted));
            return nodes.iter().for_each(|node| self.handle_answer(now, number, node, granted()));
        };
        standing.note_all_healed(now, self.terms.quarantine, nodes);
        if standing.is_extending(number) {
            standing.take_extend_grants(now, nodes);
            self.advance_extend(now);
        } else if standing.round.number() == number {
            standing.take_late_grants(now, nodes);
            self.tell_all_voted();
        }
    }

    /// Whoever waits for late votes is told once.
    pub(super) fn tell_all_voted(&mut self) {
        if let Phase::Held(standing) = &mut self.phase
            && standing.votes_awaited
            && standing.has_all_votes()
        {
            standing.votes_awaited = false;
            self.outputs.push_back(Output::AllVoted);
        }
    }

    pub(super) fn renew_if_due(&mut self, now: Time) {
        let Phase::Held(standing) = &mut self.phase else { return };
        if standing.renew_at.is_none_or(|due| now < due) {
            return;
        }
        // An extension that is under way renews the lock as well; its end plans the next renewal.
        standing.renew_at = None;
        if standing.extending.is_some() {
            return;
        }
        let allowed = match self.terms.renewals_max {
            Some(renewals_max) if standing.renewals >= renewals_max => Err(NotExtended::RenewalsMax),
            _ => standing.may_extend(now, &self.terms.term, self.terms.max_hold),
        };
        match allowed {
            Ok(()) => {
                standing.renewals += 1;
                self.handle_extend(now, self.terms.term);
            }
            Err(reason) => {
                standing.plan_retry(now, &self.terms, &reason);
                self.outputs.push_back(Output::NotExtended(reason));
            }
        }
    }

    pub(super) fn handle_extend(&mut self, now: Time, term: Term) {
        let Phase::Held(standing) = &mut self.phase else { return };
        if let Err(reason) = standing.may_extend(now, &term, self.terms.max_hold) {
            self.outputs.push_back(Output::NotExtended(reason));
            return;
        }
        let term = term.kept_for(standing.rest_of(self.terms.at_least, now));
        let (token, mode) = (standing.leftovers.token, self.mode());
        if let Some(number) = self.begin_extension(now, term) {
            let node_ttl_ms = term.node_ttl_ms();
            self.send_to_all(number, |key| {
                let mode = mode.clone();
                Command::Extend { key, token, node_ttl_ms, mode }
            });
        }
    }

    /// Shares a lock from now on that was held alone. Nodes are told by an extension; whether they
    /// hear of it or not, the hold keeps nobody out any more who shares the lock: some may have
    /// done it although their answers were lost.
    pub(super) fn handle_share(&mut self, now: Time) {
        let Phase::Held(standing) = &mut self.phase else { return };
        assert!(!self.key.is_set() && self.terms.at_least.is_zero(), "these keep everyone out");
        if self.terms.mode.is_exclusive() {
            (standing.downgraded, standing.from_line) = (true, false);
        }
        self.handle_extend(now, self.terms.term);
        // Those who wait to share it are woken behind it.
        let number = self.rounds.take_next();
        self.send_to_all(number, |key| Command::Nudge { key });
    }

    fn begin_extension(&mut self, now: Time, term: Term) -> Option<RoundNumber> {
        let Phase::Held(standing) = &mut self.phase else { return None };
        let number = self.rounds.take_next();
        // An extension that is still under way is forgotten: the new one asks for more.
        let (members, old) = (standing.members, standing.validity);
        let extend = Extend::begin(number, self.quorum, members, now, term, old, &self.patience);
        standing.extending = Some(Box::new(extend));
        standing.leftovers.term = standing.leftovers.term.max_by_node_ttl(term);
        Some(number)
    }

    pub(super) fn advance_extend(&mut self, now: Time) {
        let Phase::Held(standing) = &mut self.phase else { return };
        let Some(extend) = &standing.extending else { return };
        match extend.decide(now, standing.validity) {
            ExtendDecision::Open => {}
            ExtendDecision::Extended(validity) => {
                let started = standing.confirm(validity);
                standing.plan_renewal(&self.terms, started);
                self.outputs.push_back(Output::Extended);
                self.heal(now);
            }
            ExtendDecision::NotExtended(reason) => {
                standing.extending = None;
                standing.lost |= matches!(reason, NotExtended::Lost { .. });
                standing.plan_retry(now, &self.terms, &reason);
                self.outputs.push_back(Output::NotExtended(reason));
            }
        }
    }

    /// Puts the key back on nodes that lost it, restarted ones too. A majority has just confirmed
    /// that the lock is ours, so nobody else can have it there; the key keeps others out from now
    /// on. It counts for us only after the quarantine: until then somebody may still count on a
    /// grant that the node gave and forgot. If somebody with a larger fence was there, the node
    /// refuses.
    pub(super) fn heal(&mut self, now: Time) {
        let mode = self.mode();
        let Phase::Held(standing) = &mut self.phase else { return };
        if standing.missing.is_empty() {
            return;
        }
        let (number, token, fence) = (self.rounds.take_next(), standing.leftovers.token, standing.top());
        let node_ttl_ms = match self.terms.at_least.is_zero() {
            true => standing.leftovers.term.node_ttl_ms(),
            // No longer than the rest of the time that it is kept.
            false => self.terms.term.kept_for(standing.rest_of(self.terms.at_least, now)).node_ttl_ms(),
        };
        let quarantine_ms = u64::try_from(self.terms.quarantine.as_millis()).unwrap_or(u64::MAX);
        for node in std::mem::take(&mut standing.missing).iter() {
            standing.leftovers.may_hold.insert(node);
            standing.put_back(node);
            let (key, mode) = (self.key.clone(), mode.clone());
            let command = Command::Heal { key, token, node_ttl_ms, fence, quarantine_ms, mode };
            self.outputs.push_back(Output::Send { round: number, node, command });
        }
    }

    pub(super) fn send_to_all(&mut self, round: RoundNumber, command: impl Fn(LockKey) -> Command) {
        for node in self.quorum.indexes() {
            self.outputs.push_back(Output::Send { round, node, command: command(self.key.clone()) });
        }
    }
}
