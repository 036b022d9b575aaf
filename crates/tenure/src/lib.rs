//! Locks by name, across processes and machines, decided by a majority of independent nodes.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use tenure::Locks;
//!
//! let locks = Locks::memory(); // in production: Locks::connect(["redis://a", "redis://b", "redis://c"])
//! let guard = locks.lock("invoice:42").ttl(Duration::from_secs(30)).acquire().await?;
//! println!("the lock is mine for {:?}", guard.valid_for());
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! [`Locks`] is the manager: a node list and its settings. Create one per program. [`Lock`] is one
//! lock with its options. [`Guard`] is a held lock: it is renewed while the guard exists and
//! released when the guard is dropped.
//!
//! # Nodes
//! A node is one store that grants locks: a Redis or Valkey server (`redis://`), a file on this
//! machine (`sqlite:`), or the memory of this process, for tests. A lock is held while a majority
//! of the nodes grants it, so three nodes survive the loss of one, and five the loss of two. Nodes
//! must be independent servers: not replicas of each other, not parts of a cluster.
//!
//! | you have | use |
//! |---|---|
//! | one machine, nothing installed | [`Locks::embedded`], a file that the user's processes share |
//! | several machines | [`Locks::connect`] with three or five Redis servers |
//! | settings in the environment or `tenure.toml` | `Locks::from_env` (feature `config`) |
//! | a test | [`Locks::memory`], or [`MemoryNode`] with [`Faults`] and [`Builder::tokio_time`] |
//!
//! Every client of the same locks must have the same node list and `max_ttl`; one that differs is
//! refused. It must have the same prefix, too: with another it uses other locks. A node that
//! restarts without its data does not vote until all locks that it may have forgotten have expired.
//! [`Locks::nodes`] reports the health of each node, and what to fix.
//!
//! # Choosing a kind
//! | you want | use |
//! |---|---|
//! | one at a time | [`Locks::lock`] |
//! | one at a time, skipped if another is at work | [`Lock::try_with`], [`Lock::try_acquire`] |
//! | once per period, on many machines (cron) | [`Lock::at_least`] |
//! | several names at once, without deadlocks | [`Locks::lock_all`] |
//! | many readers or one writer | [`Locks::rwlock`] |
//! | at most *k* at a time | [`Locks::semaphore`] |
//! | one leader, replaced when it fails | [`Locks::leader`] |
//! | the same owner again, from any process | [`Lock::owner`]; inside one process [`Guard::reenter`] |
//! | many tasks of one process that want the same lock | [`Lock::cohort`] |
//! | a lock that another process continues to hold | [`Guard::hand_over`], [`Locks::resume`] |
//!
//! # Waiting
//! [`Lock::acquire`] waits up to 10 s by default: in line on the nodes, first come, first served,
//! and woken by the release. [`Lock::wait`] and [`Lock::wait_forever`] change that;
//! [`Lock::try_acquire`] asks once. [`Lock::acquire_in_line`] shows the place in line. Programs
//! that hold one lock and wait for another can deadlock: name what you hold with
//! [`Lock::while_holding`], and the circle is reported ([`Event::Circle`]) or refused
//! ([`AcquireError::Circle`]).
//!
//! # Holding and losing
//! A lock has a term, its ttl: 30 s by default. While the guard lives, the lock is renewed; when
//! the process dies, it expires. Renewals can fail for too long, and then the lock is lost. The
//! guard says so *before* another client can get it:
//!
//! - [`Lock::with`] cancels your work at its next `.await`;
//! - [`Guard::lost`] resolves, [`Guard::cancellation_token`] is cancelled, [`Guard::states`]
//!   reports it;
//! - [`Guard::is_valid`] and [`Guard::valid_for`] are computed on every call, so they are right
//!   even after the process was paused or suspended.
//!
//! # Fences
//! One gap remains in every lock with a term: a process can pause between its check and its write,
//! for longer than its term. [`Guard::fence`] closes it. It is a number that grows with every
//! acquisition; send it with every write, and let the resource refuse smaller ones. [`fenced`] has
//! resources that do.
//!
//! # Errors
//! Each operation has its own: [`AcquireError`], [`ExtendError`], [`ReleaseError`], [`BuildError`].
//! *Contended* (another client has the lock) and *unavailable* (no majority of nodes answers) are
//! never confused: the first means wait, the second means look at the nodes. Every error names the
//! lock and what each node said ([`Votes`]), and its message says what to do.
//!
//! # Cancellation
//! Every future may be dropped at any time; each says under *Cancel safety* what that means. A
//! dropped acquire is cleaned up on the nodes, a dropped guard is released, both in the background;
//! neither needs a runtime, and both work while a panic unwinds. Before the program exits, await
//! [`Locks::shutdown`] so that the clean-up reaches the nodes; otherwise the locks expire at the
//! end of their terms.
//!
//! # Observing
//! Everything that happens is an [`Event`], for [`Builder::observer`] and for `tracing` (target
//! `tenure`). At level debug a call is a span in its caller's trace: `tenure.acquire` with `lock`,
//! `outcome`, `fence` and `waited_ms`, below it a `tenure.ask` for each node. [`metrics`] has
//! counters. [`Locks::inspect`], [`Locks::list`] and [`Locks::watch`] show who holds what.
//!
//! # Promises
//! `docs/guarantees.md` in the repository says what is promised, under which assumptions, and which
//! tests show it; `docs/reference/stability.md` says what may change between versions.
//!
//! # Features
//! | feature | default | adds |
//! |---|---|---|
//! | `embedded` | yes | a store in a file: `SqliteNode`, `Locks::embedded` |
//! | `redis` | yes | Redis nodes: `RedisNode` |
//! | `tls` | yes | `rediss://` nodes |
//! | `blocking` | no | the module `blocking`: the same locks without an async runtime |
//! | `config` | no | the module `config`, `Locks::from_env`: settings from the environment and `tenure.toml` |
//! | `metrics` | no | counters and gauges for the `metrics` facade: [`metrics`] |
//! | `serde` | no | reports, events and votes that serialize: the module `form` |
#![cfg_attr(docsrs, feature(doc_cfg))]
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
    LockState, MaxHold, Mode, NAME_BYTES_MAX, NAMES_MAX, NODES_MAX, NameError, NodeTime, Nonce,
    OWNER_ID_BYTES_MAX, OptionError, Options, OwnerId, OwnerIdError, OwnerToken, Place, QuorumError, Refusal,
    Renewal, RestartGuard, Retry, Risk, Rounded, SLOTS_MAX, Ticket, Vote, Wait,
};
pub use watch::{FleetNews, FleetWatch, LockChange, LockView, WalkProgress, WatchProgress};

/// The Rust examples of the page about the library, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/library.md")]
struct Library;

/// The Rust examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The Rust examples of the how-to pages, run as tests.
#[cfg(doctest)]
mod how_to {
    #[doc = include_str!("../../../docs/how-to/choose-ttl-and-nodes.md")]
    struct ChooseTtlAndNodes;
    #[doc = include_str!("../../../docs/how-to/cron.md")]
    struct Cron;
    #[doc = include_str!("../../../docs/how-to/fence-postgresql.md")]
    struct FencePostgresql;
    #[doc = include_str!("../../../docs/how-to/fence-redis.md")]
    struct FenceRedis;
    #[doc = include_str!("../../../docs/how-to/fence-s3.md")]
    struct FenceS3;
    #[doc = include_str!("../../../docs/how-to/fence-sqlite.md")]
    struct FenceSqlite;
    #[doc = include_str!("../../../docs/how-to/fencing.md")]
    struct Fencing;
    #[doc = include_str!("../../../docs/how-to/leader-election.md")]
    struct LeaderElection;
    #[doc = include_str!("../../../docs/how-to/monitoring.md")]
    struct Monitoring;
    #[doc = include_str!("../../../docs/how-to/move-from-advisory-locks.md")]
    struct MoveFromAdvisoryLocks;
    #[doc = include_str!("../../../docs/how-to/move-from-redisson.md")]
    struct MoveFromRedisson;
    #[doc = include_str!("../../../docs/how-to/move-from-redlock.md")]
    struct MoveFromRedlock;
    #[doc = include_str!("../../../docs/how-to/test-your-code.md")]
    struct TestYourCode;
    #[doc = include_str!("../../../docs/how-to/worker-pool.md")]
    struct WorkerPool;
}
