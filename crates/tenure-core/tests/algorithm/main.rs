//! The algorithm without a network: stories, transcripts, sentences of the Redlock page, every
//! order, and random histories.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

mod support {
    pub(crate) mod changing;
    pub(crate) mod cluster;
    pub(crate) mod fleets;
    pub(crate) mod runs;
    pub(crate) mod story;
}

mod client;
mod cohort;
mod exhaustive;
mod extension;
mod fleet_change;
mod fleet_losses;
mod fleet_trouble;
mod fleet_wandering;
mod lifecycle;
mod lost_memory;
mod owning;
mod random;
mod redlock_spec;
mod release;
mod renewal;
mod strangers;
mod transcripts;
mod trust;
mod waiting;
mod witness;
