//! Granting a key: to whoever asks for a free one, and back to a holder whose key the node has lost.

use super::{Entry, LockTable, Owner};
use crate::command::{Answer, Refusal};
use crate::fence::{Fence, FenceClaim};
use crate::names::LockKey;
use crate::queue::{Beside, QueueReport};
use crate::time::NodeTime;
use crate::token::OwnerToken;
use crate::trust::Nonce;

/// What an acquire asks for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) key: &'a LockKey,
    pub(super) token: OwnerToken,
    pub(super) node_ttl_ms: u64,
    pub(super) nonce: Option<Nonce>,
    pub(super) claim: Option<FenceClaim>,
    pub(super) beside: &'a Beside,
}

impl LockTable {
    pub(super) fn acquire(
        &mut self,
        now: NodeTime,
        wanted: &Wanted<'_>,
        queue: &mut Option<Box<QueueReport>>,
    ) -> Answer {
        let Wanted { key, token, node_ttl_ms, nonce, claim, beside } = *wanted;
        let now_ms = now.as_millis();
        let ticket = beside.turn.map(|turn| turn.ticket);
        if nonce.is_some_and(|nonce| !self.has_record(key.prefix(), nonce)) {
            return Answer::Refused(Refusal::Stranger);
        }
        let owner = Owner::Token(token);
        let aside = |entry: &&Entry| ticket.map(Owner::Reserved) == Some(entry.owner);
        let (aside, entry) = match self.entries.get(key) {
            entry if entry.as_ref().is_some_and(aside) => (true, None),
            entry => (false, entry),
        };
        match entry {
            // Asked again by the same owner: the first answer was lost. Saying no would make the client
            // refuse itself; setting the end anew would let a late duplicate lengthen the hold. With another
            // fence it is not the same question, and a key that was put back is not what was asked for.
            Some(entry)
                if entry.owner == owner
                    && entry.counts_from_ms.is_none()
                    && claim.is_none_or(|claim| self.fence(key) == Some(claim.fence)) =>
            {
                Answer::Granted
            }
            Some(entry) => Answer::Refused(held(now_ms, entry)),
            // Those in line had their turns.
            None if let Some(left) = self.open_for(now_ms, key).filter(|_| ticket.is_some() && !aside) => {
                Answer::Refused(Refusal::Reserved { left })
            }
            None => {
                if let Some(claim @ FenceClaim { fence, bounds, .. }) = claim {
                    // Whole milliseconds, in which nodes count.
                    let now = NodeTime::from_micros(now_ms * 1_000);
                    let refusal = if fence > bounds.highest(now) {
                        Some(Refusal::Ahead)
                    } else {
                        (Some(fence) <= self.lowest(now, key, bounds)).then_some(Refusal::Behind)
                    };
                    if let Some(refusal) = refusal {
                        if let (true, Some(ticket)) = (aside, ticket) {
                            self.reserve(now_ms, key, ticket);
                        }
                        return Answer::Refused(refusal);
                    }
                    self.put_fence(key, claim);
                }
                self.put(key, Entry::acquired(now_ms, token, node_ttl_ms));
                let ahead = self.step_out(now_ms, key, ticket, aside, claim.is_some());
                *queue =
                    ahead.map(|ahead| Box::new(QueueReport { ahead: Some(ahead), ..QueueReport::default() }));
                if let Some(label) = &beside.label {
                    self.put_label(now_ms, key, token, label);
                }
                Answer::Granted
            }
        }
    }

    pub(super) fn heal(&mut self, now_ms: u64, key: &LockKey, healed: Entry, fence: Option<Fence>) -> Answer {
        match self.entries.get(key) {
            Some(entry) if entry.owner == healed.owner => Answer::Granted,
            Some(entry) => Answer::Refused(Refusal::Held { left: entry.left(now_ms) }),
            None if fence.is_some() && self.fence(key) > fence => Answer::Refused(Refusal::Behind),
            None => {
                self.put(key, healed);
                Answer::Granted
            }
        }
    }
}

fn held(now_ms: u64, entry: &Entry) -> Refusal {
    let left = entry.left(now_ms);
    match entry.owner {
        Owner::Token(_) => Refusal::Held { left },
        Owner::Reserved(_) => Refusal::Reserved { left },
    }
}
