//! What a waiter's place in line looks like to others.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::Place;

use crate::circle::Circle;
use crate::driver::SharedLease;

/// The place of an acquire in line. Made by [`Lock::acquire_in_line`].
///
/// [`Lock::acquire_in_line`]: crate::Lock::acquire_in_line
#[derive(Clone, Default)]
pub struct InLine(Arc<View>);

#[derive(Default)]
struct View {
    /// Of a permit, that of the slot which is waited for.
    lease: Mutex<Option<SharedLease>>,
    deadlock: Mutex<Option<Circle>>,
}

fn look<T>(cell: &Mutex<T>) -> MutexGuard<'_, T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InLine {
    /// The place that the nodes last reported; `None` while the acquire is not in line.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        let lease = look(&self.0.lease).clone()?;
        let lease = lease.look();
        lease.ticket().and_then(|_| lease.place())
    }

    /// The last deadlock that was reported of this acquire, as by [`Event::Circle`]. It may have
    /// been ended by another member since.
    ///
    /// [`Event::Circle`]: crate::Event::Circle
    #[must_use]
    pub fn deadlock(&self) -> Option<Circle> {
        look(&self.0.deadlock).clone()
    }

    /// What is waited for from now on.
    pub(super) fn show(&self, lease: &SharedLease) {
        *look(&self.0.lease) = Some(lease.clone());
    }

    pub(crate) fn report(&self, deadlock: Circle) {
        *look(&self.0.deadlock) = Some(deadlock);
    }
}

impl fmt::Debug for InLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InLine").field(&self.place()).finish()
    }
}
