//! A lease that its caller looks at while the driver moves it on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tenure_core::{Lease, Standing};

#[derive(Clone)]
pub(crate) struct SharedLease(Arc<Shared>);

struct Shared {
    lease: Mutex<Lease>,
    /// Who waits for the votes that are late.
    voter: Mutex<Option<Waker>>,
}

impl SharedLease {
    pub(crate) fn new(lease: Lease) -> Self {
        Self(Arc::new(Shared { lease: Mutex::new(lease), voter: Mutex::default() }))
    }

    pub(crate) fn look(&self) -> MutexGuard<'_, Lease> {
        open(&self.0.lease)
    }

    /// Ready when every node has answered the last round that won, or there is nothing to answer.
    pub(crate) fn poll_all_voted(&self, cx: &Context<'_>) -> Poll<()> {
        // The waker first: a vote that comes before we have looked is seen, one after it wakes us.
        *open(&self.0.voter) = Some(cx.waker().clone());
        let mut lease = self.look();
        if lease.standing().is_none_or(Standing::has_all_votes) {
            return Poll::Ready(());
        }
        lease.await_votes();
        Poll::Pending
    }

    /// Every node has answered.
    pub(super) fn tell_all_voted(&self) {
        let waker = open(&self.0.voter).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// A panic of another thread cannot have left it half changed in a way that matters more than the
/// lock it protects.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
