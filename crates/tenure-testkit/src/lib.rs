//! What Tenure's tests are made of: real servers, a proxy that can be made to fail, clocks that can
//! be moved, clients in processes of their own.
//!
//! Everything that is started here listens on loopback only and ends with whoever started it: when
//! it is dropped, when the test panics, and when the test's process is killed.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot be set up has to fail"
)]

mod balancer;
pub mod certificates;
mod clients;
mod clock_preload;
mod command_count;
mod dice;
pub mod http;
pub mod http2;
pub mod nursery;
mod page;
mod port;
mod postgres_server;
pub mod proc;
mod proxy;
mod redis_server;
mod s3_server;
mod signal;
mod skipping;

pub use balancer::Balancer;
pub use clients::Client;
pub use clock_preload::MovedClock;
pub use command_count::CommandCount;
pub use dice::Dice;
pub use page::blocks;
pub use port::Port;
pub use postgres_server::PostgresServer;
pub use proxy::{Direction, Mode, Parted, Proxy};
pub use redis::{Value, cmd, pipe};
pub use redis_server::RedisServer;
pub use s3_server::S3Server;
pub use skipping::{installed, require, skip};
