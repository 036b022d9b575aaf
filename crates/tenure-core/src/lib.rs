//! The lock algorithm of Tenure, without a single socket.
//!
//! Everything here is a pure state machine: time and random numbers are arguments, commands to
//! nodes are outputs, their answers are inputs. All state is `Clone + Eq + Hash`, so the same
//! structs run in production, in the simulator and under a model checker.
//!
//! Read it in the order of a request: [`Lease`] (one acquire call and the hold that follows) begins
//! an attempt, which opens a [`Round`], which sends one [`Command`] to every node and counts the
//! [`Vote`]s by [`Quorum`]; a majority in time gives a [`Validity`]. Whatever ends the lease
//! becomes a [`Release`]. Which nodes may vote at all, and with which fence, is decided by
//! [`Fleet`]. All of it together is a [`Client`]. What one node does with a command is defined in
//! [`node`]; [`LockTable`] is such a node.
//!
//! ```
//! use tenure_core::*;
//! use std::time::Duration;
//!
//! let quorum = Quorum::of(3)?;
//! let key = LockKey::new(&Prefix::default(), "invoice:42")?;
//! let terms = Options::default().check(MaxTtl::default())?;
//! let mut lease = Lease::new(key, terms, quorum);
//! let mut nodes = vec![LockTable::default(); 3];
//!
//! let entropy = Entropy { token: OwnerToken::from_bytes([7; 20]), dice: 0 };
//! let proposal = Proposal::plain(quorum);
//! lease.handle(Time::from_nanos(0), lease::Input::Attempt { entropy, proposal });
//! while let Some(output) = lease.poll_output() {
//!     if let lease::Output::Send { round, node, command } = output {
//!         let reply = nodes[node.get()].execute(NodeTime::from_micros(0), &command);
//!         let arrived = Time::from_nanos(200_000);
//!         lease.handle(arrived, lease::Input::Answer { round, node, answer: Ok(reply) });
//!     }
//! }
//! let standing = lease.standing().expect("three free nodes");
//! assert_eq!(standing.margin(), 1);
//! assert!(standing.validity().left(Time::from_nanos(200_000)) > Duration::from_secs(29));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod circle;
pub mod client;
mod command;
mod config;
mod fence;
mod inspect;
pub mod lease;
mod line;
mod mode;
mod names;
pub mod node;
mod note;
mod round;
mod time;
mod token;
pub mod trust;

pub use client::{Client, Waiters};
pub use command::{
    Answer, Batch, Command, Fault, Gathered, Holding, Holdings, Listed, Listing, Next, Part, Refusal, Reply,
    Sighting, Swap, Vote,
};
pub use config::{
    Drift, MAX_TTL_CEILING, MaxHold, MaxTtl, OptionError, Options, SLOTS_MAX, TTL_MIN, Term, Terms, Wait,
};
pub use fence::{Fence, FenceBounds, FenceClock, ProposedFence};
pub use inspect::query::{self, Query};
pub use inspect::{Agreement, Change, LockState, Look, Pace, Progress, Row, SLICE, Share, View, Walk, Word};
pub use lease::release::{self, Ending, Leftovers, Release, ReleaseOutcome};
pub use lease::{
    Cause, HandedOver, HoldState, Lease, NotAcquired, NotExtended, Renewal, Retry, Risk, Standing,
};
pub use line::{
    ADMITTED_MAX, Beside, CLAIM_WINDOW, COHORT_PASSES_MAX, COHORT_TIME, ClientId, DEAD_MAX, GIVES_WAY_MAX,
    LABEL_BYTES_MAX, LABEL_RETENTION, LINE_RETENTION, LineReport, OPENING, OPENING_EVERY, POLL_MAX, Place,
    PlaceRequest, REFRESH, RESERVATION, Seeks, Ticket, WAITERS_MAX,
};
pub use mode::{Kind, Mode, OWNER_ID_BYTES_MAX, OwnerId, OwnerIdError};
pub use names::{KEY_LEAD_RESERVED, LockKey, NAME_BYTES_MAX, NAMES_MAX, NameError, PREFIX_BYTES_MAX, Prefix};
pub use node::{
    Entry, Group, Hold, KEPT_LEAD, LockTable, OWNED, Owner, RESERVED_LEAD, SHARED, SHARERS_MAX, TRIM_FENCES,
};
pub use note::{HELD_MAX, HeldLock, HoldId, Note, WAITERS_TOLD_MAX, Waiter};
pub use round::{Ballot, Round, RoundNumber};
pub use round::{NODES_MAX, NodeIndex, NodeSet, Patience, Quorum, QuorumError, Tally, Validity, Verdict};
pub use time::{NodeTime, Rounded, Time};
pub use token::{Entropy, OwnerToken, TokenError};
pub use trust::{
    ChangeNode, Distrust, Facts, Fleet, KnownLife, Life, NodeListChange, NodeMemory, Nonce, Proposal,
    RestartGuard, Roster, Settings,
};
