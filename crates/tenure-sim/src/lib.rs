//! A virtual world for the lock algorithm: the production structs of `tenure-core` under simulated
//! clocks, networks, nodes and clients.
//!
//! One seed decides everything: the options of a history, every delay, every fault. [`run`] plays
//! one history, [`campaign`] very many, and a broken promise is told as a [`Story`] with the line
//! that replays it. The checkers know true time, which nobody in the world does.
//!
//! ```
//! use tenure_sim::{Options, Scenario, run};
//!
//! let outcome = run(&Options::draw(7, Scenario::WithinAssumptions), false);
//! assert_eq!(outcome.violation, None);
//! ```
#![forbid(unsafe_code)]

mod campaign;
mod checker;
mod dice;
pub mod model;
mod mutant;
mod options;
mod trace;
mod workload;
mod world;

pub use campaign::{Failure, Story, Summary, campaign, first_broken, scenario_of, tell};
pub use checker::{Holder, Violation};
pub use mutant::{Catch, HISTORIES_MAX, Known, Missed, Mutant};
pub use options::{Options, Scenario};
pub use trace::{Mark, Marks};
pub use world::{Outcome, run};
