//! How the data of this crate serializes (feature `serde`): one form for logs, messages and files.
//!
//! Reports, events, votes, findings and progress implement [`Serialize`](serde::Serialize), by the
//! same rules. The form is stable: fields and words may be added, but none is renamed or changes
//! its meaning within a major version.
//!
//! - Fields have their Rust names, and variants are words in `snake_case`.
//! - A duration is a whole number, rounded down, in a field that ends in its unit: `left_ms`, and
//!   `round_trip_us` for round trips.
//! - A [`Fence`] is a number, or `null` if the lock has none.
//! - An enum with data is its word, with the data beside it: a held lock is `"state": "held",
//!   "left_ms": 29714, "fence": 1700000000000000`.
//! - An event has its word under `event`, and only the fields that it has.
//! - Faults and distrust of nodes are texts for people.
//! - Owner tokens are left out, because one is enough to release a lock. For the same reason
//!   [`Handover`](crate::Handover) and [`LeaseToken`](crate::LeaseToken) do not serialize; write
//!   them with `to_string` where they must go.
//!
//! These also implement [`Deserialize`](serde::Deserialize): [`Circle`](crate::Circle),
//! [`Incumbent`](crate::Incumbent), [`Severity`](crate::Severity),
//! [`FindingKind`](crate::FindingKind), [`Role`](crate::Role) and
//! [`Persistence`](crate::Persistence). For fences in types of your own there is [`mod@fence`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = tenure::Locks::memory();
//! let guard = locks.lock("invoice:42").acquire().await?;
//! let report = serde_json::to_value(locks.inspect("invoice:42").await?)?;
//! assert_eq!(report["state"], "held");
//! assert_eq!(report["fence"], guard.fence().get());
//! assert!(report["left_ms"].as_u64().is_some_and(|left| left > 29_000));
//! # Ok(()) }
//! ```

mod circle;
mod event;
pub mod fence;
mod fleet;
mod lock;
mod node;
mod watch;

#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::time::Duration;

use tenure_core::{Fence, Kind, LockState};

/// A fence as a number, if there is one.
fn number(fence: Fence) -> Option<u64> {
    (fence != Fence::NONE).then(|| fence.get())
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Words for people.
fn text(said: Option<&impl Display>) -> Option<String> {
    said.map(ToString::to_string)
}

const fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Plain => "plain",
        Kind::Reentrant => "reentrant",
        _ => "foreign",
    }
}

const fn state_word(state: &LockState) -> &'static str {
    match state {
        LockState::Free => "free",
        LockState::Held { .. } => "held",
        LockState::Kept { .. } => "kept",
        LockState::Reserved { .. } => "reserved",
        LockState::Disputed => "disputed",
        _ => "unknown",
    }
}
