//! A lease as the client gets it.
//!
//! An answer can be held up after it was computed: by a paused instance, or a proxy that buffers.
//! So no client may count from its receipt. It takes the time before it sends the request, by its
//! own monotonic clock, and may count on the lock until that time plus `started_after_ms` plus
//! `valid_ms`. `valid_until_ms` is for people.
//!
//! That stays right for a request whose answer takes hours, such as a hold, as far as the two
//! clocks run alike. The library allows for clocks that differ within a ttl; for the time before
//! that, [`Told`] does.

use std::time::{Duration, Instant};

use serde::Serialize;
use tenure::{Guard, Held, LeaseToken};
use utoipa::ToSchema;

use crate::form::{Vote, milliseconds, votes};
use crate::lease_key::LeaseKeys;
use crate::names::Names;

/// How far two clocks may be apart, as a part of the time for which they run: time synchronisation
/// bends each by at most 500 millionths.
const APART: u32 = 1_000;

/// What a client is told of a validity. Both count from the receipt of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// To T1 of the round that proved it.
    pub(crate) started_after: Duration,
    /// From T1 to the end.
    pub(crate) valid: Duration,
}

impl Told {
    /// What may be told now of the lock that this guard holds.
    pub(crate) fn of(guard: &Guard, received: Instant) -> Self {
        // The time since the receipt first: a pause between the two makes the end too early, never
        // too late.
        let elapsed = received.elapsed();
        let (ago, lasts) = guard.validity();
        Self::from(elapsed, ago, lasts)
    }

    fn from(elapsed: Duration, ago: Duration, lasts: Duration) -> Self {
        let started_after = elapsed.saturating_sub(ago);
        Self { started_after, valid: lasts.saturating_sub(Self::apart(started_after)) }
    }

    /// The same, but no longer than until `end`, which counts from the receipt.
    pub(crate) fn until(self, end: Duration) -> Self {
        Self { valid: self.valid.min(end.saturating_sub(self.started_after)), ..self }
    }

    /// When the client stops counting on the lock, by its own clock.
    pub(crate) fn end(&self) -> Duration {
        self.started_after + self.valid
    }

    /// When it has done so, by the clock of this machine.
    pub(crate) fn over(&self) -> Duration {
        self.end() + Self::apart(self.end())
    }

    /// By how much two clocks may differ after this time.
    fn apart(elapsed: Duration) -> Duration {
        elapsed / APART
    }

    /// After which time two clocks may differ by so much.
    pub(crate) fn apart_after(difference: Duration) -> Duration {
        difference.saturating_mul(APART)
    }
}

/// A lock that is yours until your own monotonic clock, read *before sending the request*, plus
/// `started_after_ms`, plus `valid_ms`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lease {
    /// The lock. A slot of a semaphore is the lock `NAME#SLOT`; extend and release it under that
    /// name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Names that are locked together, instead of `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<Vec<String>>,
    /// Extends and releases the lease at any instance. Each extension returns a new one. Absent if
    /// the lock is released with the connection that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// Identifies this hold in a request for another lock (`holding`), so that deadlocks are
    /// reported. Not a secret.
    held: String,
    /// Increases with every acquisition: pass it to the resource that the lock protects.
    fence: u64,
    ttl_ms: u64,
    /// Time from receiving the request to asking the nodes.
    started_after_ms: u64,
    /// Time from that moment until the lease expires.
    valid_ms: u64,
    /// The expiry by the wall clock, for display only (Unix time).
    valid_until_ms: u64,
    /// The number of nodes that may forget the lock before someone else can get it.
    margin: usize,
    votes: Vec<Vote>,
}

/// Late votes are waited for as long again as the majority took, but at least and at most so long.
const LATE_LEAST: Duration = Duration::from_millis(2);
const LATE_MOST: Duration = Duration::from_millis(60);

/// Waits for nodes that are a little slower than the majority. A token names the nodes that had
/// answered when it was made, and an extension counts no others: one that names a bare majority is
/// worth nothing as soon as one of those nodes fails.
pub(crate) async fn gather(guard: &Guard) {
    let (took, _) = guard.validity();
    guard.late_votes(took.clamp(LATE_LEAST, LATE_MOST)).await;
}

/// What a client is told of the lock that this guard holds, asked for by a request received then.
pub(crate) fn lease(guard: &Guard, received: Instant, keys: &LeaseKeys) -> Lease {
    lease_told(guard, Told::of(guard, received), keys)
}

/// The same, with this validity.
pub(crate) fn lease_told(guard: &Guard, told: Told, keys: &LeaseKeys) -> Lease {
    let handover = guard.to_handover();
    let token = LeaseToken::of(&handover);
    let locked = Names::locked(guard.names());
    let sealed = keys.seal(&locked.sealed(), &token);
    let (name, names) = locked.fields();
    Lease {
        name,
        names,
        token: Some(sealed),
        held: Held::from(&handover).to_string(),
        fence: handover.fence.get(),
        ttl_ms: milliseconds(handover.ttl),
        // Rounded down: what is told is never longer than what is so.
        started_after_ms: milliseconds(told.started_after),
        valid_ms: milliseconds(told.valid),
        valid_until_ms: handover.valid_until_ms,
        margin: guard.margin(),
        votes: votes(&guard.votes()),
    }
}

impl Lease {
    /// For a lock that ends with its connection: nobody else goes on with it, and the validity was
    /// cut short by so much.
    pub(crate) fn briefly(self, less: Duration) -> Self {
        let valid_until_ms = self.valid_until_ms.saturating_sub(milliseconds(less));
        Self { token: None, valid_until_ms, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_answer_at_once_tells_all_of_the_validity() {
        let told = Told::from(Duration::from_millis(3), Duration::from_millis(2), s(29));
        assert_eq!(told.started_after, Duration::from_millis(1));
        assert_eq!(told.end(), Duration::from_millis(1) + s(29) - Duration::from_micros(1));
    }

    #[test]
    fn clocks_that_ran_apart_for_hours_do_not_make_a_validity_longer() {
        let told = Told::from(s(7_200), s(10), s(29));
        assert_eq!(told.started_after, s(7_190));
        // The slowest client that is allowed for ends no later than the validity itself.
        assert!(told.end() + Told::apart(told.started_after) <= s(7_190 + 29));
        assert!(told.over() >= told.end() + Told::apart(told.end()));
        assert_eq!(Told::from(s(36_000), s(0), s(29)).valid, Duration::ZERO);
    }

    #[test]
    fn less_can_be_told_than_is_so() {
        let told = Told::from(s(10), s(5), s(29));
        assert_eq!(told.until(s(13)).end(), s(13));
        assert_eq!(told.until(s(99)), told);
        assert_eq!(told.until(s(1)).valid, Duration::ZERO);
    }
}
