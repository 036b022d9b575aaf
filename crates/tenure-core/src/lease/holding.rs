//! The part of a lease that holds the lock: extensions, asked for or by itself, and healing.

use super::{Lease, Output, Phase};
use crate::command::Command;
use crate::config::Term;
use crate::extend::{self, Extend, NotExtended};
use crate::names::LockKey;
use crate::round::RoundNumber;
use crate::time::Time;

impl Lease {
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
        let (number, token) = (self.rounds.take_next(), standing.claim.token);
        // An extension that is still under way is forgotten: the new one asks for more.
        let extend = Extend::begin(number, self.quorum, standing.members, now, term, standing.validity);
        standing.extending = Some(Box::new(extend));
        standing.claim.term = standing.claim.term.max_by_node_ttl(term);
        self.send_to_all(number, |key| Command::Extend { key, token, node_ttl_ms: term.node_ttl_ms() });
    }

    pub(super) fn advance_extend(&mut self, now: Time) {
        let Phase::Held(standing) = &mut self.phase else { return };
        let Some(extend) = &standing.extending else { return };
        match extend.decide(now, standing.validity) {
            extend::Decision::Open => {}
            extend::Decision::Extended(validity) => {
                let started = standing.confirm(validity);
                standing.plan_renewal(&self.terms, started);
                self.outputs.push_back(Output::Extended);
                self.heal();
            }
            extend::Decision::NotExtended(reason) => {
                standing.extending = None;
                standing.lost |= matches!(reason, NotExtended::Lost { .. });
                standing.plan_retry(now, &self.terms, &reason);
                self.outputs.push_back(Output::NotExtended(reason));
            }
        }
    }

    /// Puts the key back on nodes that lost it, restarted ones too. A majority has just confirmed that the lock is
    /// ours, so nobody else can have it there; the key keeps others out from now on. It counts for us only after the
    /// quarantine: until then somebody may still count on a grant that the node gave and forgot. If somebody with a
    /// larger fence was there, the node refuses.
    pub(super) fn heal(&mut self) {
        let Phase::Held(standing) = &mut self.phase else { return };
        if standing.missing.is_empty() {
            return;
        }
        let (number, token, fence) = (self.rounds.take_next(), standing.claim.token, standing.fence);
        let node_ttl_ms = standing.claim.term.node_ttl_ms();
        for node in std::mem::take(&mut standing.missing).iter() {
            standing.claim.may_hold.insert(node);
            standing.healed.retain(|(healed, _)| *healed != node);
            standing.healed.push((node, None));
            let command = Command::Heal { key: self.key.clone(), token, node_ttl_ms, fence };
            self.outputs.push_back(Output::Send { round: number, node, command });
        }
    }

    pub(super) fn send_to_all(&mut self, round: RoundNumber, command: impl Fn(LockKey) -> Command) {
        for node in self.quorum.indexes() {
            self.outputs.push_back(Output::Send { round, node, command: command(self.key.clone()) });
        }
    }
}
