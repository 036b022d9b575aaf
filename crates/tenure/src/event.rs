//! What happens to locks and nodes, as events: one enum that feeds logs and whoever else wants to
//! know.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Cause, Distrust, Fence};

use crate::circle::Circle;
use crate::error::votes::Votes;
use crate::watch::Tap;

/// Something that happened to a lock or a node.
///
/// Every event is also a `tracing` event with the target `tenure`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A lock was acquired.
    #[non_exhaustive]
    Acquired {
        /// The lock.
        name: &'a str,
        /// How many attempts it took.
        attempts: u32,
        /// The time from the first attempt to the majority.
        elapsed: Duration,
        /// How many nodes may forget the lock; late votes can still raise this.
        margin: usize,
        /// The fence; [`Fence::NONE`] if it has none.
        fence: Fence,
        /// The time of the hand-over: from the release by the previous holder, when a node passed
        /// the lock on to this caller, to the grant by the same node, by its clock. The longest
        /// time among the nodes of the majority, in whole milliseconds, and at most one off.
        ///
        /// `None` if no node had set the lock aside for this caller: it was free, had expired, or
        /// is shared.
        passed_on_after: Option<Duration>,
    },
    /// A lock was passed on from one caller of this manager to another
    /// ([`Lock::cohort`](crate::Lock::cohort)). The nodes were not asked.
    #[non_exhaustive]
    PassedOn {
        /// The lock.
        name: &'a str,
        /// The time from the call to the grant.
        elapsed: Duration,
        /// How long it is valid.
        valid_for: Duration,
        /// The fence.
        fence: Fence,
    },
    /// An attempt failed; another follows.
    #[non_exhaustive]
    Retrying {
        /// The lock.
        name: &'a str,
        /// Why it failed.
        cause: Cause,
        /// The pause before the next attempt.
        pause: Duration,
        /// What the nodes said.
        votes: &'a Votes,
    },
    /// The lock is taken, and an acquire waits in line for it.
    #[non_exhaustive]
    Waiting {
        /// The lock.
        name: &'a str,
        /// How many waiters are ahead.
        ahead: u64,
        /// How many waiters there are in total.
        waiters: u64,
        /// How many nodes have this waiter in line.
        nodes: usize,
        /// The holder's label, if any.
        holder: Option<&'a str>,
        /// When a majority of nodes will be free unless the holder extends.
        free_after: Option<Duration>,
        /// When it asks again unless it is woken earlier.
        asks_in: Duration,
    },
    /// An acquire is part of a deadlock: its caller holds a lock that another waits for, who holds
    /// the one that this acquire waits for, perhaps through others. The acquire keeps waiting.
    /// Reported once per circle.
    #[non_exhaustive]
    Circle {
        /// The lock that it waits for.
        name: &'a str,
        /// Who waits for whom, starting with this acquire.
        circle: &'a Circle,
    },
    /// An acquire failed.
    #[non_exhaustive]
    NotAcquired {
        /// The lock.
        name: &'a str,
        /// Why the last attempt failed.
        cause: Cause,
        /// How many attempts were made.
        attempts: u32,
        /// The time from the first attempt to the end.
        elapsed: Duration,
    },
    /// A lock was extended.
    #[non_exhaustive]
    Extended {
        /// The lock.
        name: &'a str,
        /// How long it is valid from now.
        valid_for: Duration,
        /// The fence; [`Fence::NONE`] if it has none.
        fence: Fence,
    },
    /// An extension failed; the old validity stands.
    #[non_exhaustive]
    NotExtended {
        /// The lock.
        name: &'a str,
        /// Whether a majority of nodes said that the lock is lost.
        lost: bool,
        /// What is left of the old validity.
        valid_for: Duration,
        /// The fence; [`Fence::NONE`] if it has none.
        fence: Fence,
    },
    /// A held lock is at risk: the last extension failed, or no more are allowed.
    #[non_exhaustive]
    AtRisk {
        /// The lock.
        name: &'a str,
        /// How long it is still valid.
        valid_for: Duration,
        /// The fence; [`Fence::NONE`] if it has none.
        fence: Fence,
    },
    /// A lock that was at risk was extended after all.
    #[non_exhaustive]
    Safe {
        /// The lock.
        name: &'a str,
        /// How long it is valid now.
        valid_for: Duration,
        /// The fence; [`Fence::NONE`] if it has none.
        fence: Fence,
    },
    /// A held lock is lost. The guard reports it while there is still time to stop.
    #[non_exhaustive]
    Lost {
        /// The lock.
        name: &'a str,
        /// How long it is still valid.
        valid_for: Duration,
        /// The fence; [`Fence::NONE`] if it has none.
        fence: Fence,
        /// How long this manager held it.
        held: Option<Duration>,
    },
    /// A lock was released: by a call, a dropped guard or a cancelled acquire.
    #[non_exhaustive]
    GivenUp {
        /// The lock.
        name: &'a str,
        /// The fence; [`Fence::NONE`] if it has none, or was not held.
        fence: Fence,
        /// How long this manager held it; `None` if it was never acquired.
        held: Option<Duration>,
    },
    /// Every node that may have had the key has confirmed that it is gone.
    #[non_exhaustive]
    CleanedUp {
        /// The lock.
        name: &'a str,
    },
    /// A node does not vote for new locks.
    #[non_exhaustive]
    NodeDistrusted {
        /// The node's address.
        node: &'a str,
        /// Why.
        distrust: &'a Distrust,
    },
    /// A node votes again.
    #[non_exhaustive]
    NodeTrusted {
        /// The node's address.
        node: &'a str,
    },
    /// The file of known nodes ([`Builder::remember_nodes`](crate::Builder::remember_nodes)) cannot
    /// be read or written. Locks still work, but if all nodes lose their memory, this client may
    /// take them for new ones.
    #[non_exhaustive]
    NodesNotRemembered {
        /// Which file, and what is wrong with it.
        reason: &'a str,
    },
    /// A node reported a fence too far in the future to be real. It is ignored.
    #[non_exhaustive]
    FencePoisoned {
        /// The node's address.
        node: &'a str,
        /// The fence.
        fence: Fence,
    },
    /// Some nodes never confirmed; the key has expired there.
    #[non_exhaustive]
    NotCleanedUp {
        /// The lock.
        name: &'a str,
        /// How many nodes did not confirm.
        nodes: usize,
    },
}

/// Gets every event, on the manager's worker: it must be quick and must not block. One that panics
/// gets no more.
#[derive(Clone, Default)]
pub(crate) struct Observer {
    callback: Option<Arc<Callback>>,
    /// For whoever watches the fleet.
    tap: Arc<Tap>,
    #[cfg(feature = "metrics")]
    recorded: crate::metrics::recorded::Recorded,
}

type Callback = dyn Fn(&Event<'_>) + Send + Sync;

impl Observer {
    /// Calls this.
    pub(crate) fn call(&mut self, callback: impl Fn(&Event<'_>) + Send + Sync + 'static) {
        self.callback = Some(Arc::new(callback));
    }

    /// Tells locks apart by these groups in metrics.
    #[cfg(feature = "metrics")]
    pub(crate) fn record_groups(&mut self, groups: Vec<String>) {
        self.recorded = crate::metrics::recorded::Recorded::new(groups);
    }

    /// Also tells those who listen there.
    pub(crate) fn beside(mut self, tap: Arc<Tap>) -> Self {
        self.tap = tap;
        #[cfg(feature = "metrics")]
        self.recorded.describe();
        self
    }

    pub(crate) fn observe(&mut self, event: &Event<'_>) {
        // A broken observer or log must not cost anybody a lock.
        let observed = catch_unwind(AssertUnwindSafe(|| {
            if let Some(callback) = &self.callback {
                callback(event);
            }
            #[cfg(feature = "metrics")]
            self.recorded.observe(event);
            event.log();
        }));
        if observed.is_err() {
            self.callback = None;
        }
        self.tap.hear(event);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.callback.is_some() { "Observer" } else { "none" })
    }
}

impl Event<'_> {
    fn log(&self) {
        match self {
            Self::Acquired { name, attempts, elapsed, margin, fence, passed_on_after } => {
                tracing::debug!(
                    target: "tenure", lock = name, attempts, ?elapsed, margin, %fence, ?passed_on_after, "acquired"
                );
            }
            Self::PassedOn { name, elapsed, valid_for, fence } => {
                tracing::debug!(target: "tenure", lock = name, ?elapsed, ?valid_for, %fence, "passed on");
            }
            Self::Retrying { name, cause, pause, votes } => {
                tracing::debug!(target: "tenure", lock = name, ?cause, ?pause, %votes, "retrying");
            }
            Self::Waiting { name, ahead, waiters, holder, free_after, asks_in, .. } => {
                tracing::debug!(
                    target: "tenure", lock = name, ahead, waiters, holder, ?free_after, ?asks_in, "waiting in line"
                );
            }
            Self::Circle { name, circle } => {
                tracing::warn!(target: "tenure", lock = name, %circle, "deadlock");
            }
            Self::NotAcquired { name, cause: cause @ Cause::Contended { .. }, attempts, elapsed } => {
                tracing::debug!(target: "tenure", lock = name, ?cause, attempts, ?elapsed, "not acquired");
            }
            Self::NotAcquired { name, cause, attempts, elapsed } => {
                tracing::warn!(target: "tenure", lock = name, ?cause, attempts, ?elapsed, "not acquired");
            }
            Self::Extended { name, valid_for, fence } => {
                tracing::debug!(target: "tenure", lock = name, ?valid_for, %fence, "extended");
            }
            Self::NotExtended { name, lost, valid_for, fence } => {
                tracing::warn!(target: "tenure", lock = name, lost, ?valid_for, %fence, "not extended");
            }
            Self::AtRisk { name, valid_for, fence } => {
                tracing::warn!(target: "tenure", lock = name, ?valid_for, %fence, "at risk");
            }
            Self::Safe { name, valid_for, fence } => {
                tracing::info!(target: "tenure", lock = name, ?valid_for, %fence, "no longer at risk");
            }
            Self::Lost { name, valid_for, fence, held } => {
                tracing::warn!(target: "tenure", lock = name, ?valid_for, %fence, ?held, "lost");
            }
            Self::NodeDistrusted { node, distrust } => {
                tracing::warn!(target: "tenure", node, %distrust, "a node does not vote");
            }
            Self::NodeTrusted { node } => tracing::info!(target: "tenure", node, "a node votes again"),
            Self::NodesNotRemembered { reason } => {
                tracing::warn!(target: "tenure", reason, "cannot remember the nodes");
            }
            Self::FencePoisoned { node, fence } => {
                tracing::warn!(target: "tenure", node, %fence, "a fence from the future is ignored");
            }
            Self::GivenUp { name, fence, held } => {
                tracing::debug!(target: "tenure", lock = name, %fence, ?held, "given up");
            }
            Self::CleanedUp { name } => tracing::trace!(target: "tenure", lock = name, "cleaned up"),
            Self::NotCleanedUp { name, nodes } => {
                tracing::warn!(target: "tenure", lock = name, nodes, "keys were left to expire");
            }
        }
    }
}
