//! What an instance writes about the calls it had, as JSON lines: one a call (`log/access.rs`), and
//! one before and after each act that takes a lock from its holder (`log/audit.rs`). Neither has
//! tokens or keys.

mod access;
mod audit;
mod file;
mod record;

use jiff::Timestamp;

pub(crate) use self::access::{AccessLog, Call};
pub(crate) use self::audit::{Act, AuditLog};
pub use self::file::LogFile;
pub(crate) use self::record::Record;

/// The time, as both logs write it: in UTC, to the millisecond.
fn now() -> String {
    format!("{:.3}", Timestamp::now())
}
