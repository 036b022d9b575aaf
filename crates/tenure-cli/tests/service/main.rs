//! Campaigns against the service: real instances of `tenure serve` on five Redis servers, behind
//! real proxies, used by the clients of the documents, while everything around them breaks.
//!
//! `cargo xtask test` runs a slice of each, `cargo xtask service` the whole (`campaign.rs`).
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

mod campaign;
mod counter;
mod crowd;
mod drain;
mod holding;
mod hostile;
mod instances;
mod leaving;
mod loss;
mod overload;
mod promises;
mod wire;
