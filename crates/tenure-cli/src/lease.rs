//! A lock that a script holds by its token: what `acquire` and `extend` print, and what `extend`
//! and `release` are given.

mod exported;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::{Fence, Guard, LeaseToken, Votes};
use tokio::time::{Instant, sleep};

pub(crate) use self::exported::lock as exported_lock;
use crate::failure::Failure;

/// How long the last votes are waited for: the longest that a node timeout is by itself, and a
/// little more.
const WIDENING_LIMIT: Duration = Duration::from_millis(60);

/// A lock that a script holds by its token.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) name: String,
    pub(crate) token: LeaseToken,
    pub(crate) fence: Fence,
    pub(crate) ttl: Duration,
    pub(crate) valid_for: Duration,
    pub(crate) valid_until_ms: u64,
    pub(crate) margin: usize,
    pub(crate) votes: Votes,
}

impl Lease {
    /// Waits for the votes that are still under way, so that the margin is what it will be, and
    /// takes the lock out of its guard.
    pub(crate) async fn hand_over(guard: Guard, ttl: Duration) -> Self {
        let until = Instant::now() + WIDENING_LIMIT.min(ttl / 10);
        while guard.votes().iter().any(|vote| vote.vote.is_none()) && Instant::now() < until {
            sleep(Duration::from_millis(1)).await;
        }
        let (valid_for, margin, votes) = (guard.valid_for(), guard.margin(), guard.votes());
        let handover = guard.hand_over();
        // The same in the token and beside it.
        let valid_until_ms = handover.valid_until_ms;
        let token = LeaseToken::of(&handover);
        let (name, fence) = (handover.name, handover.fence);
        Self { name, token, fence, ttl, valid_for, valid_until_ms, margin, votes }
    }

    /// An extension shortens nothing: what the earlier token promised still stands if that is
    /// longer.
    pub(crate) fn keep_promise(&mut self, earlier: &LeaseToken) {
        let (promised_for, promised_until_ms) = earlier.promised();
        if promised_until_ms > self.valid_until_ms {
            (self.valid_for, self.valid_until_ms) = (self.valid_for.max(promised_for), promised_until_ms);
            self.token.keep_term(earlier);
        }
    }
}

/// Makes sure that a fence that was given belongs to the token.
pub(crate) fn check_fence(token: &LeaseToken, fence: Option<u64>) -> Result<(), Failure> {
    match fence {
        Some(fence) if fence != token.fence().get() => Err(Failure::usage(format!(
            "the fence {fence} does not belong to this token; give both as they were printed"
        ))),
        _ => Ok(()),
    }
}

/// The wall clock, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tenure::{Handover, OwnerToken};

    use super::*;

    #[test]
    fn a_fence_of_another_lease_is_noticed() {
        let handover = Handover::new("x", OwnerToken::from_bytes([1; 20]), Duration::from_secs(1));
        let token = LeaseToken::of(&handover);
        assert!(check_fence(&token, None).is_ok());
        assert!(check_fence(&token, Some(0)).is_ok());
        assert!(check_fence(&token, Some(1)).is_err());
    }
}
