//! The library on real Redis servers.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

#[path = "../support/promises.rs"]
mod promises;
#[path = "../support/servers.rs"]
mod support;

mod clock;
mod cohort;
mod distance;
mod everywhere;
mod faults;
mod fences;
mod fleet_change;
mod fleets;
mod handover;
mod holding;
mod hostile;
mod inspect;
mod interop;
mod known_nodes;
mod nodes;
mod order;
mod owning;
mod passing_on;
mod quorum;
mod restart;
mod set_back;
mod several;
mod sharing;
#[cfg(feature = "tls")]
mod tls;
mod watch;
