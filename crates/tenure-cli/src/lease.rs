//! A lock that a script holds by its token: what `acquire` and `extend` print, and what `extend`
//! and `release` are given.

pub(crate) mod around;
mod exported;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::{Fence, Guard, LeaseToken};

pub(crate) use self::exported::lock as exported_lock;
use crate::ballot::Ballot;
use crate::failure::Failure;

/// How long the last votes are waited for: the longest that a node timeout is by itself, and a
/// little more.
const WIDENING_LIMIT: Duration = Duration::from_millis(60);

/// A lock that a script holds by its token.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) name: String,
    pub(crate) token: String,
    pub(crate) fence: Fence,
    pub(crate) ttl: Duration,
    pub(crate) valid_for: Duration,
    pub(crate) valid_until_ms: u64,
    pub(crate) margin: usize,
    pub(crate) votes: Ballot,
}

impl Lease {
    /// Waits for the votes that are still under way, so that the margin is what it will be, and
    /// takes the lock out of its guard. An extension shortens nothing: what the token promised that
    /// it was `extended` with still stands if that is longer.
    pub(crate) async fn hand_over(guard: Guard, ttl: Duration, extended: Option<&LeaseToken>) -> Self {
        guard.late_votes(WIDENING_LIMIT.min(ttl / 10)).await;
        let (mut valid_for, margin, votes) =
            (guard.valid_for(), guard.margin(), Ballot::from(&guard.votes()));
        let handover = guard.hand_over();
        // The same in the token and beside it.
        let mut valid_until_ms = handover.valid_until_ms;
        let mut token = LeaseToken::of(&handover);
        if let Some(earlier) = extended {
            let (promised_for, promised_until_ms) = earlier.promised();
            if promised_until_ms > valid_until_ms {
                (valid_for, valid_until_ms) = (valid_for.max(promised_for), promised_until_ms);
                token.keep_term(earlier);
            }
        }
        let (name, fence, token) = (handover.name, handover.fence, token.to_string());
        Self { name, token, fence, ttl, valid_for, valid_until_ms, margin, votes }
    }
}

/// The token that was printed, if nodes were asked for it.
pub(crate) fn token_of_nodes(token: &str) -> Result<LeaseToken, Failure> {
    token.parse().map_err(|_| Failure::usage("invalid token: paste what `acquire` printed"))
}

/// The same in the token of a service, which has it in its midst, sealed. What cannot be read is
/// left to the service.
pub(crate) fn token_of_service(token: &str) -> Option<LeaseToken> {
    let parts: Vec<&str> = token.split('.').collect();
    parts.get(3..parts.len().checked_sub(1)?)?.join(".").parse().ok()
}

/// Makes sure that a fence that was given belongs to the token.
pub(crate) fn check_fence(token: &LeaseToken, fence: Option<u64>) -> Result<(), Failure> {
    match fence {
        Some(fence) if fence != token.fence().get() => Err(Failure::usage(format!(
            "fence {fence} does not belong to this token; pass both as they were printed"
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
