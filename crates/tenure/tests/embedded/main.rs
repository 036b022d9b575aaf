//! The embedded store.
#![cfg(all(feature = "embedded", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

#[path = "../support/promises.rs"]
mod promises;

mod durability;
mod everywhere;
mod store;
