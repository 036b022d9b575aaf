//! What is said about a lock: every node is asked, and a majority of their words is what counts.
//!
//! Nothing is decided here: it only shows what an acquire would meet. `query.rs` asks once; a
//! `view.rs` keeps up with all locks, by a `walk.rs` through each node at the pace of `pace.rs`.

mod agreement;
mod pace;
mod presence;
pub mod query;
mod view;
mod walk;

pub use self::agreement::{Agreement, LockState, Word};
pub use self::pace::{Pace, SLICE, Share};
pub use self::view::{Change, Row, View};
pub use self::walk::{Look, Progress, Walk};
