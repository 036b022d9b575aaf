//! What is said about a lock: every node is asked, and a majority of their words is what counts.
//!
//! Nothing is decided here: it only shows what an acquire would meet.

mod agreement;
mod presence;
pub mod query;

pub use self::agreement::{Agreement, LockState, Word};
