//! Where the driver of a manager runs.

use tokio::runtime::Handle;

use crate::driver::Driver;
use crate::error::BuildError;

/// Where a manager's worker runs.
///
/// On the caller's runtime an operation needs no thread switch, so it is fastest there; but a
/// program that blocks its runtime also delays its renewals. A separate thread is immune to that.
/// `docs/decisions/0002-where-the-worker-lives.md` has the measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Worker {
    /// On the tokio runtime that `build` is called in, or on a separate thread if there is none.
    /// The default.
    ///
    /// That runtime must have its timer enabled, as `#[tokio::main]` does.
    #[default]
    CurrentRuntime,
    /// On a separate thread.
    OwnThread,
}

impl Worker {
    /// The driver bounds its turns itself. Tokio's own budget would make sockets and timers look
    /// idle when they are not, and a healthy node would be taken for a silent one.
    pub(super) fn start(self, driver: Driver) -> Result<(), BuildError> {
        if self == Self::CurrentRuntime
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(tokio::task::unconstrained(driver));
            return Ok(());
        }
        // The runtime is built on its thread: one that is dropped inside another runtime panics.
        let (started, starting) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("tenure".to_owned());
        thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| started.send(Err(error)));
            if let Ok(runtime) = runtime {
                let _ = started.send(Ok(()));
                runtime.block_on(tokio::task::unconstrained(driver));
            }
        })?;
        Ok(starting.recv().unwrap_or(Ok(()))?)
    }
}
