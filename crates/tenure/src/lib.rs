//! Locks by name, held for a term, decided by a majority of independent nodes.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use tenure::Locks;
//!
//! let locks = Locks::memory();
//! let guard = locks.lock("invoice:42").ttl(Duration::from_secs(30)).acquire().await?;
//! println!("I hold the lock for {:?}", guard.valid_for());
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! - [`Locks`] is the manager: a node list and its settings. One per program.
//! - [`Lock`] is one lock with its options; [`Lock::acquire`] waits for it, [`Lock::try_acquire`]
//!   asks once.
//! - [`Guard`] is a held lock. It says how long it is valid, can be extended, and releases when
//!   dropped.
//! - [`RwLock`] has many readers or one writer; [`Leader`] is a lock for candidates of which one
//!   leads.
//! - [`AcquireError`], [`ExtendError`] and [`ReleaseError`] say what went wrong, which node said
//!   what, and what to do.
//! - [`Fence`] is the number that a resource checks, and [`fenced`] has resources that do.
//!
//! What is promised, and under which assumptions, is written in `docs/guarantees.md`.
//!
//! # Features
//! - `embedded` (default): a store in a file, [`SqliteNode`] and [`Locks::embedded`].
//! - `redis` (default): Redis nodes, [`RedisNode`].
//! - `tls` (default): `rediss://` nodes.
//! - `blocking`: the module `blocking`, the same locks without an async runtime.
//! - `config`: the module `config` and `Locks::from_env`, settings from the environment and
//!   `tenure.toml`.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

#[cfg(all(feature = "embedded", not(unix)))]
compile_error!(
    "the feature `embedded` of tenure needs Unix; use `default-features = false, features = [\"redis\", \"tls\"]`"
);

#[cfg(feature = "blocking")]
pub mod blocking;
mod circle;
#[cfg(feature = "config")]
pub mod config;
mod diagnostics;
mod driver;
mod error;
mod event;
pub mod fenced;
mod fleet;
mod force;
#[cfg(feature = "serde")]
pub mod form;
#[cfg(all(any(test, fuzzing), feature = "config", feature = "redis"))]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod inspect;
mod leader;
mod lock;
mod locks;
mod machine;
pub mod metrics;
mod node;
mod rwlock;
mod semaphore;
mod watch;

pub use circle::{Circle, CircleMember, Held, HeldError};
pub use diagnostics::{Finding, FindingKind, NodeReport, Severity};
pub use error::votes::{NodeVote, Votes};
pub use error::{
    AcquireError, BuildError, ExtendError, ReleaseError, ShutdownError, UpgradeError, WithError,
};
pub use event::Event;
pub use fleet::{FleetChange, FleetError, FleetProgress, forget_nodes, give_up_prefix};
pub use guard::handover::{Handover, HandoverError};
pub use guard::lease_token::{LeaseToken, LeaseTokenError};
pub use guard::watch::{GuardChanges, GuardStates};
pub use guard::{Guard, Released};
pub use inspect::{ListProgress, LockList, LockReport, NodeAnswer, NodeList, WaiterReport};
pub use leader::{Incumbent, Incumbents, Leader, Term};
pub use lock::label::of as label_of_process;
pub use lock::{InLine, Lock};
pub use locks::key_scheme::KeyScheme;
pub use locks::{Builder, Locks, Worker};
#[cfg(target_os = "linux")]
pub use machine::clock::machine_time;
#[cfg(feature = "redis")]
pub use node::RedisNode;
#[cfg(feature = "embedded")]
pub use node::SqliteNode;
pub use node::{Faults, MemoryNode, Node, Persistence, Role, UrlError};
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
pub use tenure_core::{
    COHORT_PASSES_MAX, COHORT_TIME, Cause, ClientId, Distrust, Drift, Fault, Fence, HoldState, Holding, Kind,
    LockState, MaxHold, Mode, NAME_BYTES_MAX, NAMES_MAX, NODES_MAX, NameError, Nonce, OWNER_ID_BYTES_MAX,
    OptionError, Options, OwnerId, OwnerIdError, OwnerToken, Place, QuorumError, Refusal, Renewal,
    RestartGuard, Retry, Risk, Rounded, SLOTS_MAX, Ticket, Vote, Wait,
};
pub use watch::{FleetNews, FleetWatch, LockChange, LockView, WalkProgress, WatchProgress};

/// The Rust examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The Rust examples of the page about fences, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/fencing.md")]
struct Fencing;
