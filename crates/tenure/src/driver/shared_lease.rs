//! A lease that its caller looks at while the driver moves it on.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tenure_core::{Lease, Standing};

#[derive(Clone)]
pub(crate) struct SharedLease(Arc<Mutex<Shared>>);

struct Shared {
    lease: Lease,
    /// Who waits for the votes that are late. Boxed: hardly any of many leases have one.
    voter: Option<Box<Waker>>,
}

/// A lease while somebody looks at it, or moves it on.
pub(crate) struct Looked<'a>(MutexGuard<'a, Shared>);

impl SharedLease {
    pub(crate) fn new(lease: Lease) -> Self {
        Self(Arc::new(Mutex::new(Shared { lease, voter: None })))
    }

    /// A panic of another thread cannot have left it half changed in a way that matters more than
    /// the lock it protects.
    pub(crate) fn look(&self) -> Looked<'_> {
        Looked(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ready when every node has answered the last round that won, or there is nothing to answer.
    pub(crate) fn poll_all_voted(&self, cx: &Context<'_>) -> Poll<()> {
        let Looked(mut shared) = self.look();
        if shared.lease.standing().is_none_or(Standing::has_all_votes) {
            return Poll::Ready(());
        }
        shared.lease.await_votes();
        shared.voter = Some(Box::new(cx.waker().clone()));
        Poll::Pending
    }

    /// Every node has answered.
    pub(super) fn tell_all_voted(&self) {
        let waker = self.look().0.voter.take();
        waker.into_iter().for_each(|waker| waker.wake());
    }
}

impl Deref for Looked<'_> {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0.lease
    }
}

impl DerefMut for Looked<'_> {
    fn deref_mut(&mut self) -> &mut Lease {
        &mut self.0.lease
    }
}
