//! Every history of a small world.
//!
//! The simulator plays some histories of a large world; here all histories of small ones are looked
//! at: three nodes, two or three clients, a few ticks, a few faults. The model drives the
//! production structs themselves, `Client` and `LockTable`, which are parts of its state; a model
//! checker walks through all states that can be reached. What the model itself decides is only when
//! a message, a wake-up or a broken connection reaches whom.
//!
//! What can happen next is a choice between actions ([`action`](self)): a client asks, extends or
//! releases; a message is delivered; a fault occurs; true time goes on by a tick. Nothing is drawn,
//! nothing is left to chance. To keep the worlds small enough to be searched to the end:
//! - Nothing happens between two ticks. Locks and quarantines are a few ticks long. A lock that is
//!   held a tick too long, or a key that ends a tick early, shows; a quarantine may be two ticks
//!   shorter than it is before anything does.
//! - Messages need no time, unless one is *held*: then what is on that connection takes any time.
//!   How often that may happen is bounded like every fault. (One row has no such bound.)
//! - Timers of clients that run fire at once; standing still is a fault.
//! - Answers to releases and about records are read as soon as nothing is ahead of them.
//! - When too few clients are left to break anything, the history ends.
//!
//! The rows of the [fault matrix](rows) say what may happen in each world, and what must hold.
//!
//! ```
//! use tenure_sim::model::{Cell, examine, rows};
//!
//! let counterexample = rows().into_iter().find(|row| row.faults.contains("margin 0")).unwrap();
//! let finding = examine(&counterexample, 1);
//! assert!(matches!(finding.exclusion, Cell::Broken { .. }));
//! assert!(finding.problems().is_empty());
//! ```

mod action;
mod config;
mod matrix;
mod search;
mod seen;
mod shared;
mod step;
mod world;

pub use self::matrix::{Expected, Row, rows};
pub use self::search::{Cell, Finding, Matrix, examine};
pub use self::seen::Sight;
