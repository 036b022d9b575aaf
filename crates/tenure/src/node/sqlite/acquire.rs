//! Granting a lock: to whoever asks for a free one, and back to a holder whose lock is not there any more.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    Answer, Entry, Fence, FenceBounds, FenceClaim, LockKey, NodeTime, Nonce, Owner, OwnerToken, QueueReport,
    Refusal, Turn,
};

use super::execute::{Execution, Told, left};
use super::name::{Name, Remembered};
use super::trouble::Result;

/// What an acquire asks for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) key: &'a LockKey,
    pub(super) token: OwnerToken,
    pub(super) node_ttl_ms: u64,
    pub(super) nonce: Option<Nonce>,
    pub(super) claim: Option<FenceClaim>,
    pub(super) turn: Option<Turn>,
    pub(super) label: Option<&'a Arc<str>>,
}

impl Execution<'_> {
    pub(super) fn acquire(
        &mut self,
        name: &mut Name,
        wanted: &Wanted<'_>,
        told: &mut Told,
    ) -> Result<Answer> {
        let answer = self.try_to_grant(name, wanted, told)?;
        let Answer::Refused(refusal) = answer else { return Ok(answer) };
        let others = name.entry.is_none_or(|entry| entry.owner != Owner::Token(wanted.token));
        match (refusal, wanted.turn) {
            (Refusal::Held { .. } | Refusal::Reserved { .. }, Some(turn)) if others => {
                self.line_up(wanted.key, name, turn, answer, told)
            }
            (Refusal::Held { .. } | Refusal::Reserved { .. } | Refusal::Behind, _) => {
                told.fence = wanted.claim.map(|claim| lowest(name, self.now, claim.bounds));
                Ok(answer)
            }
            _ => Ok(answer),
        }
    }

    fn try_to_grant(&mut self, name: &mut Name, wanted: &Wanted<'_>, told: &mut Told) -> Result<Answer> {
        let Wanted { key, token, node_ttl_ms, nonce, claim, turn, label } = *wanted;
        if let Some(nonce) = nonce
            && !self.record_of(key.prefix())?.is_some_and(|record| nonce.begins(&record))
        {
            return Ok(Answer::Refused(Refusal::Stranger));
        }
        let ticket = turn.map(|turn| turn.ticket);
        let is_aside = |entry: &Entry| ticket.map(Owner::Reserved) == Some(entry.owner);
        let aside = name.entry.as_ref().is_some_and(is_aside);
        if let Some(entry) = name.entry.filter(|_| !aside) {
            // Asked again by the same owner; with another fence it is not the same question.
            let again = entry.owner == Owner::Token(token)
                && entry.counts_from_ms.is_none()
                && claim.is_none_or(|claim| name.fence() == Some(claim.fence));
            return Ok(if again { Answer::Granted } else { Answer::Refused(held(self.now_ms, &entry)) });
        }
        if ticket.is_some() && !aside && name.open_ends_ms >= self.now_ms {
            // Those in line had their turns.
            let left = Duration::from_millis(name.open_ends_ms - self.now_ms);
            return Ok(Answer::Refused(Refusal::Reserved { left }));
        }
        if let Some(claim) = claim {
            // Whole milliseconds, in which nodes count.
            let now = NodeTime::from_micros(self.now_ms * 1_000);
            let refusal = if claim.fence > claim.bounds.highest(now) {
                Some(Refusal::Ahead)
            } else {
                (claim.fence <= lowest(name, now, claim.bounds)).then_some(Refusal::Behind)
            };
            if let Some(refusal) = refusal {
                if let (true, Some(ticket)) = (aside, ticket) {
                    self.reserve(name, ticket);
                }
                return Ok(Answer::Refused(refusal));
            }
            let queued = name.remembered.is_some_and(|remembered| remembered.queued);
            let FenceClaim { fence, ends_ms, .. } = claim;
            name.remembered = Some(Remembered { fence, ends_ms, queued });
        }
        name.entry = Some(Entry::acquired(self.now_ms, token, node_ttl_ms));
        let ahead = self.step_out(name, ticket, aside, claim.is_some())?;
        told.queue =
            ahead.map(|ahead| Box::new(QueueReport { ahead: Some(ahead), ..QueueReport::default() }));
        if let Some(label) = label {
            self.put_label(name, token, label);
        }
        Ok(Answer::Granted)
    }

    pub(super) fn heal(&self, name: &mut Name, healed: Entry, fence: Option<Fence>) -> Answer {
        match name.entry {
            Some(entry) if entry.owner == healed.owner => Answer::Granted,
            Some(entry) => Answer::Refused(Refusal::Held { left: left(self.now_ms, &entry) }),
            None if fence.is_some() && name.fence() > fence => Answer::Refused(Refusal::Behind),
            None => {
                name.entry = Some(healed);
                Answer::Granted
            }
        }
    }
}

/// The fence that a new one must exceed.
fn lowest(name: &Name, now: NodeTime, bounds: FenceBounds) -> Fence {
    name.fence().map_or(bounds.lowest(now), |fence| fence.max(bounds.lowest(now)))
}

fn held(now_ms: u64, entry: &Entry) -> Refusal {
    let left = left(now_ms, entry);
    match entry.owner {
        Owner::Token(_) => Refusal::Held { left },
        Owner::Reserved(_) => Refusal::Reserved { left },
    }
}
