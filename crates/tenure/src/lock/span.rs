//! The span of an acquire, in the caller's trace: which lock, what came of it, and how long it
//! took.
//!
//! The worker does the IO, but its commands and events belong to this span (`driver/spans.rs`). It
//! costs nothing unless somebody records spans of level debug.

use std::ops::Deref;

use tenure_core::Time;
use tracing::Span;
use tracing::field::Empty;

use crate::error::AcquireError;
use crate::guard::Guard;
use crate::machine::clock::Clock;

pub(super) struct AcquireSpan(Span);

/// When an acquire began, by which clock.
#[derive(Clone, Copy)]
pub(super) struct Begun(Clock, Time);

impl AcquireSpan {
    /// A span below the caller's.
    pub(super) fn new(lock: &str) -> Self {
        Self(tracing::debug_span!(
            target: "tenure", "tenure.acquire", lock, outcome = Empty, fence = Empty, waited_ms = Empty,
        ))
    }

    pub(super) fn to_span(&self) -> Span {
        self.0.clone()
    }

    /// The clock is read only if somebody records it.
    pub(super) fn begin(&self, clock: Clock) -> Option<Begun> {
        (!self.0.is_disabled()).then(|| Begun(clock, clock.now()))
    }

    /// What came of it. A span without an outcome is that of a call that was cancelled.
    pub(super) fn end(&self, begun: Option<Begun>, outcome: &Result<Guard, AcquireError>) {
        let Some(Begun(clock, begun)) = begun else { return };
        let waited_ms = u64::try_from(clock.now().since(begun).as_millis()).unwrap_or(u64::MAX);
        self.0.record("waited_ms", waited_ms);
        match outcome {
            Ok(guard) => {
                self.0.record("outcome", "acquired");
                self.0.record("fence", guard.fence().get());
            }
            Err(error) => {
                self.0.record("outcome", error.outcome());
            }
        }
    }
}

impl Deref for AcquireSpan {
    type Target = Span;

    fn deref(&self) -> &Span {
        &self.0
    }
}
