//! The same locks for programs without an async runtime.
//!
//! Every type and method of the async API has a counterpart here with the same name; its
//! documentation there applies here, too. Calls block the calling thread; the manager works on a
//! separate thread.
//!
//! Inside an async runtime a blocking call would stall other tasks, so there every call returns
//! [`Error::InsideRuntime`]; use the async API instead.
//!
//! A thread cannot be cancelled. Where the async API cancels work whose lock is lost
//! ([`Lock::with`], [`Leader::run`]), the work here must check [`is_valid`](crate::Guard::is_valid)
//! before each step that must not happen twice.
//!
//! ```
//! use tenure::blocking::Locks;
//!
//! let locks = Locks::memory()?;
//! let guard = locks.lock("invoice:42").acquire()?;
//! assert!(guard.is_valid());
//! guard.release()?;
//! locks.shutdown()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fleet;
mod guard;
mod leader;
mod lock;
mod locks;
mod rwlock;
mod semaphore;
mod watch;

use std::convert::Infallible;

use tokio::runtime::Handle;

pub use self::fleet::{FleetChange, forget_nodes, give_up_prefix};
pub use self::guard::{Guard, GuardChanges, GuardStates};
pub use self::leader::{Incumbents, Leader, Term};
pub use self::lock::Lock;
pub use self::locks::Locks;
pub use self::rwlock::RwLock;
pub use self::semaphore::Semaphore;
pub use self::watch::FleetWatch;

/// Why a blocking call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// The call was made inside an async runtime, where blocking would stall other tasks.
    #[error("a blocking lock was used inside an async runtime; use the async API there")]
    InsideRuntime,
    /// The operation itself failed. A call that cannot fail otherwise has [`Infallible`] here.
    #[error(transparent)]
    Operation(#[from] E),
}

impl<E> Error<E> {
    fn map<F>(self, operation: impl FnOnce(E) -> F) -> Error<F> {
        match self {
            Self::InsideRuntime => Error::InsideRuntime,
            Self::Operation(error) => Error::Operation(operation(error)),
        }
    }
}

/// Waits for a call.
fn block_on<T, E>(call: impl Future<Output = Result<T, E>>) -> Result<T, Error<E>> {
    outside_runtime::<E>()?;
    pollster::block_on(call).map_err(Error::Operation)
}

/// Waits for a call that always has an answer.
fn wait_for<T>(call: impl Future<Output = T>) -> Result<T, Error<Infallible>> {
    outside_runtime::<Infallible>()?;
    Ok(pollster::block_on(call))
}

fn outside_runtime<E>() -> Result<(), Error<E>> {
    if Handle::try_current().is_ok() { Err(Error::InsideRuntime) } else { Ok(()) }
}
