//! Tenure and other lock libraries on the same nodes: the same cases with each real peer.
//!
//! A *peer* is driven by a small program in its own language (`peers/`), which does what it is told
//! line by line. So is Tenure (`src/bin/tenure-driver`). The cases know nothing of languages: they
//! tell both sides what to do, and look at the servers in between.
#![forbid(unsafe_code)]

mod cases;
mod driver;
mod peer;
mod report;
mod run;
mod stage;

pub use driver::now;
pub use peer::{Installed, Kind, PEERS, Peer};
pub use report::{Outcome, Report, Row};
pub use run::{Options, run, run_peer};
