//! Resources that check fences, real ones: an SQL database, a Redis server, a file.
//!
//! Exclusion is broken on purpose everywhere: two holders are at work at once, and only the fences tell them apart.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

#[path = "fencing_resource/file.rs"]
mod file;
#[path = "fencing_resource/interleaved.rs"]
mod interleaved;
#[path = "fencing_resource/redis.rs"]
mod redis;
#[path = "fencing_resource/sql.rs"]
mod sql;
