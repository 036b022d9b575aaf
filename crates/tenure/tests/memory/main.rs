//! The library on memory nodes, most of it under paused time.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

#[path = "../support/promises.rs"]
mod promises;
#[path = "../support/nodes.rs"]
mod support;

mod api;
#[cfg(feature = "blocking")]
mod blocking;
mod blocking_has_all;
mod cancellation;
mod cohort;
mod everywhere;
mod fleets;
mod holding;
mod inspect;
mod leader;
mod lifecycle;
mod limits;
mod messages;
#[cfg(feature = "metrics")]
mod metrics;
mod observe;
mod same_process;
mod watch;
