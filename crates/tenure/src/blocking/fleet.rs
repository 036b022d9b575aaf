//! Changing the node list of a fleet, for programs without a runtime. There is no manager whose
//! thread could do it, so each call has a runtime of its own.

use super::{Error, outside_runtime};
use crate::error::BuildError;
use crate::{Builder, FleetError, FleetProgress, Node};

/// A change from one node list to another, while clients of both run. See [`crate::FleetChange`].
///
/// ```
/// use std::time::Duration;
/// use tenure::MemoryNode;
/// use tenure::blocking::{FleetChange, Locks};
///
/// let [a, b, c, d] = ["a", "b", "c", "d"].map(MemoryNode::new);
/// let old = || Locks::builder().nodes([&a, &b, &c]).max_ttl(Duration::from_secs(1));
/// let new = || Locks::builder().nodes([&a, &b, &d]).max_ttl(Duration::from_secs(1));
/// Locks::build(old())?.lock("invoice:42").acquire()?.release()?;
///
/// FleetChange::new(old(), new()).run(|progress| println!("{progress}"))?;
///
/// assert!(Locks::build(new())?.lock("invoice:42").try_acquire()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing happens until `run` is called"]
pub struct FleetChange(crate::FleetChange);

impl FleetChange {
    /// A change from the nodes of one list to those of another; all other settings must be the
    /// same.
    pub const fn new(from: Builder, to: Builder) -> Self {
        Self(crate::FleetChange::new(from, to))
    }

    /// Declares a node of the old list gone. See [`crate::FleetChange::gone`].
    pub fn gone(self, node: impl Into<Node>) -> Self {
        Self(self.0.gone(node))
    }

    /// Aborts: takes back an earlier run, if the old list has not lost any lock yet.
    pub fn abort(self) -> Self {
        Self(self.0.abort())
    }

    /// Runs the change and reports its progress.
    ///
    /// # Errors
    /// As [`crate::FleetChange::run`], and [`Error::InsideRuntime`].
    pub fn run(self, progress: impl FnMut(&FleetProgress)) -> Result<(), Error<FleetError>> {
        on_own_runtime(self.0.run(progress))
    }
}

/// Removes nodes from the fleet they belong to. See [`crate::forget_nodes`].
///
/// # Errors
/// As [`crate::forget_nodes`], and [`Error::InsideRuntime`].
pub fn forget_nodes(nodes: Builder) -> Result<(), Error<FleetError>> {
    on_own_runtime(crate::forget_nodes(nodes))
}

/// Removes what the nodes store for an unused prefix. See [`crate::give_up_prefix`].
///
/// # Errors
/// As [`crate::give_up_prefix`], and [`Error::InsideRuntime`].
///
/// # Examples
/// ```
/// use tenure::blocking::{Locks, give_up_prefix};
/// use tenure::{MemoryNode, RestartGuard};
///
/// let node = MemoryNode::new("a");
/// let trial = || Locks::builder().node(&node).prefix("trial:").restart_guard(RestartGuard::Off);
/// let locks = Locks::build(trial())?;
/// locks.lock("x").acquire()?.release()?;
/// locks.shutdown()?;
/// give_up_prefix(trial())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn give_up_prefix(nodes: Builder) -> Result<(), Error<FleetError>> {
    on_own_runtime(crate::give_up_prefix(nodes))
}

fn on_own_runtime<T>(call: impl Future<Output = Result<T, FleetError>>) -> Result<T, Error<FleetError>> {
    outside_runtime::<FleetError>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| FleetError::Build(BuildError::Thread(error)))?;
    runtime.block_on(call).map_err(Error::Operation)
}
