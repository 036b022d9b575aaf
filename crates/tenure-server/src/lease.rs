//! A lease as the client gets it.
//!
//! An answer can be held up after it was computed: by a paused instance, or a proxy that buffers.
//! So no client may count from its receipt. It takes the time before it sends the request, by its
//! own monotonic clock, and may count on the lock until that time plus `started_after_ms` plus
//! `valid_ms`. `valid_until_ms` is for people.

use std::time::Instant;

use serde_json::{Value, json};
use tenure::{Guard, LeaseToken};

use crate::form::{milliseconds, votes};
use crate::lease_key::LeaseKeys;

/// What a client is told of the lock that this guard holds, asked for by a request received then.
pub(crate) fn lease(guard: &Guard, received: Instant, keys: &LeaseKeys) -> Value {
    let (ago, lasts) = guard.validity();
    let handover = guard.to_handover();
    let token = LeaseToken::of(&handover);
    json!({
        "name": handover.name,
        "token": keys.seal(&handover.name, &token),
        "fence": handover.fence.get(),
        "ttl_ms": milliseconds(handover.ttl),
        // Rounded down: what is told is never longer than what is so.
        "started_after_ms": milliseconds(received.elapsed().saturating_sub(ago)),
        "valid_ms": milliseconds(lasts),
        "valid_until_ms": handover.valid_until_ms,
        "margin": guard.margin(),
        "votes": votes(&guard.votes()),
    })
}
