//! A lease as the client gets it.
//!
//! An answer can be held up after it was computed: by a paused instance, or a proxy that buffers.
//! So no client may count from its receipt. It takes the time before it sends the request, by its
//! own monotonic clock, and may count on the lock until that time plus `started_after_ms` plus
//! `valid_ms`. `valid_until_ms` is for people.

use std::time::Instant;

use serde::Serialize;
use tenure::{Guard, LeaseToken};
use utoipa::ToSchema;

use crate::form::{Vote, milliseconds, votes};
use crate::lease_key::LeaseKeys;

/// A lock that is yours until your own monotonic clock, read *before sending the request*, plus
/// `started_after_ms`, plus `valid_ms`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lease {
    name: String,
    /// What extends and releases it, at any instance. Each extension gives another one.
    token: String,
    /// Grows with every acquisition: pass it on to whatever the lock protects.
    fence: u64,
    ttl_ms: u64,
    /// From the receipt of the request to the moment the nodes were asked.
    started_after_ms: u64,
    /// From that moment to the end.
    valid_ms: u64,
    /// The end by the wall clock, for people: Unix time.
    valid_until_ms: u64,
    /// How many nodes may forget the lock before somebody else can get it.
    margin: usize,
    votes: Vec<Vote>,
}

/// What a client is told of the lock that this guard holds, asked for by a request received then.
pub(crate) fn lease(guard: &Guard, received: Instant, keys: &LeaseKeys) -> Lease {
    let (ago, lasts) = guard.validity();
    let handover = guard.to_handover();
    let token = LeaseToken::of(&handover);
    Lease {
        token: keys.seal(&handover.name, &token),
        fence: handover.fence.get(),
        ttl_ms: milliseconds(handover.ttl),
        // Rounded down: what is told is never longer than what is so.
        started_after_ms: milliseconds(received.elapsed().saturating_sub(ago)),
        valid_ms: milliseconds(lasts),
        valid_until_ms: handover.valid_until_ms,
        margin: guard.margin(),
        votes: votes(&guard.votes()),
        name: handover.name,
    }
}
