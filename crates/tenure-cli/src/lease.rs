//! A lock that a script holds by its token: what `acquire` and `extend` print, and what `extend`
//! and `release` are given.

mod exported;
mod token;

use std::time::Duration;

use tenure::{Fence, Guard, Votes};
use tokio::time::{Instant, sleep};

pub(crate) use self::exported::lock as exported_lock;
pub(crate) use self::token::{LeaseToken, now_ms};

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
