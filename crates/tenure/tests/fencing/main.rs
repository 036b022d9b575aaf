//! Resources that check fences, real ones: SQL databases, a Redis server, an object store, a file.
//!
//! Exclusion is broken on purpose everywhere: two holders are at work at once, and only the fences
//! tell them apart.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

#[path = "../../examples/fencing/play.rs"]
mod play;
#[path = "../../examples/fencing/worker.rs"]
mod worker;

mod examples;
mod file;
mod interleaved;
mod pause;
mod postgresql;
mod redis;
mod s3;
mod sql;
